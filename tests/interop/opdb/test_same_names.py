"""A name of PyTorch's means here what it means there, or an error says the difference.

Every public function, layer and optimizer whose name PyTorch has is called exactly as PyTorch's own
samples call it, and once more with the arguments that an error names in place of PyTorch's. What
comes out is PyTorch's number, or an error of ours that names the function, or the function has a
row in the one table of differences, docs/against_pytorch.md, of which each row is tried here.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sampling import sampled_file

pytest.importorskip("torch", reason="the oracle is PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's op table imports it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_optimizers import optim_db

from torch.utils._pytree import tree_map

import chainrule as cr
from chainrule import nn, optim
from chainrule.engine.op import Op
from chainrule.names.spellings import ARGUMENTS
from tests.interop.opdb.harness import FULL
from tests.interop.opdb.translate import leaves, to_ours

pytestmark = [pytest.mark.filterwarnings("ignore"), sampled_file(one_in=9)]
PAGE = Path(__file__).parents[3] / "docs" / "against_pytorch.md"
SPACES: dict[str, tuple[Any, Any]] = {
    "nn.functional.": (nn.functional, torch.nn.functional),
    "linalg.": (cr.linalg, torch.linalg),
    "fft.": (cr.fft, torch.fft),
    "special.": (cr.special, torch.special),
    "": (cr, torch),
}
MOST = 400 if FULL else 4
"""Samples of an entry and a dtype; OPDB=full asks for more."""
RANDOM = {"nn.functional.dropout", "empty", "empty_like", "nn.functional.rrelu"} | {
    f"nn.functional.{name}"
    for name in (
        "alpha_dropout",
        "feature_alpha_dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "triplet_margin_with_distance_loss",
    )
}
"""What has no one answer, or is called with functions of PyTorch's."""
OPEN = {"linalg.eig", "linalg.eigh", "linalg.svd", "linalg.qr"}
"""Factorisations, which leave signs and phases open; `test_opdb` compares what they do not."""


# --- Functions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shared:
    """A function that both have, and PyTorch's samples of it."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    op: Any


def _shared() -> Iterator[Shared]:
    for op in op_db:
        for prefix, (mine, other) in SPACES.items():
            name = op.name.removeprefix(prefix)
            if not op.name.startswith(prefix) or "." in name or op.name in RANDOM:
                continue
            f, theirs = getattr(mine, name, None), getattr(other, name, None)
            if callable(f) and callable(theirs) and not isinstance(f, np.dtype | type):
                # the table calls some through a function that exchanges arguments
                yield Shared(op.name, f, op.op if op.op.__name__ != "<lambda>" else theirs, op)
            break


SHARED = list(_shared())
IDS = [f"{s.name}-{s.op.variant_test_name}".rstrip("-") for s in SHARED]


def _calls(s: Shared) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    exchanged = s.op.op.__name__ == "<lambda>"
    for dtype in (torch.float64, torch.int64, torch.bool)[: 3 if FULL else 2]:
        if dtype not in s.op.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        for sample in islice(s.op.sample_inputs("cpu", dtype), MOST):
            args = (sample.input, *sample.args)
            if exchanged and len(args) > 1:
                args = (args[1], args[0], *args[2:])  # polygamma(n, x), where(condition, a, b)
            yield args, sample.kwargs


def respelled(f: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments under the names that an error of ours would give for PyTorch's."""
    if isinstance(f, Op):
        return kwargs
    names = inspect.signature(f).parameters
    found: dict[str, Any] = {}
    for word, x in kwargs.items():
        ours = ARGUMENTS.get(word, ("", ""))[0]
        found[ours if word not in names and ours in names else word] = x
    return found


def answers(s: Shared) -> Iterator[str]:
    """What is wrong with the answers to PyTorch's calls of a function."""
    for args, kwargs in _calls(s):
        try:
            want = s.theirs(*args, **kwargs)
        except Exception:
            continue  # not for this dtype
        mine = tree_map(to_ours, args), tree_map(to_ours, kwargs)
        tries = [mine[1]]
        if (other := respelled(s.ours, mine[1])) != mine[1]:
            tries.append(other)
        for words in tries:
            wrong = answer(s, mine[0], words, want)
            if wrong:
                shapes = tree_map(lambda x: tuple(x.shape) if hasattr(x, "shape") else x, args)
                yield f"{s.name}{shapes} {words}: {wrong}"


