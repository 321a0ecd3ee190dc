// What the page "Network" shows. It knows no worker: it calls its handlers.
import {h} from "./dom.mjs";
import {Interval} from "./frame_loop.mjs";
import {LayersPanel} from "./layers_panel.mjs";
import {LayerNormsPanel, LossPanel} from "./network_charts.mjs";
import {commas, short} from "./numbers.mjs";
import {PointsPanel} from "./points_panel.mjs";
import {SettingsRow} from "./settings_row.mjs";
import {action, closedPart, paceField, pasteField} from "./training_controls.mjs";
import {TrainingView} from "./training_view.mjs";

const DESCRIPTION_INTERVAL = 500; // milliseconds between texts for readers of the screen

export class NetworkView extends TrainingView {
  constructor(settings, on) {
    super(on, "Press Train: the network learns to tell the two colours apart.");
    this.unit = null; // that is looked at, as [column, index]; null: the output
    this.descriptions = new Interval(DESCRIPTION_INTERVAL);
    this.settingsRow = new SettingsRow(settings, on.change);
    this.layers = new LayersPanel(settings.widths, {
      onWidths: (widths) => on.change({widths}),
      onUnit: (unit) => this.lookAt(unit),
    });
    this.points = new PointsPanel(settings, {
      onChange: on.change,
      onAdd: on.addPoint,
      onRemove: on.removePoints,
      onUnit: (unit) => this.lookAt(unit),
    });
    this.loss = new LossPanel(on.rewind);
    this.norms = new LayerNormsPanel();
    this.element = h(
      "div",
      {class: "t-page t-network"},
      this.toolbar(settings),
      this.status,
      this.settingsRow.element,
      h("div", {class: "t-stage"}, this.layers.element, this.points.element),
      h("div", {class: "t-charts"}, this.loss.element, this.norms.element),
      h("div", {class: "t-more"}, this.pastePart(), this.pythonPart()),
    );
    this.showSettings(settings);
  }

  // --- parts -----------------------------------------------------------------------------

  toolbar(settings) {
    return h(
      "div",
      {class: "t-bar"},
      this.buttonGroup(
        action("One epoch", () => this.on.epoch()),
        action("Play this step", () => this.on.trace()),
      ),
      h("div", {class: "t-fields"}, paceField(settings.pace, this.on.pace)),
      this.factRow({
        step: "step",
        epoch: "epoch",
        speed: "steps a second",
        train: "loss, training",
        test: "loss, held out",
      }),
    );
  }

  pastePart() {
    const example = "x, y, label\n0.5, 1.2, 1\n-0.3, 0.8, 0";
    return closedPart(
      "Paste points",
      {},
      ...pasteField("points, one a line", example, "Use these points", this.on.paste),
    );
  }

  pythonPart() {
    const code = h("pre", {class: "t-code", tabindex: "0", "aria-label": "the program"});
    const copy = () =>
      navigator.clipboard?.writeText(code.textContent).then(
        () => this.say("The program is copied."),
        () => this.say("The browser does not let the page copy: select the text."),
      );
    const note =
      "The same points, the same first weights, the same steps: it prints the losses of the " +
      "curve above.";
    const writeCode = (e) => {
      if (e.target.open) code.textContent = this.on.python();
    };
    return closedPart(
      "Show me the Python",
      {ontoggle: writeCode},
      h("p", {class: "t-note"}, note),
      action("Copy", copy),
      code,
    );
  }

  // --- changes ---------------------------------------------------------------------------

  showSettings(settings) {
    const {widths} = settings;
    this.widths = String(widths);
    const isHidden = this.unit && this.unit[0] > 0;
    if (isHidden && !(this.unit[1] < widths[this.unit[0] - 1])) this.unit = null;
    this.settingsRow.show(settings);
    this.layers.show(widths);
    this.points.show(settings, this.unit);
  }

  lookAt(unit) {
    const isOutput = unit && unit[0] === this.layers.widths.length + 1;
    this.unit = isOutput ? null : unit;
    this.points.showUnit(this.unit);
    this.on.lookAtUnit();
  }

  // `curves`: what changes too slowly to be drawn each time, too: lines of weights and numbers.
  draw(frame, points, pastCurves, curves) {
    if (String(frame.settings.widths) === this.widths) {
      this.layers.draw(frame, this.unit, curves);
      this.points.draw(frame, points, this.unit);
    }
    if (!curves) return;
    this.showFacts(frame, points);
    this.loss.draw(frame, pastCurves);
    this.norms.draw(frame);
    if (this.descriptions.due()) this.describe(frame, points);
  }

  showFacts({step, speed, stepsPerEpoch, losses, origin}, {test}) {
    this.showProgress({step, speed});
    this.showFact("epoch", commas(Math.floor((step - origin.step) / stepsPerEpoch)));
    this.showFact("train", short(losses.train, 3));
    this.showFact("test", test.y.length ? short(losses.test, 3) : "–");
  }

  describe(frame, points) {
    this.layers.describe(frame.weights);
    this.points.describe(points, frame.step);
    this.loss.describe(frame, points);
    this.norms.describe(frame);
  }
}
