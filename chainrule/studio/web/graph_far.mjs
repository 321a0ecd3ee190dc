// The graph from afar: more boxes than text could be read on, drawn on a canvas.

// `kindOf(box)` names a colour of FILLS.
const FILLS = {
  op: "accent",
  input: "leaf_rim",
  parameter: "good",
  constant: "soft",
  group: "accent",
  wrong: "bad",
  now: "contrast",
};

export function paintFar(canvas, {x, y, scale}, boxes, edges, all, kindOf) {
  const context = canvas.getContext("2d");
  const density = globalThis.devicePixelRatio || 1;
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(`--${name}`);
  context.setTransform(density * scale, 0, 0, density * scale, density * x, density * y);
  context.strokeStyle = colour("edge");
  context.lineWidth = 1 / scale;
  context.globalAlpha = 0.5;
  context.beginPath();
  for (const e of edges) {
    context.moveTo(all[e.from].x, all[e.from].y);
    for (const [a, b] of e.bends) {
      context.lineTo(...a);
      context.lineTo(...b);
    }
    context.lineTo(all[e.to].x, all[e.to].y);
  }
  context.stroke();
  context.globalAlpha = 1;
  const paths = {};
  for (const b of boxes)
    (paths[kindOf(b)] ??= new Path2D()).rect(b.x - b.wide / 2, b.y - b.tall / 2, b.wide, b.tall);
  for (const [kind, fill] of Object.entries(FILLS)) {
    if (!paths[kind]) continue;
    context.fillStyle = colour(fill);
    context.fill(paths[kind]);
  }
}

export function clearCanvas(canvas) {
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
}
