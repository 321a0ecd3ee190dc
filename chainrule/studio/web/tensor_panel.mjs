// The panel "Any tensor, or its gradient": a selector, and what it selects as a map of colours.
import {h, setLabel} from "./dom.mjs";
import {heatMap} from "./heat_map.mjs";
import {exact, short} from "./numbers.mjs";
import {selectorNames} from "./tensor_selector.mjs";
import {panel, pictureCanvas} from "./training_controls.mjs";

const ARROWS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
const MAP_HEIGHT = 640; // pixels at most

export class TensorPanel {
  // `onSelect` gets the text of a selector.
  constructor(text, onSelect) {
    this.focus = [0, 0]; // row and column of the cell that is read
    this.names = new Set();
    this.selector = h("input", {
      type: "text",
      value: text,
      list: "t-tensors",
      spellcheck: "false",
      autocomplete: "off",
      "aria-label": "tensor, and slice",
      onchange: () => onSelect(this.selector.value),
      oninput: () => {
        if (this.names.has(this.selector.value)) onSelect(this.selector.value);
      },
    });
    this.list = h("datalist", {id: "t-tensors"});
    this.error = h("p", {class: "t-wrong", role: "alert"});
    this.map = pictureCanvas("t-map", "the tensor", {
      tabindex: "0",
      onmousemove: (e) => this.point(e),
      onkeydown: (e) => this.key(e),
    });
    this.cell = h("p", {class: "t-cell"});
    this.summary = h("p", {class: "t-note"});
    this.element = panel(
      "Any tensor, or its gradient",
      "A name and a slice, such as h.0.attn.wq.grad[:, :2] or wte[:8]. Blue is above zero, orange " +
        "below. Arrow keys move in the map.",
      h("div", {class: "t-selector"}, this.selector, this.list),
      this.error,
      this.map,
      this.cell,
      this.summary,
    );
  }

  showTensors(tensors) {
    this.names = new Set(selectorNames(tensors));
    this.list.replaceChildren(...[...this.names].map((value) => h("option", {value})));
  }

  showError(message) {
    this.error.textContent = message;
    this.selector.setAttribute("aria-invalid", String(Boolean(message)));
  }

  // `tensor` {shape, values} at a step, of which `selection` selects rows and columns.
  draw({tensor: {shape, values}, step}, {rows, columns, gradient, text}) {
    this.values = Float64Array.from(
      rows.flatMap((r) => columns.map((c) => values[r * shape[1] + c])),
    );
    this.size = [rows.length, columns.length];
    this.focusOn(this.focus);
    const none = gradient && step === 0 ? " No step yet: there is no gradient." : "";
    this.summary.textContent = `${summaryOf(this.values, this.size)}.${none}`;
    setLabel(this.map, `${text}: ${this.summary.textContent}`);
  }

  // Reads this cell, or the nearest that there is.
  focusOn(cell) {
    const [rows, columns] = this.size;
    this.focus = cell.map((v, axis) => Math.max(0, Math.min(this.size[axis] - 1, v)));
    const side = Math.min(
      this.map.clientWidth / columns,
      Math.max(6, Math.min(36, 540 / rows)), // readable, and not too tall
    );
    this.map.style.height = `${Math.ceil(Math.min(side * rows + 4, MAP_HEIGHT))}px`;
    const most = Math.max(...this.values.map(Math.abs));
    const {values, focus} = this;
    this.cellAt = heatMap(this.map, {values, rows, columns, most, focus});
    const [i, j] = focus;
    this.cell.textContent = `[${i}, ${j}]  ${exact(values[i * columns + j])}`;
  }

  point({offsetX, offsetY}) {
    const cell = this.cellAt?.(offsetX, offsetY);
    if (cell) this.focusOn(cell);
  }

  key(e) {
    const by = ARROWS[e.key];
    if (!by || !this.values) return;
    e.preventDefault();
    this.focusOn(this.focus.map((v, axis) => v + by[axis]));
  }
}

function summaryOf(values, [rows, columns]) {
  const norm = Math.sqrt(values.reduce((sum, v) => sum + v * v, 0));
  return (
    `${rows} × ${columns} · least ${short(Math.min(...values))} · ` +
    `most ${short(Math.max(...values))} · norm ${short(norm)}`
  );
}
