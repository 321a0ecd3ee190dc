// The page on which an expression is typed, its inputs are dragged, and its backward pass is played.
import {h} from "./dom.mjs";
import {ExpressionError, inputNames, parseExpression} from "./expression.mjs";
import {pythonOf} from "./expression_python.mjs";
import {ruleWithNames} from "./explain.mjs";
import {InputTable, NUDGE} from "./input_table.mjs";
import {short} from "./numbers.mjs";
import {Player} from "./player.mjs";
import {traceOfExpression, valueOfExpression} from "./scalar_trace.mjs";

const EXAMPLES = [
  ["one path", "f = relu(a*b + d)", {a: 2, b: -3, d: 10}],
  ["two paths", "d = a*b + a", {a: 2, b: 3}],
  ["a square", "y = (3x + 1)**2", {x: 1}],
  ["a neuron", "h = tanh(x1*w1 + x2*w2 + b)", {x1: 2, x2: 0, w1: -3, w2: 1, b: 6.881}],
  ["three sigmoids", "h1 = sigmoid(w*x); h2 = sigmoid(w*h1); y = sigmoid(w*h2)", {w: 1, x: 2}],
  ["a loss", "p = sigmoid(w*x + b); loss = -ln(p)", {w: 0.5, x: 2, b: -0.25}],
];

export function expressionPage({table, params, onState}) {
  return new ExpressionPage(table, params, onState);
}

class ExpressionPage {
  constructor(table, params, onState) {
    Object.assign(this, {table, onState});
    this.signs = Object.fromEntries(
      Object.entries(table.functions)
        .filter(([, f]) => f.sign)
        .map(([name, f]) => [name, f.sign]),
    );
    this.values = Object.create(null);
    for (const [name, text] of Object.entries(params)) {
      const x = Number(text);
      if (name.startsWith("v.") && Number.isFinite(x)) this.values[name.slice(2)] = x;
    }
    this.build();
    const [, text, values] = EXAMPLES[0];
    this.read(params.e ?? text, params, params.e ? {} : values);
    if (!this.player) this.beginAgain(params.e, text, values);
  }

  build() {
    this.field = h("textarea", {
      rows: 1,
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      "aria-label": "expression",
      class: "expression",
      oninput: () => this.read(this.field.value),
    });
    this.problem = h("p", {class: "problem bad", role: "alert"});
    this.inputs = new InputTable((name, x) => this.changeValue(name, x));
    this.why = h("div", {class: "why"});
    this.holder = h("div", {class: "playerplace"});
    this.python = h("pre", {tabindex: 0});
    const copy = h(
      "button",
      {onclick: () => navigator.clipboard?.writeText(this.python.textContent)},
      "Copy",
    );
    const functions = Object.entries(this.table.functions)
      .filter(([, f]) => !f.sign)
      .map(([name]) => name)
      .sort();
    this.element = h(
      "div",
      {class: "page"},
      h(
        "div",
        {class: "examples row"},
        h("span", {class: "soft"}, "Type an expression, or take"),
        ...EXAMPLES.map(([title, text, values]) =>
          h("button", {onclick: () => this.take(text, values)}, title),
        ),
      ),
      h("div", null, this.field, this.problem),
      this.inputs.element,
      this.why,
      this.holder,
      h("details", null, h("summary", null, "Show me the Python"), this.python, copy),
      h(
        "details",
        null,
        h("summary", null, `The ${functions.length} functions`),
        h("p", {class: "functions"}, functions.join("  ")),
        h(
          "p",
          {class: "soft"},
          "Operators + − * / **, numbers, names; several lines or ; for several statements; " +
            "the last one is differentiated.",
        ),
      ),
    );
  }

  // An address that cannot be read: the first example is shown, and what is wrong with the text.
  beginAgain(unread, text, values) {
    this.take(text, values);
    this.read(unread);
  }
  take(text, values) {
    this.values = Object.assign(Object.create(null), values);
    this.field.value = text;
    this.read(text, {fresh: true});
  }

