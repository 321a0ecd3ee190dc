// One step of the network page as a trace: the forward pass of a few points, and its backward pass.
import {arrayOf, Tape} from "./tape.mjs";

const MOST_POINTS = 12;

// `settings` as the page has them, `weights` {layers: [{w, b}], last: {w, b}} as nested arrays,
// `points` {train: {x, y}, numbers}: x and y of one point after the other, and what belongs to it.
export function tracedNetwork(table, settings, weights, {train: points, numbers}, step) {
  const n = Math.min(MOST_POINTS, points.y.length);
  const tape = new Tape(table);
  const number = (x) =>
    tape.leaf("constant", String(x), {dtype: "float64", shape: [], data: Float64Array.of(x)});
  const y = tape.leaf("constant", "y", arrayOf(Array.from(points.y).slice(0, n), [n]));
  let h = tape.leaf("constant", "points", arrayOf(Array.from(points.x).slice(0, 2 * n), [n, 2]));
  weights.layers.forEach(({w, b}, l) => {
    h = hiddenLayer(tape, number, settings, h, w, b, `layers.${l}`, l + 1);
  });
  const {w, b} = weights.last;
  const last = tape.leaf("parameter", "w", arrayOf(w.flat(), [w.length]), "output");
  const bias = tape.leaf(
    "parameter",
    "b",
    {dtype: "float64", shape: [], data: Float64Array.of(b[0])},
    "output",
  );
  const out = tape.apply("add", [tape.matmul(h, last, "", "output"), bias], "out", "output");
  const each = numbers
    ? tape.apply("square", [tape.apply("sub", [out, y])])
    : tape.apply("sub", [tape.apply("softplus", [out]), tape.apply("mul", [y, out])]);
  const loss = tape.mean(each, "loss");
  return tape.finish(loss, `network at step ${step}, ${n} of ${points.y.length} points`);
}

function hiddenLayer(tape, number, {activation, residual}, x, w, b, module, nth) {
  const [inputs, units] = [w.length, w[0].length];
  const weight = tape.leaf("parameter", `W${nth}`, arrayOf(w.flat(), [inputs, units]), module);
  const bias = tape.leaf("parameter", `b${nth}`, arrayOf(b, [units]), module);
  const z = tape.apply("add", [tape.matmul(x, weight, "", module), bias], `z${nth}`, module);
  let h = z;
  if (activation === "leaky_relu")
    h = tape.apply(
      "add",
      [
        tape.apply("mul", [number(0.01), z], "", module),
        tape.apply("mul", [number(0.99), tape.apply("relu", [z], "", module)], "", module),
      ],
      "",
      module,
    );
  else if (activation !== "linear") h = tape.apply(activation, [z], "", module);
  if (residual && inputs === units) h = tape.apply("add", [h, x], "", module);
  tape.nodes[h].label = `h${nth}`;
  return h;
}
