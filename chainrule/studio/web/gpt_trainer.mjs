// Trains microgpt on names: runs the compiled step, samples names, shows what heads look at.
// Runs in a worker; the page sends the text of this file's functions there (training_worker.mjs).
import {studioRandom} from "./datasets.mjs";
import {moduleMemory} from "./module_memory.mjs";
import {StepTable} from "./step_table.mjs";

export class GptTrainer {
  static async make(load, modules) {
    return new GptTrainer(await load(modules.gpt), await load(modules.gpt));
  }

  constructor(step, looker) {
    this.engine = moduleMemory(step);
    this.looker = moduleMemory(looker);
    this.blocks = step.about.results.find((r) => r.name === "attention").shape[2]; // heads
    this.tensors = step.about.state
      .filter((e) => e.about === "parameter" || e.about === "its gradient")
      .map(({name, shape, about}) => ({name, shape, gradient: about !== "parameter"}));
  }

  // documents: names one a line, in order; alphabet: the letters, which are tokens 0, 1, ..
  begin({documents, alphabet, steps, rate}) {
    this.engine.reset();
    this.documents = documents;
    this.alphabet = alphabet;
    this.settings = {steps, rate};
    this.step = 0;
    this.losses = [];
    this.history = new StepTable(5, 600, ["norms"]);
    this.stopReason = "";
    this.random = studioRandom(42);
  }

  change(settings) {
    this.settings = {...this.settings, ...settings};
    this.stopReason = "";
  }

  // The last token, at both ends of every name.
  get bos() {
    return 26;
  }

  tokens(text) {
    const middle = [...text].map((c) => this.alphabet.indexOf(c)).filter((t) => t >= 0);
    return [this.bos, ...middle, this.bos].slice(0, 17);
  }

  // Reads all but the last, predicts all but the first
  fill(engine, tokens) {
    const T = tokens.length - 1;
    engine.size[0] = BigInt(T);
    for (let i = 0; i < T; i++) {
      engine.arrays.tokens[i] = BigInt(tokens[i]);
      engine.arrays.targets[i] = BigInt(tokens[i + 1]);
    }
    return T;
  }

  get name() {
    return this.documents[this.step % this.documents.length];
  }

  train() {
    const {engine} = this;
    const {steps, rate} = this.settings;
    this.fill(engine, this.tokens(this.name));
    engine.arrays.lr[0] = rate * Math.max(0, 1 - this.step / steps);
    engine.run();
    this.loss = engine.arrays.loss[0];
    this.losses.push(this.loss);
    if (this.history.isDue(this.step)) this.history.add(this.step, {norms: this.norms()});
    this.step++;
    if (!Number.isFinite(this.loss))
      this.stopReason =
        `The loss is no finite number at step ${this.step - 1}. ` +
        "Lower the learning rate, then reset.";
    else if (this.step >= steps)
      this.stopReason =
        `${steps.toLocaleString("en")} steps are done, and the learning rate has come down to 0. ` +
        "Ask for more steps to go on.";
    return this.loss;
  }

  // Of each parameter's gradient, in the model's order
  norms() {
    return this.tensors
      .filter((t) => t.gradient)
      .map(({name}) => {
        let sum = 0;
        for (const v of this.engine.arrays[name]) sum += v * v;
        return Math.sqrt(sum);
      });
  }

  // The weights as they are now, for a pass that changes nothing
  borrowWeights() {
    for (const {name} of this.tensors) this.looker.arrays[name].set(this.engine.arrays[name]);
    this.looker.arrays.lr[0] = 0;
  }

  // How much of each position every head takes in, for a name: heads of (T, T).
  attention(text) {
    this.borrowWeights();
    const tokens = this.tokens(text);
    const T = this.fill(this.looker, tokens);
    this.looker.run();
    const letters = tokens.slice(0, T).map((t) => (t === this.bos ? "·" : this.alphabet[t]));
    const all = this.looker.arrays.attention.slice(0, this.blocks * T * T);
    return {
      letters,
      T,
      heads: Array.from({length: this.blocks}, (_, i) => all.slice(i * T * T, (i + 1) * T * T)),
    };
  }

  // Names drawn letter by letter with probabilities softmax(logits / temperature).
  samples(count, temperature) {
    this.borrowWeights();
    return Array.from({length: count}, () => this.sample(temperature));
  }

  sample(temperature) {
    const tokens = [this.bos];
    const {looker} = this;
    while (tokens.length <= 16) {
      const T = this.fill(looker, [...tokens, this.bos]);
      looker.run();
      const logits = looker.arrays.logits.subarray((T - 1) * 27, T * 27);
      const next = this.nextToken(logits, temperature);
      if (next === this.bos) break;
      tokens.push(next);
    }
    return tokens
      .slice(1)
      .map((t) => this.alphabet[t] ?? "")
      .join("");
  }

  nextToken(logits, temperature) {
    const top = Math.max(...logits);
    if (temperature === 0) return logits.indexOf(top);
    const weights = Array.from(logits, (v) => Math.exp((v - top) / temperature));
    let at = this.random() * weights.reduce((a, b) => a + b, 0);
    const found = weights.findIndex((w) => (at -= w) < 0);
    return found < 0 ? logits.indexOf(top) : found;
  }

  tensor(name) {
    const {shape} = this.tensors.find((t) => t.name === name);
    return {shape, values: this.engine.arrays[name].slice()};
  }
}
