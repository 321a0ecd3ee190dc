// A typed expression as a trace: evaluated by the op table, swept back by its partial derivatives.
import {Trace} from "./trace.mjs";
import {termProduct} from "./trace.mjs";

const scalarArray = (x) => ({dtype: "float64", shape: [], data: Float64Array.of(x)});

// `values` are the inputs' numbers by name.
export function traceOfExpression(table, statements, values, title = "expression") {
  const nodes = [];
  const named = new Map();
  const add = (node) => { nodes.push({label: "", line: "", module: "", formula: "", dtype: "float64", shape: [], inputs: [], ...node}); return nodes.length - 1; };
  const build = (tree) => {
    if (tree.kind === "number") return add({kind: "constant", op: "constant", label: String(tree.value), value: tree.value});
    if (tree.kind === "name") {
      if (!named.has(tree.name)) named.set(tree.name, add({kind: "input", op: "input", label: tree.name, value: values[tree.name] ?? 1}));
      return named.get(tree.name);
    }
    const inputs = tree.xs.map(build);
    const {y, partials} = table.compute(tree.name, inputs.map((i) => nodes[i].value));
    return add({kind: "op", op: tree.name, inputs, value: y, partials, formula: table.functions[tree.name].formula});
  };
  let result = 0;
  statements.forEach(({name, tree}) => {
    result = build(tree);
    if (name) { named.set(name, result); if (!nodes[result].label || nodes[result].kind === "op") nodes[result].label = name; }
  });
  return new Trace({name: title, nodes: nodes.map(({partials, value, ...n}) => ({...n, value: scalarArray(value)})), sweeps: [sweepOf(table, nodes, result)]});
}

// As the engine does: the latest node first, each after all that use it.
function sweepOf(table, nodes, result) {
  const gradients = new Map([[result, 1]]);
  const messages = [];
  for (let id = result; id >= 0; id--) {
    const node = nodes[id];
    if (node.kind !== "op" || !gradients.has(id)) continue;
    const g = gradients.get(id);
    const {rules, strong} = table.functions[node.op];
    node.inputs.forEach((target, place) => {
      if (nodes[target].kind === "constant") return;
      const d = node.partials[place];
      const part = strong ? termProduct({upstream: g, local: d}) : g * d;
      gradients.set(target, gradients.has(target) ? gradients.get(target) + part : part);
      messages.push({node: id, place, target, local: {form: "factor", values: scalarArray(d), rule: rules[place], strong}, contribution: scalarArray(part)});
    });
  }
  return {result, seed: scalarArray(1), messages, gradients: Object.fromEntries([...gradients].map(([id, g]) => [id, scalarArray(g)]))};
}

// The value of the program alone, for finite differences.
export function valueOfExpression(table, statements, values) {
  const named = new Map(Object.entries(values));
  const value = (tree) => (tree.kind === "number" ? tree.value : tree.kind === "name" ? named.get(tree.name) ?? 1 : table.compute(tree.name, tree.xs.map(value)).y);
  let last = 0;
  for (const {name, tree} of statements) { last = value(tree); if (name) named.set(name, last); }
  return last;
}
