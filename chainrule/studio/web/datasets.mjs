// Points in the plane to learn from, made by a generator that Python repeats bit for bit. Every
// coordinate is rounded to three digits, so that two libraries' sines give the same points.
//
// Notation: x holds the coordinates of all points, two by two; y their labels, 0 or 1, or numbers.
import {commas, countOf} from "./numbers.mjs";

export const POINTS_MOST = 1000;
export const PLANE = 3; // the plane that is shown goes from -3 to 3

// mulberry32: the state is one 32-bit integer
export function studioRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t ^ (t + Math.imul(t ^ (t >>> 7), t | 61))) >>> 0;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// Nearly normal: the sum of twelve uniform numbers
function bell(random) {
  let sum = -6;
  for (let i = 0; i < 12; i++) sum += random();
  return sum;
}

// Each row: what it is called, whether labels are numbers, point i, and the same line in Python.
export const POINT_SETS = {
  circles: {
    title: "Circles",
    about: "a disc within a ring",
    point: (i, n, u) => {
      const label = i % 2;
      const radius = label ? 1.1 * u() : 1.8 + 1.0 * u();
      const angle = 2 * Math.PI * u();
      return [radius * Math.cos(angle), radius * Math.sin(angle), label];
    },
    python: [
      "label = i % 2",
      "radius = 1.1 * rand() if label else 1.8 + 1.0 * rand()",
      "angle = 2 * math.pi * rand()",
      "point = radius * math.cos(angle), radius * math.sin(angle), label",
    ],
  },
  xor: {
    title: "XOR",
    about: "opposite quarters belong together",
    point: (i, n, u) => {
      const a = 0.2 + 2.4 * u();
      const b = 0.2 + 2.4 * u();
      const p = i % 2 ? 1 : -1;
      const q = (i >> 1) % 2 ? 1 : -1;
      return [p * a, q * b, p * q > 0 ? 1 : 0];
    },
    python: [
      "a, b = 0.2 + 2.4 * rand(), 0.2 + 2.4 * rand()",
      "p, q = 1 if i % 2 else -1, 1 if (i >> 1) % 2 else -1",
      "point = p * a, q * b, 1 if p * q > 0 else 0",
    ],
  },
  moons: {
    title: "Moons",
    about: "two half circles that interlock",
    point: (i, n, u) => {
      const label = i % 2;
      const angle = Math.PI * u();
      return label
        ? [1.7 * Math.cos(angle) + 0.85, 0.45 - 1.7 * Math.sin(angle), 1]
        : [1.7 * Math.cos(angle) - 0.85, 1.7 * Math.sin(angle) - 0.45, 0];
    },
    python: [
      "label, angle = i % 2, math.pi * rand()",
      "c, s = 1.7 * math.cos(angle), 1.7 * math.sin(angle)",
      "point = (c + 0.85, 0.45 - s, 1) if label else (c - 0.85, s - 0.45, 0)",
    ],
  },
  spirals: {
    title: "Spirals",
    about: "two arms, wound around each other",
    point: (i, n, u) => {
      const label = i % 2;
      const t = u();
      const radius = 0.2 + 2.5 * t;
      const angle = 1.6 * Math.PI * 2 * t * 0.75 + Math.PI * label;
      return [radius * Math.sin(angle), radius * Math.cos(angle), label];
    },
    python: [
      "label, t = i % 2, rand()",
      "radius, angle = 0.2 + 2.5 * t, 1.6 * math.pi * 2 * t * 0.75 + math.pi * label",
      "point = radius * math.sin(angle), radius * math.cos(angle), label",
    ],
  },
  plane: {
    title: "Plane",
    about: "a number that rises to one side",
    numbers: true,
    point: (i, n, u) => {
      const a = 5.6 * u() - 2.8;
      const b = 5.6 * u() - 2.8;
      return [a, b, (a + b) / 5.6];
    },
    python: ["a, b = 5.6 * rand() - 2.8, 5.6 * rand() - 2.8", "point = a, b, (a + b) / 5.6"],
  },
  hills: {
    title: "Hills",
    about: "two hills and two hollows",
    numbers: true,
    point: (i, n, u) => {
      const a = 5.6 * u() - 2.8;
      const b = 5.6 * u() - 2.8;
      const hill = (p, q) => Math.exp(-((a - p) * (a - p) + (b - q) * (b - q)));
      return [a, b, hill(1.3, 1.3) + hill(-1.3, -1.3) - hill(1.3, -1.3) - hill(-1.3, 1.3)];
    },
    python: [
      "a, b = 5.6 * rand() - 2.8, 5.6 * rand() - 2.8",
      "hill = lambda p, q: math.exp(-((a - p) * (a - p) + (b - q) * (b - q)))",
      "point = a, b, hill(1.3, 1.3) + hill(-1.3, -1.3) - hill(1.3, -1.3) - hill(-1.3, 1.3)",
    ],
  },
};

const toThreeDigits = (v) => Math.floor(v * 1000 + 0.5) / 1000;

