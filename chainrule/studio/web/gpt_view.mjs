// What the page "GPT" shows. It knows no worker: it calls its handlers.
import {AttentionPanel} from "./attention_panel.mjs";
import {h} from "./dom.mjs";
import {GptLossPanel, ParameterNormsPanel} from "./gpt_charts.mjs";
import {short} from "./numbers.mjs";
import {TensorPanel} from "./tensor_panel.mjs";
import {
  closedPart,
  numberField,
  paceField,
  panel,
  pasteField,
  sliderRow,
} from "./training_controls.mjs";
import {TrainingView} from "./training_view.mjs";

export class GptView extends TrainingView {
  constructor(settings, on) {
    super(on, "Press Train: a model of 4,192 numbers learns to write names.");
    this.loss = new GptLossPanel();
    this.tensor = new TensorPanel(settings.tensor, on.select);
    this.attention = new AttentionPanel(settings.name, (name) => on.change({name}));
    this.norms = new ParameterNormsPanel();
    this.element = h(
      "div",
      {class: "t-page t-gpt"},
      this.toolbar(settings),
      this.status,
      h("div", {class: "t-stage"}, this.loss.element, this.samplePanel(settings)),
      h("div", {class: "t-charts"}, this.tensor.element, this.attention.element),
      h("div", {class: "t-charts t-one"}, this.norms.element),
      h("div", {class: "t-more"}, this.pastePart()),
    );
  }

  // --- parts -----------------------------------------------------------------------------

  toolbar({pace, steps, rate}) {
    const {on} = this;
    const facts = {step: "step", speed: "steps a second", name: "next name", loss: "loss, mean"};
    return h(
      "div",
      {class: "t-bar"},
      this.buttonGroup(),
      h(
        "div",
        {class: "t-fields"},
        paceField(pace, on.pace),
        numberField("Steps in all", {min: 1, max: 100000, step: 1}, steps, (v) =>
          on.change({steps: v}),
        ),
        numberField("Learning rate", {min: 0, max: 10}, rate, (v) => on.change({rate: v})),
      ),
      this.factRow(facts),
    );
  }

  samplePanel({temperature}) {
    this.names = h("ol", {class: "t-names", "aria-label": "names that the model has made up"});
    const output = h("output", {class: "t-aim"}, String(temperature));
    const slider = h("input", {
      type: "range",
      min: 0,
      max: 2,
      step: 0.1,
      value: temperature,
      "aria-label": "temperature",
      oninput: () => {
        output.textContent = slider.value;
      },
      onchange: () => this.on.change({temperature: Number(slider.value)}),
    });
    return panel(
      "Names it makes up",
      "Drawn letter by letter. A low temperature keeps to what is likely.",
      this.names,
      sliderRow("Temperature", slider, output),
    );
  }

  pastePart() {
    const name = "names or words, one a line";
    return closedPart(
      "Learn from your own lines",
      {},
      ...pasteField(name, "one name or word a line", "Use these lines", this.on.paste),
    );
  }

  // --- changes ---------------------------------------------------------------------------

  showTensors(tensors) {
    this.tensor.showTensors(tensors);
    this.norms.showTensors(tensors);
  }

  // `selection`: what of a tensor is on screen; `curves`: what changes slowly, too.
  draw(frame, losses, selection, curves) {
    this.showProgress(frame);
    this.showFact("name", frame.name);
    if (curves) {
      const mean = this.loss.draw(losses);
      this.showFact("loss", mean === null ? "–" : short(mean, 4));
      this.norms.draw(frame.history);
    }
    if (frame.samples)
      this.names.replaceChildren(...frame.samples.map((name) => h("li", {}, name || "·")));
    if (frame.attention) this.attention.draw(frame.attention);
    if (selection && frame.tensor) this.tensor.draw(frame, selection);
  }
}
