// A recorded run as objects: arrays decoded, parts checked, messages in order.
//
// A trace has `nodes` (kind, op, inputs, label, shape, value, …) and `sweeps` of `messages`; see
// chainrule/traces/trace.py for the grammar. A value is {dtype, shape, data}, a summary, or null.
import {addArrays, isArray, sizeOf} from "./arrays.mjs";

const STORED = {
  "<f8": Float64Array,
  "<f4": Float32Array,
  "<i4": Int32Array,
  "<i8": BigInt64Array,
  "|u1": Uint8Array,
};
const LOCAL_ARRAYS = {
  factor: ["values"],
  product: [],
  gather: ["source", "coefficients"],
  scatter: ["target", "coefficients"],
  matrix: ["rows", "columns", "values"],
  opaque: [],
};
export const TRACE_VERSION = 1;

// Of the text of a file, or of what it says. Throws an Error whose message is a sentence.
export function decodeTrace(text) {
  let found;
  try {
    found = typeof text === "string" ? JSON.parse(text) : text;
  } catch {
    throw new Error("This is no trace: it is not JSON.");
  }
  if (found?.format !== "chainrule trace")
    throw new Error("This file holds no trace of chainrule.");
  if (found.version !== TRACE_VERSION)
    throw new Error(
      `This trace is of version ${found.version}; this page reads version ${TRACE_VERSION}. Record it again.`,
    );
  try {
    return new Trace(found);
  } catch (error) {
    const why =
      error instanceof DamagedTrace ? error.message : "a part of it is missing or of another kind";
    throw new Error(`This trace is damaged: ${why}.`);
  }
}

class DamagedTrace extends Error {}
const demand = (holds, message) => {
  if (!holds) throw new DamagedTrace(message());
};

function decodeArray({dtype, stored, shape, data}) {
  demand(Array.isArray(shape) && STORED[stored], () => "an array has no shape or kind");
  let numbers = new STORED[stored](bytesOf(data).buffer);
  if (stored === "<i8") numbers = Float64Array.from(numbers, Number);
  const complex = dtype.startsWith("complex");
  const count = sizeOf(shape) * (complex ? 2 : 1);
  demand(
    numbers.length === count,
    () => `an array of shape [${shape}] has ${numbers.length} numbers`,
  );
  return {dtype, shape, data: numbers, complex};
}

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

export class Trace {
  constructor({name, nodes, sweeps, arrays = [], numbers = "", lines = {}}) {
    const table = arrays.map(decodeArray);
    const single = new Float64Array(bytesOf(numbers).buffer);
    const get = (x) => {
      if (typeof x !== "number") return x ?? null; // a summary, or an array that is decoded already
      if (x < 0) {
        demand(-1 - x < single.length, () => `number ${-1 - x} is missing`);
        return {dtype: "float64", shape: [], data: single.subarray(-1 - x, -x)};
      }
      demand(table[x], () => `array ${x} is missing`);
      return table[x];
    };
    this.name = String(name);
    this.lines = lines;
    this.nodes = nodes.map((n, id) => ({
      label: "",
      line: "",
      module: "",
      formula: "",
      ...n,
      id,
      value: get(n.value),
    }));
    this.nodes.forEach(checkNode);
    this.sweeps = sweeps.map((s) => new Sweep(this, s, get));
    this.users = this.nodes.map(() => []);
    for (const node of this.nodes)
      for (const i of new Set(node.inputs)) this.users[i].push(node.id);
  }
  // Its label; else what it computes, if that is short and says it; else its op and number.
  nameOf(id) {
    const node = this.nodes[id];
    if (node.label) return node.label;
    if (node.formula && node.inputs.length < 3 && node.inputs.every((i) => this.nodes[i].label)) {
      const names = node.inputs.map((i) => this.nodes[i].label);
      const text = withNames(node.formula, names);
      if (text.length <= 16) return text;
    }
    return `${node.op} #${id}`;
  }
  // All nodes that `id` is computed from, or all that are computed from it.
  slice(id, forward) {
    const next = forward ? (i) => this.users[i] : (i) => this.nodes[i].inputs;
    const found = new Set([id]);
    const stack = [id];
    while (stack.length) {
      for (const i of next(stack.pop()))
        if (!found.has(i)) {
          found.add(i);
          stack.push(i);
        }
    }
    return found;
  }
}

