// An expression as a program in Python: the same operations in the same order.
//
// Every name is one value for good: an input or a name that is assigned to again, or one that means
// something to Python, gets another name there. Numbers that meet only numbers become Values, so that
// they are computed as the page computes them.
const PYTHON_WORDS = (
  "False None True and as assert async await break class continue def del elif else except " +
  "finally for from global if import in is lambda nonlocal not or pass raise return try while with yield " +
  "cr Value print"
).split(" ");
const LEVEL = {add: 1, sub: 1, mul: 2, div: 2, neg: 3, pow: 4, square: 4, atom: 5};

// `inputs` are [name, number]; `signs` gives an op's sign.
export function pythonOf(statements, inputs, signs) {
  const names = new PythonNames();
  const inputsInPython = inputs.map(([name, x]) => [names.assign(name), name, x]);
  const lines = statements.map(({name, tree}, i) => {
    const text =
      tree.kind === "number"
        ? `Value(${pythonNumber(tree.value)})`
        : pythonTree(tree, 0, names, signs);
    return [names.assign(name || (i === statements.length - 1 ? "result" : "unused")), text];
  });
  const result = lines.at(-1)[0];
  const resultLabel = statements.at(-1).name || "result";
  return [
    "import chainrule as cr",
    "from chainrule import Value",
    "",
    ...inputsInPython.map(([name, , x]) => `${name} = Value(${pythonNumber(x)})`),
    ...lines.map(([name, text]) => `${name} = ${text}`),
    `${result}.backward()`,
    "",
    `print("${resultLabel} =", ${result}.data)`,
    ...inputsInPython.map(([name, label]) => `print("gradient of ${label} =", ${name}.grad)`),
    "",
  ].join("\n");
}

class PythonNames {
  constructor() {
    this.names = new Set(PYTHON_WORDS);
    this.now = new Map();
  }
  assign(name) {
    let free = name;
    while (this.names.has(free)) free += "_";
    this.names.add(free);
    this.now.set(name, free);
    return free;
  }
}

function pythonNumber(x) {
  const text = Object.is(x, -0) ? "-0.0" : String(x);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

// `level` is how tightly what stands around it binds.
function pythonTree(tree, level, names, signs) {
  if (tree.kind === "number")
    return tree.value < 0 || Object.is(tree.value, -0)
      ? inBrackets(pythonNumber(tree.value), 3, level)
      : pythonNumber(tree.value);
  if (tree.kind === "name") return names.now.get(tree.name);
  const write = (x, at) => pythonTree(x, at, names, signs);
  const isConstant = tree.xs.every((x) => x.kind === "number");
  const first = (at) =>
    isConstant ? `Value(${pythonNumber(tree.xs[0].value)})` : write(tree.xs[0], at);
  if (tree.name === "square") return inBrackets(`${first(LEVEL.atom)} ** 2`, LEVEL.square, level);
  if (!signs[tree.name])
    return `cr.${tree.name}(${[first(0), ...tree.xs.slice(1).map((x) => write(x, 0))].join(", ")})`;
  const own = LEVEL[tree.name];
  if (tree.name === "neg") return inBrackets(`-${first(own + 1)}`, own, level);
  const [left, right] = tree.name === "pow" ? [LEVEL.atom, own] : [own, own + 1];
  return inBrackets(`${first(left)} ${signs[tree.name]} ${write(tree.xs[1], right)}`, own, level);
}

const inBrackets = (text, own, level) => (own < level ? `(${text})` : text);
