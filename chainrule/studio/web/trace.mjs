// A recorded run as objects: arrays decoded, messages in order, and what one element consists of.
//
// A trace has `nodes` (kind, op, inputs, label, shape, value, …) and `sweeps` of `messages`; see
// chainrule/traces/trace.py for the grammar. A value is {shape, data}, a summary, or null.
const STORED = {
  "<f8": Float64Array, "<f4": Float32Array, "<i4": Int32Array, "<i8": BigInt64Array, "|u1": Uint8Array,
};
export const TRACE_VERSION = 1;

export function decodeTrace(text) {
  let found;
  try {
    found = typeof text === "string" ? JSON.parse(text) : text;
  } catch {
    throw new Error("This is no trace: it is not JSON.");
  }
  if (found?.format !== "chainrule trace") throw new Error("This file holds no trace of chainrule.");
  if (found.version !== TRACE_VERSION)
    throw new Error(`This trace is of version ${found.version}; this page reads version ${TRACE_VERSION}. Record it again.`);
  try {
    return new Trace(found);
  } catch (error) {
    throw new Error(`This trace is damaged: ${error.message}`);
  }
}

function decodeArray({dtype, stored, shape, data}) {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  let numbers = new STORED[stored](bytes.buffer);
  if (stored === "<i8") numbers = Float64Array.from(numbers, Number);
  const complex = dtype.startsWith("complex");
  const count = shape.reduce((a, b) => a * b, 1) * (complex ? 2 : 1);
  if (numbers.length !== count) throw new Error(`an array of shape [${shape}] has ${numbers.length} numbers`);
  return {dtype, shape, data: numbers, complex};
}

export class Trace {
  constructor({name, nodes, sweeps, arrays = [], lines = {}}) {
    const table = arrays.map(decodeArray);
    const get = (x) => {
      if (typeof x !== "number") return x ?? null;  // a summary, or an array that is decoded already
      if (!table[x]) throw new Error(`array ${x} is missing`);
      return table[x];
    };
    this.name = name;
    this.lines = lines;
    this.nodes = nodes.map((n, id) => ({...n, id, value: get(n.value)}));
    this.sweeps = sweeps.map((s) => new Sweep(this, s, get));
    this.users = this.nodes.map(() => []);
    for (const node of this.nodes) {
      for (const i of new Set(node.inputs)) {
        if (!(i >= 0 && i < node.id)) throw new Error(`node ${node.id} reads node ${i}`);
        this.users[i].push(node.id);
      }
    }
  }
  // Its label; else what it computes, if that is short and says it; else its op and number.
  nameOf(id) {
    const node = this.nodes[id];
    if (node.label) return node.label;
    if (node.formula && node.inputs.length < 3 && node.inputs.every((i) => this.nodes[i].label)) {
      const names = node.inputs.map((i) => this.nodes[i].label);
      const text = node.formula.replace(/\b[xab]\b/g, (c) => (c === "b" ? names[1] : names[0]));
      if (text.length <= 16) return text;
    }
    return `${node.op} #${id}`;
  }
  // All nodes that `id` is computed from, or all that are computed from it.
  slice(id, forward) {
    const next = forward ? (i) => this.users[i] : (i) => this.nodes[i].inputs;
    const found = new Set([id]);
    const stack = [id];
    while (stack.length) for (const i of next(stack.pop())) if (!found.has(i)) { found.add(i); stack.push(i); }
    return found;
  }
}

class Sweep {
  constructor(trace, {result, seed, messages, gradients}, get) {
    this.trace = trace;
    this.result = result;
    this.seed = get(seed);
    const local = (x) => Object.fromEntries(Object.entries(x).map(([name, part]) =>
      [name, ["values", "source", "target", "coefficients", "rows", "columns"].includes(name) ? get(part) : part]));
    this.messages = messages.map((m, index) => {
      if (trace.nodes[m.node]?.inputs[m.place] !== m.target) throw new Error(`message ${index} goes nowhere`);
      return {...m, index, local: local(m.local), contribution: get(m.contribution)};
    });
    this.gradients = new Map(Object.entries(gradients).map(([id, g]) => [Number(id), get(g)]));
    this.arriving = new Map();
    for (const m of this.messages) this.arriving.set(m.target, [...(this.arriving.get(m.target) ?? []), m]);
  }
  // What has come to a node when `count` messages were sent: null before the first.
  running(id, count) {
    if (id === this.result && !this.arriving.has(id)) return this.seed ?? this.gradients.get(id);
    const come = (this.arriving.get(id) ?? []).filter((m) => m.index < count);
    if (come.length === 0) return id === this.result ? this.seed : null;
    if (come.length === this.arriving.get(id).length) return this.gradients.get(id) ?? null;
    return come.map((m) => m.contribution).reduce(addArrays);
  }
}

export const isArray = (x) => x !== null && x !== undefined && x.data !== undefined;
export const sizeOf = (shape) => shape.reduce((a, b) => a * b, 1);

export function addArrays(a, b) {
  if (!isArray(a) || !isArray(b)) return null;
  const round = a.dtype === "float64" ? (x) => x : Math.fround;
  return {...a, data: Float64Array.from(a.data, (x, i) => round(x + b.data[i]))};
}

// --- Places in arrays ---------------------------------------------------------------------------

export function unravel(flat, shape) {
  const at = new Array(shape.length);
  for (let k = shape.length - 1; k >= 0; k--) {
    at[k] = flat % shape[k];
    flat = Math.floor(flat / shape[k]);
  }
  return at;
}

