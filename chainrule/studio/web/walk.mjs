// The steps of a trace: its ops forward, then the messages of one backward sweep; and the same sweep
// walked again in JavaScript, in a wrong order or with a slip in a rule.
import {addArrays, isArray, pullThrough, sizeOf} from "./trace.mjs";

// [{kind: "forward", node} | {kind: "seed", node} | {kind: "message", message}]
export function stepsOf(trace, sweep) {
  const forward = trace.nodes.filter((n) => n.kind === "op").map((n) => ({kind: "forward", node: n.id}));
  if (!sweep) return forward;
  return [...forward, {kind: "seed", node: sweep.result}, ...sweep.messages.map((message) => ({kind: "message", message}))];
}

// A sweep that visits the nodes in the order of `visits`, each once, with what has come by then: right
// only if each node is visited after all that use it. `slip` may change what is sent:
// {sends(message, g) -> contribution, adds(message) -> false where it replaces what had come}.
export function walkAgain(trace, sweep, visits, slip = {}) {
  const sent = new Map();
  for (const m of sweep.messages) sent.set(m.node, [...(sent.get(m.node) ?? []), m]);
  const totals = new Map(slip.before ?? []);
  const one = trace.nodes[sweep.result];
  totals.set(sweep.result, sweep.seed ?? {dtype: one.dtype, shape: one.shape, data: new Float64Array(sizeOf(one.shape)).fill(1)});
  const messages = [];
  for (const id of visits) {
    for (const m of sent.get(id) ?? []) {
      const zero = {dtype: trace.nodes[id].dtype, shape: trace.nodes[id].shape, data: new Float64Array(sizeOf(trace.nodes[id].shape))};
      const g = totals.get(id) ?? zero;
      const contribution = slip.sends?.(m, g) ?? (slip.drops?.(m) ? null : pullThrough(trace, m, g));
      const before = totals.get(m.target);
      if (contribution) totals.set(m.target, before && !slip.replaces?.(m) ? addArrays(before, contribution) : contribution);
      messages.push({...m, index: messages.length, contribution, upstream: g});
    }
  }
  return new Rewalk(sweep, messages, totals);
}

// Whether the local derivatives of all messages are recorded, so that the sweep can be walked again.
export const canWalkAgain = (trace, sweep) => sweep.messages.every((m) => m.local.form !== "opaque" && isArray(m.contribution))
  && trace.nodes.every((n) => n.value === null || isArray(n.value));

class Rewalk {
  constructor(sweep, messages, totals) {
    Object.assign(this, {result: sweep.result, seed: sweep.seed, messages, gradients: totals, again: true});
    this.arriving = new Map();
    for (const m of messages) this.arriving.set(m.target, [...(this.arriving.get(m.target) ?? []), m]);
  }
  running(id, count) {
    const come = (this.arriving.get(id) ?? []).filter((m) => m.index < count && m.contribution);
    if (!come.length) return id === this.result ? this.seed ?? this.gradients.get(id) : null;
    return come.map((m) => m.contribution).reduce(addArrays);
  }
}

// The order in which a walk goes wrong: from the inputs, so that a node sends before all has come.
export const wrongOrder = (sweep) => [...new Set(sweep.messages.map((m) => m.node))].sort((a, b) => a - b);
export const rightOrder = (sweep) => [...new Set(sweep.messages.map((m) => m.node))];
