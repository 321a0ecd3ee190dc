// Selectors of tensors: `blocks.0.attn.qkv.weight.grad[:8]`, `h.0.attn.wq.grad[:, :2]`, `wte`.
//
//   selector := name ("." "grad")? ("[" index ("," index)* "]")?
//   index    := integer | start? ":" stop? (":" step?)?        as NumPy has them
import {commas, countOf} from "./numbers.mjs";

const QKV_THIRDS = {wq: [0, 1], wk: [1, 2], wv: [2, 3]}; // thirds of the rows of qkv

// Shorter names that stand for a parameter, or for rows of it.
function resolvedName(name, tensors) {
  const plain = name
    .replace(/^(h|blocks|layers?)\.?(?=\d)/, "blocks.")
    .replace(/^(blocks\.\d+)[._]/, "$1.");
  const third = /^(blocks\.\d+\.attn)[._](wq|wk|wv)(\.weight)?$/.exec(plain);
  if (third) return {name: `${third[1]}.qkv.weight`, third: QKV_THIRDS[third[2]]};
  const fullName = plain
    .replace(/attn[._]wo$/, "attn.proj")
    .replace(/\.(mlp[._])fc(?=[12])/, ".mlp.fc");
  const found = [fullName, `${fullName}.weight`].find((n) => tensors.some((t) => t.name === n));
  return found ? {name: found} : null;
}

// A parameter's name as microgpt's readers know it.
export const shortName = (name) =>
  name
    .replace(/\.grad$/, "")
    .replace(/\.weight$/, "")
    .replace(/^blocks\./, "h.");

export function selectorNames(tensors) {
  const out = [];
  for (const {name, gradient} of tensors) {
    if (gradient) continue;
    const short = shortName(name);
    const thirds = short.endsWith("attn.qkv")
      ? Object.keys(QKV_THIRDS).map((w) => short.replace("qkv", w))
      : [];
    for (const n of [...thirds, short]) out.push(n, `${n}.grad`);
  }
  return out;
}

// {name, rows, columns} or {error: one sentence}. Rows and columns are lists of indices.
export function selectedTensor(text, tensors) {
  const [, path, , inside] = /^\s*([A-Za-z_][\w.]*)\s*(\[([^\]]*)\])?\s*$/.exec(text) ?? [];
  if (!path)
    return {
      error: `"${text.trim()}" is no selector: write a name and, if you like, a slice, as in h.0.attn.wq.grad[:, :2].`,
    };
  const gradient = path.endsWith(".grad");
  const base = gradient ? path.slice(0, -5) : path;
  const found = resolvedName(base, tensors);
  if (!found)
    return {
      error: `There is no tensor ${base}: there is ${selectorNames(tensors)
        .filter((n) => !n.endsWith(".grad"))
        .join(", ")}.`,
    };
  const {shape} = tensors.find((t) => t.name === found.name);
  const name = gradient ? `${found.name}.grad` : found.name;
  const third = shape[0] / 3;
  const size = found.third ? [third, shape[1]] : shape;
  const parts = inside === undefined ? [] : inside.split(",");
  if (parts.length > 2)
    return {error: `${base} has 2 axes, and the selector has ${parts.length} slices.`};
  const axes = size.map((n, i) => indices((parts[i] ?? ":").trim(), n, i));
  const wrong = axes.find((a) => a.error);
  if (wrong) return {error: wrong.error};
  const shift = found.third ? found.third[0] * third : 0;
  if (axes.some((a) => a.length === 0))
    return {error: `${text.trim()} selects nothing: the tensor is ${size.join(" × ")}.`};
  return {
    name,
    gradient,
    shape,
    rows: axes[0].map((r) => r + shift),
    columns: axes[1],
    labels: axes,
    text: text.trim(),
  };
}

function indices(text, n, axis) {
  const words = `axis ${axis} has ${n} elements`;
  if (/^[+-]?\d+$/.test(text)) {
    const i = Number(text);
    const at = i < 0 ? i + n : i;
    return at >= 0 && at < n ? [at] : {error: `${i} is outside: ${words}.`};
  }
  const m = /^([+-]?\d+)?\s*:\s*([+-]?\d+)?\s*(?::\s*([+-]?\d+)?)?$/.exec(text);
  if (!m) return {error: `"${text}" is no index: write a number or start:stop:step; ${words}.`};
  const step = m[3] === undefined ? 1 : Number(m[3]);
  if (step === 0) return {error: "The step of a slice is not 0."};
  const bound = (v, fallback) => {
    if (v === undefined) return fallback;
    const i = Number(v) < 0 ? Number(v) + n : Number(v);
    return step > 0 ? Math.min(Math.max(i, 0), n) : Math.min(Math.max(i, -1), n - 1);
  };
  const out = [];
  const start = bound(m[1], step > 0 ? 0 : n - 1);
  const stop = bound(m[2], step > 0 ? n : -1);
  for (let i = start; step > 0 ? i < stop : i > stop; i += step) out.push(i);
  return out;
}

// Documents of a pasted text for 26 letters: {documents, alphabet, note}, or {error}.
export function pastedDocuments(text) {
  const lines = text
    .split("\n")
    .map((l) => l.trim().toLowerCase())
    .filter(Boolean);
  const counts = new Map();
  for (const line of lines) for (const c of line) counts.set(c, (counts.get(c) ?? 0) + 1);
  const letters = [...counts]
    .sort((a, b) => b[1] - a[1])
    .slice(0, 26)
    .map(([c]) => c)
    .sort();
  const letterSet = new Set(letters);
  const notes = [];
  let documents = lines.map((l) => [...l].filter((c) => letterSet.has(c)).join("")).filter(Boolean);
  if (documents.length < 2)
    return {error: "Training needs at least two lines with letters, one name or word a line."};
  if (counts.size > 26)
    notes.push(
      `There are ${counts.size} different characters and the model has 26: the rarest are left out.`,
    );
  if (documents.length > 50000) {
    notes.push(`Of ${commas(documents.length)} lines the first 50,000 are used.`);
    documents = documents.slice(0, 50000);
  }
  const long = documents.filter((d) => d.length > 16).length;
  if (long) notes.push(`${countOf(long, "line is", "lines are")} longer than 16 letters, and cut.`);
  const filler = [..."abcdefghijklmnopqrstuvwxyz"]
    .filter((c) => !letterSet.has(c))
    .slice(0, 26 - letters.length);
  return {documents, alphabet: [...letters, ...filler].join(""), note: notes.join(" ")};
}
