// Rows by step, of which there are never too many: then every other one goes.
// Runs in a worker; the page sends the text of this class there (training_worker.mjs).

export class StepTable {
  // A row each `every` steps, at most `most`, with a list for each of `names` beside that of steps.
  constructor(every, most, names) {
    Object.assign(this, {every, most, names, steps: []});
    for (const name of names) this[name] = [];
  }

  isDue(step) {
    return step % this.every === 0;
  }

  add(step, row) {
    if (this.steps.at(-1) === step) return;
    this.steps.push(step);
    for (const name of this.names) this[name].push(row[name]);
    while (this.steps.length > this.most) {
      this.every *= 2;
      this.keep((s) => s % this.every === 0);
    }
  }

  keep(isKept) {
    const flags = this.steps.map(isKept);
    for (const name of ["steps", ...this.names]) this[name] = this[name].filter((_, i) => flags[i]);
  }
}
