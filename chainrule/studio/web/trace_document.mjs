// A document with one trace and its player, and nothing else.
import {readAddress, writeAddress} from "./address.mjs";
import {pageContent} from "./page_content.mjs";
import {h} from "./dom.mjs";
import {Player} from "./player.mjs";
import {decodeTrace} from "./trace.mjs";

async function showDocument(place) {
  try {
    const trace = decodeTrace((await pageContent()).data.trace);
    const player = new Player(trace, {params: readAddress(), onState: writeAddress});
    place.replaceChildren(
      h(
        "div",
        {class: "shell"},
        h(
          "header",
          {class: "masthead"},
          h("p", {class: "brand"}, "chain", h("span", null, "rule")),
          h("h1", {class: "title"}, trace.name),
        ),
        h("main", {class: "page"}, player.root),
      ),
    );
  } catch (error) {
    place.replaceChildren(
      h("main", {class: "shell"}, h("p", {role: "alert", class: "problem bad"}, error.message)),
    );
  }
}
showDocument(document.getElementById("studio"));
