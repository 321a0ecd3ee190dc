// Computes a trace's values again from other leaves: elementwise ops by the op table, products by
// their letters, what moves or adds up elements by where each goes.
import {ravel, ravelFrom, sizeOf, unravel} from "./arrays.mjs";
import {letterSizes, NO_FACTOR} from "./terms.mjs";
import {Trace} from "./trace.mjs";

// How each op node computes; null where one cannot be computed here.
export function replayPlan(trace, sweep, table) {
  const local = new Map();
  for (const m of sweep.messages) local.set(m.node, m.local);
  const plan = trace.nodes
    .filter((n) => n.kind === "op")
    .map((n) => {
      if (table.functions[n.op]) return {node: n, form: "factor"};
      const form = local.get(n.id);
      return form &&
        ["product", "gather", "scatter"].includes(form.form) &&
        !form.letters?.includes(NO_FACTOR)
        ? {node: n, form: form.form, local: form}
        : null;
    });
  return plan.includes(null) ? null : plan;
}

// Values of all nodes by number, given those of the leaves in `values` (a Map; others as recorded).
export function replayValues(trace, plan, table, values) {
  const now = trace.nodes.map((n) => values.get(n.id) ?? (n.kind === "op" ? null : n.value));
  for (const {node, form, local} of plan) {
    const inputs = node.inputs.map((i) => now[i]);
    now[node.id] = {
      dtype: "float64",
      shape: node.shape,
      data: COMPUTED[form](node, inputs, local, table),
    };
  }
  return now;
}

const COMPUTED = {
  factor(node, inputs, _, table) {
    const out = new Float64Array(sizeOf(node.shape));
    for (let j = 0; j < out.length; j++) {
      const at = unravel(j, node.shape);
      out[j] = table.compute(
        node.op,
        inputs.map((x) => x.data[ravelFrom(at, x.shape)]),
      ).y;
    }
    return out;
  },
  gather: (node, [x], {source, coefficients}) =>
    Float64Array.from(source.data, (i, j) => coefficients.data[j] * x.data[i]),
  scatter(node, [x], {target, coefficients}) {
    const out = new Float64Array(sizeOf(node.shape));
    x.data.forEach((v, i) => {
      out[target.data[i]] += coefficients.data[i] * v;
    });
    return out;
  },
  product(node, inputs, {letters, out: named}) {
    const sizes = letterSizes(
      letters,
      inputs.map((x) => x.shape),
    );
    const order = Object.keys(sizes);
    const shape = order.map((c) => sizes[c]);
    const out = new Float64Array(sizeOf(node.shape));
    for (let f = 0; f < sizeOf(shape); f++) {
      const at = unravel(f, shape);
      const where = (term, x) =>
        ravel(
          [...term].map((c) => at[order.indexOf(c)]),
          x,
        );
      out[where(named, node.shape)] += letters.reduce(
        (p, term, k) => p * inputs[k].data[where(term, inputs[k].shape)],
        1,
      );
    }
    return out;
  },
};

// The trace with these values: local derivatives of elementwise ops are computed anew.
export function traceWithValues(trace, sweep, table, now) {
  const local = (m) => {
    if (m.local.form !== "factor") return m.local;
    const node = trace.nodes[m.node];
    const xs = node.inputs.map((i) => now[i]);
    const data = new Float64Array(sizeOf(node.shape));
    for (let j = 0; j < data.length; j++) {
      const at = unravel(j, node.shape);
      data[j] = table.compute(
        node.op,
        xs.map((x) => x.data[ravelFrom(at, x.shape)]),
      ).partials[m.place];
    }
    return {...m.local, values: {dtype: "float64", shape: node.shape, data}};
  };
  return new Trace({
    name: trace.name,
    nodes: trace.nodes.map((n) => ({...n, value: now[n.id]})),
    sweeps: [
      {
        result: sweep.result,
        seed: sweep.seed,
        gradients: {},
        messages: sweep.messages.map((m) => ({...m, local: local(m)})),
      },
    ],
  });
}
