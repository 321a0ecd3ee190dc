// The edges of the graph: curves from card to card, with what is sent along them.
import {s} from "./dom.mjs";

const LABEL = 20; // the height of what is said beside an edge

// Where an edge begins and ends, and its points between.
export function edgePoints(e, boxes, across) {
  const [a, b] = [boxes[e.from], boxes[e.to]];
  const start = across ? [a.x + a.wide / 2, a.y] : [a.x, a.y + a.tall / 2];
  const end = across
    ? [b.x - b.wide / 2, b.y + e.port * b.tall * 0.7]
    : [b.x + e.port * b.wide * 0.7, b.y - b.tall / 2];
  return [start, ...e.bends.flat(), end];
}

export function edgeCurve(points, across) {
  let path = `M${points[0]}`;
  for (let k = 1; k < points.length; k++) {
    const [[ax, ay], [bx, by]] = [points[k - 1], points[k]];
    const [mx, my] = [(ax + bx) / 2, (ay + by) / 2];
    path += across
      ? `C${mx} ${ay} ${mx} ${by} ${bx} ${by}`
      : `C${ax} ${my} ${bx} ${my} ${bx} ${by}`;
  }
  return path;
}

// `look` is {state, text}: "now" runs a dot from the reader to what is read, as gradients go.
export function edgeElement(e, boxes, across, look) {
  const points = edgePoints(e, boxes, across);
  const d = edgeCurve(points, across);
  const parts = [s("path", {class: `edge ${look.state ?? ""}`, d})];
  const {text} = look;
  if (text) parts.push(...edgeLabel(text, labelPlace(e, boxes, across, points, text)));
  if (look.state === "now")
    parts.push(
      s(
        "circle",
        {class: "pulse", r: 5},
        s("animateMotion", {
          dur: "0.7s",
          repeatCount: 1,
          fill: "freeze",
          path: d,
          keyPoints: "1;0",
          keyTimes: "0;1",
          calcMode: "linear",
        }),
      ),
    );
  return s("g", null, ...parts);
}

// In the middle of the edge; above its two cards where it is wider than the gap between them, or it
// would cover their numbers.
function labelPlace(e, boxes, across, points, text) {
  const [x, y] = middleOf(points);
  const [[left], [right]] = [points[0], points.at(-1)];
  if (!across || points.length > 2 || labelWidth(text) < right - left) return [x, y];
  const top = (box) => box.y - box.tall / 2;
  return [x, Math.min(top(boxes[e.from]), top(boxes[e.to])) - LABEL / 2 - 2];
}

// The middle of the longest piece, which no card covers.
function middleOf(points) {
  let best = 1;
  const length = (k) =>
    Math.hypot(points[k][0] - points[k - 1][0], points[k][1] - points[k - 1][1]);
  for (let k = 2; k < points.length; k++) if (length(k) > length(best)) best = k;
  return [0, 1].map((axis) => (points[best - 1][axis] + points[best][axis]) / 2);
}

const labelWidth = (text) => text.length * 7.3 + 14;

function edgeLabel(text, [x, y]) {
  const wide = labelWidth(text);
  const box = {x: x - wide / 2, y: y - LABEL / 2, width: wide, height: LABEL, rx: 6};
  return [
    s("rect", {class: "edgebox", ...box}),
    s("text", {class: "edgetext", x, y: y + 4, "text-anchor": "middle"}, text),
  ];
}
