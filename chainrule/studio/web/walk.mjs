// The steps of a trace: its ops forward, then the messages of one backward sweep; and the same sweep
// walked again in JavaScript, in a wrong order or with a slip in a rule.
import {addArrays, isArray, sizeOf} from "./arrays.mjs";
import {pullThrough} from "./terms.mjs";
import {Arrivals} from "./trace.mjs";

// [{kind: "forward", node} | {kind: "seed", node} | {kind: "message", message}]
export function stepsOf(trace, sweep) {
  const forward = trace.nodes
    .filter((n) => n.kind === "op")
    .map((n) => ({kind: "forward", node: n.id}));
  if (!sweep) return forward;
  return [
    ...forward,
    {kind: "seed", node: sweep.result},
    ...sweep.messages.map((message) => ({kind: "message", message})),
  ];
}

// A sweep that visits the nodes in the order of `visits`, each once, with what has come by then: right
// only if each node is visited after all that use it. `slip` may change what is sent:
// {sends(message, g) -> contribution, adds(message) -> false where it replaces what had come}.
export function walkAgain(trace, sweep, visits, slip = {}) {
  const outgoing = new Map();
  for (const m of sweep.messages) outgoing.set(m.node, [...(outgoing.get(m.node) ?? []), m]);
  const totals = new Map([...sweep.more, ...(slip.before ?? [])]);
  const {dtype, shape} = trace.nodes[sweep.result];
  const seed = sweep.seed ?? {dtype, shape, data: new Float64Array(sizeOf(shape)).fill(1)};
  totals.set(sweep.result, seed);
  const messages = [];
  for (const id of visits) {
    for (const m of outgoing.get(id) ?? []) {
      const zero = {
        dtype: trace.nodes[id].dtype,
        shape: trace.nodes[id].shape,
        data: new Float64Array(sizeOf(trace.nodes[id].shape)),
      };
      const g = totals.get(id) ?? zero;
      const contribution = slip.sends?.(m, g) ?? pullThrough(trace, m, g);
      const before = totals.get(m.target);
      if (contribution)
        totals.set(
          m.target,
          before && !slip.replaces?.(m) ? addArrays(before, contribution) : contribution,
        );
      messages.push({
        ...m,
        index: messages.length,
        contribution,
        certificate: null,
        upstream: g,
        total: totals.get(m.target) ?? null,
      });
    }
  }
  return new Rewalk({...sweep, seed}, messages, totals);
}

// Whether the local derivatives of all messages are recorded, so that the sweep can be walked again
// in another order.
export const canWalkAgain = (trace, sweep) =>
  sweep.messages.every((m) => m.local.form !== "opaque" && isArray(m.contribution)) &&
  new Set(sweep.messages.map((m) => m.node)).size > 1 &&
  trace.nodes.every((n) => n.value === null || isArray(n.value));

// A sweep that was walked again.
class Rewalk extends Arrivals {
  constructor(sweep, messages, totals) {
    super(sweep, messages, totals);
    this.again = true;
  }
  // Where a slip overwrites, what has come is the latest.
  running(id, count) {
    const contributions = (this.arriving.get(id) ?? []).filter(
      (m) => m.index < count && m.contribution,
    );
    if (!contributions.length) return this.seedOf(id);
    return contributions.at(-1).total;
  }
}

// The order in which a walk goes wrong: from the inputs, so that a node sends before all has come.
export const wrongOrder = (sweep) =>
  [...new Set(sweep.messages.map((m) => m.node))].sort((a, b) => a - b);
export const rightOrder = (sweep) => [...new Set(sweep.messages.map((m) => m.node))];
