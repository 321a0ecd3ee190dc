// The slips that people make in a backward pass, each as a change of what one rule sends.
//
// `find(trace, sweep)` gives the messages that it changes; `sends(message, g, pull, trace)` what is
// sent instead (undefined: the right thing); `replaces` says that it overwrites what had come.
// `code` is the name by which the verifier reports it.
import {sizeOf} from "./arrays.mjs";

const node = (trace, label) => trace.nodes.find((n) => n.label === label).id;
const from = (label, to) => (trace, sweep) =>
  sweep.messages.filter(
    (m) => m.node === node(trace, label) && (to === undefined || m.target === node(trace, to)),
  );
const scaleArray = (array, factor) => ({...array, data: array.data.map((x, i) => x * factor(i))});
const times = (factor) => (m, g, pull) => scaleArray(pull(m, g), () => factor);
const valueOf = (trace, m) => trace.nodes[m.node].value.data;

// g @ W, both of arrays: (rows, n) @ (n, n).
function transposedProduct(m, g, pull, trace) {
  const w = trace.nodes[node(trace, "W2")].value;
  const [rows, n] = g.shape;
  const data = new Float64Array(rows * n);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < n; j++)
      for (let k = 0; k < n; k++) data[i * n + j] += g.data[i * n + k] * w.data[k * n + j];
  return {...g, data};
}
const firstRow = (m, g) => ({
  dtype: "float64",
  shape: [g.shape[1]],
  data: g.data.slice(0, g.shape[1]),
});
const staleSlope = (m, g, pull, trace) =>
  scaleArray(g, (i) => 1 - Math.max(0, valueOf(trace, m)[i]) ** 2);
const oneSidedSlope = (m, g, pull, trace) =>
  scaleArray(g, (i) => 1 - valueOf(trace, m)[i] * Math.abs(valueOf(trace, m)[i]));
const ofOnes = (m, g, pull) => pull(m, {...g, data: new Float64Array(g.data.length).fill(1)});

export const SLIPS = [
  {
    key: "V1",
    code: "transposed",
    where: "h @ W2",
    find: from("h @ W2", "h"),
    sends: transposedProduct,
    line: "h_bar = g @ W2",
    right: "h_bar = g @ W2.T",
  },
  {
    key: "V2",
    code: "factor",
    where: "loss",
    find: from("loss"),
    sends: (m, g) => g,
    line: "s_bar = g",
    right: "s_bar = g / B",
  },
  {
    key: "V3",
    code: "overwritten",
    where: "z",
    find: from("e", "z"),
    replaces: true,
    line: "z_bar = g * e",
    right: "z_bar += g * e",
  },
  {
    key: "V4",
    code: "sign",
    where: "h",
    find: from("h"),
    sends: times(-1),
    line: "a_bar = -g * (1 - h**2)",
    right: "a_bar = g * (1 - h**2)",
  },
  {
    key: "V5",
    code: "missing_term",
    where: "total",
    find: from("score", "total"),
    sends: times(0),
    line: "z_bar = g",
    right: "z_bar = g - p * g.sum(-1)",
  },
  {
    key: "V6",
    code: "not_summed",
    where: "a",
    find: from("a", "b1"),
    sends: firstRow,
    line: "b1_bar = g[0]",
    right: "b1_bar = g.sum(0)",
  },
  {
    key: "V7",
    code: "stale",
    where: "h",
    find: from("h"),
    sends: staleSlope,
    line: "np.maximum(h, 0, out=h)  # h was saved",
    right: "h2 = np.maximum(h, 0)",
  },
  {
    key: "V8",
    code: "ignores_cotangent",
    where: "h",
    find: from("h"),
    sends: ofOnes,
    line: "a_bar = 1 - h**2",
    right: "a_bar = g * (1 - h**2)",
  },
  {
    key: "V9",
    code: "dropped",
    where: "z",
    find: from("z", "b2"),
    sends: times(0),
    line: "return g, None",
    right: "return g, g.sum(0)",
  },
  {
    key: "V10",
    code: "not_reset",
    where: "the training loop",
    find: () => [],
    keeps: true,
    line: "# p.grad = None is missing",
    right: "p.grad = None",
  },
  {
    key: "V11",
    code: "detached",
    where: "h @ W2",
    find: from("h @ W2", "h"),
    sends: times(0),
    line: "z = h.detach() @ W2 + b2",
    right: "z = h @ W2 + b2",
  },
  {
    key: "V12",
    code: "one_sided",
    where: "h",
    find: from("h"),
    sends: oneSidedSlope,
    line: "a_bar = g * (1 - h * abs(h))",
    right: "a_bar = g * (1 - h**2)",
  },
];

// The rules of a slip, or of none, for `walkAgain`.
export function slipRules(slip, trace, sweep, pull, before) {
  if (!slip) return {before};
  const affected = new Set(slip.find(trace, sweep).map((m) => `${m.node}.${m.place}`));
  const hits = (m) => affected.has(`${m.node}.${m.place}`);
  return {
    before,
    sends: (m, g) => (slip.sends && hits(m) ? slip.sends(m, g, pull, trace) : undefined),
    replaces: (m) => Boolean(slip.replaces) && hits(m),
  };
}

// How wrong each gradient is: the largest difference, as a part of the largest element.
export function gradientErrors(wrong, right) {
  const out = new Map();
  for (const [id, r] of right) {
    const w = wrong.get(id) ?? {data: new Float64Array(sizeOf(r.shape))};
    let [most, size] = [0, 0];
    r.data.forEach((x, i) => {
      most = Math.max(most, Math.abs(x - w.data[i]));
      size = Math.max(size, Math.abs(x));
    });
    out.set(id, most / (size || 1));
  }
  return out;
}
