// What one element of a contribution consists of: products of an upstream element and a local
// derivative, and the rounding of whoever added them up. chainrule/traces/local_derivatives/terms.py says the same.
import {forEachIndex, isArray, ravel, ravelFrom, sizeOf, unravel} from "./arrays.mjs";

// The letters of an input that is added to a product.
export const NO_FACTOR = "-";

// [{j, upstream, local}]: element j of the gradient of the sender, and the derivative of output j
// with respect to input element `flat`. Throws where that was not recorded.
export function termsOf(trace, sweep, m, flat) {
  const g = sweep.gradients.get(m.node);
  if (m.local.form === "opaque") throw new Error(`Its terms are not recorded: ${m.local.why}.`);
  if (!isArray(g))
    throw new Error("Its terms are not recorded: the upstream gradient was too large to keep.");
  return PAIRS[m.local.form](m.local, flat, trace, m).map(([j, local]) => ({
    j,
    upstream: g.data[j],
    local,
  }));
}

const PAIRS = {
  factor({values}, flat, trace, m) {
    const out = trace.nodes[m.node].shape;
    const shape = trace.nodes[m.target].shape;
    return outputsOf(unravel(flat, shape), shape, out).map((at) => [
      ravel(at, out),
      values.data[ravelFrom(at, values.shape)],
    ]);
  },
  product: (local, flat, trace, m) => productPairs(trace, m, flat),
  scatter: ({target, coefficients}, flat) => [[target.data[flat], coefficients.data[flat]]],
  gather({source, coefficients}, flat) {
    const pairs = [];
    source.data.forEach((i, j) => {
      if (i === flat) pairs.push([j, coefficients.data[j]]);
    });
    return pairs;
  },
  matrix({rows, columns, values}, flat) {
    const pairs = [];
    columns.data.forEach((i, k) => {
      if (i === flat) pairs.push([rows.data[k], values.data[k]]);
    });
    return pairs;
  },
};

// The output elements to which one of the input's was broadcast.
function outputsOf(at, shape, out) {
  const lead = out.length - shape.length;
  const isFree = out.map((n, k) => k < lead || (shape[k - lead] === 1 && n !== 1));
  const found = [];
  forEachIndex(
    out.map((n, k) => (isFree[k] ? n : 1)),
    (where) => {
      found.push(where.map((i, k) => (isFree[k] ? i : at[k - lead])));
    },
  );
  return found;
}

function productPairs(trace, m, flat) {
  const {letters, out: named, place} = m.local;
  const node = trace.nodes[m.node];
  const inputs = node.inputs.map((i) => trace.nodes[i]);
  const factors = letters.map((_, k) => k).filter((k) => letters[k] !== NO_FACTOR);
  if (factors.some((k) => k !== place && !isArray(inputs[k].value)))
    throw new Error("Its terms are not recorded: the other input was too large to keep.");
  const sizes = letterSizes(
    [named, ...factors.map((k) => letters[k])],
    [node.shape, ...factors.map((k) => inputs[k].shape)],
  );
  const mine = inputs[place].shape;
  const at = unravel(flat, mine);
  const where = {};
  [...letters[place]].forEach((c, k) => {
    if (mine[k] > 1 || sizes[c] === 1) where[c] = at[k];
  });
  const free = Object.keys(sizes).filter((c) => !(c in where));
  const others = factors.filter((k) => k !== place).map((k) => [[...letters[k]], inputs[k]]);
  const pairs = [];
  forEachIndex(
    free.map((c) => sizes[c]),
    (values) => {
      free.forEach((c, k) => {
        where[c] = values[k];
      });
      let d = 1;
      for (const [term, {value, shape}] of others)
        d *=
          value.data[
            ravel(
              term.map((c) => where[c]),
              shape,
            )
          ];
      pairs.push([
        ravel(
          [...named].map((c) => where[c]),
          node.shape,
        ),
        d,
      ]);
    },
  );
  return pairs;
}

// The size of the axis that each letter names; one of size 1 is repeated.
export function letterSizes(terms, shapes) {
  const sizes = {};
  terms.forEach((term, t) =>
    [...term].forEach((c, k) => {
      sizes[c] = Math.max(sizes[c] ?? 1, shapes[t][k]);
    }),
  );
  return sizes;
}

// upstream × local; exactly 0 where the upstream is 0 and the derivative is not finite.
export const termProduct = (t) => (t.upstream === 0 ? 0 : t.upstream * t.local);

// The whole contribution that a message makes of another upstream gradient `g`.
export function pullThrough(trace, m, g) {
  const {local} = m;
  const shape = trace.nodes[m.target].shape;
  const data = new Float64Array(sizeOf(shape));
  const add = (i, j, d) => {
    data[i] += termProduct({upstream: g.data[j], local: d});
  };
  if (local.form === "gather")
    local.source.data.forEach((i, j) => add(i, j, local.coefficients.data[j]));
  else if (local.form === "matrix")
    local.columns.data.forEach((i, k) => add(i, local.rows.data[k], local.values.data[k]));
  else
    for (let i = 0; i < data.length; i++)
      for (const [j, d] of PAIRS[local.form](local, i, trace, m)) add(i, j, d);
  return {dtype: "float64", shape, data};
}

// --- Exact sums ---------------------------------------------------------------------------------

// What is missing between the exact sum of the products and the number that was recorded: the
// rounding of whoever added them up. Sums and products without error by Dekker and Knuth.
export function roundingOf(terms, total) {
  const parts = [total];
  for (const t of terms) {
    const p = termProduct(t);
    if (!Number.isFinite(p)) return NaN;
    parts.push(-p);
    if (t.upstream !== 0) parts.push(-productError(t.upstream, t.local, p));
  }
  return exactSum(parts);
}

function productError(a, b, p) {
  const split = (x) => {
    const c = 134217729 * x;
    const high = c - (c - x);
    return [high, x - high];
  };
  const [ah, al] = split(a);
  const [bh, bl] = split(b);
  const error = al * bl - (p - ah * bh - al * bh - ah * bl);
  return Number.isFinite(error) ? error : 0;
}

// Shewchuk's sum: partial sums that do not overlap, then rounded once, to the nearest.
export function exactSum(numbers) {
  const partials = [];
  for (let x of numbers) {
    let i = 0;
    for (let y of partials) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low) partials[i++] = low;
      x = high;
    }
    partials.length = i;
    partials.push(x);
  }
  return roundOnce(partials);
}

function roundOnce(partials) {
  let k = partials.length - 1;
  if (k < 0) return 0;
  let high = partials[k];
  let low = 0;
  while (k > 0 && low === 0) {
    const [x, y] = [high, partials[--k]];
    high = x + y;
    low = y - (high - x);
  }
  // a tie: what comes after decides
  if (k > 0 && ((low < 0 && partials[k - 1] < 0) || (low > 0 && partials[k - 1] > 0))) {
    const y = low * 2;
    const x = high + y;
    if (y === x - high) high = x;
  }
  return high;
}
