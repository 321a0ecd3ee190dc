// What a page shows of its trainer: `ask` is what the page wants to see.
// Runs in a worker; the page sends the text of these functions there (training_worker.mjs).

export function networkFrame(trainer, ask) {
  const {curve, snapshots, settings, step, loss, stopReason, stepsPerEpoch} = trainer;
  return {
    step,
    loss,
    stopReason,
    stepsPerEpoch,
    settings,
    norms: trainer.norms(),
    losses: ask.curve ? trainer.losses() : null,
    weights: ask.curve ? trainer.weights() : null,
    surface: ask.size
      ? surfaceShades(trainer.surface(ask.size, ask.plane), settings, ask.unit)
      : null,
    curve: ask.curve ? curve : null,
    snapshots: snapshots.steps,
    origin: {
      step: trainer.origin.step,
      fresh: trainer.origin.fresh,
      weights: trainer.origin.weights,
    },
  };
}

// What the units give over the plane as numbers of shades, 0 for −1 and 255 for 1: of each unit and of
// the output a quarter of the points, one picture after the other; all points of the `large` unit, or
// of the output.
export function surfaceShades({size, output, units}, {widths, squared}, large) {
  const shade = (v) => Math.max(0, Math.min(255, Math.round((v + 1) * 127.5)));
  const ofOutput = squared ? (z) => shade(z) : (z) => shade(2 / (1 + Math.exp(-z)) - 1);
  // Scaled so that its picture uses all shades
  const unit = (l, j) => {
    let most = 1;
    for (let i = j; i < units[l].length; i += 48) most = Math.max(most, Math.abs(units[l][i]));
    return (i) => shade(units[l][16 * i + j] / most);
  };
  const all = [
    ...widths.flatMap((n, l) => Array.from({length: n}, (_, j) => unit(l, j))),
    (i) => ofOutput(output[i]),
  ];
  const n = size / 2;
  const pictures = new Uint8Array(all.length * n * n);
  all.forEach((f, k) => {
    for (let at = 0; at < n * n; at++)
      pictures[k * n * n + at] = f(2 * (at % n) + 2 * Math.floor(at / n) * size);
  });
  const isUnit = large?.[0] > 0 && units[large[0] - 1];
  const shadeAt = isUnit ? unit(large[0] - 1, large[1]) : all.at(-1);
  return {size, pictures, large: Uint8Array.from({length: size * size}, (_, i) => shadeAt(i))};
}

export function gptFrame(trainer, ask) {
  const {step, stopReason, settings, history} = trainer;
  return {
    step,
    stopReason,
    settings,
    name: trainer.name,
    losses: Float64Array.from(trainer.losses.slice(ask.from)),
    from: ask.from,
    norms: trainer.norms(),
    history: ask.history ? history : null,
    tensor: ask.tensor ? trainer.tensor(ask.tensor) : null,
    attention: ask.attention
      ? trainer.attention(ask.attention === true ? trainer.name : ask.attention)
      : null,
    samples: ask.samples ? trainer.samples(ask.samples, ask.temperature) : null,
  };
}
