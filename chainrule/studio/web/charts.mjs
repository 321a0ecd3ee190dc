// Pictures on canvas: lines over steps with a linear or logarithmic axis, and maps of colours.
import {short} from "./numbers.mjs";

// The page's colours as they are now, by role.
export function chartColours() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const key = [dark, root.className, root.dataset.theme, root.getAttribute("style")].join();
  if (coloursNow?.key === key) return coloursNow.colours;  // asking for styles lays the page out
  const style = getComputedStyle(root), of = (role) => style.getPropertyValue(`--${role}`).trim() || "#888";
  const roles = ["ink", "ground", "panel", "rim", "rule", "soft", "edge", "accent", "contrast", "good", "look", "bad"];
  coloursNow = {key, colours: Object.fromEntries(roles.map((role) => [role, of(role)]))};
  return coloursNow.colours;
}
let coloursNow = null;

// Calls `redraw` when the colour scheme changes. Returns what stops that.
export function onSchemeChange(redraw) {
  const query = matchMedia("(prefers-color-scheme: dark)"), observer = new MutationObserver(redraw);
  query.addEventListener("change", redraw);
  observer.observe(document.documentElement, {attributes: true, attributeFilter: ["class", "data-theme", "style"]});
  return () => { query.removeEventListener("change", redraw); observer.disconnect(); };
}

export const calmMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// A canvas as large as its box, in pixels of the screen; the context draws in CSS pixels.
export function sizedCanvas(canvas, height = canvas.clientHeight) {
  const width = canvas.clientWidth, scale = devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * scale)), tall = Math.max(1, Math.round(height * scale));
  if (canvas.width !== w || canvas.height !== tall) Object.assign(canvas, {width: w, height: tall});
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  return {g, width, height};
}

function rgb(colour) {
  const hex = colour.replace("#", "");
  return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

// 256 colours from one for -1 over the middle for 0 to another for 1, as [r, g, b]; `words` are they as
// an image holds them.
export function divergingColours(low, middle, high, strength = 1) {
  const key = [low, middle, high, strength].join();
  if (!divergingKnown.has(key)) {
    const ends = [rgb(low), rgb(middle), rgb(high)];
    const colours = Array.from({length: 256}, (_, i) => {
      const v = i / 127.5 - 1, end = v < 0 ? ends[0] : ends[2], t = Math.abs(v) * strength;
      return end.map((c, k) => Math.round(c * t + ends[1][k] * (1 - t)));
    });
    colours.words = Uint32Array.from(colours, ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0);
    divergingKnown.set(key, colours);
  }
  return divergingKnown.get(key);
}
const divergingKnown = new Map();

// --- lines -----------------------------------------------------------------------------------

const FONT = "12px system-ui, sans-serif";

export function niceTicks(low, high, count = 4) {
  const raw = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power, out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) out.push(Number(v.toPrecision(12)));
  return out;
}

export function decadeTicks(low, high) {  // powers of ten within, at most six; with few of them 2 and 5 times, too
  const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9), out = [];
  const each = Math.max(1, Math.ceil((to - from + 1) / 6));
  for (let p = from; p <= to; p += each) out.push(10 ** p);
  if (out.length >= 2) return out;
  return [1, 2, 5].flatMap((m) => Array.from({length: to - from + 3}, (_, i) => m * 10 ** (from - 1 + i)))
    .filter((v) => v >= low * 0.999 && v <= high * 1.001).sort((a, b) => a - b);
}

// series: [{xs, ys, colour, width, dash, label, alpha}]. `log` is the y axis; `from` its range, if
// it is not that of the numbers. Returns the place of x, and the x of a place.
export function lineChart(canvas, {series, log = false, mark = null, empty = "", range = null}) {
  const colours = chartColours(), {g, width, height} = sizedCanvas(canvas);
  const usable = (v) => Number.isFinite(v) && (!log || v > 0);
  let low = Infinity, high = -Infinity, most = 1, least = Infinity;
  for (const {xs, ys} of series) {
    for (let i = 0; i < xs.length; i++) {
      if (!usable(ys[i])) continue;
      low = Math.min(low, ys[i]);
      high = Math.max(high, ys[i]);
      most = Math.max(most, xs[i]);
      least = Math.min(least, xs[i]);
    }
  }
  g.font = FONT;
  if (low > high) {
    g.fillStyle = colours.soft;
    g.fillText(empty, 0, 20);
    return null;
  }
  if (range) [low, high] = [Math.min(low, range[0]), Math.max(high, range[1])];
  if (log) [low, high] = [low / 1.25, high * 1.25];
  if (log && high / low < 10) [low, high] = [low / Math.sqrt(10 * low / high), high * Math.sqrt(10 * low / high)];
  if (!log && high === low) [low, high] = [low - 0.5, high + 0.5];
  const named = series.filter((s) => s.label), right = Math.max(8, ...named.map((s) => g.measureText(s.label).width + 12));
  const box = {left: 46, right: width - right, top: 8, bottom: height - 22};
  const f = log ? Math.log : (v) => v, x = (v) => box.left + (box.right - box.left) * v / most;
  const y = (v) => box.bottom - (box.bottom - box.top) * (f(v) - f(low)) / (f(high) - f(low));
  drawAxes(g, {box, x, y, colours, yTicks: log ? decadeTicks(low, high) : niceTicks(low, high), xTicks: niceTicks(0, most, width < 360 ? 3 : 5), log});
  for (const s of series) drawLine(g, s, x, y, usable);
  g.globalAlpha = 1;
  labelEnds(g, named, y, usable, box);
  if (mark !== null) {
    g.fillStyle = colours.ink;
    g.fillRect(x(Math.min(mark, most)) - 0.75, box.top, 1.5, box.bottom - box.top);
  }
  return {x, value: (place) => Math.max(0, Math.min(most, (place - box.left) / (box.right - box.left) * most))};
}

