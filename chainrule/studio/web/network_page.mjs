// The page "Network": points in the plane, a small network that learns them, what it does meanwhile.
import {PLANE, POINTS_MOST, POINT_SETS, pastedPoints, pointSet, splitPoints} from "./datasets.mjs";
import {networkPython} from "./network_script.mjs";
import {tracedNetwork} from "./network_trace.mjs";
import {NetworkView} from "./network_view.mjs";
import {CURVES_EACH, PACES, openTraining} from "./training_controls.mjs";
import {trainingObstacle} from "./training_worker.mjs";

const NETWORK_DEFAULTS = {
  data: "moons", points: 300, noise: 0.15, split: 0.2, seed: 1, widths: [6, 4], activation: "tanh", residual: false,
  init: "xavier", optimizer: "adam", rate: 0.01, decay: 0, batch: 32, pace: 300,
};
const ADVANCE_MOST = 20000;
const GRID = 32;  // points of a surface in a row: as many as one call of the module takes

// What the fragment of an address says, where it makes sense.
export function networkSettings(params) {
  const s = {...NETWORK_DEFAULTS};
  const known = {
    data: [...Object.keys(POINT_SETS), "own"], activation: ["linear", "tanh", "sigmoid", "relu", "leaky_relu"],
    init: ["xavier", "he", "small", "large", "zeros"], optimizer: ["sgd", "momentum", "adam", "adamw"],
  };
  for (const [name, options] of Object.entries(known)) if (options.includes(params[name])) s[name] = params[name];
  const bounds = {points: [10, POINTS_MOST], noise: [0, 1], split: [0, 0.9], seed: [0, 1e9], rate: [0, 100], decay: [0, 10], batch: [1, POINTS_MOST]};
  for (const [name, [least, most]] of Object.entries(bounds)) {
    const v = Number(params[name]);
    if (params[name] !== undefined && params[name] !== "" && v >= least && v <= most) s[name] = v;
  }
  if (PACES.includes(Number(params.pace ?? NaN))) s.pace = Number(params.pace);
  for (const name of ["points", "seed", "batch"]) s[name] = Math.round(s[name]);
  if (/^(\d+(,\d+){0,3})?$/.test(params.widths ?? "none"))
    s.widths = params.widths === "" ? [] : params.widths.split(",").map((n) => Math.max(1, Math.min(16, Number(n))));
  s.residual = params.residual === undefined ? s.residual : params.residual === "1";
  return s;
}

class NetworkPage {
  constructor({modules, data, table, params, openTrace}) {
    this.settings = networkSettings(params);
    this.target = Math.min(ADVANCE_MOST, Math.max(0, Math.round(Number(params.step) || 0)));
    this.own = this.settings.data === "own" ? ownPoints(params.own) : null;
    if (this.settings.data === "own" && !this.own) this.settings.data = NETWORK_DEFAULTS.data;
    this.past = [];
    this.view = new NetworkView(this.settings, this.handlers());
    this.table = table;
    this.openTrace = openTrace;
    this.points = this.made();
    const obstacle = trainingObstacle();
    if (obstacle) this.view.refuse(obstacle);
    else openTraining(this, "network", data.loader, {network2: modules.network2, network4: modules.network4});
  }

  // --- what the worker says --------------------------------------------------------------

  told({running, step, stopped, rewound}) {
    this.step = step;
    this.running = running;
    this.view.running(running, stopped);
    if (stopped) this.view.say(stopped);
    if (rewound) {
      this.settings = {...this.settings, ...rewound};
      this.view.settings(this.settings);
      this.view.say(`Back at step ${step.toLocaleString("en")}. Change something and train: the old curve stays.`);
    }
    if (running) this.frames.start();
    else this.refresh();
  }

  wanted() {
    const now = performance.now(), curve = now - (this.curved ?? 0) > CURVES_EACH;
    if (curve) this.curved = now;
    return {size: GRID, plane: PLANE, curve, chosen: this.view.chosen};
  }

  take(frame) {
    const {curve, losses, weights, weightsStep} = this.frame ?? {};  // not part of each frame
    this.frame = {...frame, ...(frame.curve ? {weightsStep: frame.step} : {curve, losses, weights, weightsStep})};
    this.fresh ||= Boolean(frame.curve);
  }

  drawFresh() {  // what has come since it was drawn last
    this.redraw(this.fresh);
    this.fresh = false;
    if (!this.running) this.frames.stop();
  }

  redraw(curves = true) {
    if (this.frame?.losses) this.view.draw(this.frame, this.points, this.past, curves);
  }

  refresh() {  // one frame
    this.frames.stop();
    this.worker.ask({type: "frame", ask: {...this.wanted(), curve: true}});
  }

  // --- what is asked of it ---------------------------------------------------------------

  made() {
    const {data, points, noise, split, seed} = this.settings;
    const all = data === "own" ? this.own : pointSet({kind: data, points, noise, seed});
    return splitPoints(all, split, seed);
  }

  get trainer() {  // the settings that the trainer reads
    const {widths, activation, residual, init, optimizer, rate, decay, batch, seed} = this.settings;
    return {widths, activation, residual, init, optimizer, rate, decay, batch, seed, squared: this.points.numbers};
  }

  begin() {
    this.past = [];
    this.worker.ask({type: "begin", args: [this.trainer, this.points]});
  }

