// The settings of a training page, read from an address and written to one.

export const PACES = [30, 300, 0]; // steps a second; 0: as many as there can be

// Sets the numbers that `params` name, where they lie within `bounds` {name: [least, most]}; and the
// pace.
export function readNumbers(settings, params, bounds) {
  for (const [name, [least, most]] of Object.entries(bounds)) {
    const v = Number(params[name]);
    if (params[name] && v >= least && v <= most) settings[name] = v;
  }
  if (PACES.includes(Number(params.pace ?? NaN))) settings.pace = Number(params.pace);
}

// The step that an address asks for.
export const stepOf = (params, most) =>
  Math.min(most, Math.max(0, Math.round(Number(params.step) || 0)));

// What differs from the defaults, as text.
export function changedSettings(settings, defaults) {
  const changed = Object.entries(settings).filter(
    ([name, v]) => String(v) !== String(defaults[name]),
  );
  return Object.fromEntries(changed.map(([name, v]) => [name, String(v)]));
}