export function ravel(at, shape) {
  return shape.reduce((flat, n, k) => flat * n + (n === 1 ? 0 : at[k]), 0);
}

// Calls `visit(at)` for all indices of `shape`.
function forEachIndex(shape, visit) {
  const count = sizeOf(shape);
  for (let i = 0; i < count; i++) visit(unravel(i, shape));
}

// --- What one element of a contribution consists of ---------------------------------------------

// [{j, upstream, local}]: element j of the gradient of the sender, and the derivative of output j
// with respect to input element `flat`. Throws where that was not recorded.
export function termsOf(trace, sweep, m, flat) {
  const g = sweep.gradients.get(m.node);
  if (m.local.form === "opaque") throw new Error(`Its terms are not recorded: ${m.local.why}.`);
  if (!isArray(g)) throw new Error("Its terms are not recorded: the upstream gradient was too large to keep.");
  return pairsOf(trace, m, flat).map(([j, local]) => ({j, upstream: g.data[j], local}));
}

function pairsOf(trace, m, flat) {
  const local = m.local;
  const out = trace.nodes[m.node].shape;
  const shape = trace.nodes[m.target].shape;
  if (local.form === "factor") {
    const d = local.values;
    return outputsOf(unravel(flat, shape), shape, out).map((at) => [ravel(at, out), d.data[ravel(at.slice(at.length - d.shape.length), d.shape)]]);
  }
  if (local.form === "product") return productPairs(trace, m, flat);
  if (local.form === "scatter") return [[local.target.data[flat], local.coefficients.data[flat]]];
  const pairs = [];
  if (local.form === "gather")
    local.source.data.forEach((i, j) => { if (i === flat) pairs.push([j, local.coefficients.data[j]]); });
  if (local.form === "matrix")
    local.columns.data.forEach((i, k) => { if (i === flat) pairs.push([local.rows.data[k], local.values.data[k]]); });
  return pairs;
}

// The output elements to which one of the input's was broadcast.
function outputsOf(at, shape, out) {
  const lead = out.length - shape.length;
  const free = out.map((n, k) => (k < lead || shape[k - lead] === 1 ? n : 1));
  const found = [];
  forEachIndex(free, (where) => found.push(where.map((i, k) => (free[k] === out[k] && (k < lead || shape[k - lead] === 1) ? i : at[k - lead]))));
  return found;
}

function productPairs(trace, m, flat) {
  const {letters, out: named, place} = m.local;
  const node = trace.nodes[m.node];
  const inputs = node.inputs.map((i) => trace.nodes[i]);
  const sizes = {};
  [[named, node.shape], ...letters.map((t, k) => [t, inputs[k].shape])].forEach(([term, shape]) =>
    [...term].forEach((c, k) => { sizes[c] = Math.max(sizes[c] ?? 1, shape[k]); }));
  const mine = inputs[place].shape;
  const at = unravel(flat, mine);
  const fixed = {};
  [...letters[place]].forEach((c, k) => { if (mine[k] > 1 || sizes[c] === 1) fixed[c] = at[k]; });
  const free = Object.keys(sizes).filter((c) => !(c in fixed));
  const pairs = [];
  forEachIndex(free.map((c) => sizes[c]), (values) => {
    const where = {...fixed};
    free.forEach((c, k) => { where[c] = values[k]; });
    let d = 1;
    letters.forEach((term, k) => {
      if (k === place) return;
      if (!isArray(inputs[k].value)) throw new Error("Its terms are not recorded: the other input was too large to keep.");
      d *= inputs[k].value.data[ravel([...term].map((c) => where[c]), inputs[k].shape)];
    });
    pairs.push([ravel([...named].map((c) => where[c]), node.shape), d]);
  });
  return pairs;
}

// upstream × local; exactly 0 where the upstream is 0 and the derivative is not finite.
export const termProduct = (t) => (t.upstream === 0 ? 0 : t.upstream * t.local);

// The whole contribution that a message makes of another upstream gradient `g`.
export function pullThrough(trace, m, g) {
  const shape = trace.nodes[m.target].shape;
  const data = new Float64Array(sizeOf(shape));
  for (let i = 0; i < data.length; i++)
    for (const [j, local] of pairsOf(trace, m, i)) data[i] += termProduct({upstream: g.data[j], local});
  return {dtype: "float64", shape, data};
}

// --- Exact sums ---------------------------------------------------------------------------------

// What is missing between the exact sum of the products and the number that was recorded: the
// rounding of whoever added them up. Sums and products without error by Dekker and Knuth.
export function roundingOf(terms, recorded) {
  const parts = [recorded];
  for (const t of terms) {
    const p = termProduct(t);
    if (!Number.isFinite(p)) return NaN;
    parts.push(-p);
    if (t.upstream !== 0) parts.push(-productError(t.upstream, t.local, p));
  }
  return exactSum(parts);
}

function productError(a, b, p) {
  const split = (x) => {
    const c = 134217729 * x;
    const high = c - (c - x);
    return [high, x - high];
  };
  const [ah, al] = split(a);
  const [bh, bl] = split(b);
  const error = al * bl - (((p - ah * bh) - al * bh) - ah * bl);
  return Number.isFinite(error) ? error : 0;
}

// Shewchuk's sum: partial sums that do not overlap.
export function exactSum(numbers) {
  const partials = [];
  for (let x of numbers) {
    let i = 0;
    for (let y of partials) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low) partials[i++] = low;
      x = high;
    }
    partials.length = i;
    partials.push(x);
  }
  return partials.reduce((a, b) => a + b, 0);
}
