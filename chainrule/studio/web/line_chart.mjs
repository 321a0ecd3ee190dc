// Lines over steps on a canvas, with a linear or logarithmic axis.
import {CHART_FONT, chartColours, sizedCanvas} from "./canvas.mjs";
import {commas, short} from "./numbers.mjs";

export function niceTicks(low, high, count = 4) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
    out.push(Number(v.toPrecision(12)));
  return out;
}

// Powers of ten within, at most six; with few of them 2 and 5 times, too
export function decadeTicks(low, high) {
  const from = Math.ceil(Math.log10(low) - 1e-9);
  const to = Math.floor(Math.log10(high) + 1e-9);
  const out = [];
  const each = Math.max(1, Math.ceil((to - from + 1) / 6));
  for (let p = from; p <= to; p += each) out.push(10 ** p);
  if (out.length >= 2) return out;
  return [1, 2, 5]
    .flatMap((m) => Array.from({length: to - from + 3}, (_, i) => m * 10 ** (from - 1 + i)))
    .filter((v) => v >= low * 0.999 && v <= high * 1.001)
    .sort((a, b) => a - b);
}

// series: [{xs, ys, colour, width, dash, label, alpha}]. `log` is the y axis; `from` its range, if
// it is not that of the numbers. Returns the place of x, and the x of a place.
export function lineChart(canvas, {series, log = false, mark = null, empty = "", range = null}) {
  const colours = chartColours();
  const {g, width, height} = sizedCanvas(canvas);
  const usable = (v) => Number.isFinite(v) && (!log || v > 0);
  let low = Infinity;
  let high = -Infinity;
  let most = 1;
  let least = Infinity;
  for (const {xs, ys} of series) {
    for (let i = 0; i < xs.length; i++) {
      if (!usable(ys[i])) continue;
      low = Math.min(low, ys[i]);
      high = Math.max(high, ys[i]);
      most = Math.max(most, xs[i]);
      least = Math.min(least, xs[i]);
    }
  }
  g.font = CHART_FONT;
  if (low > high) {
    g.fillStyle = colours.soft;
    g.fillText(empty, 0, 20);
    return null;
  }
  if (range) [low, high] = [Math.min(low, range[0]), Math.max(high, range[1])];
  if (log) [low, high] = [low / 1.25, high * 1.25];
  if (log && high / low < 10)
    [low, high] = [low / Math.sqrt((10 * low) / high), high * Math.sqrt((10 * low) / high)];
  if (!log && high === low) [low, high] = [low - 0.5, high + 0.5];
  const named = series.filter((s) => s.label);
  const right = Math.max(8, ...named.map((s) => g.measureText(s.label).width + 12));
  const box = {left: 46, right: width - right, top: 8, bottom: height - 22};
  const f = log ? Math.log : (v) => v;
  const x = (v) => box.left + ((box.right - box.left) * v) / most;
  const y = (v) => box.bottom - ((box.bottom - box.top) * (f(v) - f(low))) / (f(high) - f(low));
  drawAxes(g, {
    box,
    x,
    y,
    colours,
    yTicks: log ? decadeTicks(low, high) : niceTicks(low, high),
    xTicks: niceTicks(0, most, width < 360 ? 3 : 5),
    log,
  });
  for (const s of series) drawLine(g, s, x, y, usable);
  g.globalAlpha = 1;
  labelEnds(g, named, y, usable, box);
  if (mark !== null) {
    g.fillStyle = colours.ink;
    g.fillRect(x(Math.min(mark, most)) - 0.75, box.top, 1.5, box.bottom - box.top);
  }
  return {
    x,
    value: (place) =>
      Math.max(0, Math.min(most, ((place - box.left) / (box.right - box.left)) * most)),
  };
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
  for (const v of xTicks) g.fillText(commas(v), x(v), box.bottom + 7);
  g.textAlign = "left";
  g.textBaseline = "alphabetic";
}

function tickText(v, log) {
  if (!log || (v >= 0.001 && v < 10000)) return short(v, 3);
  const power = Math.round(Math.log10(v));
  return Math.abs(v / 10 ** power - 1) < 1e-6
    ? `10${[...String(power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("")}`
    : short(v, 2);
}

function drawLine(g, {xs, ys, colour, width = 1.75, dash = [], alpha = 1}, x, y, usable) {
  Object.assign(g, {strokeStyle: colour, lineWidth: width, globalAlpha: alpha, lineJoin: "round"});
  g.setLineDash(dash);
  g.beginPath();
  let drawing = false;
  for (let i = 0; i < xs.length; i++) {
    if (!usable(ys[i])) {
      drawing = false;
      continue;
    }
    if (drawing) g.lineTo(x(xs[i]), y(ys[i]));
    else g.moveTo(x(xs[i]), y(ys[i]));
    drawing = true;
  }
  g.stroke();
  g.setLineDash([]);
}

// Beside the lines' ends, moved apart
function labelEnds(g, named, y, usable, box) {
  const labels = named
    .map((s) => ({s, at: y(s.ys.findLast(usable) ?? NaN)}))
    .filter((l) => Number.isFinite(l.at));
  labels.sort((a, b) => a.at - b.at);
  labels.forEach((l, i) => {
    if (i) l.at = Math.max(l.at, labels[i - 1].at + 14);
  });
  const over = (labels.at(-1)?.at ?? 0) - box.bottom;
  if (over > 0)
    labels.forEach((l, i) => {
      l.at = Math.min(l.at, box.bottom - 14 * (labels.length - 1 - i));
    });
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
