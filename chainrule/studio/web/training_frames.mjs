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
  // Every `each`-th of the numbers at `first`, `first + stride`, … in both directions, times `scale`
  const paint = (to, at, {values, first, stride, scale}, each) => {
    for (let i = 0; i < size; i += each)
      for (let j = 0; j < size; j += each) {
        const v = values[first + stride * (i * size + j)] * scale;
        to[at++] = v <= -1 ? 0 : v >= 1 ? 255 : (v + 1) * 127.5 + 0.5;
      }
  };
  // Scaled so that its picture uses all shades
  const unit = (l, j) => {
    const values = units[l];
    let most = 1;
    for (let i = j; i < values.length; i += 48) most = Math.max(most, Math.abs(values[i]));
    return {values, first: j, stride: 16, scale: 1 / most};
  };
  const shown = squared ? output : output.map((z) => 2 / (1 + Math.exp(-z)) - 1);
  const ofOutput = {values: shown, first: 0, stride: 1, scale: 1};
  const all = widths.flatMap((n, l) => Array.from({length: n}, (_, j) => unit(l, j)));
  all.push(ofOutput);
  const n = size / 2;
  const pictures = new Uint8Array(all.length * n * n);
  all.forEach((content, k) => paint(pictures, k * n * n, content, 2));
  const isUnit = large?.[0] > 0 && units[large[0] - 1];
  const whole = new Uint8Array(size * size);
  paint(whole, 0, isUnit ? unit(large[0] - 1, large[1]) : ofOutput, 1);
  return {size, pictures, large: whole};
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
