// The page "GPT": microgpt learns names, live; any tensor or its gradient, attention, samples.
import {Interval} from "./frame_loop.mjs";
import {GptView} from "./gpt_view.mjs";
import {countOf} from "./numbers.mjs";
import {pastedDocuments, selectedTensor} from "./tensor_selector.mjs";
import {TrainingPage} from "./training_page.mjs";
import {changedSettings, readNumbers, stepOf} from "./training_settings.mjs";

const GPT_DEFAULTS = {
  steps: 1000,
  rate: 0.01,
  temperature: 0.5,
  pace: 300,
  tensor: "h.0.attn.wq.grad",
  name: "",
};
const GPT_BOUNDS = {steps: [1, 100000], rate: [0, 10], temperature: [0, 5]};
const ALPHABET = "abcdefghijklmnopqrstuvwxyz";
const SAMPLE_INTERVAL = 400; // milliseconds
const SAMPLES = 12;

function gptSettings(params) {
  const settings = {...GPT_DEFAULTS};
  readNumbers(settings, params, GPT_BOUNDS);
  settings.steps = Math.round(settings.steps);
  if (params.tensor) settings.tensor = params.tensor.slice(0, 100);
  if (params.name) settings.name = params.name.slice(0, 16);
  return settings;
}

class GptPage extends TrainingPage {
  constructor({modules, data, params}) {
    super();
    this.settings = gptSettings(params);
    this.target = stepOf(params, this.settings.steps);
    this.documents = data.names.split("\n");
    this.alphabet = ALPHABET;
    this.losses = [];
    this.tensors = [];
    this.sampleInterval = new Interval(SAMPLE_INTERVAL);
    this.view = new GptView(this.settings, this.handlers());
    this.open("gpt", data.loader, {gpt: modules.gpt}, ({tensors}) => {
      this.tensors = tensors;
      this.view.showTensors(tensors);
      this.select(this.settings.tensor);
    });
  }

  // --- frames ----------------------------------------------------------------------------

  wanted(all) {
    const {name, temperature} = this.settings;
    return {
      from: this.losses.length,
      history: this.curveInterval.due(all),
      tensor: this.selection?.name,
      attention: name || true,
      samples: this.sampleInterval.due(all) ? SAMPLES : 0,
      temperature,
    };
  }

  merge(frame) {
    if (frame.from === this.losses.length) for (const v of frame.losses) this.losses.push(v);
    if (frame.step < this.losses.length) this.losses.length = frame.step;
    const {samples = null, history = null} = this.frame ?? {}; // not part of each frame
    this.frame = {...frame, samples: frame.samples ?? samples, history: frame.history ?? history};
    this.freshCurves ||= Boolean(frame.history);
  }

  redraw(curves = true) {
    if (this.frame) this.view.draw(this.frame, this.losses, this.selection, curves);
  }

  // --- settings --------------------------------------------------------------------------

  begin() {
    this.losses = [];
    this.frame = null;
    const {documents, alphabet} = this;
    const {steps, rate} = this.settings;
    this.ask({type: "begin", args: [{documents, alphabet, steps, rate}]});
  }

  select(text) {
    const selection = selectedTensor(text, this.tensors);
    this.view.tensor.showError(selection.error ?? "");
    if (selection.error) return;
    this.settings.tensor = text;
    this.selection = selection;
    if (this.frame) this.refresh();
  }

  handlers() {
    return {
      ...this.trainingHandlers(),
      change: (changes) => this.change(changes),
      select: (text) => this.select(text),
      paste: (text) => this.paste(text),
    };
  }

  change(changes) {
    Object.assign(this.settings, changes);
    if ("steps" in changes || "rate" in changes) this.ask({type: "change", args: [changes]});
    else if (this.worker) this.refresh();
  }

  paste(text) {
    const {documents, alphabet, note, error} = pastedDocuments(text);
    if (error) {
      this.view.say(error);
      return;
    }
    Object.assign(this, {documents, alphabet});
    this.ask({type: "pause"});
    this.begin();
    const count = countOf(documents.length, "line", "lines");
    this.view.say(`${count} to learn from. ${note}`.trim());
  }

  state() {
    const step = this.step ? {step: String(this.step)} : {};
    return {...changedSettings(this.settings, GPT_DEFAULTS), ...step};
  }
}

export const gptPage = (options) => new GptPage(options);
