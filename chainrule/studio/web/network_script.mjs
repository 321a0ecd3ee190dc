// "Show me the Python": a program with chainrule that trains what is on screen, and prints its losses.
import {pointSetPython, randomPython} from "./datasets.mjs";

const ACTIVATION_PYTHON = {
  linear: "lambda z: z",
  tanh: "nn.Tanh()",
  sigmoid: "nn.Sigmoid()",
  relu: "nn.ReLU()",
  leaky_relu: "lambda z: cr.leaky_relu(z, 0.01)",
};
const OPTIMIZER_PYTHON = {
  sgd: "SGD(parameters, lr={rate}, weight_decay={decay})",
  momentum: "SGD(parameters, lr={rate}, momentum=0.9, weight_decay={decay})",
  adam: "Adam(parameters, lr={rate}, weight_decay={decay})",
  adamw: "AdamW(parameters, lr={rate}, weight_decay={decay})",
};
const BOUND_PYTHON = {
  xavier: "math.sqrt(6 / (n + m))",
  he: "math.sqrt(6 / n)",
  small: "0.01",
  large: "4",
  zeros: "0",
};

const literal = (rows) =>
  `[${rows.map((r) => (Array.isArray(r) ? `[${r.join(", ")}]` : r)).join(", ")}]`;

function pairs(x) {
  return Array.from({length: x.length / 2}, (_, i) => [x[2 * i], x[2 * i + 1]]);
}

function dataLines(data, points) {
  if (data.kind === "own") {
    const of = (part) =>
      `np.array(${literal(pairs(part.x))}), np.array(${literal(Array.from(part.y))}, float)`;
    return [...randomPython(), "", `x, y = ${of(points.train)}`, `held_out = ${of(points.test)}`];
  }
  return [
    ...pointSetPython(data),
    "",
    `order = shuffled(len(y), ${data.seed})  # the first of these train`,
    `train = order[:${points.train.y.length}], order[${points.train.y.length}:]`,
    "held_out = x[train[1]], y[train[1]]",
    "x, y = x[train[0]], y[train[0]]",
  ];
}

const SHUFFLE = [
  "def shuffled(n, seed):",
  "    rand, order = generator(seed), list(range(n))",
  "    for i in range(n - 1, 0, -1):",
  "        j = math.floor(rand() * (i + 1))",
  "        order[i], order[j] = order[j], order[i]",
  "    return order",
];

function weightLines({settings, origin}) {
  const lines = [
    `sizes = [2, ${[...settings.widths, 1].join(", ")}]`,
    "layers = [nn.Linear(n, m, dtype=np.float64) for n, m in pairwise(sizes)]",
  ];
  if (origin.fresh)
    return [
      ...lines,
      `rand = generator(${settings.seed + 7919})`,
      "for layer, (n, m) in zip(layers, pairwise(sizes)):",
      `    bound = ${BOUND_PYTHON[settings.init]}`,
      "    rows = [[(2 * rand() - 1) * bound for _ in range(m)] for _ in range(n)]",
      "    layer.weight.data = np.array(rows).T.copy()",
      "    layer.bias.data = np.zeros(m)",
    ];
  const {layers, last} = origin.weights;
  const all = [...layers, last];
  return [
    ...lines,
    `# the weights at step ${origin.step}, where something was changed`,
    "weights = [",
    ...all.map(({w, b}) => `    (${literal(w)}, ${literal(b)}),`),
    "]",
    "for layer, (w, b) in zip(layers, weights):",
    "    layer.weight.data = np.array(w).T.copy()",
    "    layer.bias.data = np.array(b)",
  ];
}

// `data` is what the points are made of; `every` how often losses are printed, `until` which step.
export function networkPython({data, points, settings, origin, until, every}) {
  const optimizer = OPTIMIZER_PYTHON[settings.optimizer]
    .replace("{rate}", settings.rate)
    .replace("{decay}", settings.decay);
  const loss = settings.squared
    ? "((model(x) - y) ** 2).mean()"
    : "cr.binary_cross_entropy_with_logits(model(x), y)";
  const n = points.train.y.length;
  const size = Math.min(settings.batch, n);
  const rows =
    size === n ? "list(range(len(y)))" : `shuffled(len(y), ${settings.seed + 104729} + epoch)`;
  return [
    "import math",
    "from itertools import pairwise",
    "",
    "import numpy as np",
    "",
    "import chainrule as cr",
    "from chainrule import nn, optim",
    "",
    "",
    ...dataLines(data, points).flatMap((line) =>
      line === "    return rand" ? [line, "", "", ...SHUFFLE, ""] : [line],
    ),
    "",
    ...weightLines({settings, origin}),
    `activation, residual = ${ACTIVATION_PYTHON[settings.activation]}, ${settings.residual ? "True" : "False"}`,
    "parameters = [p for layer in layers for p in layer.parameters()]",
    `optimizer = optim.${optimizer}`,
    "",
    "",
    "def model(h):",
    "    for i, layer in enumerate(layers[:-1]):",
    "        made = activation(layer(h))",
    "        h = made + h if residual and i and made.shape == h.shape else made",
    "    return layers[-1](h)[:, 0]",
    "",
    "",
    "def loss_of(x, y):",
    `    return ${loss}`,
    "",
    "",
    `per_epoch = len(y) // ${size}`,
    `for step in range(${origin.step}, ${until + 1}):`,
    `    if step % ${every} == 0:`,
    "        test = loss_of(*held_out).item() if len(held_out[1]) else math.nan",
    '        print(f"{step:6}  train {loss_of(x, y).item():.12f}  test {test:.12f}")',
    `    epoch, at = divmod(step - ${origin.step}, per_epoch)`,
    `    if at == 0:\n        order = ${rows}`,
    `    batch = order[at * ${size} : (at + 1) * ${size}]`,
    "    loss = loss_of(x[batch], y[batch])",
    "    optimizer.zero_grad()",
    "    loss.backward()",
    "    optimizer.step()",
    "",
  ].join("\n");
}
