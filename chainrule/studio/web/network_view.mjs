// What the page "Network" shows, and its controls. It knows no worker: it calls its handlers.
import {chartColours, lineChart, smoothedNorms} from "./charts.mjs";
import {PLANE, POINT_SETS} from "./datasets.mjs";
import {h} from "./dom.mjs";
import {NetworkDiagram, SurfacePlot} from "./network_diagram.mjs";
import {short} from "./numbers.mjs";
import {action, choice, labelled, numberField, paceField, panel, pasteField, toggle} from "./training_controls.mjs";

const ACTIVATION_NAMES = [["linear", "linear"], ["tanh", "tanh"], ["sigmoid", "sigmoid"], ["relu", "ReLU"], ["leaky_relu", "leaky ReLU"]];
const OPTIMIZER_NAMES = [["sgd", "SGD"], ["momentum", "momentum"], ["adam", "Adam"], ["adamw", "AdamW"]];
const INIT_NAMES = [["xavier", "Xavier"], ["he", "He"], ["small", "small (±0.01)"], ["large", "large (±4)"], ["zeros", "zeros"]];
const RATES = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];
const LAYERS_MOST = 4, UNITS_MOST = 16;

export class NetworkView {
  constructor(settings, handlers) {
    this.now = settings;
    this.on = handlers;
    this.chosen = null;
    this.status = h("p", {class: "t-said", role: "status"}, "Press Train: the network learns to tell the two colours apart.");
    this.element = h("div", {class: "t-page t-network"},
      this.toolbar(), this.status, this.settingsRow(),
      h("div", {class: "t-stage"}, this.networkPanel(), this.surfacePanel()),
      h("div", {class: "t-charts"}, this.lossPanel(), this.normPanel()),
      h("div", {class: "t-more"}, this.pastePanel(), this.pythonPanel()));
    this.settings(settings);
  }

  // --- parts -----------------------------------------------------------------------------

  toolbar() {
    this.play = action("Train", () => this.on.run(), {class: "t-primary", "aria-pressed": "false"});
    this.facts = {step: h("b", {}, "0"), epoch: h("b", {}, "0"), speed: h("b", {}, "–"), train: h("b", {}, "–"), test: h("b", {}, "–")};
    const fact = (name, words) => h("div", {class: `t-fact t-fact-${name}`}, h("span", {}, words), this.facts[name]);
    return h("div", {class: "t-bar"},
      h("div", {class: "t-buttons", role: "group", "aria-label": "Training"}, this.play,
        action("One step", () => this.on.advance(1)), action("One epoch", () => this.on.epoch()), action("Reset", () => this.on.reset()),
        action("Play this step", () => this.on.trace())),
      h("div", {class: "t-fields"}, paceField(this.now.pace, (v) => this.on.pace(v))),
      h("div", {class: "t-facts"}, fact("step", "step"), fact("epoch", "epoch"), fact("speed", "steps a second"),
        fact("train", "loss, training"), fact("test", "loss, held out")));
  }

  settingsRow() {
    const {now, on} = this, set = (name, convert = (v) => v) => (v) => on.change({[name]: convert(v)});
    const rates = RATES.includes(now.rate) ? RATES : [...RATES, now.rate].sort((a, b) => a - b);
    this.fields = {
      activation: choice("Activation", ACTIVATION_NAMES, now.activation, set("activation")),
      init: choice("First weights", INIT_NAMES, now.init, set("init")),
      optimizer: choice("Optimizer", OPTIMIZER_NAMES, now.optimizer, set("optimizer")),
      rate: choice("Learning rate", rates.map((r) => [String(r), String(r)]), String(now.rate), set("rate", Number)),
      batch: numberField("Batch", {min: 1, max: 1000, step: 1}, now.batch, set("batch")),
      decay: numberField("Weight decay", {min: 0, max: 10}, now.decay, set("decay")),
      seed: numberField("Seed", {min: 0, max: 1e9, step: 1}, now.seed, set("seed")),
      residual: toggle("Residual connections", now.residual, set("residual")),
    };
    return h("div", {class: "t-settings"}, Object.values(this.fields));
  }

