// A report of the verifier: a player in each place that the page has for one, made when it is opened.
import {pageContent} from "./page_content.mjs";
import {h} from "./dom.mjs";
import {Player} from "./player.mjs";
import {decodeTrace} from "./trace.mjs";

async function showPlayers() {
  const {traces} = (await pageContent()).data;
  for (const place of document.querySelectorAll("details[data-trace]")) {
    const show = () => {
      if (!place.open || place.querySelector(".player, .problem")) return;
      try {
        place.append(new Player(decodeTrace(traces[place.dataset.trace])).root);
      } catch (error) {
        place.append(h("p", {class: "problem bad", role: "alert"}, error.message));
      }
    };
    place.addEventListener("toggle", show);
    show();
  }
}
showPlayers();
