// The parameters of a network, as its module has them in one array: for each of its layers W (16, 16)
// and b (16), then the output's w (16) and b. Weights of the units that there are stand as
// {layers: [{w, b}], last: {w, b}} with w[i][j] from input i to unit j.
// Runs in a worker; the page sends the text of this file's functions there (training_worker.mjs).

// The bound of uniform weights between so many inputs and outputs.
export function initialBound(init, inputs, outputs) {
  return {
    xavier: Math.sqrt(6 / (inputs + outputs)),
    he: Math.sqrt(6 / inputs),
    small: 0.01,
    large: 4,
    zeros: 0,
  }[init];
}

// First weights for these settings. Where `old` has a number for a place, it stays.
export function initialWeights({widths, init}, random, old = null) {
  const sizes = [2, ...widths, 1];
  const layer = (inputs, outputs, before) => {
    const bound = initialBound(init, inputs, outputs);
    const fresh = Array.from({length: inputs}, () =>
      Array.from({length: outputs}, () => (2 * random() - 1) * bound),
    );
    return {
      w: fresh.map((row, i) => row.map((v, j) => before?.w[i]?.[j] ?? v)),
      b: Array.from({length: outputs}, (_, j) => before?.b[j] ?? 0),
    };
  };
  return {
    layers: widths.map((n, l) => layer(sizes[l], n, old?.layers[l])),
    last: layer(sizes.at(-2), 1, old?.last),
  };
}

export class ParameterLayout {
  // For a module of so many layers.
  constructor(layers) {
    Object.assign(this, {units: 16, each: 16 * 16 + 16, end: layers * (16 * 16 + 16)});
  }

  // The array's weights of the units that there are.
  read(theta, widths) {
    const {units, each, end} = this;
    const sizes = [2, ...widths];
    const numbers = (from, count) => Array.from(theta.subarray(from, from + count));
    const layers = widths.map((n, l) => ({
      w: Array.from({length: sizes[l]}, (_, i) => numbers(l * each + i * units, n)),
      b: numbers(l * each + units * units, n),
    }));
    const w = numbers(end, sizes.at(-1)).map((v) => [v]);
    return {layers, last: {w, b: [theta[end + units]]}};
  }

  write(theta, {layers, last}) {
    const {units, each, end} = this;
    layers.forEach(({w, b}, l) => {
      w.forEach((row, i) => theta.set(row, l * each + i * units));
      theta.set(b, l * each + units * units);
    });
    theta.set(last.w.flat(), end);
    theta.set(last.b, end + units);
  }

  // Of each layer's numbers, the output's last.
  norms(theta, depth) {
    const {units, each, end} = this;
    const norm = (from, count) => {
      let sum = 0;
      for (let i = from; i < from + count; i++) sum += theta[i] * theta[i];
      return Math.sqrt(sum);
    };
    return [...Array.from({length: depth}, (_, l) => norm(l * each, each)), norm(end, units + 1)];
  }
}
