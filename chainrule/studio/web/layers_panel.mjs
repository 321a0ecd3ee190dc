// The panel "Network": the picture of all units, and above it how many layers and units there are.
import {h, setLabel} from "./dom.mjs";
import {NetworkDiagram} from "./network_diagram.mjs";
import {LAYERS_MOST, UNITS_MOST} from "./network_settings.mjs";
import {countOf, short} from "./numbers.mjs";
import {action, panel, pictureCanvas} from "./training_controls.mjs";

const NEW_LAYER_UNITS = 4; // of a first layer; others are as wide as the one before

export class LayersPanel {
  // `onUnit` gets the unit that is pressed, as [column, index].
  constructor(widths, {onWidths, onUnit}) {
    Object.assign(this, {widths, onWidths});
    this.canvas = pictureCanvas("t-diagram", "the network", {
      onclick: (e) => {
        const unit = this.diagram.at(e.offsetX, e.offsetY);
        if (unit) onUnit(unit);
      },
    });
    const lines = h("canvas", {class: "t-wires", "aria-hidden": "true"});
    this.diagram = new NetworkDiagram(this.canvas, lines);
    this.columns = h("div", {class: "t-columns"});
    this.element = panel(
      "Network",
      "Each picture is what a unit gives over the plane; lines are weights, blue above zero and " +
        "orange below.",
      this.depthRow(),
      this.columns,
      h("div", {class: "t-layers"}, lines, this.canvas),
    );
  }

  depthRow() {
    const fewer = () => this.onWidths(this.widths.slice(0, -1));
    const more = () => this.onWidths([...this.widths, this.widths.at(-1) ?? NEW_LAYER_UNITS]);
    this.depth = h("span", {class: "t-count"});
    this.fewer = action("−", fewer, {"aria-label": "one hidden layer less"});
    this.more = action("+", more, {"aria-label": "one hidden layer more"});
    return h("div", {class: "t-depth"}, this.fewer, this.depth, this.more);
  }

  show(widths) {
    this.depth.textContent = countOf(widths.length, "hidden layer", "hidden layers");
    this.fewer.disabled = widths.length === 0;
    this.more.disabled = widths.length === LAYERS_MOST;
    const isSame = this.columns.children.length && String(widths) === String(this.widths);
    this.widths = widths;
    if (!isSame) this.showColumns();
  }

  showColumns() {
    const focused = this.columns.contains(document.activeElement)
      ? document.activeElement.getAttribute("aria-label")
      : null;
    const column = (...children) => h("div", {class: "t-column"}, ...children);
    const hidden = this.widths.map((units, l) => column(...this.unitButtons(units, l)));
    this.columns.style.gridTemplateColumns = `repeat(${hidden.length + 2}, 1fr)`;
    this.columns.replaceChildren(column("x, y"), ...hidden, column("output"));
    if (focused) this.columns.querySelector(`[aria-label="${focused}"]:not(:disabled)`)?.focus();
  }

  unitButtons(units, l) {
    const change = (by) => () => this.onWidths(this.widths.map((n, i) => (i === l ? n + by : n)));
    const layer = `layer ${l + 1}`;
    return [
      action("−", change(-1), {"aria-label": `one unit less in ${layer}`, disabled: units === 1}),
      h("span", {class: "t-count"}, units),
      action("+", change(1), {
        "aria-label": `one unit more in ${layer}`,
        disabled: units === UNITS_MOST,
      }),
    ];
  }

  // `withLines`: weights change too slowly to be drawn each time.
  draw(frame, unit, withLines) {
    this.diagram.draw(withLines ? frame : {...frame, weights: null}, unit);
  }

  describe({layers, last}) {
    const sizes = [...layers, last].flatMap(({w}) => w.flat().map(Math.abs));
    const units = this.widths.join(", ") || "no";
    setLabel(
      this.canvas,
      `A network with ${this.widths.length} hidden layers of ${units} units; ` +
        `the largest weight is ${short(Math.max(...sizes), 3)}.`,
    );
  }
}
