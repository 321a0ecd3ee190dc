"""Imports point one way, and heavy ones wait until they are needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import chainrule

ROOT = Path(chainrule.__file__).parent

LAYERS: list[set[str]] = [
    {
        "errors",
        "engine.provenance",
        "engine.source_text",
        "page",
        "files",
        "names",
        "engine.lost_assignments",
        "files.regular_files",
        "files.whole_files",
        "files.whole_folders",
        "blas_threads",
        "files.strict_json",
        "version",
        "names.not_offered",
        "names.methods",
        "ops.descriptions",
        "names.examples",
    },
    {
        "names.jax_names",
        "names.module_calls",
        "optional",
        "ops.row_examples",
        "nn.base.row_examples",
    },
    {"engine.op", "names.public_names"},
    {"names.numpy_names"},
    {"names.spellings"},
    {
        "engine.watch",
        "engine.dtypes",
        "ops.rows",
        "ops.values.constants",
        "ops.values.coefficients",
        "ops.values.special_coefficients",
    },
    {"ops.values.numbers", "engine.misuse"},
    {"engine.arrays"},
    {"engine.arguments"},
    {"engine.border"},
    {"engine.node"},
    {"engine.quiet"},
    {"engine.graph", "ops.eager_kernels"},
    {
        "engine.doors",
        "engine.lost_gradients",
        "ops.families",
        "ops.accidental_broadcast",
        "ops.values.double_digits",
    },
    {"ops.values.special_functions", "ops.indexing.sums_at_places"},
    {"ops.values.floating"},
    {"ops.values.plain"},
    {"ops.values.elementary"},
    {"ops.values.normal", "ops.values.gates", "ops.values.bessel"},
    {"ops.values.quantiles"},
    {
        "ops.elementwise",
        "ops.shapes.shaping",
        "ops.shapes.joining",
        "ops.shapes.slices",
        "ops.indexing.selection",
        "ops.indexing.index_arrays",
        "ops.reductions.norms",
        "ops.reductions.variances",
        "ops.complex",
        "ops.reductions.reduction",
    },
    {"ops.contraction"},
    {"engine.derive", "engine.operators"},
    {"engine.accumulation"},
    {"ops.axis_letters"},
    {"ops.composite_derivatives", "ops.kernel_use"},
    {"ops.fusing"},
    {"random", "ops.networks.composite", "ops.networks.linear", "ops"},
    {"engine.methods"},
    {"engine", "engine.tensors", "tree", "interop"},
    {"transforms.replay", "transforms.recompute", "transforms.checkpointing"},
    {
        "transforms",
        "transforms.functional",
        "transforms.jacobians",
        "transforms.scan",
        "transforms.while_loop",
        "transforms.vectorize",
        "engine.creation",
        "engine.function",
        "scalar",
        "linalg",
        "fft",
    },
    {
        "engine.methods.forms",
        "interop.numpy",
        "interop.numpy_rows",
        "interop.numpy_statistics",
        "interop.numpy_matrices",
        "interop.numpy_table",
        "special",
    },
    {"compile.target"},
    {"compile.graph", "compile.mathlib"},
    {"compile.loops"},
    {"compile.llvm", "compile.graph.rules", "compile.lower.attention_blocks"},
    {"compile.cpu"},
    {"compile.lower", "compile.loops.check", "compile.trace.guards"},
    {"compile.runtime"},
    {"compile.trace", "compile.scalars"},
    {"compile.runtime.call"},
    {"compile.export"},
    {"compile.c", "compile.inspect", "compile.wasm"},
    {"compile"},
    {""},
    {"nn", "optim", "amp", "transforms.capturing", "data", "explain", "progress"},
    {"models", "verify", "traces", "parallel"},
    {"studio", "show"},
    {"cli", "__main__"},
]
"""What stands on what (docs/design.md): a module sees its own layer and those before it."""

LATE: dict[tuple[str, str], str] = {
    ("traces.saving", "studio.play"): "a trace is saved as a page that plays it",
    ("verify.reporting.as_html", "studio.report"): "a finding opens in the player",
    ("engine.op", "engine.tensors"): "the first op on arrays loads the engine",
    ("names.public_names", "engine.tensors"): "so does the first public name that needs it",
    ("names.public_names", "engine.border"): "what users call has the border",
    ("names.numpy_names", "interop.numpy"): "an error tells which functions take tensors",
    ("names.numpy_names", "nn.init"): "an error tells which initial values there are",
    ("engine.methods.making", ""): "a method loads its function when it is first asked for",
    ("names.spellings", ""): "an error tells what stands in the package under another name",
    ("names.spellings", "nn.functional"): "the same",
    ("ops.eager_kernels", "compile.eager"): "ops on many elements run as kernels",
}
"""Modules above that are named as text, and loaded when first needed: (who, what): why."""

HEAVY = [
    *["torch", "rich", "sklearn", "llvmlite", "pandas", "matplotlib", "safetensors", "asyncio"],
    *["scipy", "ml_dtypes"],
]


def module_of(path: Path) -> str:
    """`ops.shaping` for chainrule/ops/shapes/shaping.py, "" for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def layer(module: str) -> int:
    """The place of a module in LAYERS: its own, or that of the package it is in."""
    while True:
        for i, names in enumerate(LAYERS):
            if module in names:
                return i
        if "." not in module:
            raise LookupError(f"'{module}' stands in no layer: add it to LAYERS")
        module = module.rpartition(".")[0]


