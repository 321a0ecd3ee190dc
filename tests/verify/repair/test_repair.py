"""Wrong backwards are put right, by an edit of the user's own text that is run and checked."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.verify.arrays.pair import subject_of_pair
from chainrule.verify.evidence import Evidence
from chainrule.verify.finding import Finding, Name
from chainrule.verify.measure.examine import examine
from chainrule.verify.mistakes import MISTAKES
from chainrule.verify.repair import least, repair, repairs
from chainrule.verify.repair.checks import Repaired
from chainrule.verify.repair.code.draft import Draft, Edit, python_function
from chainrule.verify.repair.rules import RULES, edits
from chainrule.verify.subject import Input, Source, Subject
from tests.sampling import sampled_file
from tests.verify.repair import repair_cases as cases

pytestmark = sampled_file(one_in=12)


_number = itertools.count(1000)


def evidence_of(op: str, slips: list[tuple[str, str]], folder: Path) -> Evidence:
    case = cases.case(op, slips, folder, next(_number))
    return examine(subject_of_pair(case.module.forward, case.module.backward, case.args))


def repaired(op: str, slips: list[tuple[str, str]], folder: Path) -> list[Repaired]:
    return list(repairs(evidence_of(op, slips, folder)))


# What comes out is right, whatever it looks like.


@pytest.mark.parametrize(("op", "right", "wrong"), cases.SLIPS[::5])
def test_a_slip_is_undone(op: str, right: str, wrong: str, tmp_path: Path) -> None:
    best = repaired(op, [(right, wrong)], tmp_path)[0]
    assert best.whole
    assert best.correction.rechecked
    assert best.correction.error is not None and best.correction.error < 1e-6
    assert all(code in MISTAKES for code in best.codes)
    _is_right(op, [(right, wrong)], best, tmp_path)


def _is_right(op: str, slips: list[tuple[str, str]], best: Repaired, folder: Path) -> None:
    """Put the corrected lines into the file and compare with the backward without slips."""
    right = cases.case(op, [], folder, next(_number))
    wrong = cases.case(op, slips, folder, next(_number))
    text = Path(wrong.module.__file__).read_text(encoding="utf-8")
    parts = zip(
        best.correction.before.split("\n    ...\n"),
        best.correction.after.split("\n    ...\n"),
        strict=True,
    )
    for before, after in parts:
        assert text.count(before) == 1
        text = text.replace(before, after)
    mended = cases.Case(cases.module(text, folder, next(_number)), right.args)
    for got, expected in zip(_pulled(mended), _pulled(right), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)


def _pulled(case: cases.Case) -> list[Any]:
    returned = case.module.forward(*case.args)
    y, rest = returned if isinstance(returned, tuple) else (returned, None)
    g = np.random.default_rng(3).standard_normal(np.shape(y))
    given = case.args if rest is None else (rest,)
    bars = case.module.backward(g, *given)
    return list(bars) if isinstance(bars, tuple) else [bars]


@pytest.mark.parametrize(("op", "slips"), cases.TWICE[:3])
def test_two_slips_are_undone_together_and_singly(
    op: str, slips: list[tuple[str, str]], tmp_path: Path
) -> None:
    found = repaired(op, slips, tmp_path)
    assert found[0].whole and len(found[0].codes) == 2
    singles = found[1:]
    assert singles and all(len(r.codes) == 1 and not r.whole for r in singles)
    assert frozenset[int]().union(*[r.inputs for r in singles]) == found[0].inputs
    _is_right(op, slips, found[0], tmp_path)


# The words of it.


def shown(op: str, right: str, wrong: str, folder: Path) -> tuple[str, str, tuple[str, ...]]:
    best = repaired(op, [(right, wrong)], folder)[0]
    return best.correction.before.strip(), best.correction.after.strip(), best.codes


@pytest.mark.parametrize(
    ("op", "right", "wrong", "after", "code"),
    [
        ("linear", "x.T @ g", "-x.T @ g", "dw = x.T @ g", "sign"),
        ("linear", "g.sum(axis=0)", "g.mean(axis=0)", "db = g.sum(axis=0)", "factor"),
        ("linear", "dw, db", "dw, None", "return dx, dw, db", "dropped"),
        ("rnn", "da @ wh.T", "da @ wh", "dh = da @ wh.T", "transposed"),
        (
            "embedding",
            "np.add.at(dw, ids, g)",
            "dw[ids] = g",
            "np.add.at(dw, ids, g)",
            "overwritten",
        ),
        ("batch_norm", "g.sum(axis=0)", "g", "dbeta = g.sum(axis=0)", "not_summed"),
        (
            "softmax",
            "g - (g * y).sum(axis=-1, keepdims=True)",
            "g",
            "return y * (g - (g * y).sum(axis=-1, keepdims=True))",
            "missing_term",
        ),
        ("cross_entropy", "g * dz / n", "g * dz", "return g * dz / n", "factor"),
        ("linear", "x.T @ g", "x.T @ np.ones_like(g)", "dw = x.T @ g", "ignores_cotangent"),
        ("linear", "x.T @ g", "x.T @ (g * g)", "dw = x.T @ g", "not_linear"),
        (
            "rms_norm",
            "(gw * x).mean",
            "(g * x).mean",
            "dx = r * gw - x * r**3 * (gw * x).mean(axis=-1, keepdims=True)",
            "wrong_value",
        ),
    ],
)
def test_the_edit_is_what_a_person_would_write(
    op: str, right: str, wrong: str, after: str, code: str, tmp_path: Path
) -> None:
    _, text, codes = shown(op, right, wrong, tmp_path)
    assert (text, codes) == (after, (code,))


def test_the_place_is_the_line_that_changes(tmp_path: Path) -> None:
    evidence = evidence_of("linear", [("g @ w.T", "g @ w.T / 2")], tmp_path)
    found = repair(evidence)
    assert found is not None and found.place is not None
    assert found.place.text == found.before.strip() == "dx = g @ w.T / 2"
    assert found.formula == "`g @ w.T / 2` becomes `g @ w.T`"


def test_a_finding_gets_the_edit_of_its_input(tmp_path: Path) -> None:
    slips = [("g @ w.T", "-g @ w.T"), ("g.sum(axis=0)", "g.mean(axis=0)")]
    evidence = evidence_of("linear", slips, tmp_path)
    for name, line in (("x", "dx = g @ w.T"), ("b", "db = g.sum(axis=0)")):
        finding = Finding("error", "linear", "pair", name, (Name("unnamed", ""),))
        found = repair(evidence, finding)
        own = least(evidence, finding)
        assert found is not None and line in found.after and found.rechecked
        assert own is not None and own.correction.after.strip() == line


def test_what_is_right_is_left_alone(tmp_path: Path) -> None:
    assert repair(evidence_of("linear", [], tmp_path)) is None


def test_a_rule_that_raises_stops_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(scene: Any) -> Iterator[Edit]:
        raise RuntimeError("no")

    monkeypatch.setattr("chainrule.verify.repair.rules.RULES", (broken, *RULES))
    evidence = evidence_of("linear", [("x.T @ g", "-x.T @ g")], tmp_path)
    assert [r.codes for r in repairs(evidence)] == [("sign",)]
    assert ("some corrections", "`broken` failed: RuntimeError: no") in evidence.skipped


def test_without_source_there_is_no_repair() -> None:
    assert repair(examine(_Bare())) is None


class _Bare(Subject):
    name = "bare"
    kind = "op"
    inputs = (Input("x", np.array([1.0, 2.0, -1.5]), True),)

    def forward(self, xs: Any) -> Any:
        return (xs[0] * 2,)

    def pull(self, xs: Any, gs: Any) -> Any:
        return (gs[0],)


# What is saved and then changed.

_STALE = """
import numpy as np

