// Trains a network on points: runs the compiled step, keeps curves and snapshots, goes back.
// Runs in a worker; the page sends the text of this file's functions there (training_worker.mjs).
//
// Parameters lie as the module has them: for each of its layers W (16, 16) and b (16), then the
// output's w (16) and b. A layer that is not there has mask 0 and skip 1: it hands on what it gets.
import {shuffled, studioRandom} from "./datasets.mjs";

// gain / (1 + exp(slope z)) + offset + linear z + positive relu(z)
export function activationNumbers(name) {
  const [slope, gain, offset, linear, positive] = {
    linear: [0, 0, 0, 1, 0], tanh: [-2, 2, -1, 0, 0], sigmoid: [-1, 1, 0, 0, 0],
    relu: [0, 0, 0, 0, 1], leaky_relu: [0, 0, 0, 0.01, 0.99],
  }[name];
  return {slope, gain, offset, linear, positive};
}

// The numbers of an optimizer at its step t = 1, 2, ...
export function optimizerNumbers({optimizer, rate, decay}, t) {
  const base = {
    rate, l2: decay, decay: 0, momentum: 0, intake: 0, plain: 1, averaged: 0,
    adaptive: 0, square_decay: 0, correction: 1, epsilon: 0,
  };
  const adam = {
    momentum: 0.9, intake: 1 - 0.9, plain: 0, averaged: 1 / (1 - 0.9 ** t),
    adaptive: 1, square_decay: 0.999, correction: 1 / (1 - 0.999 ** t), epsilon: 1e-8,
  };
  return {...base, ...{
    sgd: {},
    momentum: {momentum: 0.9, intake: 1, plain: 0, averaged: 1},
    adam,
    adamw: {...adam, l2: 0, decay},
  }[optimizer]};
}

// The bound of uniform weights between so many inputs and outputs.
export function initialBound(init, inputs, outputs) {
  return {
    xavier: Math.sqrt(6 / (inputs + outputs)), he: Math.sqrt(6 / inputs), small: 0.01, large: 4, zeros: 0,
  }[init];
}

export class NetworkTrainer {
  static async make(load, modules) {
    const each = async (name) => [await load(modules[name]), await load(modules[name])];
    return new NetworkTrainer({2: await each("network2"), 4: await each("network4")});
  }

  constructor(steps) {
    this.engines = {};
    for (const [depth, pair] of Object.entries(steps))
      this.engines[depth] = pair.map((step) => this.memory(step));
    this.stopped = "";
  }

  memory(step) {  // arrays at their largest, looked up once
    const arrays = {};
    for (const kind of ["inputs", "state", "results"])
      for (const e of step.about[kind])
        arrays[e.name] = new Float64Array(step.code.memory.buffer, e.address, e.bytes / 8);
    const size = new BigInt64Array(step.code.memory.buffer, step.about.sizes[0].address, 1);
    return {run: step.code.step, arrays, size};
  }

  get engine() { return this.engines[this.settings.widths.length > 2 ? 4 : 2][0]; }
  get looker() { return this.engines[this.settings.widths.length > 2 ? 4 : 2][1]; }
  get capacity() { return this.settings.widths.length > 2 ? 4 : 2; }

  // --- beginning and changing ---------------------------------------------------------------

  begin(settings, points) {
    this.settings = settings;
    this.points = points;
    this.step = 0;
    this.stopped = "";
    this.curve = {every: 20, steps: [], train: [], test: [], norms: []};
    this.snapshots = {every: 100, kept: []};
    this.initialize();
  }

  initialize() {
    const {widths, init, seed} = this.settings, random = studioRandom(seed + 7919), sizes = [2, ...widths, 1];
    const layers = widths.map((n, l) => this.drawn(sizes[l], n, init, random));
    this.place({layers, last: this.drawn(sizes.at(-2), 1, init, random)});
  }

  drawn(inputs, outputs, init, random) {  // w[i][j] row by row; biases 0
    const a = initialBound(init, inputs, outputs);
    const w = Array.from({length: inputs}, () => Array.from({length: outputs}, () => (2 * random() - 1) * a));
    return {w, b: new Array(outputs).fill(0)};
  }

