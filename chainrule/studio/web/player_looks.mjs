// How the nodes and edges of the graph look at a step of the player.
import {valueText} from "./array_view.mjs";
import {isArray} from "./arrays.mjs";

export function nodeLook(player, id) {
  const {show, sweep, marks} = player;
  const node = player.trace.nodes[id];
  const gradientArray = player.gradientNow(id);
  const due = sweep?.arriving.get(id) ?? [];
  const come = due.length > 1 ? due.filter((m) => m.index < player.sentCount).length : 0;
  const isPartial = gradientArray && come < due.length;
  return {
    value: player.valueNow(id) ? valueText(node.value, show) : null,
    gradient: node.kind === "constant" ? null : gradientText(player, gradientArray, due),
    gradientArray,
    come: isPartial && due.length > 1 ? `(${come} of ${due.length})` : "",
    state: marks.now.has(id)
      ? "now"
      : player.sliceNodes && !player.sliceNodes.has(id)
        ? "pale"
        : "",
    marks: marksOfNode(player, id),
  };
}

// "–" for a gradient that is still to come, null for one that never does.
function gradientText(player, gradient, due) {
  if (gradient) return valueText(gradient, player.show);
  return player.isBackward && due.length ? "–" : null;
}

function marksOfNode({marks, findings, verdicts}, id) {
  if (marks.wrong.has(id)) return ["wrong"];
  if (findings.victims.has(id)) return ["victim"];
  return verdicts.has(id) ? [verdicts.get(id)] : [];
}

// The nodes of this step, and those that are wrong.
export function marksNow(player) {
  const {step, verdicts, sweep, right} = player;
  const wrong = new Set(player.wrongMarks ?? []);
  for (const [id, verdict] of verdicts) if (verdict === "wrong") wrong.add(id);
  if (player.wrong && sweep !== right)
    for (const [id, gradient] of sweep.gradients)
      if (player.gradientNow(id) && differ(gradient, right.gradients.get(id))) wrong.add(id);
  return {now: new Set(nodesOfStep(step)), wrong};
}

// The node whose gradient grows comes first.
export function nodesOfStep(step) {
  if (!step) return [];
  return step.kind === "message" ? [step.message.target, step.message.node] : [step.node];
}

const differ = (a, b) =>
  isArray(a) &&
  isArray(b) &&
  a.data.some((x, i) => Math.abs(x - b.data[i]) > 1e-9 * Math.max(1, Math.abs(b.data[i])));

// `pairs` are the messages that an edge stands for: [from, to, place].
export function edgeLook(player, {pairs}) {
  const {step, sliceNodes: sliced, show} = player;
  if (step?.kind === "message" && pairs.some((pair) => carries(pair, step.message))) {
    const {contribution} = step.message;
    return {state: "now", text: contribution ? valueText(contribution, show) : "nothing"};
  }
  if (step?.kind === "forward" && pairs.some(([, to]) => to === step.node)) return {state: "into"};
  if (player.isBackward && pairs.every((pair) => isSent(player, pair))) return {state: "done"};
  const isOutside = ([from, to]) => !sliced.has(from) || !sliced.has(to);
  return sliced && pairs.every(isOutside) ? {state: "pale"} : {};
}

const carries = ([from, to, place], {target, node, place: at}) =>
  from === target && to === node && place === at;

const isSent = ({sweep, sentCount: sent}, pair) =>
  (sweep.arriving.get(pair[0]) ?? []).some((m) => carries(pair, m) && m.index < sent);