def imported(tree: ast.AST) -> list[str]:
    """The modules of this package that a file imports, in functions too, but not for types only."""
    out: list[str] = []
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "chainrule":
                out.append(_module_named(name.removeprefix("chainrule").lstrip(".")))
    return out


def named(tree: ast.AST) -> list[str]:
    """The modules of this package that a file imports by a text that is written out."""
    out: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _named_last(node.func).endswith(
            ("import_module", "require")
        ):
            text = (
                node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            )
            name = str(text.value) if isinstance(text, ast.Constant) else ""
            if name.split(".")[0] == "chainrule":
                out.append(_module_named(name.removeprefix("chainrule").strip(".")))
    return out


def _named_last(e: ast.expr) -> str:
    """The last name of a dotted expression."""
    return e.attr if isinstance(e, ast.Attribute) else getattr(e, "id", "")


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements but those under `if TYPE_CHECKING:`, in the order of the file."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.If) and _named_last(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _executed(node)


@cache
def _module_named(name: str) -> str:
    """The module that `name`, a module or something in one, is or is in."""
    path = ROOT / name.replace(".", "/")
    if name and not path.is_dir() and not path.with_suffix(".py").exists():
        return name.rpartition(".")[0]
    return name


FILES = sorted(p for p in ROOT.rglob("*.py"))


NO_NOUNS = {
    *("above", "alike", "alone", "apart", "asked", "below", "born", "given", "held", "kept"),
    *("known", "left", "lost", "met", "moved", "opposed", "others", "outside", "said", "seen"),
    *("stale", "taken", "told", "tried", "turned", "where", "whose", "written"),
}
"""Words that say how a thing is, and not what: as a name they have to be guessed."""


def without_noun(name: str) -> bool:
    """Whether a module's whole name is one such word, or a participle."""
    return "_" not in name and (name in NO_NOUNS or name.endswith("ed"))


def test_modules_are_named_by_nouns():
    assert not [module_of(p) for p in FILES if without_noun(p.stem)]
    names = ("kept", "widened", "kept_graphs", "seed_values", "scheduler", "printing")
    assert [without_noun(name) for name in names] == [True, True, False, False, False, False]


def test_nobody_imports_upward():
    upward = [
        f"{mine or 'chainrule'} (layer {layer(mine)}) imports {m} (layer {layer(m)})"
        for path in FILES
        for m in imported(tree_of(path))
        if layer(m) > layer(mine := module_of(path))
    ]
    assert not upward, "\n".join(upward)


def test_modules_above_are_loaded_late_only_where_the_table_says_so():
    found: set[tuple[str, str]] = set()
    for path in FILES:
        mine = module_of(path)
        names = named(tree_of(path))
        found |= {(mine, m) for m in names if mine and layer(m) > layer(mine)}
    assert found == LATE.keys()


def test_an_upward_import_is_seen():
    source = "from chainrule.engine.graph import apply\n"
    source += "def f():\n    from chainrule import linalg, zeros\n"
    source += "if TYPE_CHECKING:\n    import chainrule.cli\n"
    found = imported(ast.parse(source))
    assert found == ["engine.graph", "linalg", ""]
    assert [m for m in found if layer(m) > layer("ops.shapes.shaping")] == ["linalg", ""]
    with pytest.raises(LookupError):
        layer("nowhere")


