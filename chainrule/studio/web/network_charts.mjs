// The charts of the page "Network": losses, on which one goes back to a step, and gradients by layer.
import {chartColours, rgb} from "./canvas.mjs";
import {h, setLabel} from "./dom.mjs";
import {lineChart, smoothedNorms} from "./line_chart.mjs";
import {commas, short} from "./numbers.mjs";
import {panel, pictureCanvas, sliderRow} from "./training_controls.mjs";

const VANISHING = 0.01; // what layer 1 gets of the output's gradient
const GROWING = 100;

export class LossPanel {
  constructor(onRewind) {
    this.canvas = pictureCanvas("t-chart", "loss", {
      onclick: (e) => {
        if (this.scale) onRewind(this.scale.value(e.offsetX));
      },
    });
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: 0,
      value: 0,
      step: 1,
      "aria-label": "go back to a step",
      oninput: () => {
        this.sliding = true;
        this.showSnapshot();
      },
      onchange: () => {
        this.sliding = false;
        onRewind(Number(this.slider.value));
      },
    });
    this.output = h("output", {class: "t-aim"}, "step 0");
    this.element = panel(
      "Loss",
      "Drag, or click the curve, to go back to a step; change something, and train from there.",
      this.canvas,
      sliderRow("Go back to", this.slider, this.output),
    );
  }

  // The step to which the slider, as it stands, leads: the last snapshot before.
  showSnapshot() {
    const step = Number(this.slider.value);
    this.showStep(this.snapshots?.findLast((s) => s <= step) ?? 0);
  }

  showStep(step) {
    this.output.textContent = `step ${commas(step)}`;
  }

  draw({curve, step, snapshots}, pastCurves) {
    this.snapshots = snapshots;
    this.slider.max = step;
    if (!this.sliding) {
      this.slider.value = step;
      this.showStep(step);
    }
    const colours = chartColours();
    const past = pastCurves.map(({steps, train}, i) => ({
      xs: steps,
      ys: train,
      colour: colours.soft,
      width: 1.25,
      dash: [4, 3],
      alpha: 0.75,
      label: i === pastCurves.length - 1 ? "before" : null,
    }));
    const {steps, train, test} = curve;
    this.scale = lineChart(this.canvas, {
      log: true,
      mark: step || null,
      empty: "The curve begins with the first step.",
      series: [
        ...past,
        {xs: steps, ys: test, colour: colours.contrast, label: "held out"},
        {xs: steps, ys: train, colour: colours.accent, width: 2, label: "training"},
      ],
    });
  }

  describe({step, losses}, {test}) {
    const heldOut = test.y.length ? `, held out ${short(losses.test, 3)}` : "";
    setLabel(
      this.canvas,
      `Loss by step, at step ${step}: training ${short(losses.train, 3)}${heldOut}.`,
    );
  }
}

export class LayerNormsPanel {
  constructor() {
    this.canvas = pictureCanvas("t-chart", "gradient norms");
    this.note = h("p", {class: "t-note"});
    this.element = panel(
      "Gradient by layer",
      "How large each layer's gradient is. Lines far apart: early layers learn slower than late " +
        "ones.",
      this.canvas,
      this.note,
    );
  }

  draw({curve: {steps, norms}}) {
    const colours = chartColours();
    const count = norms[0]?.length ?? 0;
    const from = steps[0] === 0 ? 1 : 0; // there is no gradient at step 0
    const series = Array.from({length: count}, (_, l) => ({
      xs: steps.slice(from),
      ys: smoothedNorms(norms.slice(from).map((n) => n[l] ?? NaN)),
      width: l === count - 1 ? 1.5 : 1.75,
      colour: layerColour(colours, l, count),
      label: layerName(l, count),
    }));
    lineChart(this.canvas, {log: true, empty: "Gradients come with the first steps.", series});
  }

  describe({step, norms}) {
    const each = norms.map((v, l) => `${layerName(l, norms.length)} ${short(v, 2)}`).join(", ");
    setLabel(this.canvas, `Norm of the gradient by layer at step ${step}: ${each}.`);
    this.note.textContent = step === 0 ? "" : normNote(norms[0] / norms.at(-1), norms.length);
  }
}

const layerName = (l, count) => (l === count - 1 ? "output" : `layer ${l + 1}`);

// `ratio`: how large the gradient of layer 1 is beside the output's.
function normNote(ratio, count) {
  if (ratio < VANISHING && count > 2)
    return `The gradient vanishes: layer 1 gets ${short(ratio, 2)} of what the output gets.`;
  if (ratio > GROWING)
    return `The gradient grows backward: layer 1 gets ${short(ratio, 3)} times what the output gets.`;
  return "";
}

// From the contrast colour for layer 1 to the accent.
function layerColour(colours, l, count) {
  const share = count > 1 ? l / (count - 1) : 1;
  const [a, b] = [colours.contrast, colours.accent].map(rgb);
  return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * share)).join()})`;
}