def forward(x):
    t = np.tanh(x)
    kept = {"t": t, "c": np.cos(x)}
    t += np.sin(x)
    return t, kept

def backward(g, kept):
    t, c = kept["t"], kept["c"]
    return g * (1 - t**2 + c)
"""


class _Keeping(Subject):
    name = "keeping"
    kind = "NumPy pair"
    inputs = (Input("x", np.array([[0.3, -0.7, 1.1], [0.9, -0.2, 0.4]]), True),)

    def __init__(self, forward: Any, backward: Any) -> None:
        self._forward, self._backward = forward, backward

    def forward(self, xs: Any) -> Any:
        return (self._forward(xs[0].copy())[0],)

    def pull(self, xs: Any, gs: Any) -> Any:
        _, kept = self._forward(xs[0].copy())
        return (self._backward(gs[0].copy(), kept),)

    @property
    def source(self) -> Source:
        texts = {f: "".join(inspect.getsourcelines(f)[0]) for f in (self._forward, self._backward)}
        lines = {f: f.__code__.co_firstlineno for f in texts}
        file = self._forward.__code__.co_filename
        forward = Source(
            file,
            lines[self._forward],
            texts[self._forward],
            self._forward,
            lambda f: _Keeping(f, self._backward),
        )
        return Source(
            file,
            lines[self._backward],
            texts[self._backward],
            self._backward,
            lambda f: _Keeping(self._forward, f),
            forward,
        )


def test_a_value_that_was_saved_is_not_changed_in_place(tmp_path: Path) -> None:
    made = cases.module(_STALE, tmp_path, next(_number))
    (best,) = repairs(examine(_Keeping(made.forward, made.backward)))
    assert best.whole and best.codes == ("stale",)
    assert best.correction.after.strip() == "t = t + np.sin(x)"


# A function that the backward calls.

_HELPED = """
import numpy as np

