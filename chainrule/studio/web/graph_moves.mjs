// Where a key or a step takes the reader in the graph.

// The number of the box that an arrow key goes to from box `i`: along an edge, or beside in its layer.
export function neighbourOf({boxes, edges, across}, i, key) {
  const box = boxes[i];
  const back = edges.find((o) => o.to === i)?.from;
  const forth = edges.find((o) => o.from === i)?.to;
  const [along, beside] = across ? ["x", "y"] : ["y", "x"];
  const layer = boxes
    .map((b, j) => [b, j])
    .filter(([b, j]) => j !== i && Math.abs(b[along] - box[along]) < 8)
    .sort(([p], [q]) => p[beside] - q[beside]);
  const before = layer.filter(([b]) => b[beside] < box[beside]).at(-1)?.[1];
  const after = layer.find(([b]) => b[beside] > box[beside])?.[1];
  const keys = across
    ? ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]
    : ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
  return [back, forth, before, after][keys.indexOf(key)];
}

// Where a graph of this size begins, so that no more than a margin of the room stays empty.
export function withinRoom(at, size, room) {
  if (size <= room - 32) return Math.max(16, Math.min(at, room - size - 16));
  return Math.max(room - size - 16, Math.min(at, 24));
}
