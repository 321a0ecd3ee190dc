// Arrays as a trace has them, {dtype, shape, data}: sizes, places, sums.

export const isArray = (x) => x !== null && x !== undefined && x.data !== undefined;
export const sizeOf = (shape) => shape.reduce((a, b) => a * b, 1);

export function addArrays(a, b) {
  if (!isArray(a) || !isArray(b)) return null;
  const round = a.dtype === "float64" ? (x) => x : Math.fround;
  return {...a, data: Float64Array.from(a.data, (x, i) => round(x + b.data[i]))};
}

export function unravel(flat, shape) {
  const at = new Array(shape.length);
  for (let k = shape.length - 1; k >= 0; k--) {
    at[k] = flat % shape[k];
    flat = Math.floor(flat / shape[k]);
  }
  return at;
}

// The number of the element at `at`; an axis of size 1 is repeated.
export function ravel(at, shape) {
  let flat = 0;
  for (let k = 0; k < shape.length; k++) flat = flat * shape[k] + (shape[k] === 1 ? 0 : at[k]);
  return flat;
}

// The same for `at` of an array that this one was broadcast to.
export function ravelFrom(at, shape) {
  return ravel(at.length === shape.length ? at : at.slice(at.length - shape.length), shape);
}

// Calls `visit(at)` for all indices of `shape`.
export function forEachIndex(shape, visit) {
  const count = sizeOf(shape);
  for (let i = 0; i < count; i++) visit(unravel(i, shape));
}
