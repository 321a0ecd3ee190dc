// The panel beside the graph: the step that is shown, or the node that was chosen, down to the sum
// that one element of a gradient is.
import {arrayView, shapeText, valueText} from "./array_view.mjs";
import {h} from "./dom.mjs";
import {formulaWithNames, isSentence, ruleWithNames, summedAxes} from "./explain.mjs";
import {correctionOf} from "./findings.mjs";
import {exact, short} from "./numbers.mjs";
import {isArray, unravel} from "./arrays.mjs";
import {roundingOf, termProduct, termsOf} from "./terms.mjs";

const MOST_TERMS = 60;

export function stepPanel(player) {
  const {trace, sweep} = player;
  const step = player.step;
  if (!step) return h("div", null, h("h2", null, trace.name), h("p", null, player.sentence), legend());
  if (step.kind === "message") return messagePanel(player, step.message);
  return nodePanel(player, step.node, step.kind === "seed" ? "Where the backward pass begins" : "Forward");
}

function legend() {
  const dots = [["right", "its rule agrees with differences of its value"], ["wrong", "something is wrong here"]];
  return h("ul", {class: "legend"}, ...[["input", "input"], ["parameter", "parameter"], ["op", "op: value, and ∂ its gradient"]].map(([kind, text]) =>
    h("li", null, h("span", {class: `swatch ${kind}`}), text)), ...dots.map(([kind, text]) => h("li", null, h("span", {class: `dot ${kind}`}), text)));
}

// --- A message: upstream × local = contribution ---------------------------------------------------

function messagePanel(player, m) {
  const {trace, sweep} = player;
  const show = player.digits === "exact" ? exact : short;
  const upstream = m.upstream ?? sweep.gradients.get(m.node);
  const name = (id) => nodeLink(player, id);
  const rule = ruleWithNames(trace, m);
  const scalar = isArray(m.contribution) && m.contribution.shape.length === 0 && m.local.form === "factor" && isArray(upstream) && upstream.shape.length === 0;
  const parts = [
    h("p", {class: "kicker"}, `Backward, message ${m.index + 1} of ${sweep.messages.length}`),
    h("h2", null, name(m.node), " → ", name(m.target)),
    sourceLine(trace, trace.nodes[m.node]),
    isSentence(m) ? h("p", {class: "soft"}, `${trace.nodes[m.node].op} ${rule}.`)
      : h("p", {class: "rule"}, h("span", null, "local derivative "), h("code", null, rule)),
  ];
  if (scalar) parts.push(scalarEquation(m, upstream, show));
  else parts.push(...arrayEquation(player, m, upstream));
  parts.push(...notes(player, m), runningSum(player, m), certificateOf(m, show));
  return h("div", null, ...parts);
}

function scalarEquation(m, upstream, show) {
  const box = (value, label, kind) => h("div", {class: `factor ${kind}`}, h("span", {class: "number"}, value), h("small", null, label));
  return h("div", {class: "equation"},
    box(show(upstream.data[0]), "upstream", "up"), h("span", {class: "sign"}, "×"),
    box(show(m.local.values.data[0]), "local", "loc"), h("span", {class: "sign"}, "="),
    box(m.contribution ? show(m.contribution.data[0]) : "nothing", "contribution", "con"));
}

function arrayEquation(player, m, upstream) {
  const {trace, digits} = player;
  const open = (flat) => player.openElement(m, flat);
  const chosen = player.element?.message === m ? player.element.flat : null;
  const part = (title, array, onPick = null, at = null) => h("section", {class: "part"}, h("h3", null, title, isArray(array) ? h("small", null, ` ${shapeText(array.shape)}`) : ""),
    arrayView(array, {name: title, onPick, chosen: at, digits}));
  const local = m.local.form === "factor" ? [part("local derivative", m.local.values)]
    : m.local.form === "product" ? trace.nodes[m.node].inputs.map((id, k) => (k === m.place ? null : part(`${trace.nameOf(id)}, the other factor`, trace.nodes[id].value))) : [];
  return [part(`upstream: gradient of ${trace.nameOf(m.node)}`, upstream), ...local.filter(Boolean),
    part("contribution: choose an element to see its sum", m.contribution, isArray(m.contribution) ? open : null, chosen),
    ...(chosen === null ? [] : [elementSum(player, m, chosen)])];
}