def answer(s: Shared, args: Any, kwargs: dict[str, Any], want: Any) -> str | None:
    try:
        got = s.ours(*args, **kwargs)
    except cr.ChainruleError as error:
        name = s.name.rpartition(".")[2]
        label = str(s.ours) if isinstance(s.ours, Op) else name
        return None if label in str(error) or name in str(error) else f"does not name it: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return differ(got, want)


def differ(got: Any, want: Any) -> str | None:
    """How the results differ, None if they do not. Of integers and bools PyTorch makes float32."""
    if isinstance(want, bool) and not isinstance(got, bool):
        return "a bool"
    xs = [np.asarray(cr.asarray(x).detach().numpy()) for x in leaves(got)]
    ys = [y.detach().resolve_conj().resolve_neg().numpy(force=True) for y in leaves(want)]
    if len(xs) != len(ys):
        return f"{len(xs)} results, not {len(ys)}"
    for x, y in zip(xs, ys, strict=True):
        if x.shape != y.shape:
            return f"shape {x.shape}, not {y.shape}"
        single = y.dtype in (np.float32, np.complex64)
        if y.dtype == np.float64 and x.dtype != y.dtype:
            return f"{x.dtype}, not {y.dtype}"
        rtol = 2e-3 if single else 1e-9
        with np.errstate(all="ignore"):
            if not np.allclose(x, y, rtol=rtol, atol=1e-4 if single else 1e-12, equal_nan=True):
                return f"values {x.ravel()[:4]}, not {y.ravel()[:4]}"
    return None


# --- The table of differences --------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A row: the names, PyTorch's way, ours, a call that differs, and what to write for PyTorch's
    number."""

    names: tuple[str, ...]
    call: str
    instead: str


def _rows() -> list[Difference]:
    section = PAGE.read_text(encoding="utf-8").partition("## Where we differ on purpose")[2]
    rows: list[Difference] = []
    for line in section.partition("\n## ")[0].splitlines():
        if not line.startswith("| `"):
            continue
        names, _, _, call, instead = [c.strip() for c in line.strip("| ").split(" | ")]
        known = tuple(n.strip("`") for n in names.split())
        rows.append(Difference(known, call.strip("`"), instead.strip("`")))
    return rows


ROWS = _rows()
DIFFERENT = {name for row in ROWS for name in row.names}

_RNG = np.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "x": _RNG.normal(size=(3, 4)), "v": np.array([0.7, -1.2, 2.5, 0.3]), "s": np.array(1.5),
    "ties": np.array([2.0, 2.0, 1.0, 2.0]), "i": np.array([3, 1, 2]), "m": _RNG.normal(size=(2, 2)),
    "mm": _RNG.normal(size=(2, 2, 2)), "cube": _RNG.normal(size=(2, 3, 3)),
    "k": np.array([[0, 1, 2], [2, 1, 0]]), "q": _RNG.normal(size=(2, 3, 5)), "e": np.zeros(0),
    "keys": _RNG.normal(size=(2, 4, 5)), "grid": _RNG.normal(size=(2, 3, 4, 4)),
    "b": np.array([True, False, True]), "ones": np.ones(3),
}  # fmt: skip


def outcome(call: str, names: dict[str, Any]) -> Any:
    """What a call of the table gives."""
    return eval(call, {"np": np, "slice": slice, **names})


def both(row: Difference) -> tuple[Any, Any]:
    """PyTorch's and our result of the call; ours may be an error."""
    other = {n: getattr(torch, n) for n in ("nn", "linalg", "special", "fft")}
    other |= {n: torch.from_numpy(np.array(a)) for n, a in ARRAYS.items()}
    other |= {"F": torch.nn.functional, "lib": torch, "int64": torch.int64}
    mine = {"F": nn.functional, "lib": cr, "nn": nn, "linalg": cr.linalg, "special": cr.special}
    mine |= {n: cr.tensor(np.array(a)) for n, a in ARRAYS.items()} | {"int64": np.int64, "cr": cr}
    want = outcome(row.call, other)
    try:
        return want, outcome(row.call, mine)
    except cr.ChainruleError as error:
        return want, error


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.names[0])
def test_a_row_of_the_table_is_true(row: Difference):
    want, got = both(row)
    assert isinstance(got, cr.ChainruleError) or differ(got, want) is not None
    if row.instead != "-":
        mine = {n: cr.tensor(np.array(a)) for n, a in ARRAYS.items()}
        names = {"F": nn.functional, "cr": cr, "linalg": cr.linalg, "int64": np.int64, **mine}
        assert differ(outcome(row.instead, names), want) is None


