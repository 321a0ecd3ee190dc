// Trains a network on points: runs the compiled step, keeps curves and snapshots, goes back.
// Runs in a worker; the page sends the text of this file's functions there (training_worker.mjs).
//
// A layer that is not there has mask 0 and skip 1: it hands on what it gets.
import {permutation, studioRandom} from "./datasets.mjs";
import {moduleMemory} from "./module_memory.mjs";
import {ParameterLayout, initialWeights} from "./network_parameters.mjs";
import {StepTable} from "./step_table.mjs";

// gain / (1 + exp(slope z)) + offset + linear z + positive relu(z)
export function activationNumbers(name) {
  const [slope, gain, offset, linear, positive] = {
    linear: [0, 0, 0, 1, 0],
    tanh: [-2, 2, -1, 0, 0],
    sigmoid: [-1, 1, 0, 0, 0],
    relu: [0, 0, 0, 0, 1],
    leaky_relu: [0, 0, 0, 0.01, 0.99],
  }[name];
  return {slope, gain, offset, linear, positive};
}

// The numbers of an optimizer at its step t = 1, 2, ...
export function optimizerNumbers({optimizer, rate, decay}, t) {
  const base = {
    rate,
    l2: decay,
    decay: 0,
    momentum: 0,
    intake: 0,
    plain: 1,
    averaged: 0,
    adaptive: 0,
    square_decay: 0,
    correction: 1,
    epsilon: 0,
  };
  const adam = {
    momentum: 0.9,
    intake: 1 - 0.9,
    plain: 0,
    averaged: 1 / (1 - 0.9 ** t),
    adaptive: 1,
    square_decay: 0.999,
    correction: 1 / (1 - 0.999 ** t),
    epsilon: 1e-8,
  };
  return {
    ...base,
    ...{
      sgd: {},
      momentum: {momentum: 0.9, intake: 1, plain: 0, averaged: 1},
      adam,
      adamw: {...adam, l2: 0, decay},
    }[optimizer],
  };
}

export class NetworkTrainer {
  static async make(load, modules) {
    const pair = async (layers) => [
      await load(modules[`network${layers}`]),
      await load(modules[`values${layers}`]),
    ];
    return new NetworkTrainer({2: await pair(2), 4: await pair(4)});
  }

  // `pairs`: by how many layers a module has, one that trains and one that gives values alone.
  constructor(pairs) {
    this.engines = {};
    for (const [capacity, pair] of Object.entries(pairs))
      this.engines[capacity] = pair.map((module) => moduleMemory(module));
    this.stopReason = "";
  }

  get capacity() {
    return this.settings.widths.length > 2 ? 4 : 2;
  }

  get engine() {
    return this.engines[this.capacity][0];
  }

  get looker() {
    return this.engines[this.capacity][1];
  }

  get layout() {
    return new ParameterLayout(this.capacity);
  }

  // --- beginning and changing ---------------------------------------------------------------

  begin(settings, points) {
    this.settings = settings;
    this.points = points;
    this.step = 0;
    this.stopReason = "";
    this.curve = new StepTable(20, 1000, ["train", "test", "norms"]);
    this.snapshots = new StepTable(100, 64, ["states"]);
    this.startFrom(initialWeights(settings, studioRandom(settings.seed + 7919)));
  }

  weights() {
    return this.layout.read(this.engine.arrays.theta, this.settings.widths);
  }

  // The optimizer and the order of batches begin anew.
  startFrom(weights) {
    const {arrays} = this.engine;
    for (const name of ["theta", "mean", "square", "theta.grad"]) arrays[name].fill(0);
    this.layout.write(arrays.theta, weights);
    this.origin = {step: this.step, weights, fresh: this.step === 0};
    this.applySettings();
  }

  // Other settings or points while it runs; weights stay where there is a place for them.
  change(settings, points = this.points) {
    const old = this.weights();
    const before = this.settings;
    this.settings = settings;
    this.points = points;
    this.stopReason = "";
    if (settings.init !== before.init || settings.seed !== before.seed) {
      this.begin(settings, points);
      return;
    }
    const random = studioRandom(settings.seed + 15485863 + this.step);
    this.startFrom(initialWeights(settings, random, old));
  }

  // The settings as the modules' inputs
  applySettings() {
    const {widths, residual, activation, squared} = this.settings;
    for (const module of [this.engine, this.looker]) {
      const {arrays} = module;
      arrays.mask.fill(0);
      arrays.skip.fill(1);
      widths.forEach((n, l) => {
        arrays.mask.fill(1, l * 16, l * 16 + n);
        arrays.skip[l] = residual && l > 0 && widths[l - 1] === n ? 1 : 0;
      });
      arrays.squared[0] = squared ? 1 : 0;
      for (const [name, v] of Object.entries(activationNumbers(activation)))
        arrays[`activation.${name}`][0] = v;
      arrays.x.fill(0);
      module.filled = null;
    }
  }