function notes(player, m) {
  const {trace, sweep} = player;
  const out = [];
  const axes = summedAxes(trace, m);
  if (axes.length) out.push(`${trace.nameOf(m.target)} was repeated along ${axes.map((a) => `axis ${a.axis} (${a.size} times)`).join(" and ")}: its gradient is summed over ${axes.length > 1 ? "them" : "it"}.`);
  const uses = sweep.arriving.get(m.target).length;
  if (uses > 1) out.push(`${trace.nameOf(m.target)} is used ${uses} times: ${uses} contributions add up.`);
  const g = m.upstream ?? sweep.gradients.get(m.node);
  if (isArray(m.contribution) && m.contribution.data.every((x) => x === 0) && isArray(g) && g.data.some((x) => x !== 0) && m.local.form === "factor")
    out.push("The local derivative is 0 here: nothing passes, whatever comes from above.");
  return out.map((text) => h("p", {class: "note"}, text));
}

function runningSum(player, m) {
  const {trace, sweep} = player;
  const show = player.digits === "exact" ? exact : short;
  const due = sweep.arriving.get(m.target);
  const text = (x) => valueText(x, show);
  const rows = due.map((d) => h("tr", {class: d.index === m.index ? "now" : d.index > m.index ? "later" : ""},
    h("td", null, `from ${trace.nameOf(d.node)}`), h("td", {class: "num"}, d.index > m.index ? "to come" : text(d.contribution))));
  const total = sweep.running(m.target, m.index + 1);
  return h("section", {class: "part"}, h("h3", null, `gradient of ${trace.nameOf(m.target)} so far`),
    h("table", {class: "sum"}, ...rows, h("tr", {class: "total"}, h("td", null, due.length > 1 ? "sum" : "gradient"), h("td", {class: "num"}, text(total)))));
}

function certificateOf(m, show) {
  const c = m.certificate;
  if (!c) return null;
  const words = {agrees: "agrees with differences of the op's value", differs: "differs from differences of the op's value", "not checked": "was not checked"};
  const size = c.verdict === "not checked" ? "" : `: off by ${show(c.difference)}, bound ${show(c.bound)}`;
  return h("div", null, h("p", {class: `certificate ${c.verdict === "agrees" ? "good" : c.verdict === "differs" ? "bad" : "soft"}`},
    `${c.verdict === "agrees" ? "✓" : c.verdict === "differs" ? "✗" : "–"} This rule ${words[c.verdict]}${size}.`), correctionOf(c));
}

// --- One element as its exact sum -----------------------------------------------------------------

export function elementSum(player, m, flat) {
  const {trace, sweep} = player;
  const show = player.digits === "exact" ? exact : short;
  let terms;
  try {
    terms = termsOf(trace, m.upstream ? {gradients: new Map([[m.node, m.upstream]])} : sweep, m, flat);
  } catch (error) {
    return h("p", {class: "note"}, error.message);
  }
  const recorded = m.contribution.data[flat];
  const at = `[${unravel(flat, m.contribution.shape).join(", ")}]`;
  const left = roundingOf(terms, recorded);
  const sorted = terms.map((t) => ({...t, product: termProduct(t)})).sort((a, b) => Math.abs(b.product) - Math.abs(a.product));
  const place = (t) => `g[${unravel(t.j, trace.nodes[m.node].shape).join(", ")}]`;
  const rows = sorted.slice(0, MOST_TERMS).map((t) => h("tr", null,
    h("td", null, place(t)), h("td", {class: "num"}, show(t.upstream)), h("td", null, "×"), h("td", {class: "num"}, show(t.local)), h("td", null, "="), h("td", {class: "num"}, show(t.product))));
  if (sorted.length > MOST_TERMS) rows.push(h("tr", null, h("td", {colspan: 5}, `and ${sorted.length - MOST_TERMS} smaller terms`), h("td", {class: "num"}, show(sorted.slice(MOST_TERMS).reduce((sum, t) => sum + t.product, 0)))));
  if (left) rows.push(h("tr", null, h("td", {colspan: 5}, "rounding, by who added them up"), h("td", {class: "num"}, show(left))));
  return h("section", {class: "part element"}, h("h3", null, `element ${at} = sum of ${terms.length} ${terms.length === 1 ? "term" : "terms"}`),
    h("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": `terms of element ${at}`}, h("table", {class: "sum"}, ...rows,
      h("tr", {class: "total"}, h("td", {colspan: 5}, `contribution${at}`), h("td", {class: "num"}, show(recorded))))));
}