  networkPanel() {
    this.canvas = h("canvas", {class: "t-diagram", role: "img", "aria-label": "the network, not drawn yet", onclick: (e) => this.pick(e)});
    const under = h("canvas", {class: "t-wires", "aria-hidden": "true"});
    this.diagram = new NetworkDiagram(this.canvas, under);
    this.columns = h("div", {class: "t-columns"});
    this.depth = h("span", {class: "t-count"});
    this.fewer = action("−", () => this.layers(-1), {"aria-label": "one hidden layer less"});
    this.more = action("+", () => this.layers(1), {"aria-label": "one hidden layer more"});
    const head = h("div", {class: "t-depth"}, this.fewer, this.depth, this.more);
    return panel("Network", "Each picture is what a unit gives over the plane; lines are weights, blue above zero and orange below.", head, this.columns, h("div", {class: "t-layers"}, under, this.canvas));
  }

  surfacePanel() {
    this.surface = h("canvas", {class: "t-surface", role: "img", "aria-label": "the plane, not drawn yet", onclick: (e) => this.click(e)});
    const over = h("canvas", {class: "t-points", "aria-hidden": "true"});
    this.plot = new SurfacePlot(this.surface, over);
    this.unit = choice("Show", [["", "the output"]], "", (v) => { this.chosen = v ? v.split(",").map(Number) : null; this.on.look(); });
    const kinds = [...Object.entries(POINT_SETS).map(([k, s]) => [k, s.title]), ["own", "Your own"]], {now, on} = this;
    this.data = {
      data: choice("Points", kinds, now.data, (v) => (v === "own" ? on.clear() : on.change({data: v}, `${POINT_SETS[v].title}: ${POINT_SETS[v].about}.`))),
      points: numberField("How many", {min: 10, max: 1000, step: 1}, now.points, (v) => on.change({points: v})),
      noise: numberField("Noise", {min: 0, max: 1, step: 0.05}, now.noise, (v) => on.change({noise: v})),
      split: choice("Held out", [["0", "none"], ["0.2", "a fifth"], ["0.5", "half"]], String(now.split), (v) => on.change({split: Number(v)})),
    };
    return panel("Points", "Click to add one. Those with a strong rim are held out: the network never trains on them.",
      h("div", {class: "t-grid"}, Object.values(this.data)), h("div", {class: "t-layers"}, this.surface, over), this.unit, this.drawing());
  }

  drawing() {
    const radio = (value, words) => h("label", {class: "t-check"}, h("input", {type: "radio", name: "t-class", value, checked: value === 1}), h("span", {class: `t-class-${value}`}, words));
    this.classes = h("fieldset", {class: "t-classes"}, h("legend", {}, "A new point is"), radio(1, "blue"), radio(0, "orange"));
    const field = (name) => h("input", {type: "number", min: -PLANE, max: PLANE, step: "any", value: "0", "aria-label": `${name} of a new point`});
    const x = field("x"), y = field("y"), clip = (v) => Math.max(-PLANE, Math.min(PLANE, Number(v) || 0));
    return h("details", {class: "t-draw"}, h("summary", {}, "Draw your own"), this.classes,
      h("div", {class: "t-add"}, labelled("x", x), labelled("y", y),
        action("Add", () => this.on.add([clip(x.value), clip(y.value), this.label])),
        action("Undo", () => this.on.undo()), action("Clear", () => this.on.clear())));
  }

  lossPanel() {
    this.loss = h("canvas", {class: "t-chart", role: "img", "aria-label": "loss, not drawn yet", onclick: (e) => this.seek(e)});
    this.slider = h("input", {type: "range", min: 0, max: 0, value: 0, step: 1, "aria-label": "go back to a step",
      oninput: () => { this.sliding = true; this.aim(); }, onchange: () => { this.sliding = false; this.on.rewind(Number(this.slider.value)); }});
    this.aimed = h("output", {class: "t-aim"}, "step 0");
    return panel("Loss", "Drag, or click the curve, to go back to a step; change something, and train from there.",
      this.loss, h("div", {class: "t-rewind"}, h("span", {}, "Go back to"), this.slider, this.aimed));
  }

  normPanel() {
    this.norms = h("canvas", {class: "t-chart", role: "img", "aria-label": "gradient norms, not drawn yet"});
    this.normNote = h("p", {class: "t-note"});
    return panel("Gradient by layer", "How large each layer's gradient is. Lines far apart: early layers learn slower than late ones.", this.norms, this.normNote);
  }

  pastePanel() {
    return h("details", {}, h("summary", {}, "Paste points"),
      ...pasteField("points, one a line", "x, y, label\n0.5, 1.2, 1\n-0.3, 0.8, 0", "Use these points", (text) => this.on.paste(text)));
  }

