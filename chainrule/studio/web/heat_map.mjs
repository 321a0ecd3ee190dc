// A map of colours on a canvas: a cell for each number.
import {CHART_FONT, chartColours, divergingColours, sizedCanvas} from "./canvas.mjs";

// values[row][column] with labels, colours by sign. Returns the cell at a place of the canvas.
export function heatMap(
  canvas,
  {
    values,
    rows,
    columns,
    most,
    rowLabels = null,
    columnLabels = null,
    focus = null,
    positive = false,
  },
) {
  const colours = chartColours();
  const left = rowLabels ? 20 : 0;
  const top = columnLabels ? 20 : 0;
  const {g, width, height} = sizedCanvas(canvas);
  const cell = Math.min((width - left - 2) / columns, (height - top - 2) / rows);
  const cells = divergingColours(colours.contrast, colours.ground, colours.accent);
  Object.assign(g, {
    font: CHART_FONT,
    textAlign: "center",
    textBaseline: "middle",
    fillStyle: colours.soft,
  });
  if (columnLabels) columnLabels.forEach((t, j) => g.fillText(t, left + (j + 0.5) * cell, 10));
  if (rowLabels) rowLabels.forEach((t, i) => g.fillText(t, 8, top + (i + 0.5) * cell));
  const gap = cell > 9 ? 1 : 0;
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const v = values[i * columns + j] / (most || 1);
      const at = Math.max(0, Math.min(255, Math.round((v + 1) * 127.5)));
      if (positive && j > i) continue; // nothing looks ahead
      g.fillStyle = Number.isFinite(v) ? `rgb(${cells[at].join()})` : colours.bad;
      g.fillRect(left + j * cell, top + i * cell, cell - gap, cell - gap);
    }
  }
  g.strokeStyle = colours.rim;
  if (!positive) g.strokeRect(left - 0.5, top - 0.5, columns * cell + 1, rows * cell + 1);
  if (focus && focus[0] < rows && focus[1] < columns) {
    Object.assign(g, {strokeStyle: colours.ink, lineWidth: 2});
    g.strokeRect(left + focus[1] * cell, top + focus[0] * cell, cell - gap, cell - gap);
  }
  Object.assign(g, {textAlign: "left", textBaseline: "alphabetic", lineWidth: 1});
  return (px, py) => {
    const i = Math.floor((py - top) / cell);
    const j = Math.floor((px - left) / cell);
    return i >= 0 && j >= 0 && i < rows && j < columns ? [i, j] : null;
  };
}
