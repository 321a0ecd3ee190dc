// The page of a recorded program, which a reader may also open from a file.
import {h} from "./dom.mjs";
import {Player} from "./player.mjs";

const MOST_BYTES = 256e6;

export function tracePage({trace, params, onState, onOpen}) {
  return new TracePage(trace, params, onState, onOpen);
}

class TracePage {
  constructor(trace, params, onState, onOpen) {
    this.problem = h("p", {class: "problem bad", role: "alert"});
    const file = h("input", {
      type: "file",
      accept: ".json,application/json",
      onchange: () => this.read(file.files[0], onOpen),
    });
    const open = h("label", {class: "soft"}, "Open a trace (.json) ", file);
    if (trace) this.player = new Player(trace, {params, onState});
    this.element = h(
      "div",
      {class: "page"},
      h("div", {class: "row"}, trace ? h("h2", null, trace.name) : null, open),
      this.problem,
      trace ? this.player.root : howToRecord(),
    );
  }
  async read(file, onOpen) {
    if (!file) return;
    this.problem.textContent = "";
    try {
      if (file.size > MOST_BYTES)
        throw new Error(
          `This file has ${Math.ceil(file.size / 1e6)} MB; ${MOST_BYTES / 1e6} MB are the most.`,
        );
      onOpen(await file.text());
    } catch (error) {
      this.problem.textContent = `${file.name}: ${error.message} What was shown before is still here.`;
    }
  }
  state() {
    return this.player?.state() ?? {};
  }
  start() {
    this.player?.start();
  }
  stop() {
    this.player?.stop();
  }
  close() {
    this.stop();
  }
}

const HOW_TO_RECORD = [
  "# one step of an unmodified script",
  "chainrule play train.py",
  "",
  "# or, in Python, any function of yours",
  "import chainrule as cr",
  "",
  "trace = cr.record(step, x, y)",
  'trace.save("step.html")  # a page',
  'trace.save("step.json")  # to open here',
].join("\n");

function howToRecord() {
  return h(
    "div",
    {class: "page"},
    h("p", null, "Nothing is recorded in this page. Record a program of yours, and open it:"),
    h("pre", {tabindex: 0}, HOW_TO_RECORD),
  );
}
