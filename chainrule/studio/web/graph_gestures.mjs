// Moving and zooming with mouse, wheel and fingers. The wheel zooms with Ctrl, or once the graph was
// touched; else it scrolls the page.

// `view` has zoom(factor, x, y) and move(dx, dy).
export function listenToGestures(element, view) {
  let isActive = false;
  let dragged = 0;
  const held = new Map(); // by pointer, where it was last
  const inside = (x, y) => {
    const box = element.getBoundingClientRect();
    return [x - box.left, y - box.top];
  };
  element.addEventListener(
    "wheel",
    (e) => {
      if (!e.ctrlKey && !e.metaKey && !isActive) return;
      e.preventDefault();
      view.zoom(Math.exp(-e.deltaY / 400), ...inside(e.clientX, e.clientY));
    },
    {passive: false},
  );
  element.addEventListener("pointerdown", (e) => {
    held.set(e.pointerId, [e.clientX, e.clientY]);
    isActive = true;
    dragged = 0;
  });
  element.addEventListener("pointermove", (e) => {
    if (!held.has(e.pointerId)) return;
    const [px, py] = held.get(e.pointerId);
    const [dx, dy] = [e.clientX - px, e.clientY - py];
    held.set(e.pointerId, [e.clientX, e.clientY]);
    const other = [...held].find(([id]) => id !== e.pointerId)?.[1];
    if (other) return pinch(e, other, px, py);
    dragged += Math.abs(dx) + Math.abs(dy);
    if (dragged <= 4) return;
    if (!element.hasPointerCapture(e.pointerId)) element.setPointerCapture(e.pointerId);
    view.move(dx, dy);
  });
  function pinch(e, [ox, oy], px, py) {
    const ratio =
      Math.hypot(e.clientX - ox, e.clientY - oy) / Math.max(1, Math.hypot(px - ox, py - oy));
    view.zoom(ratio, ...inside((e.clientX + ox) / 2, (e.clientY + oy) / 2));
  }
  for (const kind of ["pointerup", "pointercancel"])
    element.addEventListener(kind, (e) => held.delete(e.pointerId));
  element.addEventListener("pointerleave", (e) => {
    held.delete(e.pointerId);
    if (e.pointerType === "mouse") isActive = false;
  });
}
