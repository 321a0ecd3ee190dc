// The page on which a rule is broken: which numbers go wrong, what training does, and a quiz.
import {h, s} from "./dom.mjs";
import {short} from "./numbers.mjs";
import {Player} from "./player.mjs";
import {replayPlan, replayValues, retraced} from "./replay.mjs";
import {gradientErrors, SLIPS, slipRules} from "./slips.mjs";
import {pullThrough} from "./terms.mjs";
import {rightOrder, walkAgain} from "./walk.mjs";

const WRONG = 1e-9, STEPS = 60, RATE = 0.5;

export function breakPage({trace, table, mistakes, params, onState}) {
  return new BreakPage(trace, table, mistakes, params, onState);
}

class BreakPage {
  constructor(trace, table, mistakes, params, onState) {
    Object.assign(this, {trace, table, mistakes, onState});
    this.sweep = trace.sweeps.at(-1);
    this.plan = replayPlan(trace, this.sweep, table);
    this.parameters = trace.nodes.filter((n) => /^[Wb]\d$/.test(n.label));
    this.curves = new Map();
    this.build();
    this.choose(SLIPS.find((x) => x.key === params.slip) ?? null, params);
  }

  build() {
    this.buttons = new Map(SLIPS.map((slip) => [slip.key, h("button", {"aria-pressed": "false", onclick: () => this.choose(this.slip === slip && !this.quiz ? null : slip)}, h("small", null, slip.key), ` ${this.title(slip)}`)]));
    this.report = h("div", {class: "breakreport"});
    this.chart = h("figure", {class: "curve"});
    this.holder = h("div", {class: "playerplace"});
    this.quizPlace = h("div", {class: "quiz", "aria-live": "polite"});
    this.element = h("div", {class: "page"},
      h("p", {class: "lead"}, "A small network, h = tanh(x @ W1 + b1), z = h @ W2 + b2, softmax and cross-entropy on six points. Choose a slip in its backward pass and see which numbers go wrong."),
      h("div", {class: "slips", role: "group", "aria-label": "slips"}, ...this.buttons.values(), h("button", {class: "primary", onclick: () => this.ask()}, "Quiz: which op is wrong?")),
      this.quizPlace, h("div", {class: "breakgrid"}, this.report, this.chart), this.holder);
  }
  title(slip) { return (this.mistakes[slip.code]?.[0] ?? slip.code).replaceAll("`", ""); }

  // --- one pass with the slip

  broken(slip, trace = this.trace, before = undefined) {
    const sweep = trace.sweeps.at(-1);
    const pull = (m, g) => pullThrough(trace, m, g);
    return walkAgain(trace, sweep, rightOrder(sweep), slipRules(slip, trace, sweep, pull, before));
  }

  choose(slip, params = {}) {
    this.slip = slip;
    this.quiz = false;
    this.quizPlace.replaceChildren();
    this.play(params);
    this.describe();
    this.draw();
    this.onState(this.state());
  }

  play(params = {}) {
    const right = this.broken(null);
    const before = this.slip?.keeps ? new Map(this.parameters.map((p) => [p.id, right.gradients.get(p.id)])) : undefined;
    const wrong = this.broken(this.slip, this.trace, before);
    this.errors = gradientErrors(wrong.gradients, right.gradients);
    const marks = new Set([...this.errors].filter(([, e]) => e > WRONG).map(([id]) => id));
    const shown = Object.create(this.trace);
    shown.sweeps = [wrong];
    this.player?.stop();
    this.player = new Player(shown, {params, wrongMarks: marks, onState: () => this.onState(this.state())});
    this.holder.replaceChildren(this.player.root);
    for (const [key, button] of this.buttons) button.setAttribute("aria-pressed", String(key === this.slip?.key && !this.quiz));
  }

  describe() {
    const rows = this.parameters.map((p) => {
      const e = this.errors.get(p.id);
      return h("tr", null, h("td", null, p.label), h("td", {class: "num"}, e > WRONG ? short(100 * e, 3) + " %" : "0"), h("td", {class: e > WRONG ? "bad" : "good"}, e > WRONG ? "✗ wrong" : "✓ right"));
    });
    const table = h("table", {class: "sum"}, h("tr", null, h("th", {scope: "col"}, "gradient of"), h("th", {scope: "col", class: "num"}, "off by"), h("th", {scope: "col"}, "verdict")), ...rows);
    this.report.replaceChildren(...(this.slip && !this.quiz ? this.finding(this.slip) : [h("h2", null, this.quiz ? "Something is wrong in this backward pass" : "Nothing is wrong"), h("p", {class: "soft"}, this.quiz ? "Red cards have a wrong gradient. Step through: where does the first wrong number come from?" : "Every gradient is the chain rule's.")]), table);
  }
  finding(slip) {
    return [h("p", {class: "kicker"}, `${slip.key}, as the verifier names it`), h("h2", null, this.title(slip)), h("p", null, `${this.mistakes[slip.code]?.[1] ?? ""}. At: ${slip.where}.`),
      h("pre", {class: "diff", tabindex: 0}, h("span", {class: "bad"}, `- ${slip.line}`), "\n", h("span", {class: "good"}, `+ ${slip.right}`))];
  }

