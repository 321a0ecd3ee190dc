// What happens in a step, in words and numbers: the sentence that is read out, and its parts.
import {valueText} from "./array_view.mjs";
import {exact, short} from "./numbers.mjs";
import {withNames} from "./trace.mjs";

const APPLIED = {
  gather: "adds up, for each input element, the gradients of the places that read it",
  scatter: "hands each input element the gradient of the one place that it went to",
};

// Whether a rule is said in words: elements are moved or added up, and nothing is multiplied.
export const isSentence = ({local: {rule, form}}) =>
  (rule === "1" || rule === "coefficient") && form in APPLIED;

// The rule with the names of this node's inputs: "b" becomes "w", say.
export function ruleWithNames(trace, message) {
  const node = trace.nodes[message.node];
  const {rule, form} = message.local;
  if (rule === "1" || rule === "coefficient") return APPLIED[form] ?? rule;
  return withNames(rule, labelsOf(trace, node), node.label);
}
const labelsOf = (trace, node) => node.inputs.map((id) => trace.nodes[id].label);

export const formulaWithNames = (trace, node) => withNames(node.formula, labelsOf(trace, node));

export function sentenceOf(trace, sweep, step, count, digits) {
  const show = digits === "exact" ? exact : short;
  const text = (x) => valueText(x, show);
  if (!step)
    return sweep
      ? "At the start: the inputs are known, nothing is computed yet."
      : "Backward has not run in this recording: there are values, and no gradients.";
  if (step.kind === "forward") {
    const node = trace.nodes[step.node];
    const name = trace.nameOf(step.node);
    const formula = formulaWithNames(trace, node);
    const missingBackward =
      !sweep && trace.nodes.findLast((n) => n.kind === "op") === node
        ? " Backward has not run in this recording."
        : "";
    const equation = name === formula ? name : `${name} = ${formula}`;
    return `Forward: ${equation} = ${text(node.value)}.${missingBackward}`;
  }
  if (step.kind === "seed") {
    const gradient = text(sweep.running(step.node, 0));
    const name = trace.nameOf(step.node);
    return `Backward begins: the gradient of ${name} with respect to itself is ${gradient}.`;
  }
  const m = step.message;
  const running = sweep.running(m.target, count);
  const due = sweep.arriving.get(m.target);
  const nth = due.filter((d) => d.index < count).length;
  const sum =
    due.length === 1
      ? ""
      : nth === 1
        ? `, the first of ${due.length} that add up`
        : `; with what had come, ${text(running)}${nth === due.length ? ", complete" : ""}`;
  return `Backward: ${trace.nameOf(m.node)} sends ${text(m.contribution)} to ${trace.nameOf(m.target)}${sum}.`;
}

// The axes along which an input was repeated, so that its gradient was summed over them.
export function summedAxes(trace, message) {
  if (message.local.form !== "factor") return [];
  const out = trace.nodes[message.node].shape;
  const shape = trace.nodes[message.target].shape;
  const lead = out.length - shape.length;
  return out
    .map((n, k) => [n, k])
    .filter(([n, k]) => k < lead || shape[k - lead] !== n)
    .map(([n, k]) => ({axis: k, size: n}));
}
