// The network as a picture: every unit's output over the plane, with weights as lines between.
import {chartColours, colourMap, divergingColours, sizedCanvas} from "./charts.mjs";

const PICTURES_MOST = 42;

// What a unit may be scaled by so that its picture uses all colours.
function unitScale(values, j) {
  let most = 0;
  for (let i = j; i < values.length; i += 48) most = Math.max(most, Math.abs(values[i]));
  return most > 1 ? 1 / most : 1;
}

export class NetworkDiagram {
  constructor(canvas) {
    this.canvas = canvas;
    this.picture = document.createElement("canvas");
    this.inputs = null;
  }

  // Centres of units by column: the two inputs, hidden layers, the output.
  places(widths, width, height) {
    const columns = [2, ...widths, 1], each = width / columns.length;
    const most = Math.max(...columns), size = Math.max(10, Math.min(PICTURES_MOST, Math.floor((height - 8) / most) - 6, each * 0.6));
    return {size, columns: columns.map((n, c) => Array.from({length: n}, (_, i) => {
      const pitch = Math.min(size + 14, (height - size - 4) / Math.max(1, n - 1));
      return [each * (c + 0.5), height / 2 + (i - (n - 1) / 2) * (n > 1 ? pitch : 0)];
    }))};
  }

  draw({weights, surface, settings}, {chosen, squared}) {
    const {g, width, height} = sizedCanvas(this.canvas), colours = chartColours(this.canvas);
    const {size, columns} = this.placed = this.places(settings.widths, width, height);
    this.lines(g, [...weights.layers, weights.last], columns, colours, size);
    const shades = divergingColours(colours.contrast, colours.ground, colours.accent, 0.85);
    this.columnPictures(surface, squared).forEach(({values, scale, stride, start}, k) => {
      const [c, i] = this.flat(columns, k), [x, y] = columns[c][i], left = Math.round(x - size / 2), top = Math.round(y - size / 2);
      colourMap(this.picture, values, surface.size, shades, {start, stride, scale, every: 2});
      g.drawImage(this.picture, left, top, size, size);
      const isChosen = chosen && chosen[0] === c && chosen[1] === i;
      Object.assign(g, {strokeStyle: isChosen ? colours.ink : colours.edge, lineWidth: isChosen ? 2.5 : 1});
      g.strokeRect(left + 0.5, top + 0.5, size - 1, size - 1);
    });
  }

  flat(columns, k) {
    let c = 0;
    while (k >= columns[c].length) k -= columns[c++].length;
    return [c, k];
  }

  // Values of all units' pictures, column by column.
  columnPictures(surface, squared) {
    const {size, units} = surface;
    if (this.inputs?.size !== size) {
      const x = new Float32Array(size * size), y = new Float32Array(size * size);
      for (let i = 0; i < size * size; i++) {
        x[i] = 2 * (i % size + 0.5) / size - 1;
        y[i] = 1 - 2 * (Math.floor(i / size) + 0.5) / size;
      }
      this.inputs = {size, x, y};
    }
    const whole = (values) => ({values, scale: 1, stride: 1, start: 0}), {x, y} = this.inputs;
    return [
      whole(x), whole(y),
      ...units.flatMap((values, l) => Array.from({length: this.placed.columns[l + 1].length}, (_, j) =>
        ({values, scale: unitScale(values, j), stride: 16, start: j}))),
      whole(outputShades(surface.output, squared)),
    ];
  }

  lines(g, layers, columns, colours, size) {
    layers.forEach(({w}, l) => w.forEach((row, i) => row.forEach((v, j) => {
      const a = columns[l][i], b = columns[l + 1]?.[j];
      if (!a || !b || !Number.isFinite(v)) return;
      const [x1, y1, x2, y2] = [a[0] + size / 2, a[1], b[0] - size / 2, b[1]], bend = (x2 - x1) / 2;
      const strength = Math.min(1, Math.abs(v) / 2);
      Object.assign(g, {strokeStyle: v < 0 ? colours.contrast : colours.accent, lineWidth: 0.4 + 3.4 * strength, globalAlpha: 0.18 + 0.62 * strength});
      g.beginPath();
      g.moveTo(x1, y1);
      g.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
      g.stroke();
    })));
    g.globalAlpha = 1;
  }

  // The unit at a place of the canvas as [column, index].
  at(x, y) {
    const {size, columns} = this.placed ?? {columns: []};
    for (let c = 0; c < columns.length; c++)
      for (let i = 0; i < columns[c].length; i++)
        if (Math.abs(columns[c][i][0] - x) <= size / 2 + 2 && Math.abs(columns[c][i][1] - y) <= size / 2 + 2) return [c, i];
    return null;
  }
}

// Outputs as numbers from -1 to 1: probabilities as 2p - 1, numbers as they are.
export function outputShades(output, squared) {
  return squared ? output : Float32Array.from(output, (z) => 2 / (1 + Math.exp(-z)) - 1);
}

export class SurfacePlot {
  constructor(canvas) {
    this.canvas = canvas;
    this.picture = document.createElement("canvas");
  }

  // What the chosen unit makes of the plane, under the points: dark rims are held out.
  draw({surface, points, chosen, squared, plane, diagram}) {
    const {g, width} = sizedCanvas(this.canvas, this.canvas.clientWidth), colours = chartColours(this.canvas);
    const shades = divergingColours(colours.contrast, colours.ground, colours.accent, 0.62);
    if (surface) {
      const pictures = diagram.columnPictures(surface, squared), columns = diagram.placed.columns;
      const k = chosen ? columns.slice(0, chosen[0]).reduce((n, c) => n + c.length, 0) + chosen[1] : pictures.length - 1;
      const {values, ...how} = pictures[Math.min(k, pictures.length - 1)];
      colourMap(this.picture, values, surface.size, shades, how);
      g.imageSmoothingQuality = "high";
      g.drawImage(this.picture, 0, 0, width, width);
    }
    const radius = points.train.y.length + points.test.y.length > 400 ? 2.6 : 3.6;
    const dots = divergingColours(colours.contrast, colours.soft, colours.accent);
    for (const [part, rim] of [[points.train, colours.ground], [points.test, colours.ink]]) {
      for (let i = 0; i < part.y.length; i++) {
        const v = squared ? part.y[i] : 2 * part.y[i] - 1;
        g.beginPath();
        g.arc((part.x[2 * i] / plane + 1) * width / 2, (1 - part.x[2 * i + 1] / plane) * width / 2, radius, 0, 7);
        g.fillStyle = `rgb(${dots[Math.max(0, Math.min(255, Math.round((v + 1) * 127.5)))].join()})`;
        g.fill();
        Object.assign(g, {strokeStyle: rim, lineWidth: 1});
        g.stroke();
      }
    }
  }
}
