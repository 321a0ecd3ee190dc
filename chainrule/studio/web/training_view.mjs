// What the two training pages show alike: a bar with buttons and facts, and a line that says what
// happens.
import {h} from "./dom.mjs";
import {commas} from "./numbers.mjs";
import {action} from "./training_controls.mjs";

export class TrainingView {
  constructor(on, message) {
    this.on = on;
    this.status = h("p", {class: "t-status", role: "status"}, message);
  }

  // The buttons of both pages, and others after them.
  buttonGroup(...others) {
    const {on} = this;
    this.play = action("Train", () => on.run(), {class: "t-primary", "aria-pressed": "false"});
    return h(
      "div",
      {class: "t-buttons", role: "group", "aria-label": "Training"},
      this.play,
      action("One step", () => on.advance(1)),
      ...others,
      action("Reset", () => on.reset()),
    );
  }

  // Places for facts, from what each is called.
  factRow(titles) {
    this.facts = {};
    const facts = Object.entries(titles).map(([name, title]) => {
      this.facts[name] = h("b", {}, "–");
      return h("div", {class: `t-fact t-fact-${name}`}, h("span", {}, title), this.facts[name]);
    });
    return h("div", {class: "t-facts"}, ...facts);
  }

  showFact(name, text) {
    this.facts[name].textContent = text;
  }

  showProgress({step, speed}) {
    this.showFact("step", commas(step));
    this.showFact("speed", speed ? commas(Math.round(speed)) : "–");
  }

  say(message) {
    this.status.textContent = message;
  }

  // Nothing can train here.
  refuse(message) {
    this.say(message);
    this.status.classList.add("t-bad");
    for (const b of this.element.querySelectorAll("button, select, input")) b.disabled = true;
  }

  showRunning(running, stopReason, failed) {
    this.play.textContent = running ? "Pause" : "Train";
    this.play.setAttribute("aria-pressed", String(running));
    this.status.classList.toggle("t-bad", failed);
    if (running) this.say("Training.");
    else if (!stopReason && this.status.textContent === "Training.") this.say("Paused.");
  }
}
