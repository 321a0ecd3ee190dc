// The page "Network": points in the plane, a small network that learns them, what it does meanwhile.
import {PLANE, POINTS_MOST, pastedPoints, pointSet, splitPoints} from "./datasets.mjs";
import {networkPython} from "./network_script.mjs";
import {NETWORK_DEFAULTS, networkAddress, networkSettings} from "./network_settings.mjs";
import {tracedNetwork} from "./network_trace.mjs";
import {NetworkView} from "./network_view.mjs";
import {commas, countOf} from "./numbers.mjs";
import {
  NO_POINTS,
  pointsOfAddress,
  pointsToAddress,
  withPoint,
  withoutLast,
} from "./own_points.mjs";
import {TrainingPage} from "./training_page.mjs";
import {stepOf} from "./training_settings.mjs";

const ADVANCE_MOST = 20000;
const GRID = 32; // points of a surface in a row: as many as one call of the module takes
const PAST_CURVES = 3;

class NetworkPage extends TrainingPage {
  constructor({modules, data, table, params, openTrace}) {
    super();
    this.settings = networkSettings(params);
    this.target = stepOf(params, ADVANCE_MOST);
    this.own = this.settings.data === "own" ? pointsOfAddress(params.own) : null;
    if (this.settings.data === "own" && !this.own) this.settings.data = NETWORK_DEFAULTS.data;
    this.pastCurves = [];
    this.view = new NetworkView(this.settings, this.handlers());
    this.table = table;
    this.openTrace = openTrace;
    this.points = this.splitOfPoints();
    const {network2, network4, values2, values4} = modules;
    this.open("network", data.loader, {network2, network4, values2, values4});
  }

  // --- frames ----------------------------------------------------------------------------

  showRewound(settings, step) {
    this.settings = {...this.settings, ...settings};
    this.view.showSettings(this.settings);
    this.view.say(`Back at step ${commas(step)}. Change something and train: the old curve stays.`);
  }

  wanted(all) {
    const curve = this.curveInterval.due(all);
    return {size: GRID, plane: PLANE, curve, unit: this.view.unit};
  }

  merge(frame) {
    const {curve, losses, weights, weightsStep} = this.frame ?? {}; // not part of each frame
    const last = frame.curve ? {weightsStep: frame.step} : {curve, losses, weights, weightsStep};
    this.frame = {...frame, ...last};
    this.freshCurves ||= Boolean(frame.curve);
  }

  redraw(curves = true) {
    if (this.frame?.losses) this.view.draw(this.frame, this.points, this.pastCurves, curves);
  }

  // --- settings --------------------------------------------------------------------------

  get shownPoints() {
    const {data, points, noise, seed} = this.settings;
    return data === "own" ? this.own : pointSet({kind: data, points, noise, seed});
  }

  splitOfPoints() {
    return splitPoints(this.shownPoints, this.settings.split, this.settings.seed);
  }

  // What the trainer reads of the settings.
  get trainerSettings() {
    const {data, points, noise, split, pace, ...settings} = this.settings;
    return {...settings, squared: this.points.numbers};
  }

  begin() {
    this.pastCurves = [];
    this.ask({type: "begin", args: [this.trainerSettings, this.points]});
  }

  changeTrainer() {
    this.ask({type: "change", args: [this.trainerSettings, this.points]});
  }

  change(changes, message) {
    Object.assign(this.settings, changes);
    const hasChanged = (...names) => names.some((name) => name in changes);
    if (hasChanged("data", "points", "noise", "split", "seed")) this.points = this.splitOfPoints();
    if (hasChanged("init", "seed", "data")) this.pastCurves = [];
    if (!this.worker) return;
    if (hasChanged("data")) this.begin();
    else this.changeTrainer();
    this.view.showSettings(this.settings);
    if (message) this.view.say(message);
  }

  handlers() {
    return {
      ...this.trainingHandlers(),
      change: (changes, message) => this.change(changes, message),
      epoch: () => this.ask({type: "advance", epochs: 1}),
      rewind: (step) => this.rewind(step),
      addPoint: (point) => this.addPoint(point),
      removePoints: (count) => this.removePoints(count),
      paste: (text) => this.paste(text),
      lookAtUnit: () => {
        if (!this.running && this.frame) this.refresh();
      },
      python: () => this.python(),
      trace: () => this.trace(),
    };
  }

  rewind(step) {
    if (!this.frame?.curve) return;
    const {steps, train} = this.frame.curve;
    if ((steps.at(-1) ?? 0) > step)
      this.pastCurves = [...this.pastCurves, {steps, train}].slice(-PAST_CURVES);
    this.ask({type: "rewind", step});
  }

  // --- points of the reader's own --------------------------------------------------------

  // Those on screen become the reader's own.
  addPoint(point) {
    const points = withPoint(this.shownPoints, point);
    if (points) this.useOwnPoints(points);
    else this.view.say(`There is room for ${POINTS_MOST} points.`);
  }

  removePoints(count) {
    this.useOwnPoints(withoutLast(this.settings.data === "own" ? this.own : NO_POINTS, count));
  }

  useOwnPoints(points) {
    this.own = points;
    this.settings.data = "own";
    this.points = this.splitOfPoints();
    this.view.showSettings(this.settings);
    if (points.y.length) {
      this.changeTrainer();
      this.view.say(`${countOf(points.y.length, "point", "points")} of your own.`);
      return;
    }
    this.ask({type: "pause"});
    this.view.say("There are no points: click into the plane, or add one by its numbers.");
    this.redraw();
  }

  paste(text) {
    const {points, note} = pastedPoints(text);
    if (!points) {
      this.view.say(note);
      return;
    }
    this.own = points;
    const message = `${countOf(points.y.length, "point", "points")} pasted. ${note}`.trim();
    this.change({data: "own"}, message);
  }

  // --- the step elsewhere ----------------------------------------------------------------

  python() {
    if (!this.frame) return "";
    const {curve, origin, step, settings} = this.frame;
    const {data, points, noise, seed} = this.settings;
    return networkPython({
      data: {kind: data, points, noise, seed},
      points: this.points,
      settings,
      origin,
      until: Math.max(origin.step, curve?.steps.at(-1) ?? step),
      every: curve?.every ?? 20,
    });
  }

  // The step on screen, in the player.
  trace() {
    if (!this.frame || !this.points.train.y.length) return;
    this.ask({type: "pause"});
    const {settings, weights, weightsStep} = this.frame;
    this.openTrace(tracedNetwork(this.table, settings, weights, this.points, weightsStep));
  }

  state() {
    const ownText = this.settings.data === "own" ? pointsToAddress(this.own) : null;
    return {
      ...networkAddress(this.settings),
      ...(this.step ? {step: String(Math.min(this.step, ADVANCE_MOST))} : {}),
      ...(ownText === null ? {} : {own: ownText}),
    };
  }
}

export const networkPage = (options) => new NetworkPage(options);