  weights() {  // as nested arrays, of the units that there are
    const theta = this.engine.arrays.theta, sizes = [2, ...this.settings.widths], end = this.capacity * 272;
    const layers = this.settings.widths.map((n, l) => ({
      w: Array.from({length: sizes[l]}, (_, i) => Array.from(theta.subarray(l * 272 + i * 16, l * 272 + i * 16 + n))),
      b: Array.from(theta.subarray(l * 272 + 256, l * 272 + 256 + n)),
    }));
    const last = {w: Array.from({length: sizes.at(-1)}, (_, i) => [theta[end + i]]), b: [theta[end + 16]]};
    return {layers, last};
  }

  // Start from these weights: the optimizer and the order of batches begin anew.
  place({layers, last}) {
    const {theta, mean, square} = this.engine.arrays, end = this.capacity * 272;
    for (const a of [theta, mean, square, this.engine.arrays["theta.grad"]]) a.fill(0);
    layers.forEach(({w, b}, l) => {
      w.forEach((row, i) => theta.set(row, l * 272 + i * 16));
      theta.set(b, l * 272 + 256);
    });
    last.w.forEach(([v], i) => { theta[end + i] = v; });
    theta[end + 16] = last.b[0];
    this.origin = {step: this.step, weights: {layers, last}, fresh: this.step === 0};
    this.apply(this.engine);
  }

  // Other settings or points while it runs; weights stay where there is a place for them.
  change(settings, points = this.points) {
    const old = this.weights(), before = this.settings;
    this.settings = settings;
    this.points = points;
    this.stopped = "";
    if (settings.init !== before.init || settings.seed !== before.seed) {
      this.begin(settings, points);
      return;
    }
    const random = studioRandom(settings.seed + 15485863 + this.step), sizes = [2, ...settings.widths, 1];
    const fitted = (found, inputs, outputs) => {
      const fresh = this.drawn(inputs, outputs, settings.init, random);
      fresh.w.forEach((row, i) => row.forEach((_, j) => { row[j] = found?.w[i]?.[j] ?? row[j]; }));
      fresh.b.forEach((_, j) => { fresh.b[j] = found?.b[j] ?? 0; });
      return fresh;
    };
    this.place({
      layers: settings.widths.map((n, l) => fitted(old.layers[l], sizes[l], n)),
      last: fitted(old.last, sizes.at(-2), 1),
    });
  }

  apply(to) {  // the settings as the module's inputs
    const {widths, residual, activation, squared} = this.settings, {mask, skip} = to.arrays;
    mask.fill(0);
    skip.fill(1);
    widths.forEach((n, l) => {
      mask.fill(1, l * 16, l * 16 + n);
      skip[l] = residual && l > 0 && widths[l - 1] === n ? 1 : 0;
    });
    to.arrays.squared[0] = squared ? 1 : 0;
    for (const [name, v] of Object.entries(activationNumbers(activation))) to.arrays[`activation.${name}`][0] = v;
    to.arrays.x.fill(0);
  }

  // --- training -----------------------------------------------------------------------------

  // One step; returns its loss, that of the batch before the update.
  train() {
    if (this.step % this.curve.every === 0) this.note();
    if (this.step % this.snapshots.every === 0) this.keep();
    const {engine, settings} = this, k = this.step - this.origin.step;
    this.fill(engine, this.points.train, this.batch(k));
    const numbers = optimizerNumbers(settings, k + 1);
    for (const name in numbers) engine.arrays[`update.${name}`][0] = numbers[name];
    engine.run();
    this.step++;
    this.loss = engine.arrays.loss[0];
    if (!Number.isFinite(this.loss))
      this.stopped = `The loss is no finite number at step ${this.step - 1}: the weights have grown beyond all bounds. Lower the learning rate, then reset, or rewind to an earlier step.`;
    return this.loss;
  }

  // Rows of batch k since the origin: every epoch is shuffled; what is left over at its end waits.
  batch(k) {
    const n = this.points.train.y.length, size = Math.min(this.settings.batch, n), per = Math.floor(n / size);
    const epoch = Math.floor(k / per), key = `${epoch} ${n} ${size} ${this.settings.seed}`;
    if (this.order?.key !== key) {
      const rows = size === n ? Array.from({length: n}, (_, i) => i) : shuffled(n, this.settings.seed + 104729 + epoch);
      this.order = {key, rows};
    }
    return this.order.rows.slice((k % per) * size, (k % per) * size + size);
  }

