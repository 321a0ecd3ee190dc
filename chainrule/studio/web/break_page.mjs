// The page on which a rule is broken: which numbers go wrong, what training does, and a quiz.
import {brokenPass, lossFigure, SlipTraining} from "./break_training.mjs";
import {h} from "./dom.mjs";
import {short} from "./numbers.mjs";
import {Player} from "./player.mjs";
import {gradientErrors, SLIPS} from "./slips.mjs";

const WRONG = 1e-9;
const LEAD =
  "A small network, h = tanh(x @ W1 + b1), z = h @ W2 + b2, softmax and cross-entropy on six points. " +
  "Choose a slip in its backward pass and see which numbers go wrong.";
const QUIZ =
  "Red cards have a wrong gradient. Step through: where does the first wrong number come from?";

export function breakPage({trace, table, mistakes, params, onState}) {
  return new BreakPage(trace, table, mistakes, params, onState);
}

class BreakPage {
  constructor(trace, table, mistakes, params, onState) {
    Object.assign(this, {trace, mistakes, onState});
    this.parameters = trace.nodes.filter((n) => /^[Wb]\d$/.test(n.label));
    this.training = new SlipTraining(trace, table, this.parameters);
    this.build();
    this.choose(SLIPS.find((x) => x.key === params.slip) ?? null, params);
  }

  build() {
    const slipButton = (slip) =>
      h(
        "button",
        {"aria-pressed": "false", onclick: () => this.press(slip)},
        h("small", null, slip.key),
        ` ${this.title(slip)}`,
      );
    this.buttons = new Map(SLIPS.map((slip) => [slip.key, slipButton(slip)]));
    this.report = h("div", {class: "breakreport"});
    this.chart = h("figure", {class: "curve"});
    this.holder = h("div", {class: "playerplace"});
    this.quizPlace = h("div", {class: "quiz", "aria-live": "polite"});
    this.element = h(
      "div",
      {class: "page"},
      h("p", {class: "lead"}, LEAD),
      h(
        "div",
        {class: "slips", role: "group", "aria-label": "slips"},
        ...this.buttons.values(),
        h("button", {class: "primary", onclick: () => this.ask()}, "Quiz: which op is wrong?"),
      ),
      this.quizPlace,
      h("div", {class: "breakgrid"}, this.report, this.chart),
      this.holder,
    );
  }
  title(slip) {
    return (this.mistakes[slip.code]?.[0] ?? slip.code).replaceAll("`", "");
  }

  // --- One pass with the slip

  press(slip) {
    this.choose(this.slip === slip && !this.quiz ? null : slip);
  }
  choose(slip, params = {}) {
    this.slip = slip;
    this.quiz = false;
    this.quizPlace.replaceChildren();
    this.show(params);
    this.onState(this.state());
  }

  show(params) {
    const right = brokenPass(null, this.trace);
    const before = this.slip?.keeps
      ? new Map(this.parameters.map((p) => [p.id, right.gradients.get(p.id)]))
      : undefined;
    const wrong = brokenPass(this.slip, this.trace, before);
    this.errors = gradientErrors(wrong.gradients, right.gradients);
    const wrongMarks = new Set([...this.errors].filter(([, e]) => e > WRONG).map(([id]) => id));
    const brokenTrace = Object.create(this.trace);
    brokenTrace.sweeps = [wrong];
    this.player?.stop();
    this.player = new Player(brokenTrace, {
      params,
      wrongMarks,
      onState: () => this.onState(this.state()),
    });
    this.holder.replaceChildren(this.player.root);
    for (const [key, button] of this.buttons)
      button.setAttribute("aria-pressed", String(key === this.slip?.key && !this.quiz));
    this.report.replaceChildren(...this.findings(), this.errorTable());
    this.chart.replaceChildren(
      ...lossFigure(this.training.losses(null), this.slip && this.training.losses(this.slip)),
    );
  }

  findings() {
    if (this.slip && !this.quiz) return this.finding(this.slip);
    const title = this.quiz ? "Something is wrong in this backward pass" : "Nothing is wrong";
    return [
      h("h2", null, title),
      h("p", {class: "soft"}, this.quiz ? QUIZ : "Every gradient is the chain rule's."),
    ];
  }
  finding(slip) {
    return [
      h("p", {class: "kicker"}, `${slip.key}, as the verifier names it`),
      h("h2", null, this.title(slip)),
      h("p", null, `${this.mistakes[slip.code]?.[1] ?? ""}. At: ${slip.where}.`),
      h(
        "pre",
        {class: "diff", tabindex: 0},
        h("span", {class: "bad"}, `- ${slip.line}`),
        "\n",
        h("span", {class: "good"}, `+ ${slip.right}`),
      ),
    ];
  }
  errorTable() {
    const row = ({id, label}) => {
      const error = this.errors.get(id);
      const isWrong = error > WRONG;
      return h(
        "tr",
        null,
        h("td", null, label),
        h("td", {class: "num"}, isWrong ? `${short(100 * error, 3)} %` : "0"),
        h("td", {class: isWrong ? "bad" : "good"}, isWrong ? "✗ wrong" : "✓ right"),
      );
    };
    const head = (text, kind) => h("th", {scope: "col", class: kind}, text);
    return h(
      "table",
      {class: "sum"},
      h("tr", null, head("gradient of"), head("off by", "num"), head("verdict")),
      ...this.parameters.map(row),
    );
  }

  // --- The quiz

  ask() {
    const candidates = SLIPS.filter((x) => !x.keeps && x !== this.slip);
    this.slip = candidates[Math.floor(Math.random() * candidates.length)];
    this.quiz = true;
    this.show({step: "0"});
    this.onState(this.state());
    const places = [...new Set(SLIPS.filter((x) => !x.keeps).map((x) => x.where))];
    const answer = h("div");
    this.quizPlace.replaceChildren(
      h("p", null, "Which op has the wrong rule?"),
      h(
        "div",
        {class: "row"},
        ...places.map((place) =>
          h("button", {onclick: () => answer.replaceChildren(...this.answer(place))}, place),
        ),
        h(
          "button",
          {class: "link", onclick: () => answer.replaceChildren(...this.finding(this.slip))},
          "Show the answer",
        ),
      ),
      answer,
    );
  }
  answer(place) {
    if (place === this.slip.where)
      return [h("p", {class: "good"}, "✓ Yes."), ...this.finding(this.slip)];
    return [
      h(
        "p",
        {class: "bad"},
        `✗ No: ${place} is right. Look at the red card that is nearest the loss.`,
      ),
    ];
  }

  state() {
    return {...(this.slip && !this.quiz ? {slip: this.slip.key} : {}), ...this.player?.state()};
  }
  start() {
    this.player.start();
  }
  stop() {
    this.player.stop();
  }
  close() {
    this.stop();
  }
}