  read(text, params = {}, values = {}) {
    if (this.field.value !== text) this.field.value = text;
    this.field.rows = Math.min(8, text.split("\n").length);
    let statements;
    try {
      statements = parseExpression(text, (name) => {
        const found = this.table.named(name);
        return found && {name: found, arguments: this.table.functions[found].arguments};
      });
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      return this.complain(error.message, error.at);
    }
    this.complain("");
    this.statements = statements;
    this.names = inputNames(statements);
    this.names.forEach((name, i) => {
      this.values[name] ??= values[name] ?? [2, -3, 10, 1, 0.5][i % 5];
    });
    this.inputs.showInputs(this.names, this.values);
    this.showTrace(params);
  }

  complain(message, at) {
    this.problem.textContent = message;
    this.field.setAttribute("aria-invalid", String(Boolean(message)));
    if (message && at !== undefined && at < this.field.value.length)
      this.problem.append(
        h(
          "code",
          null,
          `${this.field.value.slice(Math.max(0, at - 12), at)}▸${this.field.value.slice(at, at + 12)}`,
        ),
      );
  }

  showTrace(params) {
    const trace = traceOfExpression(
      this.table,
      this.statements,
      this.values,
      this.field.value.trim(),
    );
    if (this.player && !params.step && !params.fresh) this.player.reload(trace);
    else {
      this.player?.stop();
      this.player = new Player(trace, {params, onState: () => this.reportState()});
      this.holder.replaceChildren(this.player.root);
    }
    this.showNumbers(trace);
    this.reportState();
  }

  // --- inputs, their gradients, and what a nudge does

  changeValue(name, x) {
    if (!Number.isFinite(x))
      return this.complain(
        `The value of ${name} is no number; the last one, ${short(this.values[name])}, still holds.`,
      );
    this.complain("");
    this.values[name] = x;
    this.showTrace({});
  }

  showNumbers(trace) {
    const {show} = this.player;
    const [sweep] = trace.sweeps;
    const y = trace.nodes[sweep.result].value.data[0];
    for (const input of this.inputs.inputs) {
      const {name} = input;
      const id = trace.nodes.findIndex((n) => n.kind === "input" && n.label === name);
      const g = sweep.gradients.get(id)?.data[0];
      const values = {...this.values, [name]: this.values[name] + NUDGE};
      const nudgedResult = valueOfExpression(this.table, this.statements, values);
      const slope = short((nudgedResult - y) / NUDGE, 5);
      input.show(
        g === undefined ? "none" : show(g),
        `${short(y, 6)} → ${short(nudgedResult, 6)}, slope ${slope}`,
      );
    }
    this.why.replaceChildren(
      ...stopsOfGradient(trace, sweep).map((text) => h("p", {class: "note"}, text)),
    );
    this.python.textContent = pythonOf(
      this.statements,
      this.names.map((n) => [n, this.values[n]]),
      this.signs,
    );
  }

  // --- the state in the address

  state() {
    const values = Object.fromEntries(this.names.map((n) => [`v.${n}`, String(this.values[n])]));
    return {e: this.field.value, ...values, ...this.player.state()};
  }
  reportState() {
    if (!this.player) return;
    if (this.shownDigits !== this.player.digits) {
      this.shownDigits = this.player.digits;
      this.showNumbers(this.player.trace);
    }
    this.onState(this.state());
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

// Where the gradient stops, and why.
function stopsOfGradient(trace, sweep) {
  const stops = (m) => m.local.values.data[0] === 0 && sweep.gradients.get(m.node).data[0] !== 0;
  return sweep.messages.filter(stops).map((m) => {
    const from = trace.nodes[m.node];
    const at = from.inputs.map((i) => short(trace.nodes[i].value.data[0])).join(" and ");
    const inputs = from.inputs.length > 1 ? "its inputs are" : "its input is";
    return (
      `${trace.nameOf(m.node)} passes nothing back to ${trace.nameOf(m.target)}: ` +
      `its local derivative, ${ruleWithNames(trace, m)}, is 0 where ${inputs} ${at}.`
    );
  });
}