  // --- what training does

  curve(slip) {
    const key = slip?.key ?? "";
    if (!this.curves.has(key)) this.curves.set(key, this.train(slip));
    return this.curves.get(key);
  }
  train(slip) {
    const values = new Map(this.parameters.map((p) => [p.id, p.value]));
    const losses = [];
    let kept;
    for (let step = 0; step < STEPS; step++) {
      const now = replayValues(this.trace, this.plan, this.table, values);
      losses.push(now[this.sweep.result].data[0]);
      if (!Number.isFinite(losses.at(-1))) break;
      const {gradients} = this.broken(slip, retraced(this.trace, this.sweep, this.table, now), slip?.keeps ? kept : undefined);
      kept = new Map(this.parameters.map((p) => [p.id, gradients.get(p.id)]).filter(([, g]) => g));
      for (const [id, g] of kept) values.set(id, {...values.get(id), data: values.get(id).data.map((x, i) => x - RATE * g.data[i])});
    }
    return losses;
  }

  draw() {
    const right = this.curve(null);
    const wrong = this.slip ? this.curve(this.slip) : null;
    const [wide, tall, left, low] = [420, 170, 40, 26];
    const top = Math.min(6, Math.max(...right, ...(wrong ?? []).filter(Number.isFinite))) * 1.05;
    const x = (i) => left + (wide - left - 8) * i / (STEPS - 1);
    const y = (v) => 8 + (tall - low - 8) * (1 - Math.min(v, top) / top);
    const line = (losses, kind) => s("path", {class: `losscurve ${kind}`, d: losses.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(Number.isFinite(v) ? v : top).toFixed(1)}`).join("")});
    const ticks = [0, top / 2, top].map((v) => s("text", {class: "tick", x: left - 6, y: y(v) + 4, "text-anchor": "end"}, short(v, 2)));
    const end = (losses) => (Number.isFinite(losses.at(-1)) ? short(losses.at(-1), 3) : "not a number");
    const text = `loss over ${STEPS} steps of SGD ${RATE}: right ${end(right)}${wrong ? `, with the slip ${end(wrong)}` : ""}`;
    this.chart.replaceChildren(s("svg", {viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": text},
      s("path", {class: "axis", d: `M${left} 8V${tall - low}H${wide - 8}`}), ...ticks, line(right, "right"), wrong ? line(wrong, "wrong") : null),
      h("figcaption", null, h("span", {class: "swatch right"}), `right: ${end(right)} `, wrong ? h("span", {class: "swatch wrong"}) : null, wrong ? `with the slip: ${end(wrong)}` : `loss over ${STEPS} steps`));
  }

  // --- the quiz

  ask() {
    const candidates = SLIPS.filter((x) => !x.keeps && x !== this.slip);
    this.slip = candidates[Math.floor(Math.random() * candidates.length)];
    this.quiz = true;
    this.play({step: "0"});
    this.describe();
    this.draw();
    const places = [...new Set(SLIPS.filter((x) => !x.keeps).map((x) => x.where))];
    const answer = h("div");
    this.quizPlace.replaceChildren(h("p", null, "Which op has the wrong rule?"), h("div", {class: "row"}, ...places.map((place) => h("button", {onclick: () => {
      const right = place === this.slip.where;
      answer.replaceChildren(h("p", {class: right ? "good" : "bad"}, right ? "✓ Yes." : `✗ No: ${place} is right. Look at the red card that is nearest the loss.`), ...(right ? this.finding(this.slip) : []));
    }}, place)), h("button", {class: "link", onclick: () => answer.replaceChildren(...this.finding(this.slip))}, "Show the answer")), answer);
  }

  state() { return {...(this.slip && !this.quiz ? {slip: this.slip.key} : {}), ...this.player?.state()}; }
  start() { requestAnimationFrame(() => this.player.graph.resized()); }
  stop() { this.player.stop(); }
}
