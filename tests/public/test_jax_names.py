"""JAX's names: what their hints tell to write runs; docs/jax_names.md is what errors say."""

from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
import chainrule.random
import chainrule.tree
from chainrule import nn, optim
from chainrule.names import jax_names, spellings

ROOT = Path(__file__).parents[2]
X = cr.tensor([[0.2, 0.05], [0.1, 0.3]])
HEADS = cr.ones((1, 2, 3, 4))


def scaled(x: Any, *_: Any) -> Any:
    return 3 * x


def doubled(i: Any, x: Any) -> Any:
    return 2 * x


PLACES: dict[str, Any] = {
    "cr": cr, "nn": nn, "np": np, "functools": functools, "y": cr.tensor([[0.5, 2.0], [0.7, 3.0]]),
    "w": cr.tensor([[1.5, 0.25], [1.25, 3.5]]), "f": scaled, "g": scaled, "body": doubled,
    "p": cr.tensor([[True], [False]]), "n": 2, "k": 1, "axis": 1, "axes": (1, 0), "seed": 3,
    "low": 0, "high": 2,
    "shape": (2, 2), "dtype": np.int32, "indices": np.array([1, 0]),
    "tree": {"a": X.sum(), "b": [X.max()]}, "structure": cr.tree.flatten([X, X])[1],
    "leaves": [X, X], "q": HEADS, "v": HEADS,
}  # fmt: skip
"""What stands for the names in the hints."""
INTEGERS = ("reduce_xor", "shift_left", "shift_right_arithmetic", "shift_right_logical",
            "population_count")  # fmt: skip
TABLES = {
    "functions": jax_names.FUNCTIONS,
    "layers": jax_names.LAYERS,
    "trees": jax_names.TREES,
    "draws": jax_names.DRAWS,
}
SENTENCES = {
    **jax_names.LEFT_OUT,
    **{f.title: f.advice for f in jax_names.FAMILIES},
    **{f.title: f.advice for f in jax_names._DRAW_FAMILIES},  # pyright: ignore[reportPrivateUsage]
    **jax_names.COMPILED,
    **spellings.PACKAGE,
    **spellings.MODULES,
}


def run(name: str, written: str) -> Any:
    i: Any = cr.tensor([[5, 6], [3, 1]]) if name in INTEGERS else 0
    k: Any = HEADS if name == "dot_product_attention" else 1
    space = {**PLACES, "x": X.copy(), "i": i, "k": k}
    if name.startswith("dynamic_update"):
        space["y"] = PLACES["y"][0]
    statement = written.partition(", with ")[0]
    exec(statement if re.match(r"\w+(\[.*\])? = ", statement) else f"it = {statement}", space)
    return space.get("it")


@pytest.mark.parametrize(("table", "name"), [(t, n) for t, names in TABLES.items() for n in names])
def test_what_a_hint_says_works(table: str, name: str):
    run(name, TABLES[table][name])


@pytest.mark.parametrize("title", SENTENCES)
def test_what_a_sentence_names_is_there(title: str):
    for said in re.findall(r"\b(?:cr|nn|optim)(?:\.\w+)+", SENTENCES[title]):
        eval(said, {"cr": cr, "nn": nn, "optim": optim})


def message(home: Any, name: str) -> str:
    with pytest.raises(AttributeError) as caught:
        getattr(home, name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("home", "name", "hint"),
    [
        (cr, "jacfwd", 'write cr.jacobian(f, mode="forward")'),
        (cr, "stop_gradient", "write cr.asarray(x).detach()"),
        (cr, "custom_vjp", "write a subclass of cr.Function, with backward, jvp or both"),
        (cr, "tree_leaves", "write cr.tree.flatten(tree)[0]"),
        (cr, "sin_p", "write the function without _p"),
        (nn, "swish", "write nn.functional.silu(x)"),
        (nn, "hard_tanh", "there is the function nn.functional.hardtanh"),
        (chainrule.random, "PRNGKey", "write g = cr.Generator(seed)"),
        (chainrule.tree, "leaves", "write cr.tree.flatten(tree)[0]"),
        (X, "at", "write x[i] = y"),
        (cr, "test_util", "write chainrule.verify.assert_gradients"),
        (chainrule.tree, "tree_leaves", "write cr.tree.flatten(tree)[0]"),
        (chainrule.tree, "register_dataclass", jax_names.function_advice("register_dataclass")),
        (cr.jit(scaled), "lower", jax_names.COMPILED["lower"]),
    ],
)
def test_errors_say_it(home: Any, name: str, hint: str):
    assert message(home, name).endswith(f" has no attribute '{name}': {hint}")


def test_a_name_that_means_two_things_is_answered_twice():
    said = message(cr, "cond")
    assert "write cr.linalg.cond; or, for JAX's cond, write cr.where(p, f(x), g(x))" in said


def test_programs_that_a_hint_names_are_there():
    f = cr.jit(scaled)
    assert "3" in f.loops(X)
    assert str(f.explain(X))
    assert f(X).shape == X.shape


@pytest.mark.parametrize("home", [chainrule.random, chainrule.tree, nn])
def test_a_name_that_nobody_has(home: Any):
    assert message(home, "nonsense").endswith("has no attribute 'nonsense'")


def test_the_page_lists_what_errors_say():
    """`scripts/jax_names.py`, which needs JAX, writes the page from JAX's own lists."""
    page = (ROOT / "docs" / "jax_names.md").read_text(encoding="utf-8")
    tables = jax_names.FUNCTIONS, jax_names.LAYERS, jax_names.TREES
    listed = re.findall(r"`([^`]+)`", page)
    for table in tables:
        assert set(table) <= set(listed), set(table) - set(listed)
    assert not re.findall(r"\|\s*\|$", page, re.MULTILINE), "a name without an answer"


ARGUMENTS = {
    "grad": "fun argnums has_aux holomorphic allow_int reduce_axes",
    "value_and_grad": "fun argnums has_aux holomorphic allow_int reduce_axes",
    "vjp": "has_aux reduce_axes", "jvp": "fun primals tangents has_aux", "hessian": "fun has_aux",
    "vmap": "fun in_axes out_axes axis_name axis_size spmd_axis_name",
    "jit": "in_shardings out_shardings static_argnums static_argnames donate_argnums "
           "donate_argnames keep_unused device backend inline abstracted_axes compiler_options",
    "checkpoint": "prevent_cse policy static_argnums concrete",
    "scan": "f init xs length reverse unroll", "tree_map": "f tree is_leaf",
    "while_loop": "cond_fun body_fun init_val", "clip": "a_min a_max",
    "sum": "axis dtype out keepdims initial where promote_integers", "softmax": "axis where",
    "matmul": "precision preferred_element_type", "tensor": "dtype copy order",
}  # fmt: skip
"""Arguments that JAX's functions of these names take."""


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_jax_are_taken_or_answered(name: str):
    f = getattr(cr, name)
    for word in ARGUMENTS[name].split():
        if word in inspect.signature(f).parameters:
            continue
        with pytest.raises(cr.DtypeError) as caught:
            f(scaled, **{word: None})
        assert f"{name} has no argument '{word}': " in str(caught.value)
        assert "it takes " not in str(caught.value)
