// A language of expressions: `h = tanh(w*x + b); y = h**2`. The last statement is the result.
//
//   program    := statement ((";" | newline) statement)*
//   statement  := [name "="] sum
//   sum        := product (("+" | "-") product)*
//   product    := unary (("*" | "/") unary | unary that begins with a name or "(" after a number)*
//   unary      := "-" unary | power
//   power      := atom ["**" unary]
//   atom       := number | name | name "(" sum ("," sum)* ")" | "(" sum ")"
//
// Errors are sentences with the place: {message, at}.
import {countOf} from "./numbers.mjs";

const TOKEN =
  /[^\S\n]*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/(),=;^]|\n))/y;
const MOST_CHARACTERS = 4000;
const MOST_DEPTH = 120;

export class ExpressionError extends Error {
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}

function tokensOf(text) {
  if (text.length > MOST_CHARACTERS)
    throw new ExpressionError(
      `This is ${text.length} characters long; ${MOST_CHARACTERS} are the most.`,
      0,
    );
  const tokens = [];
  TOKEN.lastIndex = 0;
  const source = text
    .replace(/−/g, "-")
    .replace(/[·×]/g, "*")
    .replace(/[ \t\r]+/g, (s) => " ".repeat(s.length));
  while (TOKEN.lastIndex < source.length) {
    const from = TOKEN.lastIndex;
    const found = TOKEN.exec(source);
    if (!found) {
      if (!source.slice(from).trim()) break;
      const at = from + source.slice(from).search(/\S/);
      throw new ExpressionError(`I cannot read "${source[at]}" here.`, at);
    }
    const [, number, name, sign] = found;
    tokens.push({
      kind: number ? "number" : name ? "name" : "sign",
      text: number ?? name ?? sign,
      at: TOKEN.lastIndex - (number ?? name ?? sign).length,
    });
  }
  tokens.push({kind: "end", text: "", at: source.length});
  return tokens;
}

// [{name, tree}], where a tree is {kind: "number" | "name" | "call", …}; `known(name)` gives the
// {arguments} of a function or null.
export function parseExpression(text, functionNamed) {
  return new Parser(tokensOf(text), functionNamed).program();
}

class Parser {
  constructor(tokens, functionNamed) {
    Object.assign(this, {tokens, functionNamed, i: 0, depth: 0});
  }
  get now() {
    return this.tokens[this.i];
  }
  is(...signs) {
    return this.now.kind === "sign" && signs.includes(this.now.text);
  }
  take() {
    return this.tokens[this.i++];
  }
  fail(message, at = this.now.at) {
    throw new ExpressionError(message, at);
  }

  program() {
    const statements = [];
    for (;;) {
      while (this.is(";", "\n")) this.take();
      if (this.now.kind === "end") break;
      statements.push(this.statement());
      if (!this.is(";", "\n") && this.now.kind !== "end") this.failAtToken();
    }
    if (!statements.length) this.fail("Type an expression, such as relu(a*b + d).", 0);
    return statements;
  }
  failAtToken() {
    const {text} = this.now;
    if (text === "^") this.fail("A power is written ** here, as in Python: x**2.");
    if (text === "=") this.fail("Only a name can stand before =.");
    if (text === ")") this.fail("This ) closes nothing.");
    this.fail(text ? `"${text}" is out of place here.` : "The expression ends too early.");
  }
  statement() {
    if (this.now.kind === "name" && this.tokens[this.i + 1].text === "=") {
      const {text: name, at} = this.take();
      if (this.functionNamed(name))
        this.fail(`${name} is a function of the op table and cannot be assigned to.`, at);
      this.take();
      return {name, tree: this.sum()};
    }
    return {name: "", tree: this.sum()};
  }
  deeper(parse) {
    if (++this.depth > MOST_DEPTH) this.fail(`This is nested more than ${MOST_DEPTH} deep.`);
    const tree = parse();
    this.depth--;
    return tree;
  }
  call(name, xs, at) {
    return {kind: "call", name, xs, at};
  }
  sum() {
    return this.deeper(() => {
      let tree = this.product();
      while (this.is("+", "-")) {
        const {text, at} = this.take();
        tree = this.call(text === "+" ? "add" : "sub", [tree, this.product()], at);
      }
      return tree;
    });
  }
  product() {
    let tree = this.unary();
    for (;;) {
      if (this.is("*", "/")) {
        const {text, at} = this.take();
        tree = this.call(text === "*" ? "mul" : "div", [tree, this.unary()], at);
      } else if (tree.kind === "number" && (this.now.kind === "name" || this.is("(")))
        tree = this.call("mul", [tree, this.power()], this.now.at);
      else return tree;
    }
  }
  unary() {
    if (!this.is("-", "+")) return this.power();
    const {text, at} = this.take();
    const inner = this.deeper(() => this.unary());
    if (text === "+") return inner;
    return inner.kind === "number"
      ? {...inner, value: -inner.value}
      : this.call("neg", [inner], at);
  }
  power() {
    const base = this.atom();
    if (!this.is("**")) return base;
    const {at} = this.take();
    const exponent = this.deeper(() => this.unary());
    return exponent.kind === "number" && exponent.value === 2
      ? this.call("square", [base], at)
      : this.call("pow", [base, exponent], at);
  }
  atom() {
    const token = this.now;
    if (token.kind === "number") {
      this.take();
      const value = Number(token.text);
      if (!Number.isFinite(value)) this.fail(`${token.text} is too large for a number.`, token.at);
      return {kind: "number", value, at: token.at};
    }
    if (this.is("(")) {
      this.take();
      const tree = this.sum();
      if (!this.is(")"))
        this.now.kind === "end" ? this.fail("A ) is missing.") : this.failAtToken();
      this.take();
      return tree;
    }
    if (token.kind !== "name") this.failAtToken();
    this.take();
    return this.is("(") ? this.application(token) : this.variable(token);
  }
  variable({text, at}) {
    if (this.functionNamed(text)) this.fail(`${text} is a function: write ${text}(x).`, at);
    return {kind: "name", name: text, at};
  }
  application({text, at}) {
    const entry = this.functionNamed(text);
    if (!entry) this.fail(`There is no function ${text} in the op table.`, at);
    this.take();
    const xs = [this.sum()];
    while (this.is(",")) {
      this.take();
      xs.push(this.sum());
    }
    if (!this.is(")")) this.now.kind === "end" ? this.fail("A ) is missing.") : this.failAtToken();
    this.take();
    if (xs.length !== entry.arguments)
      this.fail(
        `${text} takes ${countOf(entry.arguments, "number", "numbers")}, not ${xs.length}.`,
        at,
      );
    return this.call(entry.name, xs, at);
  }
}

// The names that are read before they are assigned, in order.
export function inputNames(statements) {
  const assigned = new Set();
  const found = [];
  const visit = (tree) => {
    if (tree.kind === "name" && !assigned.has(tree.name) && !found.includes(tree.name))
      found.push(tree.name);
    if (tree.kind === "call") tree.xs.forEach(visit);
  };
  for (const {name, tree} of statements) {
    visit(tree);
    if (name) assigned.add(name);
  }
  return found;
}
