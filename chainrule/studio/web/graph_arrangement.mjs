// The boxes and edges that are in view, each with its size and place.
import {cardSize} from "./graph_cards.mjs";
import {visibleBoxes} from "./groups.mjs";
import {layoutGraph} from "./layout.mjs";

const GAPS = {across: {along: 54, across: 20, edge: 14}, down: {along: 40, across: 22, edge: 16}};

// `room` is the width and height of the screen, `digits` "short" or "exact".
// Gives {boxes, boxOf, edges, across, depth, extent}.
export function arrangeBoxes(trace, root, open, room, digits) {
  const {boxes, boxOf, edges} = visibleBoxes(trace, root, open);
  for (const box of boxes) Object.assign(box, cardSize(trace, box, digits));
  const depth = depthOf(boxes, edges);
  const across = isAcross(depth, room);
  const sizes = boxes.map((b) =>
    across ? {along: b.wide, across: b.tall} : {along: b.tall, across: b.wide},
  );
  const drawn = layoutGraph(sizes, edges, across ? GAPS.across : GAPS.down);
  const point = (a, c) => (across ? [a, c] : [c, a]);
  boxes.forEach((b, i) => {
    [b.x, b.y] = point(drawn.centers[i].along, drawn.centers[i].across);
  });
  edges.forEach((e, k) => {
    const [from, to] = [boxes[e.from], boxes[e.to]];
    e.bends = drawn.bends[k].map((b) => [point(b.from, b.across), point(b.to, b.across)]);
    e.key = `${from.key}→${to.key}`;
    e.span = spanOf([[from.x, from.y], ...e.bends.flat(), [to.x, to.y]]);
  });
  choosePorts(boxes, edges, across);
  return {
    boxes,
    boxOf,
    edges,
    across,
    depth,
    extent: point(drawn.extent.along, drawn.extent.across),
  };
}

// From left to right where that fits, else from top to bottom.
export const isAcross = (depth, [wide, tall]) => depth <= 9 && (wide > 620 || tall <= wide);

// The number of layers.
function depthOf(boxes, edges) {
  const deep = new Int32Array(boxes.length);
  const into = boxes.map(() => []);
  for (const e of edges) into[e.to].push(e.from);
  const last = (i) => boxes[i].group?.nodes.at(-1) ?? boxes[i].node;
  let most = 0;
  for (const i of boxes.map((_, k) => k).sort((a, b) => last(a) - last(b))) {
    for (const j of into[i]) deep[i] = Math.max(deep[i], deep[j] + 1);
    most = Math.max(most, deep[i]);
  }
  return most + 1;
}

// Edges that arrive at one card do so side by side, in the order in which they come.
function choosePorts(boxes, edges, across) {
  const arriving = new Map();
  for (const e of edges) {
    if (!arriving.has(e.to)) arriving.set(e.to, []);
    arriving.get(e.to).push(e);
  }
  const before = (e) =>
    e.bends.length ? e.bends.at(-1)[1][across ? 1 : 0] : boxes[e.from][across ? "y" : "x"];
  for (const siblings of arriving.values()) {
    siblings.sort((p, q) => before(p) - before(q));
    siblings.forEach((e, rank) => {
      e.port = siblings.length < 9 ? (rank + 1) / (siblings.length + 1) - 0.5 : 0;
    });
  }
}

function spanOf(points) {
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}
