// The network as a picture: every unit's output over the plane, with weights as lines between.
import {chartColours, divergingColours, sizedCanvas} from "./canvas.mjs";

const PICTURES_MOST = 42;

export class NetworkDiagram {
  // Pictures of units on `canvas`; lines, which change slowly, on `under`.
  constructor(canvas, under) {
    Object.assign(this, {canvas, under, strip: new ShadeStrip()});
  }

  // Centres of units by column: the two inputs, hidden layers, the output.
  places(widths, width, height) {
    const columns = [2, ...widths, 1];
    const each = width / columns.length;
    const most = Math.max(...columns);
    const size = Math.max(
      10,
      Math.min(PICTURES_MOST, Math.floor((height - 8) / most) - 6, each * 0.6),
    );
    return {
      size,
      columns: columns.map((n, c) =>
        Array.from({length: n}, (_, i) => {
          const pitch = Math.min(size + 14, (height - size - 4) / Math.max(1, n - 1));
          return [each * (c + 0.5), height / 2 + (i - (n - 1) / 2) * (n > 1 ? pitch : 0)];
        }),
      ),
    };
  }

  // `weights` are null where lines stay as they are.
  draw({weights, surface, settings}, unit) {
    const {g, width, height} = sizedCanvas(this.canvas);
    const colours = chartColours();
    const {size, columns} = (this.layout = this.places(settings.widths, width, height));
    if (weights) this.lines(sizedCanvas(this.under).g, [...weights.layers, weights.last], colours);
    const n = surface.size / 2;
    const shades = [...inputShades(n), surface.pictures];
    const strip = this.strip.draw(
      shades,
      n,
      divergingColours(colours.contrast, colours.ground, colours.accent, 0.85),
    );
    let k = 0;
    Object.assign(g, {strokeStyle: colours.edge, lineWidth: 1});
    g.beginPath();
    for (const [x, y] of columns.flat()) {
      const [left, top] = [Math.round(x - size / 2), Math.round(y - size / 2)];
      g.drawImage(strip, n * k++, 0, n, n, left, top, size, size);
      g.rect(left + 0.5, top + 0.5, size - 1, size - 1);
    }
    g.stroke();
    const at = unit && columns[unit[0]]?.[unit[1]];
    if (!at) return;
    Object.assign(g, {strokeStyle: colours.ink, lineWidth: 2.5});
    g.strokeRect(
      Math.round(at[0] - size / 2) + 0.5,
      Math.round(at[1] - size / 2) + 0.5,
      size - 1,
      size - 1,
    );
  }

  lines(g, layers, colours) {
    const {size, columns} = this.layout;
    layers.forEach(({w}, l) =>
      w.forEach((row, i) =>
        row.forEach((v, j) => {
          const a = columns[l][i];
          const b = columns[l + 1]?.[j];
          if (!a || !b || !Number.isFinite(v)) return;
          const [x1, y1, x2, y2] = [a[0] + size / 2, a[1], b[0] - size / 2, b[1]];
          const bend = (x2 - x1) / 2;
          const strength = Math.min(1, Math.abs(v) / 2);
          const strokeStyle = v < 0 ? colours.contrast : colours.accent;
          Object.assign(g, {
            strokeStyle,
            lineWidth: 0.4 + 3.4 * strength,
            globalAlpha: 0.18 + 0.62 * strength,
          });
          g.beginPath();
          g.moveTo(x1, y1);
          g.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
          g.stroke();
        }),
      ),
    );
    g.globalAlpha = 1;
  }

  // The unit at a place of the canvas as [column, index].
  at(x, y) {
    const {size, columns} = this.layout ?? {columns: []};
    for (let c = 0; c < columns.length; c++)
      for (let i = 0; i < columns[c].length; i++)
        if (
          Math.abs(columns[c][i][0] - x) <= size / 2 + 2 &&
          Math.abs(columns[c][i][1] - y) <= size / 2 + 2
        )
          return [c, i];
    return null;
  }
}

// The shades of the two inputs over the plane, n by n points.
function inputShades(n) {
  const shade = (k) => Math.round((255 * (k + 0.5)) / n);
  return [
    Uint8Array.from({length: n * n}, (_, at) => shade(at % n)),
    Uint8Array.from({length: n * n}, (_, at) => shade(n - 1 - Math.floor(at / n))),
  ];
}

// Pictures of n by n shades beside each other, as one image that is filled at once.
class ShadeStrip {
  constructor(canvas = document.createElement("canvas")) {
    this.canvas = canvas;
  }

  // `parts` are arrays of shades, of one picture or of several after each other.
  draw(parts, n, colours) {
    const count = parts.reduce((sum, p) => sum + p.length, 0) / (n * n);
    const {canvas} = this;
    if (canvas.width !== n * count || canvas.height !== n || !this.image) {
      Object.assign(canvas, {width: n * count, height: n});
      this.pen = canvas.getContext("2d", {willReadFrequently: true});
      this.image = this.pen.createImageData(n * count, n);
      this.words = new Uint32Array(this.image.data.buffer);
    }
    let left = 0;
    for (const part of parts)
      for (let at = 0; at < part.length; left += n)
        for (let i = 0; i < n; i++)
          for (let j = 0; j < n; j++)
            this.words[i * n * count + left + j] = colours.words[part[at++]];
    this.pen.putImageData(this.image, 0, 0);
    return canvas;
  }
}

export class SurfacePlot {
  // The plane on `canvas`, as few pixels that the browser scales; the points, which seldom change, on `over`.
  constructor(canvas, over) {
    Object.assign(this, {canvas, over, strip: new ShadeStrip(canvas), drawnPoints: null});
  }

  // What the chosen unit makes of the plane, under the points.
  draw({surface, points, unit, squared, plane}) {
    const colours = chartColours();
    const shades = divergingColours(colours.contrast, colours.ground, colours.accent, 0.62);
    if (surface) {
      const large = unit?.[0] === 0 ? inputShades(surface.size)[unit[1]] : surface.large;
      this.strip.draw([large], surface.size, shades);
    }
    const content = [points, this.canvas.clientWidth, colours, squared];
    if (this.drawnPoints?.every((x, i) => x === content[i])) return;
    this.drawnPoints = content;
    this.drawPoints(points, colours, squared, plane);
  }

  // Dark rims are held out.
  drawPoints(points, colours, squared, plane) {
    const {g, width} = sizedCanvas(this.over, this.canvas.clientWidth);
    const radius = points.train.y.length + points.test.y.length > 400 ? 2.6 : 3.6;
    const dots = divergingColours(colours.contrast, colours.soft, colours.accent);
    for (const [part, rim] of [
      [points.train, colours.ground],
      [points.test, colours.ink],
    ]) {
      for (let i = 0; i < part.y.length; i++) {
        const v = squared ? part.y[i] : 2 * part.y[i] - 1;
        g.beginPath();
        g.arc(
          ((part.x[2 * i] / plane + 1) * width) / 2,
          ((1 - part.x[2 * i + 1] / plane) * width) / 2,
          radius,
          0,
          7,
        );
        g.fillStyle = `rgb(${dots[Math.max(0, Math.min(255, Math.round((v + 1) * 127.5)))].join()})`;
        g.fill();
        Object.assign(g, {strokeStyle: rim, lineWidth: 1});
        g.stroke();
      }
    }
  }
}