// --- A node ---------------------------------------------------------------------------------------

export function nodePanel(player, id, kicker = "Node") {
  const {trace, sweep, digits} = player;
  const node = trace.nodes[id];
  const made = node.kind === "op" ? h("p", {class: "rule"}, h("code", null, formulaWithNames(trace, node)), " of ", ...node.inputs.flatMap((i, k) => [k ? ", " : "", nodeLink(player, i)])) : h("p", {class: "soft"}, node.kind);
  const users = trace.users[id];
  const gradient = player.gradientNow(id);
  const due = sweep?.arriving.get(id) ?? [];
  const seen = player.valueNow(id);
  return h("div", null,
    h("p", {class: "kicker"}, kicker), h("h2", null, trace.nameOf(id)),
    sourceLine(trace, node), made,
    node.module ? h("p", {class: "soft"}, `in module ${node.module} `, ...foldLinks(player, id)) : null,
    h("section", {class: "part"}, h("h3", null, "value", node.shape.length ? h("small", null, ` ${node.dtype} ${shapeText(node.shape)}`) : ""), seen ? arrayView(node.value, {name: "value", digits}) : h("p", {class: "soft"}, "not computed yet")),
    node.kind === "constant" ? null : h("section", {class: "part"}, h("h3", null, "gradient"), gradientPart(player, id, gradient, due)),
    due.length ? messageList(player, due) : null,
    users.length ? h("p", {class: "soft"}, "used by ", ...users.slice(0, 8).flatMap((i, k) => [k ? ", " : "", nodeLink(player, i)]), users.length > 8 ? ` and ${users.length - 8} more` : "") : null,
    h("div", {class: "row"},
      h("button", {"aria-pressed": String(player.slice === "back"), onclick: () => player.setSlice("back")}, "What it depends on"),
      h("button", {"aria-pressed": String(player.slice === "forth"), onclick: () => player.setSlice("forth")}, "What it influences")));
}

function gradientPart(player, id, gradient, due) {
  const {sweep, digits} = player;
  if (!sweep) return h("p", {class: "soft"}, "backward has not run");
  if (!due.length && id !== sweep.result) return h("p", {class: "soft"}, "no gradient flows here in this pass");
  if (!gradient && !due.length) return h("p", {class: "soft"}, "here the backward pass begins; it has not yet");
  if (!gradient) return h("p", {class: "soft"}, `nothing has come yet: ${due.length} ${due.length === 1 ? "contribution is" : "contributions are"} to come`);
  return arrayView(gradient, {name: "gradient", digits});
}

function messageList(player, due) {
  const {trace} = player;
  const show = player.digits === "exact" ? exact : short;
  return h("table", {class: "sum"}, ...due.map((d) => h("tr", null,
    h("td", null, h("button", {class: "link", onclick: () => player.goToMessage(d)}, `from ${trace.nameOf(d.node)}`)), h("td", {class: "num"}, valueText(d.contribution, show)))));
}

// A node's groups can be folded, from the innermost on.
function foldLinks(player, id) {
  const {graph} = player;
  return graph.keysAround(id).filter((key) => graph.open.has(key)).slice(0, 1).map((key) =>
    h("button", {class: "link", onclick: () => { graph.fold(key); graph.reveal(id); }}, "fold it"));
}

function nodeLink(player, id) {
  return h("button", {class: "link", onclick: () => player.chooseNode(id)}, player.trace.nameOf(id));
}

function sourceLine(trace, node) {
  if (!node.line) return null;
  const text = trace.lines[node.line];
  return h("p", {class: "source"}, h("span", {class: "where"}, node.line), text ? h("code", null, text) : null);
}
