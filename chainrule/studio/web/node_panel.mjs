// The panel beside the graph of a node: what made it, its value, its gradient, who uses it.
import {arrayView, shapeText, valueText} from "./array_view.mjs";
import {certificateView} from "./certificates.mjs";
import {h} from "./dom.mjs";
import {formulaWithNames} from "./explain.mjs";
import {countOf} from "./numbers.mjs";

const MOST_LINKS = 8;
const MOST_ROWS = 24;

export function nodePanel(player, id, kicker = "Node") {
  const {trace, sweep, digits} = player;
  const node = trace.nodes[id];
  const due = sweep?.arriving.get(id) ?? [];
  const kind = node.shape.length ? h("small", null, ` ${node.dtype} ${shapeText(node.shape)}`) : "";
  const slice = (which, text) =>
    h(
      "button",
      {
        "aria-pressed": String(player.slice === which),
        onclick: () => player.setSlice(which, false, id),
      },
      text,
    );
  return h(
    "div",
    null,
    h("p", {class: "kicker"}, kicker),
    h("h2", null, trace.nameOf(id)),
    sourceLine(trace, node),
    madeOf(player, node),
    node.module
      ? h("p", {class: "soft"}, `in module ${node.module} `, ...foldLinks(player, id))
      : null,
    h(
      "section",
      {class: "part"},
      h("h3", null, "value", kind),
      player.valueNow(id)
        ? arrayView(node.value, {name: "value", digits})
        : h("p", {class: "soft"}, "not computed yet"),
    ),
    node.kind === "constant"
      ? null
      : h("section", {class: "part"}, h("h3", null, "gradient"), gradientPart(player, id, due)),
    due.length ? contributionList(player, due) : null,
    usersOf(player, id),
    h(
      "div",
      {class: "row"},
      slice("back", "What it depends on"),
      slice("forth", "What it influences"),
    ),
  );
}

function madeOf(player, node) {
  if (node.kind !== "op") return h("p", {class: "soft"}, node.kind);
  return h(
    "p",
    {class: "rule"},
    h("code", null, formulaWithNames(player.trace, node)),
    " of ",
    ...linkList(player, node.inputs),
  );
}

function usersOf(player, id) {
  const users = player.trace.users[id];
  return users.length ? h("p", {class: "soft"}, "used by ", ...linkList(player, users)) : null;
}

function gradientPart(player, id, due) {
  const {sweep, digits} = player;
  const gradient = player.gradientNow(id);
  if (gradient) {
    const isWhole = due.every((m) => m.index < player.sentCount) && !sweep.again;
    const certificate = isWhole ? sweep.certificates?.get(id) : null;
    return [
      certificateView(certificate, "This gradient", "the result", player.show),
      arrayView(gradient, {name: "gradient", digits}),
    ];
  }
  const text = !sweep
    ? "backward has not run"
    : due.length
      ? `nothing has come yet: ${countOf(due.length, "contribution is", "contributions are")} to come`
      : id === sweep.result
        ? "here the backward pass begins; it has not yet"
        : "no gradient flows here in this pass";
  return h("p", {class: "soft"}, text);
}

// What comes to a node, and what has: each a link to its message.
function contributionList(player, due) {
  const {trace, show} = player;
  const link = (d) =>
    h(
      "button",
      {class: "link", onclick: () => player.goToMessage(d)},
      `from ${trace.nameOf(d.node)}`,
    );
  const isSent = (d) => d.index < player.sentCount;
  return shortTable(
    due.map((d) => [
      isSent(d) ? "" : "later",
      link(d),
      isSent(d) ? valueText(d.contribution, show) : "to come",
    ]),
  );
}

// A table of [class, text, number]; of many rows those around number `at`.
export function shortTable(rows, at = 0, total = null) {
  const line = ([kind, text, number]) =>
    h("tr", {class: kind}, h("td", null, text), h("td", {class: "num"}, number));
  const begin = Math.max(0, Math.min(at - MOST_ROWS / 2, rows.length - MOST_ROWS));
  const shown = rows.slice(begin, begin + MOST_ROWS);
  const more = (count, where) => (count > 0 ? [line(["later", `${count} more ${where}`, ""])] : []);
  return h(
    "table",
    {class: "sum"},
    ...more(begin, "before"),
    ...shown.map(line),
    ...more(rows.length - begin - shown.length, "after"),
    total && line(total),
  );
}

// A node's groups can be folded, from the innermost on.
function foldLinks(player, id) {
  const {graph} = player;
  const fold = (key) => {
    graph.fold(key);
    graph.reveal(id);
  };
  const {folds} = graph;
  return folds
    .keysAround(id)
    .filter((key) => folds.open.has(key))
    .slice(0, 1)
    .map((key) => h("button", {class: "link", onclick: () => fold(key)}, "fold it"));
}

export function nodeLink(player, id) {
  return h(
    "button",
    {class: "link", onclick: () => player.chooseNode(id)},
    player.trace.nameOf(id),
  );
}
function linkList(player, ids) {
  const links = ids.slice(0, MOST_LINKS).flatMap((i, k) => [k ? ", " : "", nodeLink(player, i)]);
  return ids.length > MOST_LINKS ? [...links, ` and ${ids.length - MOST_LINKS} more`] : links;
}

export function sourceLine(trace, node) {
  if (!node.line) return null;
  const text = trace.lines[node.line];
  return h(
    "p",
    {class: "source"},
    h("span", {class: "where"}, node.line),
    text ? h("code", null, text) : null,
  );
}
