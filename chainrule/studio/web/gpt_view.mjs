// What the page "GPT" shows, and its controls. It knows no worker: it calls its handlers.
import {chartColours, heatMap, lineChart, smoothedNorms} from "./charts.mjs";
import {h} from "./dom.mjs";
import {exact, short} from "./numbers.mjs";
import {selectorNames} from "./tensor_selector.mjs";
import {action, numberField, paceField, panel, pasteField} from "./training_controls.mjs";

const CURVE_POINTS = 1200;

// A parameter's name as microgpt's readers know it.
const plainName = (name) => name.replace(/\.grad$/, "").replace(/\.weight$/, "").replace(/^blocks\./, "h.");

// Losses thinned to what can be seen: of each stretch its mean.
export function thinnedCurve(losses, most = CURVE_POINTS) {
  const each = Math.max(1, Math.ceil(losses.length / most)), xs = [], ys = [];
  for (let i = 0; i < losses.length; i += each) {
    const part = losses.slice(i, i + each);
    xs.push(i + (part.length - 1) / 2);
    ys.push(part.reduce((a, b) => a + b, 0) / part.length);
  }
  return {xs, ys};
}

export function movingAverage(losses, most = CURVE_POINTS, keep = 0.98) {  // exponential, unbiased
  const each = Math.max(1, Math.ceil(losses.length / most)), xs = [], ys = [];
  let sum = 0, weight = 0;
  losses.forEach((v, i) => {
    sum = keep * sum + (1 - keep) * v;
    weight = keep * weight + 1 - keep;
    if (i % each === 0 || i === losses.length - 1) { xs.push(i); ys.push(sum / weight); }
  });
  return {xs, ys};
}

export class GptView {
  constructor(settings, handlers) {
    this.on = handlers;
    this.focus = [0, 0];
    this.status = h("p", {class: "t-said", role: "status"}, "Press Train: a model of 4,192 numbers learns to write names.");
    this.element = h("div", {class: "t-page t-gpt"}, this.toolbar(settings), this.status,
      h("div", {class: "t-stage t-stage-gpt"}, this.lossPanel(), this.samplePanel(settings)),
      h("div", {class: "t-charts"}, this.tensorPanel(settings), this.attentionPanel(settings)),
      h("div", {class: "t-charts t-one"}, this.flowPanel()),
      h("div", {class: "t-more"}, this.pastePanel()));
  }

  // --- parts -----------------------------------------------------------------------------

  toolbar(settings) {
    const {on} = this;
    this.play = action("Train", () => on.run(), {class: "t-primary", "aria-pressed": "false"});
    this.facts = {step: h("b", {}, "0"), speed: h("b", {}, "–"), name: h("b", {}, "–"), loss: h("b", {}, "–")};
    const fact = (name, words) => h("div", {class: `t-fact t-fact-${name}`}, h("span", {}, words), this.facts[name]);
    return h("div", {class: "t-bar"},
      h("div", {class: "t-buttons", role: "group", "aria-label": "Training"}, this.play, action("One step", () => on.advance(1)), action("Reset", () => on.reset())),
      h("div", {class: "t-facts"}, fact("step", "step"), fact("speed", "steps a second"), fact("name", "next name"), fact("loss", "loss, mean")),
      h("div", {class: "t-fields"}, paceField(settings.pace, (v) => on.change({pace: v})),
        numberField("Steps in all", {min: 1, max: 100000, step: 1}, settings.steps, (v) => on.change({steps: v})),
        numberField("Learning rate", {min: 0, max: 10}, settings.rate, (v) => on.change({rate: v}))));
  }

  lossPanel() {
    this.loss = h("canvas", {class: "t-chart t-tall", role: "img", "aria-label": "loss, not drawn yet"});
    return panel("Loss", "Pale: each name's. Strong: their moving mean. A guess without knowledge costs log 27 = 3.3.", this.loss);
  }

  samplePanel(settings) {
    this.names = h("ol", {class: "t-names", "aria-label": "names that the model has made up"});
    const words = h("output", {class: "t-aim"}, String(settings.temperature));
    const slider = h("input", {type: "range", min: 0, max: 2, step: 0.1, value: settings.temperature, "aria-label": "temperature",
      oninput: () => { words.textContent = slider.value; }, onchange: () => this.on.change({temperature: Number(slider.value)})});
    return panel("Names it makes up", "Drawn letter by letter. A low temperature keeps to what is likely.", this.names,
      h("div", {class: "t-rewind"}, h("span", {}, "Temperature"), slider, words));
  }