  // --- training -----------------------------------------------------------------------------

  // One step; returns its loss, that of the batch before the update.
  train() {
    if (this.curve.isDue(this.step)) this.addToCurve();
    if (this.snapshots.isDue(this.step)) this.addSnapshot();
    const {engine, settings} = this;
    const k = this.step - this.origin.step;
    this.fill(engine, this.points.train, this.batch(k));
    const numbers = optimizerNumbers(settings, k + 1);
    for (const name in numbers) engine.arrays[`update.${name}`][0] = numbers[name];
    engine.run();
    this.step++;
    this.loss = engine.arrays.loss[0];
    if (!Number.isFinite(this.loss))
      this.stopReason =
        `The loss is no finite number at step ${this.step - 1}: the weights have grown beyond ` +
        "all bounds. Lower the learning rate, then reset, or rewind to an earlier step.";
    return this.loss;
  }

  // Rows of batch k since the origin: every epoch is shuffled; what is left over at its end waits.
  batch(k) {
    const n = this.points.train.y.length;
    const size = Math.min(this.settings.batch, n);
    const per = Math.floor(n / size);
    const epoch = Math.floor(k / per);
    const key = `${epoch} ${n} ${size} ${this.settings.seed}`;
    if (this.order?.key !== key) {
      const rows =
        size === n
          ? this.allRows(n)
          : permutation(n, this.settings.seed + 104729 + epoch);
      this.order = {key, rows};
    }
    const {rows} = this.order;
    return size === n ? rows : rows.slice((k % per) * size, (k % per) * size + size);
  }

  allRows(n) {
    if (this.rows?.length !== n) this.rows = Array.from({length: n}, (_, i) => i);
    return this.rows;
  }

  get stepsPerEpoch() {
    const n = this.points.train.y.length;
    return Math.floor(n / Math.min(this.settings.batch, n));
  }

  // Rows of points as a module's inputs, unless they are there from the call before.
  fill(engine, points, rows) {
    if (engine.filled?.points === points && engine.filled.rows === rows) return;
    engine.filled = {points, rows};
    const to = engine.arrays;
    const {x, y} = points;
    engine.size[0] = BigInt(rows.length);
    for (let i = 0; i < rows.length; i++) {
      to.x[16 * i] = x[2 * rows[i]];
      to.x[16 * i + 1] = x[2 * rows[i] + 1];
      to.y[i] = y[rows[i]];
    }
  }

  // --- looking ------------------------------------------------------------------------------

  // Losses and units of points, with the weights as they are
  look(points) {
    const {looker} = this;
    looker.arrays.theta.set(this.engine.arrays.theta);
    this.fill(looker, points, this.allRows(points.y.length));
    looker.run();
    return looker.arrays;
  }

  losses() {
    const loss = (points) => (points.y.length ? this.look(points).loss[0] : NaN);
    return {train: loss(this.points.train), test: loss(this.points.test)};
  }

  // Of the gradient of the last step, layer by layer, the output last.
  norms() {
    return this.layout.norms(this.engine.arrays["theta.grad"], this.settings.widths.length);
  }

  // Output and units at a grid of size * size points, rows from top to bottom, at most 1,024 in all.
  // They stand in the module's memory, up to its next call.
  surface(size, plane) {
    if (this.grid?.size !== size || this.grid.plane !== plane) {
      const x = new Float64Array(2 * size * size);
      for (let i = 0; i < size * size; i++) {
        x[2 * i] = plane * ((2 * ((i % size) + 0.5)) / size - 1);
        x[2 * i + 1] = plane * (1 - (2 * (Math.floor(i / size) + 0.5)) / size);
      }
      this.grid = {size, plane, points: {x, y: new Float64Array(size * size)}};
    }
    const {output, units} = this.look(this.grid.points);
    const each = size * size * 16;
    return {
      size,
      output: output.subarray(0, size * size),
      units: this.settings.widths.map((_, l) => units.subarray(l * each, (l + 1) * each)),
    };
  }

  // --- curves, snapshots --------------------------------------------------------------------

  addToCurve() {
    this.curve.add(this.step, {...this.losses(), norms: this.norms()});
  }

  addSnapshot() {
    const {step, settings, origin, points} = this;
    const {theta, mean, square} = this.engine.arrays;
    const arrays = {theta: theta.slice(), mean: mean.slice(), square: square.slice()};
    this.snapshots.add(step, {states: {step, settings, origin, points, stopReason: "", arrays}});
  }

  // Go to the last snapshot that is not later; what came after is forgotten. Returns its settings.
  rewind(step) {
    this.snapshots.keep((s) => s <= step);
    const found = this.snapshots.states.at(-1);
    if (!found) return null;
    const {arrays, ...state} = found;
    Object.assign(this, state);
    for (const [name, values] of Object.entries(arrays)) this.engine.arrays[name].set(values);
    this.applySettings();
    this.curve.keep((s) => s < this.step);
    return this.settings;
  }
}