// A formula with names for `x`, or for `a`, `b`, …, and for `y`; what has none stays, and what is quoted.
export function withNames(formula, names, result = "") {
  const named = (c) => (c === "y" ? result : names["abcd".indexOf(c === "x" ? "a" : c)]) || c;
  return formula.replace(/'[^']*'|\b[yxabcd]\b/g, (c) => (c.length === 1 ? named(c) : c));
}

function checkNode({id, inputs, shape, value, kind, label, op}) {
  demand(
    ["input", "parameter", "constant", "op"].includes(kind),
    () => `node ${id} is of no known kind`,
  );
  demand(typeof label === "string" && typeof op === "string", () => `node ${id} has no name`);
  demand(
    shape.every((n) => Number.isInteger(n) && n >= 0),
    () => `node ${id} has no shape`,
  );
  for (const i of inputs)
    demand(Number.isInteger(i) && i >= 0 && i < id, () => `node ${id} reads node ${i}`);
  checkShape(value, shape, () => `the value of node ${id}`);
}

function checkShape(x, shape, what) {
  if (isArray(x))
    demand(
      String(x.shape) === String(shape),
      () => `${what()} is of shape [${x.shape}], not [${shape}]`,
    );
}

// The messages by target, in order, and what they have added up to.
export class Arrivals {
  constructor({result, seed, more = new Map()}, messages, gradients) {
    Object.assign(this, {result, seed, more, messages, gradients});
    this.arriving = new Map();
    for (const m of messages) {
      if (!this.arriving.has(m.target)) this.arriving.set(m.target, []);
      this.arriving.get(m.target).push(m);
    }
  }
  // What a node begins with: the seed of a result, else nothing.
  seedOf(id) {
    return id === this.result ? (this.seed ?? null) : (this.more.get(id) ?? null);
  }
  // What has come to a node when `count` messages were sent: null before the first.
  running(id, count) {
    const due = this.arriving.get(id) ?? [];
    const come = due.filter((m) => m.index < count);
    if (come.length === due.length && (come.length || this.seedOf(id) || id === this.result))
      return this.gradients.get(id) ?? null;
    const parts = [this.seedOf(id), ...come.map((m) => m.contribution)].filter((x) => x !== null);
    return parts.length ? parts.reduce(addArrays) : null;
  }
}

class Sweep extends Arrivals {
  constructor(trace, {result, seed, messages, gradients, more = {}, certificates = {}}, get) {
    const byNode = (x) => new Map(Object.entries(x).map(([id, g]) => [Number(id), get(g)]));
    super(
      {result, seed: get(seed), more: byNode(more)},
      messages.map((m, index) => decodeMessage(trace, m, index, get)),
      byNode(gradients),
    );
    demand(trace.nodes[result], () => `a sweep begins at node ${result}, which there is not`);
    this.certificates = new Map(
      Object.entries(certificates).map(([id, c]) => [
        Number(id),
        decodeCertificate(trace.nodes[id], c, get),
      ]),
    );
    for (const [id, g] of this.gradients) {
      demand(trace.nodes[id], () => `there is a gradient of node ${id}, which there is not`);
      checkShape(g, trace.nodes[id].shape, () => `the gradient of node ${id}`);
    }
  }
}

function decodeMessage(trace, m, index, get) {
  demand(trace.nodes[m.node]?.inputs[m.place] === m.target, () => `message ${index} goes nowhere`);
  const names = LOCAL_ARRAYS[m.local.form];
  demand(names, () => `message ${index} has no local derivative`);
  const local = {...m.local};
  for (const name of names) {
    local[name] = get(local[name]);
    demand(isArray(local[name]), () => `message ${index} has no local derivative`);
  }
  const contribution = get(m.contribution);
  checkShape(contribution, trace.nodes[m.target].shape, () => `message ${index}`);
  const certificate = m.certificate && decodeCertificate(trace.nodes[m.target], m.certificate, get);
  return {...m, index, local, contribution, certificate};
}

// {difference, bound, verdict, …}; `elements` and `bounds` are arrays, where differences are known of each element.
function decodeCertificate(node, c, get) {
  const [elements, bounds] = [get(c.elements), get(c.bounds)];
  for (const x of [elements, bounds]) checkShape(x, node?.shape, () => "what differences give");
  return {...c, elements, bounds};
}