  tensorPanel(settings) {
    this.selector = h("input", {type: "text", value: settings.tensor, list: "t-tensors", spellcheck: "false", autocomplete: "off", "aria-label": "tensor, and slice",
      onchange: () => this.on.select(this.selector.value), oninput: () => { if (this.known?.has(this.selector.value)) this.on.select(this.selector.value); }});
    this.list = h("datalist", {id: "t-tensors"});
    this.wrong = h("p", {class: "t-wrong", role: "alert"});
    this.map = h("canvas", {class: "t-map", role: "img", "aria-label": "the tensor, not drawn yet", tabindex: "0", onmousemove: (e) => this.point(e), onkeydown: (e) => this.move(e)});
    this.cell = h("p", {class: "t-cell"});
    this.sums = h("p", {class: "t-note"});
    return panel("Any tensor, or its gradient", "A name and a slice, such as h.0.attn.wq.grad[:, :2] or wte[:8]. Arrow keys move in the map.",
      h("div", {class: "t-selector"}, this.selector, this.list), this.wrong, this.map, this.cell, this.sums);
  }

  attentionPanel(settings) {
    const name = h("input", {type: "text", value: settings.name, maxlength: 16, placeholder: "the next name", spellcheck: "false", "aria-label": "name to look at",
      onchange: () => this.on.change({name: name.value.trim().toLowerCase()})});
    this.heads = Array.from({length: 4}, (_, i) => h("figure", {}, h("canvas", {class: "t-head-map", role: "img", "aria-label": "attention, not drawn yet"}), h("figcaption", {}, `head ${i + 1}`)));
    return panel("Attention by head", "Rows read, columns are read: how much of each letter goes into the next guess. “·” begins a name.",
      h("div", {class: "t-selector"}, name), h("div", {class: "t-heads"}, this.heads));
  }

  flowPanel() {
    this.flow = h("canvas", {class: "t-chart", role: "img", "aria-label": "gradient norms, not drawn yet"});
    return panel("Gradient by layer", "The norm of each parameter's gradient, from the embedding to the head.", this.flow);
  }

  pastePanel() {
    return h("details", {}, h("summary", {}, "Learn from your own lines"),
      ...pasteField("names or words, one a line", "one name or word a line", "Use these lines", (text) => this.on.paste(text)));
  }

  // --- changes ---------------------------------------------------------------------------

  say(words) { this.status.textContent = words; }

  refuse(words) {
    this.say(words);
    this.status.classList.add("t-refused");
    for (const b of this.element.querySelectorAll("button, input")) b.disabled = true;
  }

  running(on, stopped) {
    this.play.textContent = on ? "Pause" : "Train";
    this.play.setAttribute("aria-pressed", String(on));
    if (on) this.say("Training.");
    else if (!stopped && this.status.textContent === "Training.") this.say("Paused.");
  }

  tensors(tensors) {
    this.params = tensors.filter((t) => t.gradient).map((t) => plainName(t.name));
    const names = selectorNames(tensors);
    this.known = new Set(names);
    this.list.replaceChildren(...names.map((value) => h("option", {value})));
  }

  selectorError(words) {
    this.wrong.textContent = words;
    this.selector.setAttribute("aria-invalid", String(Boolean(words)));
  }

  // --- drawing ---------------------------------------------------------------------------

  draw(frame, losses, selected, curves) {
    this.last = [frame, losses, selected];
    const {facts} = this;
    facts.step.textContent = frame.step.toLocaleString("en");
    facts.speed.textContent = frame.speed ? Math.round(frame.speed).toLocaleString("en") : "–";
    facts.name.textContent = frame.name;
    if (curves) {
      const average = movingAverage(losses);
      facts.loss.textContent = losses.length ? short(average.ys.at(-1), 4) : "–";
      this.drawLoss(losses, average);
      this.drawFlow(frame.history);
    }
    if (frame.samples) this.drawNames(frame.samples);
    if (frame.attention) this.drawAttention(frame.attention);
    if (selected && frame.tensor) this.drawTensor(frame, selected);
  }

