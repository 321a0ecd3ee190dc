// The panel beside the graph at a step: what is sent, upstream × local = contribution, and what has
// come so far.
import {arrayView, shapeText, valueText} from "./array_view.mjs";
import {isArray} from "./arrays.mjs";
import {certificateView} from "./certificates.mjs";
import {h} from "./dom.mjs";
import {elementSum} from "./element_sum.mjs";
import {isSentence, ruleWithNames, summedAxes} from "./explain.mjs";
import {correctionOf} from "./findings.mjs";
import {nodeLink, nodePanel, shortTable, sourceLine} from "./node_panel.mjs";

const LEGEND = [
  ["swatch input", "input"],
  ["swatch parameter", "parameter"],
  ["swatch op", "op: value, and ∂ its gradient"],
  ["dot right", "its rule agrees with differences of its value"],
  ["dot wrong", "something is wrong here"],
];

export function stepPanel(player) {
  const {step} = player;
  if (!step)
    return h(
      "div",
      null,
      h("h2", null, player.trace.name),
      h("p", null, player.sentence),
      legend(),
    );
  if (step.kind === "message") return messagePanel(player, step.message);
  return nodePanel(
    player,
    step.node,
    step.kind === "seed" ? "Where the backward pass begins" : "Forward",
  );
}

function legend() {
  return h(
    "ul",
    {class: "legend"},
    ...LEGEND.map(([kind, text]) => h("li", null, h("span", {class: kind}), text)),
  );
}

function messagePanel(player, m) {
  const {trace, sweep, show} = player;
  const upstream = m.upstream ?? sweep.gradients.get(m.node);
  const rule = ruleWithNames(trace, m);
  const isScalar =
    [m.contribution, upstream].every((x) => isArray(x) && x.shape.length === 0) &&
    m.local.form === "factor";
  return h(
    "div",
    null,
    h("p", {class: "kicker"}, `Backward, message ${m.index + 1} of ${sweep.messages.length}`),
    h("h2", null, nodeLink(player, m.node), " → ", nodeLink(player, m.target)),
    sourceLine(trace, trace.nodes[m.node]),
    isSentence(m)
      ? h("p", {class: "soft"}, `${trace.nodes[m.node].op} ${rule}.`)
      : h("p", {class: "rule"}, h("span", null, "local derivative "), h("code", null, rule)),
    ...(isScalar ? [scalarEquation(m, upstream, show)] : arrayEquation(player, m, upstream)),
    ...notesOf(player, m, upstream).map((text) => h("p", {class: "note"}, text)),
    runningSum(player, m),
    certificateView(m.certificate, "This rule", "the op's value", show),
    m.certificate ? correctionOf(m.certificate) : null,
  );
}

function scalarEquation(m, upstream, show) {
  const box = (value, label, kind) =>
    h(
      "div",
      {class: `factor ${kind}`},
      h("span", {class: "number"}, value),
      h("small", null, label),
    );
  const sign = (text) => h("span", {class: "sign"}, text);
  return h(
    "div",
    {class: "equation"},
    box(show(upstream.data[0]), "upstream", "up"),
    sign("×"),
    box(show(m.local.values.data[0]), "local", "loc"),
    sign("="),
    box(show(m.contribution.data[0]), "contribution", "con"),
  );
}

function arrayEquation(player, m, upstream) {
  const {trace, digits} = player;
  const part = (title, array, options = {}) =>
    h(
      "section",
      {class: "part"},
      h("h3", null, title, isArray(array) ? h("small", null, ` ${shapeText(array.shape)}`) : ""),
      arrayView(array, {name: title, digits, ...options}),
    );
  const parts = [part(`upstream: gradient of ${trace.nameOf(m.node)}`, upstream)];
  if (m.local.form === "factor") parts.push(part("local derivative", m.local.values));
  if (m.local.form === "product")
    trace.nodes[m.node].inputs.forEach((id, k) => {
      if (k !== m.place)
        parts.push(part(`${trace.nameOf(id)}, the other factor`, trace.nodes[id].value));
    });
  if (!m.contribution) return [...parts, h("p", {class: "note"}, "Nothing is sent.")];
  const chosenElement = player.element?.message === m ? player.element.flat : null;
  const onPick = isArray(m.contribution) ? (flat) => player.openElement(m, flat) : null;
  parts.push(
    part("contribution: choose an element to see its sum", m.contribution, {
      chosen: chosenElement,
      onPick,
    }),
  );
  if (chosenElement !== null) parts.push(elementSum(player, m, chosenElement));
  return parts;
}

// What is particular about this message: axes that are summed, several uses, a closed gate.
function notesOf({trace, sweep}, m, upstream) {
  const out = [];
  const target = trace.nameOf(m.target);
  const axes = summedAxes(trace, m);
  if (axes.length) {
    const along = axes.map((a) => `axis ${a.axis} (${a.size} times)`).join(" and ");
    out.push(
      `${target} was repeated along ${along}: its gradient is summed over ${axes.length > 1 ? "them" : "it"}.`,
    );
  }
  const uses = sweep.arriving.get(m.target).length;
  if (uses > 1) out.push(`${target} is used ${uses} times: ${uses} contributions add up.`);
  const isZero = (x) => isArray(x) && x.data.every((v) => v === 0);
  if (m.local.form === "factor" && isZero(m.contribution) && isArray(upstream) && !isZero(upstream))
    out.push("The local derivative is 0 here: nothing passes, whatever comes from above.");
  return out;
}

function runningSum({trace, sweep, show}, m) {
  const due = sweep.arriving.get(m.target);
  const rows = due.map((d) => [
    d.index === m.index ? "now" : d.index > m.index ? "later" : "",
    `from ${trace.nameOf(d.node)}`,
    d.index > m.index ? "to come" : valueText(d.contribution, show),
  ]);
  const total = valueText(sweep.running(m.target, m.index + 1), show);
  return h(
    "section",
    {class: "part"},
    h("h3", null, `gradient of ${trace.nameOf(m.target)} so far`),
    shortTable(rows, due.indexOf(m), ["total", due.length > 1 ? "sum" : "gradient", total]),
  );
}
