"""`import chainrule` needs NumPy only; what needs more says so; `Value` needs no NumPy either."""

from __future__ import annotations

import ast
import json
import math
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

import chainrule as cr
from chainrule import optional
from chainrule.names import public_names
from chainrule.ops.rows import Elementwise, rows
from chainrule.ops.values.special_functions import OURS, SCIPY_ONLY
from chainrule.scalar.ieee import NUMERIC
from chainrule.scalar.rules import beyond, value_of
from tests.ops.samples_elementwise import BY_LAST, DOMAINS
from tests.project.blocked import OPTIONAL, run_blocked

ROOT = Path(cr.__file__).parent

# --- Every op ------------------------------------------------------------------------------------

RUN_SAMPLES = """
import json
import sys

import numpy as np

import chainrule as cr
from chainrule.errors import MissingPackageError
from chainrule.ops.values import special_functions
from tests.ops import (
    samples_arrays,
    samples_elementwise,
    samples_extra,
    samples_network,
    samples_replacing,
)
from tests.ops.sample import cotangent

for name in sys.argv[2:]:
    special_functions.OURS.pop(name)
arrays, missing = {}, {}
parts = samples_elementwise, samples_arrays, samples_extra, samples_network, samples_replacing
samples = [s for part in parts for s in part.SAMPLES if s.name in sys.argv[2:] or not sys.argv[2:]]
for i, sample in enumerate(samples):
    for dtype in (np.float64, np.float32):
        wide = [getattr(x, "dtype", None) == np.float64 for x in sample.args]
        args = [x.astype(dtype) if w else x for x, w in zip(sample.args, wide)]
        for what in ("value", "derivative") if dtype is np.float64 else ("value",):
            try:
                if what == "value":
                    ys = sample.f(*args)
                else:
                    real = [k for k, x in enumerate(args) if getattr(x, "dtype", None) == dtype]
                    def f(*xs):
                        given = dict(zip(real, xs))
                        return sample.f(*[given.get(k, x) for k, x in enumerate(args)])
                    y, pull = cr.vjp(f, *[args[k] for k in real])
                    if not isinstance(y, cr.Tensor) or y.dtype.kind not in "fc":
                        continue
                    ys = pull(cotangent(y).astype(y.dtype))
            except MissingPackageError as error:
                missing[f"{sample.name} {what}"] = str(error)
                continue
            except cr.ChainruleError:
                continue  # has no such derivative
            for k, y in enumerate(ys if isinstance(ys, (tuple, list)) else [ys]):
                arrays[f"{i} {sample.name} {what} {np.dtype(dtype)} {k}"] = np.asarray(y)
np.savez(sys.argv[1], **arrays)
print(json.dumps(missing))
"""
"""Writes values and derivatives of all samples; prints what could not be had, and the error."""

WITHOUT_VALUE = {*SCIPY_ONLY, "sinc"}
WITHOUT_DERIVATIVE = dict.fromkeys(("lgamma", "multigammaln", "beta_density"), "digamma")
"""Ops whose derivative is an op that only SciPy computes."""


def run_samples(path: Path, names: tuple[str, ...], *without: str) -> tuple[Any, dict[str, str]]:
    missing = json.loads(run_blocked(RUN_SAMPLES, names, str(path), *without))
    return np.load(path), missing


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All samples with all packages, and with NumPy alone."""
    folder = tmp_path_factory.mktemp("samples")
    return run_samples(folder / "all.npz", ()), run_samples(folder / "numpy.npz", OPTIONAL)


def test_every_op_computes_the_same_with_numpy_only(both: Any):
    (full, nothing), (light, missing) = both
    assert nothing == {}
    assert len(light.files) > 1000
    for name in light.files:
        x, y = light[name], full[name]
        close = 64 * np.finfo(y.dtype).eps if y.dtype.kind in "fc" else 0
        assert x.dtype == y.dtype, name
        np.testing.assert_allclose(x, y, rtol=close, atol=close, err_msg=name)
    lost = {" ".join(name.split()[1:3]) for name in set(full.files) - set(light.files)}
    assert lost == missing.keys()


def test_what_needs_scipy_is_in_the_table_and_says_what_to_install(both: Any):
    missing: dict[str, str] = both[1][1]
    names = {name for name, _, _ in [key.partition(" ") for key in missing]}
    assert {k.split()[0] for k in missing if k.endswith("value")} == WITHOUT_VALUE
    assert names == WITHOUT_VALUE | WITHOUT_DERIVATIVE.keys()
    for key, said in missing.items():
        label, _, rest = said.partition(" needs SciPy, ")
        assert label in SCIPY_ONLY, key
        assert rest.endswith("run `pip install scipy`"), key


def test_a_value_without_a_formula_of_ours_is_seen(tmp_path: Path):
    _, missing = run_samples(tmp_path / "x.npz", OPTIONAL, "erf")
    assert "erf value" in missing


def domain(label: str) -> Any:
    rng = np.random.default_rng(0)
    return [rng.uniform(low, high, 500) for low, high in DOMAINS[label]]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("label", OURS)
def test_our_formulas_are_scipys_functions(label: str, dtype: Any):
    name = {"lgamma": "gammaln"}.get(label, label)
    edges = [np.array([0.0, -0.0, 1.0, -1.0, 0.5, 30.0, -30.0, math.inf, -math.inf, math.nan])]
    given = [np.concatenate([x, *edges]).astype(dtype) for x in domain(label)]
    if len(given) == 2:
        given[1] = np.concatenate([given[1][10:], given[1][:10]])
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, name)(*given)
    got = OURS[label](*given)
    assert got.dtype == want.dtype
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(got, want, rtol=128 * eps, atol=4 * eps)


# --- Programs ------------------------------------------------------------------------------------

TRAIN = """
import sys
import numpy as np
import chainrule as cr
from chainrule import nn, optim, verify
from chainrule.models.mlp import MLP

