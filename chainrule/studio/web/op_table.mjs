// The op table in the page: values and partial derivatives by the compiled engine's own code.
import {load} from "./chainrule.mjs";

export class OpTable {
  static async open(bytes, data) {
    return new OpTable(await load(bytes), data);
  }
  constructor(step, {functions, aliases}) {
    Object.assign(this, {step, functions, aliases});
    this.at = Object.fromEntries(step.about.results.map((entry) => [entry.name, entry]));
  }
  named(name) { return this.functions[name] ? name : this.aliases[name] ?? null; }

  // {y, partials} of the function `name` at `xs`.
  compute(name, xs) {
    const [a, b] = [this.step.inputs.a, this.step.inputs.b];
    a[0] = xs[0];
    b[0] = xs[1] ?? 1;
    this.step.call();
    const read = (key) => this.step.view(this.at[key])[0];
    return {y: read(name), partials: xs.map((_, k) => read(`${name}.${k}`))};
  }
}
