// The row of a network's settings.
import {h} from "./dom.mjs";
import {NETWORK_CHOICES} from "./network_settings.mjs";
import {choice, numberField, toggle} from "./training_controls.mjs";

const RATES = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];

export class SettingsRow {
  constructor(settings, onChange) {
    const set = (name) => (v) => onChange({[name]: v});
    const one = (title, name) =>
      choice(title, Object.entries(NETWORK_CHOICES[name]), settings[name], set(name));
    const number = (title, name, bounds) => numberField(title, bounds, settings[name], set(name));
    this.choices = {
      activation: one("Activation", "activation"),
      init: one("First weights", "init"),
      optimizer: one("Optimizer", "optimizer"),
      rate: rateField(settings.rate, set("rate")),
    };
    this.numbers = {
      batch: number("Batch", "batch", {min: 1, max: 1000, step: 1}),
      decay: number("Weight decay", "decay", {min: 0, max: 10}),
      seed: number("Seed", "seed", {min: 0, max: 1e9, step: 1}),
    };
    this.residual = toggle("Residual connections", settings.residual, set("residual"));
    const fields = [...Object.values(this.choices), ...Object.values(this.numbers)];
    this.element = h("div", {class: "t-settings"}, ...fields, this.residual);
  }

  show(settings) {
    for (const [name, {control}] of Object.entries(this.choices))
      control.value = String(settings[name]);
    for (const [name, field] of Object.entries(this.numbers)) field.show(settings[name]);
    this.residual.control.checked = settings.residual;
  }
}

// The usual rates, and the one that an address asks for.
function rateField(rate, onRate) {
  const rates = [...new Set([...RATES, rate])].sort((a, b) => a - b);
  const options = rates.map((r) => [String(r), String(r)]);
  return choice("Learning rate", options, String(rate), (v) => onRate(Number(v)));
}