  get stepsPerEpoch() {
    const n = this.points.train.y.length;
    return Math.floor(n / Math.min(this.settings.batch, n));
  }

  fill(engine, {x, y}, rows) {
    const to = engine.arrays;
    engine.size[0] = BigInt(rows.length);
    for (let i = 0; i < rows.length; i++) {
      to.x[16 * i] = x[2 * rows[i]];
      to.x[16 * i + 1] = x[2 * rows[i] + 1];
      to.y[i] = y[rows[i]];
    }
  }

  // --- looking ------------------------------------------------------------------------------

  look({x, y}) {  // a forward pass that changes nothing
    const {looker} = this;
    looker.arrays.theta.set(this.engine.arrays.theta);
    this.apply(looker);
    looker.arrays["update.rate"][0] = 0;
    this.fill(looker, {x, y}, Array.from({length: y.length}, (_, i) => i));
    looker.run();
    return looker.arrays;
  }

  losses() {
    const of = (part) => (part.y.length ? this.look(part).loss[0] : NaN);
    return {train: of(this.points.train), test: of(this.points.test)};
  }

  norms() {  // of the gradient of the last step, layer by layer, the output last
    const g = this.engine.arrays["theta.grad"], depth = this.settings.widths.length, end = this.capacity * 272;
    const norm = (from, to) => {
      let sum = 0;
      for (let i = from; i < to; i++) sum += g[i] * g[i];
      return Math.sqrt(sum);
    };
    return [...Array.from({length: depth}, (_, l) => norm(l * 272, l * 272 + 272)), norm(end, end + 17)];
  }

  // Output and units at a grid of size * size points, rows from top to bottom.
  surface(size, plane) {
    const output = new Float32Array(size * size), depth = this.settings.widths.length;
    const units = Array.from({length: depth}, () => new Float32Array(size * size * 16));
    const rows = Math.floor(1024 / size);
    for (let top = 0; top < size; top += rows) {
      const count = Math.min(rows, size - top) * size, x = new Float64Array(2 * count);
      for (let i = 0; i < count; i++) {
        x[2 * i] = plane * (2 * (i % size + 0.5) / size - 1);
        x[2 * i + 1] = plane * (1 - 2 * (top + Math.floor(i / size) + 0.5) / size);
      }
      const found = this.look({x, y: new Float64Array(count)});
      output.set(found.output.subarray(0, count), top * size);
      units.forEach((u, l) => u.set(found.units.subarray(l * count * 16, (l + 1) * count * 16), top * size * 16));
    }
    return {size, output, units};
  }

  // --- curves, snapshots --------------------------------------------------------------------

  note() {
    const c = this.curve, {train, test} = this.losses();
    if (c.steps.at(-1) === this.step) return;
    c.steps.push(this.step);
    c.train.push(train);
    c.test.push(test);
    c.norms.push(this.norms());
    if (c.steps.length > 1000) {  // half as many, twice as far apart
      c.every *= 2;
      const still = c.steps.map((s) => s % c.every === 0);
      for (const name of ["steps", "train", "test", "norms"]) c[name] = c[name].filter((_, i) => still[i]);
    }
  }

  keep() {
    const s = this.snapshots, {theta, mean, square} = this.engine.arrays;
    if (s.kept.at(-1)?.step === this.step) return;
    s.kept.push({
      step: this.step, settings: this.settings, origin: this.origin, points: this.points,
      theta: theta.slice(), mean: mean.slice(), square: square.slice(),
    });
    if (s.kept.length > 64) {
      s.every *= 2;
      s.kept = s.kept.filter((x) => x.step % s.every === 0);
    }
  }

  // Go to the last kept step that is not later; what came after is forgotten. Returns its settings.
  rewind(step) {
    const before = this.snapshots.kept.filter((x) => x.step <= step), found = before.at(-1);
    if (!found) return null;
    this.snapshots.kept = before;
    this.settings = found.settings;
    this.points = found.points;
    this.step = found.step;
    this.origin = found.origin;
    this.stopped = "";
    for (const name of ["theta", "mean", "square"]) this.engine.arrays[name].set(found[name]);
    this.apply(this.engine);
    const c = this.curve, still = c.steps.filter((s) => s < found.step).length;
    for (const name of ["steps", "train", "test", "norms"]) c[name].length = still;
    return found.settings;
  }
}
