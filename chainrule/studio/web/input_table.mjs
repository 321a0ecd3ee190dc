// The table of an expression's inputs: value, gradient, and what a small step of each does.
import {h} from "./dom.mjs";

export const NUDGE = 0.001;
const INPUT_COLUMNS = ["input", "value", "drag", "gradient", `add ${NUDGE}: result, slope`];

const tableCell = (role, kind, ...children) => h("div", {role, class: kind}, ...children);
const tableRow = (...cells) => h("div", {role: "row", class: "inputrow"}, ...cells);

export class InputTable {
  // `onValue(name, x)` gets what is typed or dragged: NaN for what is no number.
  constructor(onValue) {
    this.onValue = onValue;
    this.element = h("div", {class: "inputs"});
  }

  showInputs(names, values) {
    this.inputs = names.map((name) => new InputRow(name, values[name], this.onValue));
    const head = INPUT_COLUMNS.map((title) => tableCell("columnheader", "soft", title));
    this.element.replaceChildren(
      h(
        "div",
        {role: "table", class: "inputtable", "aria-label": "inputs"},
        tableRow(...head),
        ...this.inputs.map((input) => input.element),
      ),
    );
  }
}

class InputRow {
  constructor(name, x, onValue) {
    this.name = name;
    const reach = Math.max(10, 2 * Math.abs(x));
    this.number = h("input", {
      type: "number",
      step: "any",
      value: x,
      "aria-label": `value of ${name}`,
      oninput: () => {
        this.moveSlider(this.number.valueAsNumber);
        onValue(name, this.number.valueAsNumber);
      },
    });
    this.slider = h("input", {
      type: "range",
      min: -reach,
      max: reach,
      step: reach / 1000,
      value: x,
      "aria-label": `drag ${name}`,
      oninput: () => {
        this.number.value = this.slider.valueAsNumber;
        onValue(name, this.slider.valueAsNumber);
      },
    });
    this.gradient = h("output", {"aria-label": `gradient of ${name}`});
    this.nudge = h("output", {"aria-label": `difference of ${name}`});
    this.element = tableRow(
      tableCell("rowheader", "inputname", name),
      tableCell("cell", "", this.number),
      tableCell("cell", "inputslider", this.slider),
      tableCell("cell", "grad", this.gradient),
      tableCell("cell", "nudge", this.nudge),
    );
  }

  // To a number that is typed, which may lie beyond its ends.
  moveSlider(x) {
    if (!Number.isFinite(x)) return;
    if (Math.abs(x) > this.slider.max) {
      this.slider.max = 2 * Math.abs(x);
      this.slider.min = -this.slider.max;
    }
    this.slider.value = x;
  }

  show(gradient, nudge) {
    this.gradient.textContent = gradient;
    this.nudge.textContent = nudge;
  }
}