def summed(g, shape):
    while g.ndim > len(shape):
        g = g.sum(axis=-1)
    return g

def forward(x, b, c):
    return x * b + c

def backward(g, x, b, c):
    return g * b, summed(g * x, b.shape), summed(g, c.shape)
"""


def test_a_helper_is_mended_where_it_is_wrong(tmp_path: Path) -> None:
    made = cases.module(_HELPED, tmp_path, next(_number))
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s) for s in ((4, 4), (4,), (4,))]
    best = repairs(examine(subject_of_pair(made.forward, made.backward, args)))[0]
    assert best.whole and best.codes == ("wrong_axis",)
    assert best.correction.after.strip() == "g = g.sum(axis=0)"
    assert best.correction.place is not None and best.correction.place.function == "summed"


# A changed function runs where the original ran.


def _draft(function: Any, text: str) -> Draft:
    line = function.__code__.co_firstlineno
    return Draft.of(Source(__file__, line, text, function, lambda f: _Bare()))


def _closing(scale: float) -> Any:
    def backward(g: Any) -> Any:
        return [g * scale, math.pi]

    return backward


_TEXT = """    def backward(g: Any) -> Any:
        return [g * scale, math.pi]
"""


def test_globals_closure_file_and_line_are_the_original_s() -> None:
    draft = _draft(_closing(3.0), _TEXT)
    at = draft.body.index("g * scale")
    made = draft.edited(Edit(at, at + 1, "(g + 1)", "factor")).compiled()
    assert made(2.0) == [9.0, math.pi]
    code = python_function(made).__code__
    original = _closing(3.0).__code__
    assert (code.co_filename, code.co_firstlineno) == (__file__, original.co_firstlineno)


class _Layer:
    def __init__(self) -> None:
        self.__scale = 2.0

    def backward(self, g: float) -> float:
        left = 1
        while left > 0:
            left -= 1
        return g * self.__scale


_METHOD = """    def backward(self, g: float) -> float:
        left = 1
        while left > 0:
            left -= 1
        return g * self.__scale
"""


def test_methods_and_private_names() -> None:
    draft = _draft(_Layer.backward, _METHOD)
    assert draft.compiled()(_Layer(), 4.0) == 8.0


def test_a_loop_that_no_longer_ends_is_stopped() -> None:
    draft = _draft(_Layer.backward, _METHOD)
    at = draft.body.index("-= 1")
    made = draft.edited(Edit(at, at + 2, "+=", "sign")).compiled()
    with pytest.raises(RuntimeError, match="turns"):
        made(_Layer(), 4.0)


def test_a_lambda_is_told_from_the_others_of_its_line() -> None:
    f, g = (lambda x: x + 1), (lambda x: x * 2)
    text = "    f, g = (lambda x: x + 1), (lambda x: x * 2)\n"
    assert [_draft(h, text).body for h in (f, g)] == ["lambda x: x + 1", "lambda x: x * 2"]


def test_every_edit_leaves_code_that_can_be_parsed(tmp_path: Path) -> None:
    from chainrule.verify.repair.problem import problem
    from chainrule.verify.repair.search import laboratory

    for op in ("layer_norm", "conv1d", "attention", "scaled_sum"):
        posed = problem(evidence_of(op, [], tmp_path))
        assert posed is not None and not posed.posed
        draft = Draft.of(posed.source)
        lab = laboratory(posed, draft, posed.targets[0])
        assert lab is not None
        found = edits(lab.scene)
        assert len(found) > 50
        for edit in found:
            assert draft.edited(edit).root is not None
            assert edit.code in MISTAKES