  pythonPanel() {
    const code = h("pre", {class: "t-code", tabindex: "0", "aria-label": "the program"});
    const copy = action("Copy", () => { navigator.clipboard?.writeText(code.textContent).then(() => this.say("The program is copied."), () => this.say("The browser does not let the page copy: select the text.")); });
    const details = h("details", {ontoggle: () => { if (details.open) code.textContent = this.on.python(); }},
      h("summary", {}, "Show me the Python"), h("p", {class: "t-note"}, "The same points, the same first weights, the same steps: it prints the losses of the curve above."), copy, code);
    return details;
  }

  // --- changes ---------------------------------------------------------------------------

  say(words) { this.status.textContent = words; }

  refuse(words) {
    this.say(words);
    this.status.classList.add("t-refused");
    for (const b of this.element.querySelectorAll("button, select, input")) b.disabled = true;
  }

  running(on, stopped) {
    this.play.textContent = on ? "Pause" : "Train";
    this.play.setAttribute("aria-pressed", String(on));
    this.status.classList.toggle("t-warned", Boolean(stopped));
    if (on) this.say("Training.");
    else if (!stopped && this.status.textContent === "Training.") this.say("Paused.");
  }

  settings(now) {
    this.now = now;
    for (const name of ["activation", "init", "optimizer"]) this.fields[name].control.value = now[name];
    this.fields.rate.control.value = String(now.rate);
    for (const name of ["batch", "decay", "seed"]) this.fields[name].show(now[name]);
    this.fields.residual.control.checked = now.residual;
    this.data.data.control.value = now.data;
    this.data.points.control.disabled = this.data.noise.control.disabled = now.data === "own";
    this.depth.textContent = `${now.widths.length} hidden ${now.widths.length === 1 ? "layer" : "layers"}`;
    this.fewer.disabled = now.widths.length === 0;
    this.more.disabled = now.widths.length === LAYERS_MOST;
    this.columnHeads();
  }

  columnHeads() {
    const {widths} = this.now, key = widths.join();
    if (this.columns.dataset.key === key) return;
    const focused = this.columns.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    this.columns.dataset.key = key;
    const units = (l, by) => () => this.on.change({widths: this.now.widths.map((n, i) => (i === l ? n + by : n))});
    this.columns.style.gridTemplateColumns = `repeat(${widths.length + 2}, 1fr)`;
    this.columns.replaceChildren(h("div", {class: "t-column"}, "x, y"), ...widths.map((n, l) => h("div", {class: "t-column"},
      action("−", units(l, -1), {"aria-label": `one unit less in layer ${l + 1}`, disabled: n === 1}), h("span", {class: "t-count"}, n),
      action("+", units(l, 1), {"aria-label": `one unit more in layer ${l + 1}`, disabled: n === UNITS_MOST}))), h("div", {class: "t-column"}, "output"));
    if (focused) this.columns.querySelector(`[aria-label="${focused}"]:not(:disabled)`)?.focus();
    const all = widths.flatMap((n, l) => Array.from({length: n}, (_, i) => [`${l + 1},${i}`, `layer ${l + 1}, unit ${i + 1}`]));
    if (this.chosen && !all.some(([v]) => v === this.chosen.join())) this.chosen = null;
    this.unit.control.replaceChildren(...[["", "the output"], ["0,0", "input x"], ["0,1", "input y"], ...all].map(([value, words]) => h("option", {value}, words)));
    this.unit.control.value = this.chosen ? this.chosen.join() : "";
  }

  layers(by) {
    const {widths} = this.now;
    this.on.change({widths: by < 0 ? widths.slice(0, -1) : [...widths, widths.at(-1) ?? 4]});
  }

  // --- pointing --------------------------------------------------------------------------

  pick(e) {
    const found = this.diagram.at(e.offsetX, e.offsetY), last = this.now.widths.length + 1;
    if (!found) return;
    this.chosen = found[0] === last ? null : found;
    this.unit.control.value = this.chosen ? this.chosen.join() : "";
    this.on.look();
  }

  get label() { return Number(this.classes.querySelector("input:checked").value); }

  click(e) {
    const width = this.surface.clientWidth;
    this.on.add([(2 * e.offsetX / width - 1) * PLANE, (1 - 2 * e.offsetY / width) * PLANE, this.label]);
  }

  seek(e) { if (this.scale) this.on.rewind(this.scale.value(e.offsetX)); }

  aim() {
    const step = Number(this.slider.value);
    this.aimed.textContent = `step ${(this.kept?.filter((s) => s <= step).at(-1) ?? 0).toLocaleString("en")}`;
  }