def test_the_table_was_read():
    assert len(ROWS) > 20 and len({r.call for r in ROWS}) == len(ROWS)


@pytest.mark.parametrize("s", SHARED, ids=IDS)
def test_a_function_of_that_name_gives_pytorchs_numbers_or_says_the_difference(s: Shared):
    wrong = list(answers(s))
    if s.name in DIFFERENT or s.name in OPEN:
        assert not [w for w in wrong if "Error: " in w or "does not name" in w]
    else:
        assert not wrong, wrong[:3]


def test_what_differs_is_noticed():
    s = next(s for s in SHARED if s.name == "sum")
    for f in (cr.mean, lambda x, **_: cr.sum(x) + 1e-6, lambda x, **_: cr.sum(x)[None]):
        assert list(answers(Shared("sum", f, torch.sum, s.op)))
    assert not list(answers(s))


# --- Optimizers (layers: test_layers.py) ---------------------------------------------------------


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch):
    """PyTorch keeps some numbers in its default dtype, and Muon computes in bfloat16."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda x: x.clone())
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "info",
    [o for o in optim_db if o.optim_cls.__name__ in dir(optim)],
    ids=lambda o: o.optim_cls.__name__,
)
def test_an_optimizer_of_that_name_takes_the_same_steps(info: Any, exact: None):
    name, rng, compared = info.optim_cls.__name__, np.random.default_rng(0), 0
    for sample in info.optim_inputs_func("cpu", torch.float64):
        start, gs = rng.normal(size=(3, 2)), rng.normal(size=(5, 3, 2))
        p, q = torch.tensor(start, requires_grad=True), cr.tensor(start, requires_grad=True)
        theirs = info.optim_cls([p], **sample.kwargs)
        try:
            mine = getattr(optim, name)([q], **sample.kwargs)
        except cr.ChainruleError as error:
            assert name in str(error)
            continue
        for g in gs:
            steps(theirs, p, torch.tensor(g))
            steps(mine, q, cr.tensor(g))
        rtol = 1e-3 if name == "LBFGS" else 1e-11  # it ends where the loss changes by 1e-9
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=rtol)
        compared += 1
    assert compared >= 3


def steps(optimizer: Any, p: Any, g: Any) -> None:
    """One step, of a loss with the gradient g at 0; some optimizers ask for it more than once."""

    def closure() -> Any:
        p.grad = None
        loss = (p * g).sum() + 0.25 * (p * p * p * p).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


def test_defaults_are_pytorchs():
    """Of arguments of the same name in functions, layers and optimizers that can be inspected."""
    known = {("interpolate", "align_corners"), ("meshgrid", "indexing")}  # None, and a row
    for mine, other in [*SPACES.values(), (nn, torch.nn), (optim, torch.optim)]:
        for name in dir(mine):
            f, theirs = getattr(mine, name), getattr(other, name, None)
            if not (inspect.isfunction(f) or isinstance(f, type)) or theirs is None:
                continue
            try:
                ours, want = inspect.signature(f), inspect.signature(theirs)
            except (TypeError, ValueError):
                continue
            for p in ours.parameters.values():
                q = want.parameters.get(p.name)
                if q is None or p.empty in (p.default, q.default) or (name, p.name) in known:
                    continue
                if p.name in ("dtype", "weight", "bias", "ignore_index", "norm", "value"):
                    continue
                wanted = getattr(q.default, "__name__", q.default)  # of relu, "relu" does too
                assert p.default == wanted, (name, p.name, p.default, q.default)