function drawAxes(g, {box, x, y, colours, yTicks, xTicks, log}) {
  g.textBaseline = "middle";
  for (const v of yTicks) {
    const at = Math.round(y(v)) + 0.5;
    if (at < box.top - 1 || at > box.bottom + 1) continue;
    g.fillStyle = colours.rule;
    g.fillRect(box.left, at - 0.5, box.right - box.left, 1);
    g.fillStyle = colours.soft;
    g.textAlign = "right";
    g.fillText(tickText(v, log), box.left - 8, at);
  }
  g.textAlign = "center";
  g.textBaseline = "top";
  g.fillStyle = colours.soft;
  for (const v of xTicks) g.fillText(v.toLocaleString("en"), x(v), box.bottom + 7);
  g.textAlign = "left";
  g.textBaseline = "alphabetic";
}

function tickText(v, log) {
  if (!log || (v >= 0.001 && v < 10000)) return short(v, 3);
  const power = Math.round(Math.log10(v));
  return Math.abs(v / 10 ** power - 1) < 1e-6 ? `10${[...String(power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("")}` : short(v, 2);
}

function drawLine(g, {xs, ys, colour, width = 1.75, dash = [], alpha = 1}, x, y, usable) {
  Object.assign(g, {strokeStyle: colour, lineWidth: width, globalAlpha: alpha, lineJoin: "round"});
  g.setLineDash(dash);
  g.beginPath();
  let drawing = false;
  for (let i = 0; i < xs.length; i++) {
    if (!usable(ys[i])) { drawing = false; continue; }
    if (drawing) g.lineTo(x(xs[i]), y(ys[i]));
    else g.moveTo(x(xs[i]), y(ys[i]));
    drawing = true;
  }
  g.stroke();
  g.setLineDash([]);
}

function labelEnds(g, named, y, usable, box) {  // beside the lines' ends, moved apart
  const labels = named.map((s) => ({s, at: y(s.ys.findLast(usable) ?? NaN)})).filter((l) => Number.isFinite(l.at));
  labels.sort((a, b) => a.at - b.at);
  labels.forEach((l, i) => { if (i) l.at = Math.max(l.at, labels[i - 1].at + 14); });
  const over = (labels.at(-1)?.at ?? 0) - box.bottom;
  if (over > 0) labels.forEach((l, i) => { l.at = Math.min(l.at, box.bottom - 14 * (labels.length - 1 - i)); });
  g.textBaseline = "middle";
  for (const {s, at} of labels) {
    g.fillStyle = s.colour;
    g.fillText(s.label, box.right + 6, at);
  }
  g.textBaseline = "alphabetic";
}

// Norms of single batches jump: their running mean, in logarithms.
export function smoothedNorms(values, keep = 0.8) {
  let mean = null;
  return values.map((v) => {
    if (!(v > 0)) return NaN;
    mean = mean === null ? Math.log(v) : keep * mean + (1 - keep) * Math.log(v);
    return Math.exp(mean);
  });
}

// --- heat maps -------------------------------------------------------------------------------

// values[row][column] with labels, colours by sign. Returns the cell at a place of the canvas.
export function heatMap(canvas, {values, rows, columns, most, rowLabels = null, columnLabels = null, focus = null, positive = false}) {
  const colours = chartColours(), left = rowLabels ? 20 : 0, top = columnLabels ? 20 : 0;
  const {g, width, height} = sizedCanvas(canvas), cell = Math.min((width - left - 2) / columns, (height - top - 2) / rows);
  const cells = divergingColours(colours.contrast, colours.ground, colours.accent);
  Object.assign(g, {font: FONT, textAlign: "center", textBaseline: "middle", fillStyle: colours.soft});
  if (columnLabels) columnLabels.forEach((t, j) => g.fillText(t, left + (j + 0.5) * cell, 10));
  if (rowLabels) rowLabels.forEach((t, i) => g.fillText(t, 8, top + (i + 0.5) * cell));
  const gap = cell > 9 ? 1 : 0;
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const v = values[i * columns + j] / (most || 1), at = Math.max(0, Math.min(255, Math.round((v + 1) * 127.5)));
      if (positive && j > i) continue;  // nothing looks ahead
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
    const i = Math.floor((py - top) / cell), j = Math.floor((px - left) / cell);
    return i >= 0 && j >= 0 && i < rows && j < columns ? [i, j] : null;
  };
}
