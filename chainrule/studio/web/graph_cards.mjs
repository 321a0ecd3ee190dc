// What stands on the cards of the graph: of a node its name, op, value and gradient; of a group its
// name and how much is in it.
import {s} from "./dom.mjs";
import {isArray} from "./arrays.mjs";
import {shapeText, valueText} from "./array_view.mjs";
import {countOf, short} from "./numbers.mjs";
import {THUMBNAIL, thumbnailOf} from "./thumbnails.mjs";

const CHARACTER = 7.25;
const NAME = 7.4;
const BADGE = 6.7;
const SMALL = 6.8;
const MARGIN = 12;
const SCALAR = {short: 12, exact: 24}; // characters, so that a card keeps its size while numbers change
const LEAST = 96;
const MOST = 250;
const TALL = 66;
const FLAT = 34;

// `digits` is "short" or "exact".
export function cardSize(trace, box, digits = "short") {
  if (box.group) {
    const wide = Math.max(groupName(box).length * NAME, groupNote(trace, box.group).length * SMALL);
    return {wide: Math.min(MOST, Math.max(LEAST + 20, wide + 2 * MARGIN)), tall: TALL};
  }
  const node = trace.nodes[box.node];
  if (node.kind === "constant" && node.shape.length === 0)
    return {wide: Math.max(48, constantName(node).length * CHARACTER + 2 * MARGIN), tall: FLAT};
  const head = node.label.length * NAME + (node.kind === "op" ? node.op.length * BADGE + 22 : 0);
  if (node.shape.length === 0)
    return {
      wide: Math.min(MOST, Math.max(head, SCALAR[digits] * CHARACTER) + 2 * MARGIN),
      tall: TALL,
    };
  const gradient = trace.sweeps.at(-1)?.gradients.get(box.node);
  const texts = [valueText(node.value), gradient ? `∂ ${valueText(gradient)}` : ""];
  const text = CHARACTER * Math.max(...texts.map((t) => t.length));
  const wide = Math.max(head, text) + 2 * MARGIN + (thumbnailOf(node.value) ? THUMBNAIL + 8 : 0);
  return {wide: Math.min(MOST, Math.max(LEAST, wide)), tall: TALL};
}

// A number that is written in the program stands for itself.
function constantName({label, value}) {
  return isArray(value) && (!label || Number(label) === value.data[0])
    ? short(value.data[0])
    : label;
}

const clip = (text, room, each = CHARACTER) =>
  text.length * each > room ? `${text.slice(0, Math.max(1, Math.floor(room / each) - 1))}…` : text;

// {parts, classes, label}: SVG, its classes, and what a screen reader says.
export function nodeCard(trace, box, look, isChosen) {
  const node = trace.nodes[box.node];
  const {value, gradient, come, state, marks = []} = look;
  const flat = box.tall === FLAT;
  const isOp = node.kind === "op";
  const name = flat ? constantName(node) : node.label || (isOp ? "" : node.kind);
  const parts = [s("rect", {class: "body", width: box.wide, height: box.tall, rx: flat ? 7 : 9})];
  if (flat)
    parts.push(s("text", {class: "value", x: box.wide / 2, y: 22, "text-anchor": "middle"}, name));
  else parts.push(...cardHead(node, name, box), ...cardNumbers(node, box, look));
  for (const mark of marks)
    parts.push(s("circle", {class: `mark ${mark}`, cx: box.wide - 10, cy: 12, r: 4}));
  const words = [
    name || node.op,
    isOp && name ? node.op : "",
    value === null ? "not computed yet" : flat ? "" : `value ${value}`,
    gradient === null
      ? ""
      : `gradient ${gradient === "–" ? "not come yet" : gradient} ${come ?? ""}`,
    marks.includes("wrong") ? "wrong" : marks.includes("right") ? "rule checked" : "",
  ];
  const classes = [node.kind, flat ? "flat" : "", state, ...marks, isChosen ? "chosen" : ""]
    .filter(Boolean)
    .join(" ");
  return {parts, classes, label: words.filter(Boolean).join(", ")};
}

function cardHead(node, name, box) {
  const badge =
    node.kind === "op" ? Math.min(node.op.length * BADGE + 16, box.wide - 2 * MARGIN + 8) : 0;
  const parts = [];
  if (badge)
    parts.push(
      s("rect", {class: "badge", x: 8, y: 7, width: badge, height: 17, rx: 8.5}),
      s(
        "text",
        {class: "op", x: 8 + badge / 2, y: 19, "text-anchor": "middle"},
        clip(node.op, badge - 6, BADGE),
      ),
    );
  const x = badge ? 15 + badge : MARGIN;
  if (name) parts.push(s("text", {class: "name", x, y: 20}, clip(name, box.wide - x - 8, NAME)));
  return parts;
}

function cardNumbers(node, box, {value, gradient, gradientArray, come}) {
  const picture = value === null ? null : thumbnailOf(gradientArray ?? node.value);
  const room = box.wide - 2 * MARGIN - (thumbnailOf(node.value) ? THUMBNAIL + 4 : 0);
  const parts = [
    s(
      "text",
      {class: value === null ? "value faint" : "value", x: MARGIN, y: 40},
      value === null ? "·" : clip(value, room),
    ),
  ];
  if (gradient !== null)
    parts.push(
      s(
        "text",
        {class: "grad", x: MARGIN, y: 57},
        clip(`∂ ${gradient}${come ? ` ${come}` : ""}`, room),
      ),
    );
  if (picture)
    parts.push(
      s("image", {
        class: "thumbnail",
        href: picture.url,
        x: box.wide - THUMBNAIL - 8,
        y: box.tall - THUMBNAIL - 7,
        width: THUMBNAIL,
        height: THUMBNAIL,
        preserveAspectRatio: "xMaxYMax meet",
      }),
    );
  return parts;
}

const groupName = ({group}) =>
  `${group.path.length > 1 && !group.count ? group.path.slice(-2).join(".") : group.title} ▸`;

function groupNote(trace, group) {
  group.ops ??= group.nodes.reduce((n, i) => n + (trace.nodes[i].kind === "op" ? 1 : 0), 0);
  const alike = group.count ? `${group.count} alike, ` : "";
  return alike + countOf(group.ops, "op", "ops");
}

export function groupCard(trace, box, {now, wrong}) {
  const {group} = box;
  const last = trace.nodes[group.nodes.at(-1)];
  const note = groupNote(trace, group);
  const parts = [];
  if (group.count)
    parts.push(
      s("rect", {class: "behind", x: 8, y: -8, width: box.wide - 16, height: box.tall, rx: 9}),
    );
  parts.push(
    s("rect", {class: "behind", x: 4, y: -4, width: box.wide - 8, height: box.tall, rx: 9}),
    s("rect", {class: "body", width: box.wide, height: box.tall, rx: 9}),
    s("text", {class: "name", x: MARGIN, y: 21}, clip(groupName(box), box.wide - 2 * MARGIN, NAME)),
    s("text", {class: "faint", x: MARGIN, y: 38}, clip(note, box.wide - 2 * MARGIN, SMALL)),
    s("text", {class: "faint", x: MARGIN, y: 53}, last.shape?.length ? shapeText(last.shape) : ""),
  );
  if (wrong) parts.push(s("circle", {class: "mark wrong", cx: box.wide - 10, cy: 12, r: 5}));
  const classes = `group ${now ? "now" : ""} ${wrong ? "wrong" : ""}`;
  return {
    parts,
    classes,
    label: `group ${group.path.join(".") || group.title}, ${note}${wrong ? ", something in it is wrong" : ""}, unfold`,
  };
}
