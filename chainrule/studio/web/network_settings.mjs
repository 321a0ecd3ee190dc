// The settings of the page "Network": their defaults, and how an address holds them.
import {POINTS_MOST, POINT_SETS} from "./datasets.mjs";
import {changedSettings, readNumbers} from "./training_settings.mjs";

export const NETWORK_DEFAULTS = {
  data: "moons",
  points: 300,
  noise: 0.15,
  split: 0.2,
  seed: 1,
  widths: [6, 4],
  activation: "tanh",
  residual: false,
  init: "xavier",
  optimizer: "adam",
  rate: 0.01,
  decay: 0,
  batch: 32,
  pace: 300,
};
// What may be chosen, and what it is called.
export const NETWORK_CHOICES = {
  activation: {
    linear: "linear",
    tanh: "tanh",
    sigmoid: "sigmoid",
    relu: "ReLU",
    leaky_relu: "leaky ReLU",
  },
  init: {xavier: "Xavier", he: "He", small: "small (±0.01)", large: "large (±4)", zeros: "zeros"},
  optimizer: {sgd: "SGD", momentum: "momentum", adam: "Adam", adamw: "AdamW"},
  data: {
    ...Object.fromEntries(Object.entries(POINT_SETS).map(([name, {title}]) => [name, title])),
    own: "Your own",
  },
};
const NETWORK_BOUNDS = {
  points: [10, POINTS_MOST],
  noise: [0, 1],
  split: [0, 0.9],
  seed: [0, 1e9],
  rate: [0, 100],
  decay: [0, 10],
  batch: [1, POINTS_MOST],
};
export const LAYERS_MOST = 4;
export const UNITS_MOST = 16;

// What the fragment of an address says, where it makes sense.
export function networkSettings(params) {
  const settings = {...NETWORK_DEFAULTS};
  for (const [name, options] of Object.entries(NETWORK_CHOICES))
    if (params[name] in options) settings[name] = params[name];
  readNumbers(settings, params, NETWORK_BOUNDS);
  for (const name of ["points", "seed", "batch"]) settings[name] = Math.round(settings[name]);
  settings.widths = widthsOf(params.widths) ?? settings.widths;
  if (params.residual !== undefined) settings.residual = params.residual === "1";
  return settings;
}

// "6,4" as units of each layer; "" for none; null for what is no list of at most four numbers.
function widthsOf(text) {
  if (text === "") return [];
  const numbers = (text ?? "").split(",");
  const isList = numbers.length <= LAYERS_MOST && numbers.every((n) => /^\d+$/.test(n));
  return isList ? numbers.map((n) => Math.max(1, Math.min(UNITS_MOST, Number(n)))) : null;
}

// What an address holds of settings.
export function networkAddress({residual, ...rest}) {
  return {...changedSettings(rest, NETWORK_DEFAULTS), ...(residual ? {residual: "1"} : {})};
}
