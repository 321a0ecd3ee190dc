// The page of a recorded program, which a reader may also open from a file.
import {h} from "./dom.mjs";
import {Player} from "./player.mjs";

export function tracePage({trace, params, onState, onOpen}) {
  return new TracePage(trace, params, onState, onOpen);
}

class TracePage {
  constructor(trace, params, onState, onOpen) {
    this.problem = h("p", {class: "problem bad", role: "alert"});
    const file = h("input", {type: "file", accept: ".json,application/json", onchange: async () => {
      if (!file.files.length) return;
      try {
        onOpen(await file.files[0].text());
      } catch (error) {
        this.problem.textContent = `${file.files[0].name}: ${error.message} What was shown before is still here.`;
      }
    }});
    const open = h("label", {class: "soft"}, "Open a trace (.json) ", file);
    if (trace) this.player = new Player(trace, {params, onState});
    this.element = h("div", {class: "page"}, h("div", {class: "row"}, trace ? h("h2", null, trace.name) : null, open), this.problem,
      trace ? this.player.root : howToRecord());
  }
  state() { return this.player?.state() ?? {}; }
  start() { if (this.player) requestAnimationFrame(() => this.player.graph.resized()); }
  stop() { this.player?.stop(); }
}

function howToRecord() {
  return h("div", {class: "page"}, h("p", null, "Nothing is recorded in this page. Record a program of yours, and open it:"),
    h("pre", {tabindex: 0}, "chainrule play train.py              # one step of an unmodified script\n\n# or in Python\nimport chainrule as cr\n\ntrace = cr.record(step, x, y)        # any function of yours\ntrace.save(\"step.html\")              # one file, which plays\ntrace.save(\"step.json\")              # to be opened here"));
}
