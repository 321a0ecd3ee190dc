// Builds a trace in the page: ops are computed and noted, then the sweep is made by their derivatives.
import {addArrays, ravelFrom, sizeOf, unravel} from "./arrays.mjs";
import {pullThrough} from "./terms.mjs";
import {Trace} from "./trace.mjs";

export const scalarArray = (x) => ({dtype: "float64", shape: [], data: Float64Array.of(x)});
export const arrayOf = (data, shape) => ({dtype: "float64", shape, data: Float64Array.from(data)});

export class Tape {
  constructor(table) {
    this.table = table;
    this.nodes = [];
    this.locals = new Map(); // by node, its local derivatives by place
  }
  value(id) {
    return this.nodes[id].value;
  }

  add(node) {
    const plain = {label: "", line: "", module: "", formula: "", dtype: "float64", inputs: []};
    this.nodes.push({...plain, ...node, shape: node.value.shape});
    return this.nodes.length - 1;
  }
  leaf(kind, label, value, module = "") {
    return this.add({kind, op: kind, label, value, module});
  }

  // An elementwise op of the table; inputs broadcast.
  apply(op, inputs, label = "", module = "") {
    const {formula, rules, strong} = this.table.functions[op];
    const xs = inputs.map((i) => this.value(i));
    const shape = broadcastShape(xs.map((x) => x.shape));
    const y = new Float64Array(sizeOf(shape));
    const partials = inputs.map(() => new Float64Array(y.length));
    for (let j = 0; j < y.length; j++) {
      const at = unravel(j, shape);
      const got = this.table.compute(
        op,
        xs.map((x) => x.data[ravelFrom(at, x.shape)]),
      );
      y[j] = got.y;
      got.partials.forEach((d, k) => {
        partials[k][j] = d;
      });
    }
    const id = this.add({kind: "op", op, inputs, label, module, formula, value: arrayOf(y, shape)});
    const factor = (d, k) => ({form: "factor", values: arrayOf(d, shape), rule: rules[k], strong});
    this.locals.set(id, partials.map(factor));
    return id;
  }

  // a (n, k) @ b (k, m) or b (k)
  matmul(a, b, label = "", module = "") {
    const [x, w] = [this.value(a), this.value(b)];
    const [n, k] = x.shape;
    const m = w.shape[1] ?? 1;
    const y = new Float64Array(n * m);
    for (let i = 0; i < n; i++)
      for (let j = 0; j < m; j++)
        for (let l = 0; l < k; l++) y[i * m + j] += x.data[i * k + l] * w.data[l * m + j];
    const vector = w.shape.length === 1;
    const value = arrayOf(y, vector ? [n] : [n, m]);
    const id = this.add({
      kind: "op",
      op: "matmul",
      inputs: [a, b],
      label,
      module,
      formula: "a @ b",
      value,
    });
    const form = {form: "product", letters: ["ab", vector ? "b" : "bc"], out: vector ? "a" : "ac"};
    this.locals.set(id, [
      {...form, place: 0, rule: "g @ bᵀ"},
      {...form, place: 1, rule: "aᵀ @ g"},
    ]);
    return id;
  }

  // The mean of all elements.
  mean(a, label = "", module = "") {
    const x = this.value(a);
    const n = x.data.length;
    const value = scalarArray(x.data.reduce((s, v) => s + v, 0) / n);
    const id = this.add({
      kind: "op",
      op: "mean",
      inputs: [a],
      label,
      module,
      formula: "mean(x)",
      value,
    });
    const target = {shape: [n], data: new Int32Array(n)};
    const coefficients = arrayOf(new Float64Array(n).fill(1 / n), [n]);
    this.locals.set(id, [{form: "scatter", target, coefficients, rule: `1 / ${n}`}]);
    return id;
  }

  // The trace, swept back from `result` as the engine does: the latest node first.
  finish(result, name) {
    const bare = new Trace({name, nodes: this.nodes, sweeps: []});
    const needs = this.nodes.map((n) => n.kind === "input" || n.kind === "parameter");
    this.nodes.forEach((n, id) => {
      if (n.kind === "op") needs[id] = n.inputs.some((i) => needs[i]);
    });
    const one = this.value(result);
    const seed = {...one, data: new Float64Array(one.data.length).fill(1)};
    const gradients = new Map([[result, seed]]);
    const messages = [];
    for (let id = result; id >= 0; id--) {
      if (!this.locals.has(id) || !gradients.has(id)) continue;
      this.nodes[id].inputs.forEach((target, place) => {
        if (!needs[target]) return;
        const m = {node: id, place, target, local: this.locals.get(id)[place]};
        m.contribution = pullThrough(bare, m, gradients.get(id));
        const before = gradients.get(target);
        gradients.set(target, before ? addArrays(before, m.contribution) : m.contribution);
        messages.push(m);
      });
    }
    const sweep = {result, seed, messages, gradients: Object.fromEntries(gradients)};
    return new Trace({name, nodes: this.nodes, sweeps: [sweep]});
  }
}

function broadcastShape(shapes) {
  const most = Math.max(0, ...shapes.map((s) => s.length));
  return Array.from({length: most}, (_, k) =>
    shapes.reduce((n, s) => {
      const own = s[k - most + s.length] ?? 1;
      return own === 1 ? n : own;
    }, 1),
  );
}
