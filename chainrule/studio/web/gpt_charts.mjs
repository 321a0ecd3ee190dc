// The charts of the page "GPT": its losses with their mean, and the gradient of each parameter.
import {chartColours} from "./canvas.mjs";
import {setLabel} from "./dom.mjs";
import {lineChart, smoothedNorms} from "./line_chart.mjs";
import {short} from "./numbers.mjs";
import {shortName} from "./tensor_selector.mjs";
import {panel, pictureCanvas} from "./training_controls.mjs";

const CURVE_POINTS = 1200;
const MEAN_DECAY = 0.98;

// Losses thinned to what can be seen: of each stretch its mean.
function thinnedCurve(losses) {
  const each = Math.max(1, Math.ceil(losses.length / CURVE_POINTS));
  const xs = [];
  const ys = [];
  for (let i = 0; i < losses.length; i += each) {
    const part = losses.slice(i, i + each);
    xs.push(i + (part.length - 1) / 2);
    ys.push(part.reduce((a, b) => a + b, 0) / part.length);
  }
  return {xs, ys};
}

// Their exponential moving average, unbiased.
function movingAverage(losses) {
  const each = Math.max(1, Math.ceil(losses.length / CURVE_POINTS));
  const xs = [];
  const ys = [];
  let sum = 0;
  let weight = 0;
  losses.forEach((v, i) => {
    sum = MEAN_DECAY * sum + (1 - MEAN_DECAY) * v;
    weight = MEAN_DECAY * weight + 1 - MEAN_DECAY;
    if (i % each === 0 || i === losses.length - 1) {
      xs.push(i);
      ys.push(sum / weight);
    }
  });
  return {xs, ys};
}

export class GptLossPanel {
  constructor() {
    this.canvas = pictureCanvas("t-chart t-tall", "loss");
    this.element = panel(
      "Loss",
      "Pale: each name's. Strong: their moving mean. A guess without knowledge costs log 27 = 3.3.",
      this.canvas,
    );
  }

  // Returns the mean at the last step, null before the first.
  draw(losses) {
    const {accent} = chartColours();
    const average = movingAverage(losses);
    const mean = average.ys.at(-1) ?? null;
    const label = mean === null ? null : short(mean, 3);
    lineChart(this.canvas, {
      empty: "The curve begins with the first step.",
      series: [
        {...thinnedCurve(losses), colour: accent, width: 1, alpha: 0.28},
        {...average, colour: accent, width: 2.5, label},
      ],
    });
    setLabel(
      this.canvas,
      mean === null
        ? "Loss: no step yet."
        : `Loss over ${losses.length} steps: first ${short(losses[0], 4)}, ` +
            `mean of the last ones ${short(mean, 4)}.`,
    );
    return mean;
  }
}

export class ParameterNormsPanel {
  constructor() {
    this.names = [];
    this.canvas = pictureCanvas("t-chart", "gradient norms");
    this.element = panel(
      "Gradient by layer",
      "The norm of each parameter's gradient, from the embedding to the head.",
      this.canvas,
    );
  }

  showTensors(tensors) {
    this.names = tensors.filter((t) => t.gradient).map((t) => shortName(t.name));
  }

  // `history` {steps, norms: for each step that of each parameter}.
  draw(history) {
    const {contrast, accent, good, ink} = chartColours();
    const colours = [contrast, accent, good, ink]; // embedding, attention, mlp, head
    const steps = history?.steps ?? [];
    const lines = this.names.map((label, i) => ({
      xs: steps,
      ys: smoothedNorms((history?.norms ?? []).map((n) => n[i])),
      colour: colours[Math.floor(i / 2) % colours.length],
      dash: i % 2 ? [5, 3] : [],
      label,
      width: 1.5,
    }));
    lineChart(this.canvas, {
      log: true,
      empty: "Gradients come with the first step.",
      series: steps.length < 2 ? [] : lines,
    });
    const last = history?.norms.at(-1) ?? [];
    const each = last.map((norm, i) => `${this.names[i]} ${short(norm, 2)}`);
    const text = steps.length ? each.join(", ") : "no step yet";
    setLabel(this.canvas, `Norm of each parameter's gradient: ${text}.`);
  }
}
