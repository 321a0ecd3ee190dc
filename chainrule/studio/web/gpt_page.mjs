// The page "GPT": microgpt learns names, live; any tensor or its gradient, attention, samples.
import {GptView} from "./gpt_view.mjs";
import {pastedDocuments, selectedTensor} from "./tensor_selector.mjs";
import {CURVES_EACH, PACES, openTraining} from "./training_controls.mjs";
import {trainingObstacle} from "./training_worker.mjs";

const GPT_DEFAULTS = {steps: 1000, rate: 0.01, temperature: 0.5, pace: 300, tensor: "h.0.attn.wq.grad", name: ""};
const ALPHABET = "abcdefghijklmnopqrstuvwxyz", SAMPLE_EACH = 400;

export function gptSettings(params) {
  const s = {...GPT_DEFAULTS}, bounds = {steps: [1, 100000], rate: [0, 10], temperature: [0, 5]};
  for (const [name, [least, most]] of Object.entries(bounds)) {
    const v = Number(params[name]);
    if (params[name] && v >= least && v <= most) s[name] = name === "steps" ? Math.round(v) : v;
  }
  if (PACES.includes(Number(params.pace ?? NaN))) s.pace = Number(params.pace);
  if (params.tensor) s.tensor = params.tensor.slice(0, 100);
  if (params.name) s.name = params.name.slice(0, 16);
  return s;
}

class GptPage {
  constructor({modules, data, params}) {
    this.settings = gptSettings(params);
    this.target = Math.min(this.settings.steps, Math.max(0, Math.round(Number(params.step) || 0)));
    this.documents = data.names.split("\n");
    this.alphabet = ALPHABET;
    this.losses = [];
    this.sampled = 0;
    this.view = new GptView(this.settings, this.handlers());
    const obstacle = trainingObstacle();
    if (obstacle) this.view.refuse(obstacle);
    else openTraining(this, "gpt", data.loader, {gpt: modules.gpt}, ({tensors}) => {
      this.tensors = tensors;
      this.view.tensors(tensors);
      this.select(this.settings.tensor);
    });
  }

  told({running, step, stopped}) {
    this.step = step;
    this.running = running;
    this.view.running(running, stopped);
    if (stopped) this.view.say(stopped);
    if (running) this.frames.start();
    else this.refresh();
  }

  wanted() {
    const now = performance.now(), sample = now - this.sampled > SAMPLE_EACH;
    if (sample) this.sampled = now;
    const history = now - (this.curved ?? 0) > CURVES_EACH;
    if (history) this.curved = now;
    return {
      from: this.losses.length, history, tensor: this.selected?.name, attention: this.settings.name || true,
      samples: sample ? 12 : 0, temperature: this.settings.temperature,
    };
  }

  take(frame) {
    if (frame.from === this.losses.length) for (const v of frame.losses) this.losses.push(v);
    if (frame.step < this.losses.length) this.losses.length = frame.step;
    const before = this.frame;
    this.frame = {...frame, samples: frame.samples ?? before?.samples ?? null, history: frame.history ?? before?.history ?? null};
    this.fresh ||= Boolean(frame.history);
  }

  drawFresh() {  // what has come since it was drawn last
    this.redraw(this.fresh);
    this.fresh = false;
    if (!this.running) this.frames.stop();
  }

  redraw(curves = true) { if (this.frame) this.view.draw(this.frame, this.losses, this.selected, curves); }

  refresh() {
    this.frames.stop();
    this.worker.ask({type: "frame", ask: {...this.wanted(), samples: 12, history: true}});
  }

  begin() {
    this.losses = [];
    this.frame = null;
    const {documents, alphabet} = this, {steps, rate} = this.settings;
    this.worker?.ask({type: "begin", args: [{documents, alphabet, steps, rate}]});
  }

  select(text) {
    const found = selectedTensor(text, this.tensors ?? []);
    this.view.selectorError(found.error ?? "");
    if (found.error) return;
    this.settings.tensor = text;
    this.selected = found;
    if (this.frame) this.refresh();
  }

  handlers() {
    return {
      run: () => this.worker?.ask({type: this.running ? "pause" : "run"}),
      advance: (count) => this.worker?.ask({type: "advance", count}),
      reset: () => { this.worker?.ask({type: "pause"}); this.begin(); this.view.say("Back at step 0, with the first weights."); },
      change: (changes) => {
        Object.assign(this.settings, changes);
        if ("pace" in changes) this.worker?.ask({type: "pace", value: changes.pace});
        else if ("steps" in changes || "rate" in changes) this.worker?.ask({type: "change", args: [changes]});
        else if (this.worker) this.refresh();
      },
      select: (text) => this.select(text),
      paste: (text) => this.paste(text),
      redraw: () => this.redraw(),
    };
  }

  paste(text) {
    const found = pastedDocuments(text);
    if (found.error) { this.view.say(found.error); return; }
    Object.assign(this, {documents: found.documents, alphabet: found.alphabet});
    this.worker?.ask({type: "pause"});
    this.begin();
    this.view.say(`${found.documents.length.toLocaleString("en")} lines to learn from. ${found.note}`.trim());
  }

  start() { if (this.worker && this.frame) this.refresh(); }

  stop() {
    this.frames?.stop();
    this.worker?.ask({type: "pause"});
  }

  state() {
    const out = {};
    for (const [name, v] of Object.entries(this.settings)) if (v !== GPT_DEFAULTS[name]) out[name] = String(v);
    if (this.step) out.step = String(this.step);
    return out;
  }
}

export function gptPage(given) {
  const page = new GptPage(given);
  return {element: page.view.element, start: () => page.start(), stop: () => page.stop(), state: () => page.state()};
}