  change(changes, words) {
    Object.assign(this.settings, changes);
    const fresh = ["data", "points", "noise", "split", "seed"].some((name) => name in changes);
    if (fresh) this.points = this.made();
    if ("init" in changes || "seed" in changes || "data" in changes) this.past = [];
    if (!this.worker) return;
    if ("data" in changes) this.begin();
    else this.worker.ask({type: "change", args: [this.trainer, this.points]});
    this.view.settings(this.settings);
    if (words) this.view.say(words);
  }

  handlers() {
    return {
      change: (changes, words) => this.change(changes, words),
      pace: (value) => { this.settings.pace = value; this.worker?.ask({type: "pace", value}); },
      run: () => this.worker?.ask({type: this.running ? "pause" : "run"}),
      advance: (count) => this.worker?.ask({type: "advance", count}),
      epoch: () => this.worker?.ask({type: "advance", epochs: 1}),
      reset: () => { if (this.worker) { this.worker.ask({type: "pause"}); this.begin(); this.view.say("Back at step 0, with the first weights."); } },
      rewind: (step) => this.rewind(step),
      add: (point) => this.add(point),
      undo: () => this.removed(1),
      clear: () => this.removed(Infinity),
      paste: (text) => this.paste(text),
      trace: () => this.trace(),
      python: () => this.python(),
      look: () => { if (!this.running && this.frame) this.refresh(); },
    };
  }

  rewind(step) {
    if (!this.frame?.curve) return;
    const {steps, train, test} = this.frame.curve;
    if ((steps.at(-1) ?? 0) > step) this.past = [...this.past, {steps: [...steps], train: [...train], test: [...test]}].slice(-3);
    this.worker.ask({type: "rewind", step});
  }

  // Points by hand: those on screen become the reader's own.
  add([x, y, label]) {
    const from = this.settings.data === "own" ? this.own : pointSet({...this.settings, kind: this.settings.data});
    if (from.y.length >= POINTS_MOST) { this.view.say(`There is room for ${POINTS_MOST} points.`); return; }
    const value = from.numbers ? 2 * label - 1 : label, round = (v) => Math.round(v * 1000) / 1000;
    this.ownSet({x: [...from.x, round(x), round(y)], y: [...from.y, value], numbers: from.numbers});
  }

  removed(count) {
    const from = this.settings.data === "own" ? this.own : {x: [], y: [], numbers: false};
    const n = Math.max(0, from.y.length - count);
    this.ownSet({x: [...from.x].slice(0, 2 * n), y: [...from.y].slice(0, n), numbers: n ? from.numbers : false});
  }

  ownSet({x, y, numbers}) {
    this.own = {x: Float64Array.from(x), y: Float64Array.from(y), numbers};
    this.settings.data = "own";
    this.points = this.made();
    this.view.settings(this.settings);
    if (!y.length) {
      this.worker?.ask({type: "pause"});
      this.view.say("There are no points: click into the plane, or add one by its numbers.");
      this.redraw();
      return;
    }
    this.worker?.ask({type: "change", args: [this.trainer, this.points]});
    this.view.say(`${y.length.toLocaleString("en")} points of your own.`);
  }

  paste(text) {
    const {points, note} = pastedPoints(text);
    if (points) {
      this.own = points;
      this.change({data: "own"}, `${points.y.length.toLocaleString("en")} points pasted. ${note}`.trim());
    } else this.view.say(note);
  }

  python() {
    if (!this.frame) return "";
    const {curve, origin, step, settings} = this.frame, {data, points, noise, seed} = this.settings;
    return networkPython({
      data: {kind: data, points, noise, seed}, points: this.points, settings, origin,
      until: Math.max(origin.step, curve?.steps.at(-1) ?? step), every: curve?.every ?? 20,
    });
  }

  // The step on screen, in the player.
  trace() {
    if (!this.frame || !this.points.train.y.length) return;
    this.worker?.ask({type: "pause"});
    this.openTrace(tracedNetwork(this.table, this.frame.settings, this.frame.weights, this.points, this.frame.weightsStep));
  }

  // --- the page's door -------------------------------------------------------------------

  start() { if (this.worker && this.frame) this.refresh(); }

  stop() {
    this.frames?.stop();
    this.worker?.ask({type: "pause"});
  }

  state() {
    const {widths, residual, ...rest} = this.settings, out = {};
    for (const [name, v] of Object.entries(rest)) if (v !== NETWORK_DEFAULTS[name]) out[name] = String(v);
    if (String(widths) !== String(NETWORK_DEFAULTS.widths)) out.widths = widths.join(",");
    if (residual) out.residual = "1";
    if (this.step) out.step = String(Math.min(this.step, ADVANCE_MOST));
    if (this.settings.data === "own" && this.own.y.length <= 150)
      out.own = Array.from(this.own.y, (label, i) => [this.own.x[2 * i], this.own.x[2 * i + 1], label].map((v) => Number(v.toFixed(3))).join("_")).join("~");
    return out;
  }
}

function ownPoints(text) {
  const {points} = pastedPoints((text ?? "").replaceAll("~", "\n").replaceAll("_", ","));
  return points;
}

export function networkPage(given) {
  const page = new NetworkPage(given);
  return {element: page.view.element, start: () => page.start(), stop: () => page.stop(), state: () => page.state()};
}