  // --- drawing ---------------------------------------------------------------------------

  // `curves`: what changes too slowly to be drawn each time, too, lines of weights and numbers among it.
  draw(frame, points, past, curves) {
    const squared = points.numbers;
    if (String(frame.settings.widths) === String(this.now.widths)) {
      this.diagram.draw(curves ? frame : {...frame, weights: null}, this.chosen);
      this.plot.draw({surface: frame.surface, points, chosen: this.chosen, squared, plane: PLANE});
    }
    this.kept = frame.kept;
    if (!curves) return;
    this.drawFacts(frame, points);
    this.drawCurves(frame, past);
    this.describe(frame, points);
  }

  drawFacts({step, speed, stepsPerEpoch, losses, origin}, points) {
    const {facts} = this;
    facts.step.textContent = step.toLocaleString("en");
    facts.epoch.textContent = Math.floor((step - origin.step) / stepsPerEpoch).toLocaleString("en");
    facts.speed.textContent = speed ? Math.round(speed).toLocaleString("en") : "–";
    facts.train.textContent = short(losses.train, 3);
    facts.test.textContent = points.test.y.length ? short(losses.test, 3) : "–";
    this.slider.max = step;
    if (this.sliding) return;
    this.slider.value = step;
    this.aimed.textContent = `step ${step.toLocaleString("en")}`;
  }

  drawCurves({curve, step}, past) {
    const c = chartColours(), {steps} = curve;
    this.scale = lineChart(this.loss, {log: true, mark: step || null, empty: "The curve begins with the first step.", series: [
      ...past.flatMap((p, i) => [{xs: p.steps, ys: p.train, colour: c.soft, width: 1.25, dash: [4, 3], alpha: 0.75, label: i === past.length - 1 ? "before" : null}]),
      {xs: steps, ys: curve.test, colour: c.contrast, label: "held out"},
      {xs: steps, ys: curve.train, colour: c.accent, width: 2, label: "training"},
    ]});
    const layers = curve.norms[0]?.length ?? 0, from = steps.length && steps[0] === 0 ? 1 : 0;
    lineChart(this.norms, {log: true, empty: "Gradients come with the first steps.", series: Array.from({length: layers}, (_, l) => ({
      xs: steps.slice(from), ys: smoothedNorms(curve.norms.slice(from).map((n) => n[l] ?? NaN)), width: l === layers - 1 ? 1.5 : 1.75,
      colour: layerColour(c, l, layers), label: l === layers - 1 ? "output" : `layer ${l + 1}`,
    }))});
  }

  describe({step, losses, norms, surface, weights}, points) {
    const now = performance.now();
    if (now - (this.described ?? 0) < 500) return;
    this.described = now;
    const held = points.test.y.length ? `, held out ${short(losses.test, 3)}` : "";
    this.canvas.setAttribute("aria-label", `A network with ${this.now.widths.length} hidden layers of ${this.now.widths.join(", ") || "no"} units; the largest weight is ${short(Math.max(...[...weights.layers, weights.last].flatMap(({w}) => w.flat().map(Math.abs))), 3)}.`);
    this.surface.setAttribute("aria-label", `${points.train.y.length} points to train on and ${points.test.y.length} held out, on ${this.unit.control.selectedOptions[0].textContent} at step ${step}.`);
    this.loss.setAttribute("aria-label", `Loss by step, at step ${step}: training ${short(losses.train, 3)}${held}.`);
    const words = norms.map((v, l) => `${l === norms.length - 1 ? "output" : `layer ${l + 1}`} ${short(v, 2)}`).join(", ");
    this.norms.setAttribute("aria-label", `Norm of the gradient by layer at step ${step}: ${words}.`);
    const ratio = norms[0] / norms.at(-1);
    this.normNote.textContent = step === 0 ? "" : ratio < 0.01 && norms.length > 2
      ? `The gradient vanishes: layer 1 gets ${short(ratio, 2)} of what the output gets.`
      : ratio > 100 ? `The gradient grows backward: layer 1 gets ${short(ratio, 3)} times what the output gets.` : "";
  }
}

function layerColour(colours, l, layers) {  // from the gradient's colour for layer 1 to the accent
  const mix = layers > 1 ? Math.round(100 * l / (layers - 1)) : 100;
  const [a, b] = [colours.contrast, colours.accent].map((v) => [1, 3, 5].map((i) => parseInt(v.slice(i, i + 2), 16)));
  return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * mix / 100)).join()})`;
}
