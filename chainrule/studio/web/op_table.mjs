// The op table in the page: values and partial derivatives by the compiled engine's own code.
import {load} from "./chainrule.mjs";

export class OpTable {
  static async open(bytes, data) {
    return new OpTable(await load(bytes), data);
  }
  constructor(step, {functions, aliases}) {
    Object.assign(this, {step, functions, aliases});
    this.first = {};
    let next = 0;
    for (const [name, f] of Object.entries(functions)) {
      this.first[name] = next;
      next += 1 + f.arguments;
    }
  }
  // The name in the table of what a reader types, or null.
  named(name) {
    if (Object.hasOwn(this.functions, name)) return name;
    return Object.hasOwn(this.aliases, name) ? this.aliases[name] : null;
  }

  // {y, partials} of the function `name` at `xs`.
  compute(name, xs) {
    const [a, b] = [this.step.inputs.a, this.step.inputs.b];
    a[0] = xs[0];
    b[0] = xs[1] ?? 1;
    this.step.call();
    const read = (k) => this.step.view(this.step.about.results[this.first[name] + k])[0];
    return {y: read(0), partials: xs.map((_, k) => read(1 + k))};
  }
}