ABOVE = ("compile.graph", "compile.lower", "compile.loops")
MACHINES = ("compile.llvm", "compile.cpu", "compile.wasm", "compile.c", "compile.runtime")


def of_a_machine(module: str) -> bool:
    return any(module == m or module.startswith(f"{m}.") for m in MACHINES)


@pytest.mark.parametrize(
    "path", [p for p in FILES if module_of(p).startswith(ABOVE)], ids=lambda p: module_of(p)
)
def test_nothing_above_the_emitters_knows_a_machine(path: Path):
    """What there is to know of one is in a `Target`."""
    found = [m for m in imported(tree_of(path)) if of_a_machine(m)]
    assert not found, f"{module_of(path)} imports {found}"


def test_an_import_of_a_machine_is_seen():
    source = "def f():\n    from chainrule.compile.cpu.thread_pool import NAME\n"
    assert [m for m in imported(ast.parse(source)) if of_a_machine(m)]


@cache
def folder(module: str) -> str:
    """The folder of the compiler that a module is in, as far as it is a layer of its own."""
    names = {m for layer in LAYERS for m in layer}
    parts = module.split(".")
    known = [".".join(parts[:n]) for n in range(2, len(parts) + 1)]
    inner = [m for m in known if m in names and (ROOT / m.replace(".", "/")).is_dir()]
    return inner[-1] if inner else ""


def cycle(edges: dict[str, set[str]]) -> list[str]:
    """Folders that import each other in a circle, if any do."""

    def leads(at: str, path: list[str]) -> list[str]:
        if at in path:
            return [*path[path.index(at) :], at]
        return next((c for to in sorted(edges.get(at, ())) if (c := leads(to, [*path, at]))), [])

    return next((c for at in sorted(edges) if (c := leads(at, []))), [])


def test_folders_of_the_compiler_import_one_way():
    edges: dict[str, set[str]] = {}
    for path in FILES:
        mine = folder(module_of(path))
        names = imported(tree_of(path))
        edges.setdefault(mine, set()).update({f for m in names if (f := folder(m))} - {mine})
    del edges[""]
    assert {"compile.llvm", "compile.cpu", "compile.lower", "compile.graph.rules"} <= edges.keys()
    assert edges["compile.cpu"] >= {"compile.llvm", "compile.loops"}
    assert not cycle(edges)
    edges["compile.llvm"] |= {"compile.cpu"}
    assert cycle(edges) == ["compile.cpu", "compile.llvm", "compile.cpu"]


def test_every_layer_exists():
    known = {module_of(p) for p in FILES} | {""}
    assert {m for names in LAYERS for m in names} <= known | {m.rpartition(".")[0] for m in known}


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import chainrule", [*HEAVY, "numpy"]),
        ("from chainrule.scalar import Value; Value(2.0).exp().backward()", [*HEAVY, "numpy"]),
        ("import chainrule; chainrule.tensor([1.0]).exp()", HEAVY),
        ("from chainrule import nn, optim, verify; nn.Linear(3, 2)", HEAVY),
    ],
)
def test_programs_import_nothing_heavy(program: str, heavy: list[str]):
    code = f"{program}\nimport sys; print([m for m in {heavy!r} if m in sys.modules])"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert got.stdout.strip() == "[]"


@pytest.mark.sweep
@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_can_be_the_first_that_is_imported(path: Path):
    name = f"chainrule.{module_of(path)}".rstrip(".")
    if name.endswith("__main__"):
        return
    code = (
        f"import {name}, chainrule; assert callable(chainrule.tensor) and callable(chainrule.vmap)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_every_public_name_is_there_once_and_documented():
    names = chainrule.__all__
    assert len(names) == len(set(names)), "a name stands twice"
    undocumented = [n for n in names if not (getattr(chainrule, n).__doc__ or "").strip()]
    dtype = type(chainrule.bfloat16)  # dtypes have no text of ours; more in test_docstrings.py
    assert [n for n in undocumented if not isinstance(getattr(chainrule, n), dtype)] == []
