// Moving and zooming with mouse, wheel and fingers. The wheel zooms with Ctrl, or once the graph was
// touched; else it scrolls the page.

// `view` has zoom(factor, x, y) and move(dx, dy).
export function listenToGestures(element, view) {
  let isActive = false;
  let dragDistance = 0;
  const pointers = new Map(); // by pointer, where it was last
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
    pointers.set(e.pointerId, [e.clientX, e.clientY]);
    isActive = true;
    dragDistance = 0;
  });
  element.addEventListener("pointermove", (e) => {
    if (!pointers.has(e.pointerId)) return;
    const [px, py] = pointers.get(e.pointerId);
    const [dx, dy] = [e.clientX - px, e.clientY - py];
    pointers.set(e.pointerId, [e.clientX, e.clientY]);
    const other = [...pointers].find(([id]) => id !== e.pointerId)?.[1];
    if (other) return pinch(e, other, px, py);
    dragDistance += Math.abs(dx) + Math.abs(dy);
    if (dragDistance <= 4) return;
    if (!element.hasPointerCapture(e.pointerId)) element.setPointerCapture(e.pointerId);
    view.move(dx, dy);
  });
  function pinch(e, [ox, oy], px, py) {
    const ratio =
      Math.hypot(e.clientX - ox, e.clientY - oy) / Math.max(1, Math.hypot(px - ox, py - oy));
    view.zoom(ratio, ...inside((e.clientX + ox) / 2, (e.clientY + oy) / 2));
  }
  for (const kind of ["pointerup", "pointercancel"])
    element.addEventListener(kind, (e) => pointers.delete(e.pointerId));
  element.addEventListener("pointerleave", (e) => {
    pointers.delete(e.pointerId);
    if (e.pointerType === "mouse") isActive = false;
  });
}
