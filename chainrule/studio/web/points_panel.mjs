// The panel "Points": the plane with the points and what a unit makes of it, which points there are,
// and how to add some.
import {PLANE, POINT_SETS} from "./datasets.mjs";
import {h, setLabel} from "./dom.mjs";
import {SurfacePlot} from "./network_diagram.mjs";
import {NETWORK_CHOICES} from "./network_settings.mjs";
import {
  action,
  choice,
  closedPart,
  labelledField,
  numberField,
  panel,
  pictureCanvas,
} from "./training_controls.mjs";

const SPLITS = [
  ["0", "none"],
  ["0.2", "a fifth"],
  ["0.5", "half"],
];
const FIXED_UNITS = [
  ["", "the output"],
  ["0,0", "input x"],
  ["0,1", "input y"],
];

export class PointsPanel {
  // `onUnit` gets the unit to look at as [column, index], null for the output.
  constructor(settings, {onChange, onAdd, onRemove, onUnit}) {
    this.surface = pictureCanvas("t-surface", "the plane", {
      onclick: (e) => onAdd([...this.placeOf(e), this.label]),
    });
    const over = h("canvas", {class: "t-points", "aria-hidden": "true"});
    this.plot = new SurfacePlot(this.surface, over);
    this.unit = choice("Show", FIXED_UNITS.slice(0, 1), "", (v) =>
      onUnit(v ? v.split(",").map(Number) : null),
    );
    this.fields = dataFields(settings, onChange, onRemove);
    this.element = panel(
      "Points",
      "Click to add one. Those with a strong rim are held out: the network never trains on them.",
      h("div", {class: "t-grid"}, ...Object.values(this.fields)),
      h("div", {class: "t-layers"}, this.surface, over),
      this.unit,
      this.drawPart(onAdd, onRemove),
    );
  }

  drawPart(onAdd, onRemove) {
    const radio = (value, title) =>
      h(
        "label",
        {class: "t-check"},
        h("input", {type: "radio", name: "t-class", value, checked: value === 1}),
        h("span", {class: `t-class-${value}`}, title),
      );
    const legend = h("legend", {}, "A new point is");
    this.classes = h(
      "fieldset",
      {class: "t-classes"},
      legend,
      radio(1, "blue"),
      radio(0, "orange"),
    );
    const x = coordinateField("x");
    const y = coordinateField("y");
    const add = () => onAdd([coordinateOf(x), coordinateOf(y), this.label]);
    return closedPart(
      "Draw your own",
      {class: "t-draw"},
      this.classes,
      h(
        "div",
        {class: "t-add"},
        labelledField("x", x),
        labelledField("y", y),
        action("Add", add),
        action("Undo", () => onRemove(1)),
        action("Clear", () => onRemove(Infinity)),
      ),
    );
  }

  get label() {
    return Number(this.classes.querySelector("input:checked").value);
  }

  placeOf({offsetX, offsetY}) {
    const width = this.surface.clientWidth;
    return [((2 * offsetX) / width - 1) * PLANE, (1 - (2 * offsetY) / width) * PLANE];
  }

  show(settings, unit) {
    const {data, points, noise} = this.fields;
    data.control.value = settings.data;
    points.control.disabled = noise.control.disabled = settings.data === "own";
    const units = settings.widths.flatMap((n, l) =>
      Array.from({length: n}, (_, i) => [`${l + 1},${i}`, `layer ${l + 1}, unit ${i + 1}`]),
    );
    const key = String(settings.widths);
    if (this.listedWidths !== key)
      this.unit.control.replaceChildren(
        ...[...FIXED_UNITS, ...units].map(([value, title]) => h("option", {value}, title)),
      );
    this.listedWidths = key;
    this.showUnit(unit);
  }

  showUnit(unit) {
    this.unit.control.value = unit ? unit.join() : "";
  }

  draw({surface}, points, unit) {
    this.plot.draw({surface, points, unit: unit, squared: points.numbers, plane: PLANE});
  }

  describe({train, test}, step) {
    const shown = this.unit.control.selectedOptions[0].textContent;
    setLabel(
      this.surface,
      `${train.y.length} points to train on and ${test.y.length} held out, ` +
        `on ${shown} at step ${step}.`,
    );
  }
}

function dataFields(settings, onChange, onRemove) {
  const kinds = Object.entries(NETWORK_CHOICES.data);
  const choose = (name) => {
    if (name === "own") onRemove(Infinity);
    else onChange({data: name}, `${POINT_SETS[name].title}: ${POINT_SETS[name].about}.`);
  };
  const number = (title, name, bounds) =>
    numberField(title, bounds, settings[name], (v) => onChange({[name]: v}));
  return {
    data: choice("Points", kinds, settings.data, choose),
    points: number("How many", "points", {min: 10, max: 1000, step: 1}),
    noise: number("Noise", "noise", {min: 0, max: 1, step: 0.05}),
    split: choice("Held out", SPLITS, String(settings.split), (v) => onChange({split: Number(v)})),
  };
}

const coordinateField = (name) =>
  h("input", {
    type: "number",
    min: -PLANE,
    max: PLANE,
    step: "any",
    value: "0",
    "aria-label": `${name} of a new point`,
  });

const coordinateOf = (field) => Math.max(-PLANE, Math.min(PLANE, Number(field.value) || 0));