export function pointSet({kind, points, noise, seed}) {
  const set = POINT_SETS[kind];
  const random = studioRandom(seed);
  const x = [];
  const y = [];
  for (let i = 0; i < points; i++) {
    const [a, b, label] = set.point(i, points, random);
    const dx = noise * bell(random);
    const dy = noise * bell(random);
    const extra = set.numbers ? 0.3 * noise * bell(random) : 0;
    x.push(toThreeDigits(a + dx), toThreeDigits(b + dy));
    y.push(set.numbers ? toThreeDigits(label + extra) : label);
  }
  return {x: Float64Array.from(x), y: Float64Array.from(y), numbers: Boolean(set.numbers)};
}

// The same in Python: lines that define rand, x (n, 2) and y (n).
export function pointSetPython({kind, points, noise, seed}) {
  const set = POINT_SETS[kind];
  const label = set.numbers ? "rounded(point[2] + 0.3 * noise * bell())" : "point[2]";
  return [
    ...randomPython(),
    "",
    "rounded = lambda v: math.floor(v * 1000 + 0.5) / 1000",
    `rand, noise = generator(${seed}), ${noise}`,
    "bell = lambda: sum((rand() for _ in range(12)), -6.0)",
    "x, y = [], []",
    `for i in range(${points}):`,
    ...set.python.map((line) => `    ${line}`),
    "    x.append([rounded(point[0] + noise * bell()), rounded(point[1] + noise * bell())])",
    `    y.append(${label})`,
    "x, y = np.array(x), np.array(y, float)",
  ];
}

export function randomPython() {
  return [
    "def generator(state):  # mulberry32, as in the page",
    "    def rand():",
    "        nonlocal state",
    "        state = (state + 0x6D2B79F5) & 0xFFFFFFFF",
    "        t = (state ^ state >> 15) * (state | 1) & 0xFFFFFFFF",
    "        t ^= t + (t ^ t >> 7) * (t | 61) & 0xFFFFFFFF",
    "        return (t ^ t >> 14) / 4294967296",
    "    return rand",
  ];
}

// Lines of numbers "x, y, label". Returns the points and one sentence where something is to be said.
export function pastedPoints(text, most = POINTS_MOST) {
  const sample = [];
  let unreadable = 0;
  let first = 0;
  let line = 0;
  let at = 0;
  let total = 0;
  const random = studioRandom(1);
  while (at <= text.length) {
    let end = text.indexOf("\n", at);
    if (end < 0) end = text.length;
    const row = text.slice(at, end).trim();
    at = end + 1;
    line++;
    if (!row) continue;
    const parts = row.split(/[\s,;]+/).filter((p) => p !== "");
    const numbers = parts.map(Number);
    if (parts.length !== 3 || !numbers.every((v) => Number.isFinite(v))) {
      if (line > 1 || parts.some((p) => Number.isFinite(Number(p)))) {
        // else a line of titles
        unreadable++;
        first ||= line;
      }
      continue;
    }
    total++; // a uniform sample of all lines: each of them is kept with the same probability
    if (sample.length < most) sample.push(numbers);
    else {
      const place = Math.floor(random() * total);
      if (place < most) sample[place] = numbers;
    }
  }
  const notes = [];
  if (total > most)
    notes.push(
      `${commas(total)} points are more than the page can show: ` +
        `it uses ${commas(most)} of them, drawn at random.`,
    );
  if (unreadable)
    notes.push(
      `${countOf(unreadable, "line is", "lines are")} no "x, y, label" ` +
        `(the first is line ${first}), and left out.`,
    );
  if (!total)
    return {
      points: null,
      note: notes[0] ?? "There is no point in it: paste lines of three numbers, x, y and a label.",
    };
  const labels = [...new Set(sample.map((p) => p[2]))].sort((a, b) => a - b);
  const classes = labels.length === 2;
  const span = Math.max(...sample.map((p) => Math.max(Math.abs(p[0]), Math.abs(p[1])))) || 1;
  const scale = span > PLANE ? 2.8 / span : 1;
  if (scale !== 1)
    notes.push(
      `Coordinates are multiplied by ${Number(scale.toPrecision(3))}, so that all points can be seen.`,
    );
  const x = new Float64Array(2 * sample.length);
  const y = new Float64Array(sample.length);
  sample.forEach(([a, b, label], i) => {
    x[2 * i] = a * scale;
    x[2 * i + 1] = b * scale;
    y[i] = classes ? labels.indexOf(label) : label;
  });
  return {points: {x, y, numbers: !classes}, note: notes.join(" ")};
}

// Which points are for training: a shuffle, of which the first part trains.
export function splitPoints({x, y, numbers}, heldOut, seed) {
  const n = y.length;
  const order = permutation(n, seed);
  const train = Math.max(1, n - Math.round(heldOut * n));
  const pick = (from, to) => {
    const rows = order.slice(from, to);
    return {
      x: Float64Array.from(rows.flatMap((r) => [x[2 * r], x[2 * r + 1]])),
      y: Float64Array.from(rows, (r) => y[r]),
    };
  };
  return {train: pick(0, train), test: pick(train, n), numbers};
}

export function permutation(n, seed) {
  const random = studioRandom(seed);
  const order = Array.from({length: n}, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}
