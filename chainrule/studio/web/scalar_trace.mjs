// A typed expression as a trace, and its value alone.
import {scalarArray, Tape} from "./tape.mjs";

// `values` are the inputs' numbers by name.
export function traceOfExpression(table, statements, values, title = "expression") {
  const tape = new Tape(table);
  const named = new Map();
  const build = (tree) => {
    if (tree.kind === "number")
      return tape.leaf("constant", String(tree.value), scalarArray(tree.value));
    if (tree.kind === "call") return tape.apply(tree.name, tree.xs.map(build));
    if (!named.has(tree.name))
      named.set(tree.name, tape.leaf("input", tree.name, scalarArray(values[tree.name] ?? 1)));
    return named.get(tree.name);
  };
  let result = 0;
  for (const {name, tree} of statements) {
    result = build(tree);
    if (!name) continue;
    named.set(name, result);
    if (tape.nodes[result].kind === "op") tape.nodes[result].label = name;
  }
  return tape.finish(result, title);
}

// The value of the program, for finite differences.
export function valueOfExpression(table, statements, values) {
  const named = new Map(Object.entries(values));
  const value = (tree) =>
    tree.kind === "number"
      ? tree.value
      : tree.kind === "name"
        ? (named.get(tree.name) ?? 1)
        : table.compute(tree.name, tree.xs.map(value)).y;
  let last = 0;
  for (const {name, tree} of statements) {
    last = value(tree);
    if (name) named.set(name, last);
  }
  return last;
}
