// What a slip does to training: the losses of a few steps of SGD, computed in the page, and their curve.
import {h, s} from "./dom.mjs";
import {short} from "./numbers.mjs";
import {replayPlan, replayValues, traceWithValues} from "./replay.mjs";
import {slipRules} from "./slips.mjs";
import {pullThrough} from "./terms.mjs";
import {rightOrder, walkAgain} from "./walk.mjs";

const STEPS = 60;
const RATE = 0.5;

// A backward pass of `trace` with a slip, or with none; `before` are gradients that were not reset.
export function brokenPass(slip, trace, before = undefined) {
  const sweep = trace.sweeps.at(-1);
  const pull = (m, g) => pullThrough(trace, m, g);
  return walkAgain(trace, sweep, rightOrder(sweep), slipRules(slip, trace, sweep, pull, before));
}

export class SlipTraining {
  constructor(trace, table, parameters) {
    Object.assign(this, {trace, table, parameters});
    this.sweep = trace.sweeps.at(-1);
    this.plan = replayPlan(trace, this.sweep, table);
    this.lossesBySlip = new Map();
  }
  losses(slip) {
    const key = slip?.key ?? "";
    if (!this.lossesBySlip.has(key)) this.lossesBySlip.set(key, this.train(slip));
    return this.lossesBySlip.get(key);
  }

  train(slip) {
    const values = new Map(this.parameters.map((p) => [p.id, p.value]));
    const losses = [];
    let lastGradients;
    for (let step = 0; step < STEPS; step++) {
      const now = replayValues(this.trace, this.plan, this.table, values);
      losses.push(now[this.sweep.result].data[0]);
      if (!Number.isFinite(losses.at(-1))) break;
      const traceNow = traceWithValues(this.trace, this.sweep, this.table, now);
      const {gradients} = brokenPass(slip, traceNow, slip?.keeps ? lastGradients : undefined);
      lastGradients = new Map(
        this.parameters.map((p) => [p.id, gradients.get(p.id)]).filter(([, g]) => g),
      );
      for (const [id, g] of lastGradients) {
        const old = values.get(id);
        values.set(id, {...old, data: old.data.map((x, i) => x - RATE * g.data[i])});
      }
    }
    return losses;
  }
}

// The parts of a figure: the curve of right training, and of training with a slip, or null.
export function lossFigure(right, wrong) {
  const [wide, tall, left, low] = [420, 170, 40, 26];
  const top = Math.min(6, Math.max(...right, ...(wrong ?? []).filter(Number.isFinite))) * 1.05;
  const x = (i) => left + ((wide - left - 8) * i) / (STEPS - 1);
  const y = (v) => 8 + (tall - low - 8) * (1 - Math.min(Number.isFinite(v) ? v : top, top) / top);
  const path = (losses) =>
    losses.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  const line = (losses, kind) => losses && s("path", {class: `losscurve ${kind}`, d: path(losses)});
  const tick = (v) =>
    s("text", {class: "tick", x: left - 6, y: y(v) + 4, "text-anchor": "end"}, short(v, 2));
  const end = (losses) =>
    Number.isFinite(losses.at(-1)) ? short(losses.at(-1), 3) : "not a number";
  const words = `loss over ${STEPS} steps of SGD ${RATE}: right ${end(right)}`;
  const swatch = (kind) => h("span", {class: `swatch ${kind}`});
  return [
    s(
      "svg",
      {
        viewBox: `0 0 ${wide} ${tall}`,
        role: "img",
        "aria-label": `${words}${wrong ? `, with the slip ${end(wrong)}` : ""}`,
      },
      s("path", {class: "axis", d: `M${left} 8V${tall - low}H${wide - 8}`}),
      ...[0, top / 2, top].map(tick),
      line(right, "right"),
      line(wrong, "wrong"),
    ),
    h(
      "figcaption",
      null,
      `Loss over ${STEPS} steps of training. `,
      h("span", {class: "key"}, swatch("right"), `right: ${end(right)}`),
      wrong && h("span", {class: "key"}, swatch("wrong"), `with the slip: ${end(wrong)}`),
    ),
  ];
}