  drawLoss(losses, average) {
    const c = chartColours(), raw = thinnedCurve(losses);
    lineChart(this.loss, {empty: "The curve begins with the first step.", series: [
      {...raw, colour: c.accent, width: 1, alpha: 0.28}, {...average, colour: c.accent, width: 2.5, label: losses.length ? short(average.ys.at(-1), 3) : null},
    ]});
    this.loss.setAttribute("aria-label", losses.length ? `Loss over ${losses.length} steps: first ${short(losses[0], 4)}, mean of the last ones ${short(average.ys.at(-1), 4)}.` : "Loss: no step yet.");
  }

  drawFlow(history) {
    const c = chartColours(), kept = history?.steps ?? [], names = this.params ?? [];
    const colours = [c.contrast, c.look, c.accent, c.good, c.soft, c.ink, c.bad];
    lineChart(this.flow, {log: true, empty: "Gradients come with the first step.", series: kept.length < 2 ? [] : names.map((name, i) => ({
      xs: kept, ys: smoothedNorms(history.norms.map((n) => n[i])), colour: colours[i % colours.length], label: name, width: 1.5,
    }))});
    const words = kept.length ? names.map((n, i) => `${n} ${short(history.norms.at(-1)[i], 2)}`).join(", ") : "no step yet";
    this.flow.setAttribute("aria-label", `Norm of each parameter's gradient: ${words}.`);
  }

  drawNames(samples) {
    this.names.replaceChildren(...samples.map((name) => h("li", {}, name || "·")));
  }

  drawAttention({letters, T, heads}) {
    heads.forEach((values, i) => {
      const canvas = this.heads[i].querySelector("canvas");
      canvas.style.height = `${canvas.clientWidth}px`;
      heatMap(canvas, {values, rows: T, columns: T, most: 1, rowLabels: letters, columnLabels: letters, positive: true});
      const strongest = letters.map((l, r) => `${l} reads ${letters[indexOfMost(values.subarray(r * T, (r + 1) * T))]}`).join(", ");
      canvas.setAttribute("aria-label", `Attention of head ${i + 1}, where most of it goes: ${strongest}.`);
    });
  }

  drawTensor({tensor: {shape, values}, step}, {rows, columns, gradient, text}) {
    const picked = new Float64Array(rows.length * columns.length);
    rows.forEach((r, i) => columns.forEach((c, j) => { picked[i * columns.length + j] = values[r * shape[1] + c]; }));
    let least = Infinity, most = -Infinity, sum = 0;
    for (const v of picked) { least = Math.min(least, v); most = Math.max(most, v); sum += v * v; }
    this.focus = [Math.min(this.focus[0], rows.length - 1), Math.min(this.focus[1], columns.length - 1)];
    this.shown = {picked, count: [rows.length, columns.length]};
    const width = this.map.clientWidth, cell = Math.min(width / columns.length, Math.max(6, Math.min(36, 540 / rows.length)));
    this.map.style.height = `${Math.ceil(Math.min(cell * rows.length + 4, 640))}px`;
    this.hit = heatMap(this.map, {values: picked, rows: rows.length, columns: columns.length, most: Math.max(-least, most), focus: this.focus});
    this.readCell();
    const none = gradient && step === 0 ? " No step yet: there is no gradient." : "";
    this.sums.textContent = `${rows.length} × ${columns.length} · least ${short(least)} · most ${short(most)} · norm ${short(Math.sqrt(sum))}.${none}`;
    this.map.setAttribute("aria-label", `${text}: ${this.sums.textContent}`);
  }

  readCell() {
    const {picked, count} = this.shown, [i, j] = this.focus;
    this.cell.textContent = `[${i}, ${j}]  ${exact(picked[i * count[1] + j])}`;
  }

  point(e) {
    const found = this.hit?.(e.offsetX, e.offsetY);
    if (found) this.focusOn(found);
  }

  move(e) {
    const by = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[e.key];
    if (!by || !this.shown) return;
    e.preventDefault();
    this.focusOn(this.focus.map((v, a) => Math.max(0, Math.min(this.shown.count[a] - 1, v + by[a]))));
  }

  focusOn(place) {
    this.focus = place;
    const [frame, , selected] = this.last;
    this.drawTensor(frame, selected);
  }
}

function indexOfMost(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}