x = np.linspace(-1, 1, 64).reshape(64, 1)
for activation in ("tanh", "relu", "gelu", "sigmoid"):
    model = MLP([1, 16, 1], activation, dtype=np.float64, generator=cr.Generator(0))
    optimizer = optim.AdamW(model.parameters(), lr=0.03)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = cr.mse_loss(model(x), np.sin(3 * x))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2, losses

def forward(x, w):
    return np.tanh(x @ w)

def backward(g, x, w):
    s = g * (1 - np.tanh(x @ w) ** 2)
    return s @ w, x.T @ s

rng = np.random.default_rng(0)
report = verify.pair(forward, backward, rng.normal(size=(4, 3)), rng.normal(size=(3, 3)))
assert report.findings[0].correction.after.strip() == "return s @ w.T, x.T @ s", str(report)
large = cr.tensor(np.ones((512, 512), np.float32), requires_grad=True)
cr.softmax(large).sum().backward()
print(sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1:])))
"""


def test_training_and_the_verifier_need_numpy_only():
    assert run_blocked(TRAIN, OPTIONAL, *OPTIONAL) == "[]\n"


COMMANDS = """
import sys
from pathlib import Path
from chainrule.cli.main import main
folder = Path(sys.argv[1])
(folder / "train.py").write_text(sys.argv[2])
assert main(["verify", str(folder / "train.py")]) == 0
small = ["--steps", "3", "--n-embd", "8", "--n-head", "2", "--block-size", "8"]
assert main(["train", *small, "--out", str(folder / "run")]) == 0
"""
SCRIPT = """
import chainrule as cr
from chainrule import nn, optim
layer = nn.Linear(2, 1, generator=cr.Generator(0))
optimizer = optim.SGD(layer.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    cr.mse_loss(layer(cr.ones((3, 2))), cr.ones((3, 1))).backward()
    optimizer.step()
"""


def test_the_command_needs_no_compiler(tmp_path: Path):
    blocked = set(OPTIONAL) - {"rich", "safetensors"}
    assert "losses.csv" in run_blocked(COMMANDS, blocked, str(tmp_path), SCRIPT)


ASK = """
import tempfile
from pathlib import Path
import numpy as np
import chainrule as cr
from chainrule.cli import main
from chainrule.data import digits
path = Path(tempfile.mkdtemp()) / "x.safetensors"
for ask in (
    lambda: cr.bfloat16,
    lambda: cr.tensor([1.0]).astype(cr.bfloat16),
    lambda: cr.jit,
    lambda: cr.set_num_threads(1),
    lambda: cr.save_file({"x": cr.ones((2,))}, path),
    lambda: digits.load_digits(),
    lambda: cr.special.i0(cr.ones((2,))),
    lambda: cr.erf(cr.ones((2,), dtype=cr.complex64)),
):
    try:
        ask()
        print("nothing raised")
    except cr.ChainruleError as error:
        assert isinstance(error, ImportError)
        print(error)
assert main.main(["train"]) == 2
"""


def test_errors_say_what_is_missing():
    words = [line.split(" is blocked") for line in run_blocked(ASK, OPTIONAL).splitlines()]
    assert [(before.split(",")[0], after) for before, after in words] == [
        (f"{wanted} needs {name}", f"): run `pip install {pip}`")
        for wanted, name, pip in [
            ("bfloat16", "ml_dtypes", "ml_dtypes"),
            ("bfloat16", "ml_dtypes", "ml_dtypes"),
            ("compiled code", "llvmlite", "llvmlite"),
            ("compiled code", "llvmlite", "llvmlite"),
            ("a .safetensors file", "safetensors", "safetensors"),
            ("load_digits", "scikit-learn", "scikit-learn"),
            ("i0", "SciPy", "scipy"),
            ("erf of complex numbers", "SciPy", "scipy"),
        ]
    ]


VALUES = """
import math, random, sys
if "numpy" in sys.argv:
    import numpy
    import chainrule.nn
from chainrule.scalar import Value
import chainrule as cr
assert cr.Value is Value
assert "numpy" in sys.argv or "numpy" not in sys.modules

random.seed(1)
def layer(n, m):
    return [[Value(random.uniform(-1, 1)) for _ in range(n + 1)] for _ in range(m)]

def run(rows, xs, act):
    return [act(sum((w * x for w, x in zip(row, xs)), row[-1])) for row in rows]

net = layer(2, 8), layer(8, 1)
weights = [w for rows in net for row in rows for w in row]
data = [((math.sin(i), math.cos(2 * i)), math.sin(i) * math.cos(2 * i)) for i in range(20)]
losses = []
for step in range(15):
    loss = 0
    for xs, want in data:
        (y,) = run(net[1], run(net[0], xs, Value.tanh if step % 2 else cr.atan), lambda v: v)
        loss = loss + (y - want) ** 2
    for w in weights:
        w.grad = 0
    loss.backward()
    for w in weights:
        w.data -= 0.02 * w.grad
    losses.append(loss.data)
assert losses[-1] < losses[1] / 1.5, losses
a, b = Value(0.0), Value(2)
edges = [a / a, b / a, cr.log(a), cr.maximum(a, b), b ** 0.5, cr.exp(Value(800.0)), abs(-b)]
print([loss.hex() for loss in losses], edges)
"""


def test_value_needs_the_standard_library_only_and_computes_the_same():
    alone = run_blocked(VALUES, ("numpy", *OPTIONAL))
    assert alone == run_blocked(VALUES, (), "numpy")
    assert "nan" in alone


ROWS = """
import chainrule as cr
from chainrule.ops import elementwise
from chainrule.ops.rows import rows
from chainrule.scalar import Value
UNARY = ("logical_not", "bitwise_invert", "signbit", "isnan", "isinf", "isfinite")
for label, row in sorted(rows.items()):
    count = 1 if label in UNARY else 2
    if label == "strong_mul":  # no row of the table
        continue
    if row.partials:
        xs = [Value(0.3 + 0.4 * i) for i in range(len(row.partials))]
        y = row(*xs)
        y.backward()
        print(label, y, [x.grad for x in xs], row(*[Value(-x.data) for x in xs]))
    else:
        print(label, row(*[Value(5 - 3 * i) for i in range(count)]))
"""


def test_every_row_of_the_table_takes_values_without_numpy():
    alone = run_blocked(ROWS, ("numpy", *OPTIONAL))
    assert len(alone.splitlines()) > 85
    assert alone == run_blocked(f"import numpy, chainrule.engine.tensors\n{ROWS}", ())


@pytest.mark.parametrize(
    "label", [n for n, r in rows.items() if r.scalar.__module__ == "chainrule.ops.values.numbers"]
)
def test_values_of_numbers_are_those_of_arrays(label: str):
    row = rows[label]
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(-30, 3.3, 400))
    xs = [
        rng.permutation([*sizes, *-sizes, *rng.normal(size=400), 0.0, 500.0, -500.0])
        for _ in range(row.takes)
    ]
    with np.errstate(all="ignore"):
        want = row.fn(*xs)
    for y, *given in zip(want.tolist(), *[x.tolist() for x in xs], strict=True):
        if math.isfinite(y):  # else Python may raise
            assert row.scalar(*given) == pytest.approx(y, rel=4e-15, abs=2e-16 * (abs(y) < 0.1)), (
                given
            )


def test_names_without_numpy():
    code = """
from chainrule import *
import chainrule as cr
assert "Value" in cr.__all__ and "exp" in cr.__all__ and "zeros" not in cr.__all__
assert exp(Value(0.0)).data == 1.0
assert not hasattr(cr, "no_such_name")
for ask in (lambda: cr.zeros, lambda: cr.nn, lambda: exp([1.0])):
    try:
        ask()
    except cr.ChainruleError as error:
        print(str(error).partition(",")[0])
"""
    said = run_blocked(code, ("numpy", *OPTIONAL)).splitlines()
    assert said == [f"{name} needs NumPy" for name in ("chainrule.zeros", "chainrule.nn", "exp")]


# --- What Python raises for ----------------------------------------------------------------------

POINTS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 3, 0, -1, 800.0, -800.0, 1e308, -1e308, 5e-324)
POINTS += (1 / 3, 2.5, math.inf, -math.inf, math.nan)


def by_numpy(row: Elementwise, *xs: float) -> list[float]:
    """Value and partials, where Python raises by NumPy's float64."""
    with np.errstate(all="ignore"):
        floats = [np.float64(x) for x in xs]
        try:
            y = value_of(row)(*xs)
        except NUMERIC:
            y = row.fn(*floats)
        known = (np.float64(y), *floats)
        return [float(y), *[float(p.formula(*[known[i] for i in p.reads])) for p in row.partials]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "label", [n for n, row in rows.items() if row.partials and n not in BY_LAST]
)
def test_numbers_beyond_pythons_are_numpys(label: str):
    row = rows[label]
    count = len(row.partials)
    for xs in product(POINTS if count < 3 else POINTS[::3], repeat=count):
        y, partials = beyond(row, *xs)
        want = by_numpy(row, *xs)
        np.testing.assert_allclose([y, *partials], want, rtol=1e-12, err_msg=f"{label}{xs}")
        assert math.copysign(1, y) == math.copysign(1, want[0]) or math.isnan(y), xs


# --- One place -----------------------------------------------------------------------------------

MODULE_LEVEL = {"compile": "llvmlite", "cli": "rich"}
"""Folders that are nothing without a package; their entry asks for it (`optional.require`)."""


WORDS = {*OPTIONAL, "ImportError", "ModuleNotFoundError"}


def optional_imports(tree: ast.AST) -> list[str]:
    """The optional packages that a file imports by statement, and `except ImportError`."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            names = [n.id for n in ast.walk(node.type) if isinstance(n, ast.Name)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [a.value for a in node.args if isinstance(a, ast.Constant)]
        else:
            continue
        roots = {str(n).partition(".")[0] for n in names}
        found += sorted(roots & WORDS)
    return found


OF_TORCH = ("verify/", "traces/pytorch/", "parallel/")
"""What is given PyTorch's objects, or stands on its process groups."""
ALLOWED = {
    ("verify/reporting/report.py", "rich"),  # `__rich__`, which rich itself calls
    ("verify/script/single.py", "ModuleNotFoundError"),  # a user's import
    ("verify/script/target.py", "ModuleNotFoundError"),
    ("compile/runtime/cache/key.py", "ImportError"),  # a module that Windows lacks
    ("blas_threads.py", "ImportError"),  # a module of NumPy's own that may be elsewhere
}


def test_optional_packages_are_loaded_in_one_place():
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        folder = name.partition("/")[0]
        text = path.read_text(encoding="utf-8")
        if name == "optional.py" or not any(word in text for word in WORDS):
            continue
        for package in optional_imports(ast.parse(text)):
            by_torch = package == "torch" and name.startswith(OF_TORCH)
            fine = MODULE_LEVEL.get(folder) == package or by_torch or (name, package) in ALLOWED
            assert fine, f"{name} imports {package}: use chainrule.optional"


def test_an_import_elsewhere_is_seen():
    source = "try:\n    import scipy.special\nexcept ImportError:\n    pass\n"
    source += "import_module('ml_dtypes')\nfrom rich import x\n"
    assert sorted(optional_imports(ast.parse(source))) == [
        "ImportError",
        "ml_dtypes",
        "rich",
        "scipy",
    ]


def test_every_dependency_is_in_the_table():
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))
    named = {d.partition(">=")[0] for d in project["project"]["dependencies"]}
    assert named <= {pip for _, pip in optional.PACKAGES.values()}


# --- Public names --------------------------------------------------------------------------------


def test_a_name_is_a_global_once_it_was_asked_for():
    code = "import chainrule as cr\nfor _ in range(2): print('exp' in vars(cr)); cr.exp"
    assert run_blocked(code, ()).split() == ["False", "True"]


def test_no_function_has_the_name_of_a_module():
    """Importing the module would put it in the function's place."""
    modules = {p.stem for p in ROOT.glob("*.py")} | {p.name for p in ROOT.iterdir() if p.is_dir()}
    homes = public_names.imports_of("chainrule")
    assert {n for n in modules & homes.keys() if homes[n] != "chainrule"} == set()


def test_star_import_brings_all_names():
    space: dict[str, Any] = {}
    exec("from chainrule import *", space)
    assert set(dir(cr)) == set(cr.__all__) <= space.keys()
