"""The op table of chainrule verifies itself: every op's own rule is certified, and when a rule is
spoiled, that is found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import chainrule as cr
import chainrule.ops
from chainrule.engine.op import Need, Op, new_op
from chainrule.nn.recurrent.layer_kernels import CELLS
from chainrule.nn.recurrent.recurrence import Recurrence
from chainrule.ops.families import rows
from chainrule.ops.fusing import Fused, FusedSeveral
from chainrule.ops.shapes.joining import Unstack
from chainrule.verify.diagnose import diagnose
from chainrule.verify.measure.examine import examine
from chainrule.verify.own.call import subject_of_call, subject_of_op
from chainrule.verify.subject import Subject
from tests.ops.sample import apart
from tests.ops.samples_elementwise import BY_LAST, DOMAINS
from tests.sampling import sampled
from tests.verify.own.op_cases import Case, cases, kind


def _of_last(name: str, x: Any) -> Any:
    """A row whose derivative by all arguments but the last is not offered, of that one."""
    *first, (low, high) = DOMAINS[name]
    return rows[name](*[1.7 for _ in first], low + (high - low) * cr.sigmoid(x))


CONVENTIONS: dict[str, Callable[..., Any]] = {
    "Cholesky": lambda x: cr.linalg.cholesky((x + x.mT) / 2),
    "Eigh": lambda x: abs(cr.linalg.eigh((x + x.mT) / 2)[1]),
    "Eig": lambda x: abs(cr.linalg.eig(x)[0]),
    **{name: partial(_of_last, name) for name in sorted(BY_LAST)},
}
"""Ops whose rule holds for what they are used on only (symmetric matrices, results that do not
depend on a phase, an order that is a number): verified as part of such a function."""
POSITIVE = apart(2, 3, 3) @ apart(2, 3, 3).mT + np.eye(3)

PARTS = {
    "Pick": "part of an op with several outputs",
    "Detach": "without a derivative",
    "Shift": "without a derivative",
    "Alias": "the identity",
    "Found": "a bool",
    "Order": "whole numbers",
    "LastWriter": "whole numbers",
    "RunningArg": "whole numbers",
    "SearchSorted": "whole numbers",
    "WindowArg": "whole numbers",
    "SumTo": "seen in vmap only",
    "Determined": "raises, or is the identity",
    "_Checked": "raises, or is the identity",
    "Apart": "raises, or is the identity",
    "Alike": "raises, or is the identity",
    "NoExamples": "nothing is computed",
    "ShiftedProduct": "part of a convolution, which has a derivative",
    "ShiftedSum": "part of a convolution, which has a derivative",
    "Turned": "part of a convolution, which has a derivative",
    "PaddedRows": "part of a convolution, which has a derivative",
    "WindowRows": "part of a convolution, which has a derivative",
}
"""Classes of ops that need no case, and why."""


def problems(subject: Subject) -> list[str]:
    """Everything that is found wrong, in words."""
    found = diagnose(examine(subject))
    return [f"{f.input}: {f.title}: {f.evidence}" for f in found if f.level != "note"]


KERNELS = [
    Case(
        Fused("layer_norm", ("x", "weight"), (("bias", None), ("eps", 1e-5))),
        (apart(4, 5), apart(5)),
    ),
    Case(
        FusedSeveral("lstm", ("x", "share", "c"), ()),
        (apart(3, 4, 2), apart(3, 4, 2, salt=1), apart(3, 2)),
    ),
    Case(Unstack(1), (apart(2, 3, 4),)),
    *[
        Case(
            Recurrence(name, biased),
            (
                apart(3, 2, 2 * cell.gates),
                apart(2 * cell.gates, 2, salt=1),
                *[apart(2 * cell.gates, salt=2)] * biased,
                *[apart(2, 2, salt=3 + i) for i in range(cell.states)],
            ),
        )
        for name, cell in CELLS.items()
        for biased in (False, True)
    ],
]
"""Ops that stand for several: what collects the other cases is handed their parts."""
CASES = [*[c for c in cases() if kind(c.op) not in CONVENTIONS], *KERNELS]


WHOLE = {"Pivots", "RowOrder"}
"""Ops whose results are whole numbers: they have no derivative."""


@sampled(one_in=3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_of_every_op_is_certified(case: Case):
    subject = subject_of_op(case.op, case.values)
    assert subject is not None
    evidence = examine(subject)
    assert any(t.verdict == "right" for t in evidence.trials), evidence.skipped
    assert not [f for f in diagnose(evidence) if f.level != "note"]


@pytest.mark.parametrize("name", CONVENTIONS)
def test_ops_with_a_convention_are_certified_within_it(name: str):
    assert not problems(subject_of_call(CONVENTIONS[name], [POSITIVE]))


def classes(of: type = Op) -> Iterator[type]:
    for cls in of.__subclasses__():
        yield cls
        yield from classes(cls)


def test_no_op_is_left_out():
    for module in pkgutil.walk_packages(chainrule.ops.__path__, "chainrule.ops."):
        importlib.import_module(module.name)
    known = {kind(c.op) for c in (*cases(), *KERNELS)}
    assert {name for name, row in rows.items() if row.partials} - known == set()
    ours = [c for c in classes() if c.__module__.startswith("chainrule.ops.")]
    final = {c.__name__ for c in ours if not c.__subclasses__()}
    assert final - known - PARTS.keys() - {"Elementwise"} - WHOLE == set()


# --- Spoiled -------------------------------------------------------------------------------------


class Spoiled(Op):
    """An op whose rule is wrong as `how` says: a thousandth, one element, the sign."""

    op: Op
    how: str

    @property
    def name(self) -> str:
        return f"spoiled {self.op.name}"

    @property
    def many(self) -> bool:  # type: ignore[override]
        return self.op.many

    def eval(self, *xs: Any) -> Any:
        return self.op.eval(*xs)

    def spec(self, *xs: Any) -> Any:
        return self.op.spec(*xs)

    def reads(self, i: int) -> Sequence[int] | None:
        return self.op.reads(i)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        bars = list(self.op.vjp(need, g, y, xs))
        first = [i for i, b in enumerate(bars) if b is not None and np.any(b)][-1:]
        for i in first:
            bars[i] = self.spoiled(np.array(bars[i], order="C"))
        return bars

    def spoiled(self, bar: Any) -> Any:
        if self.how == "sign":
            return -bar
        if self.how == "thousandth":
            return bar * 1.001
        flat = bar.reshape(-1)
        flat[np.argmax(np.abs(flat))] *= 1.001
        return bar


def slope(case: Case) -> bool:
    """Whether any gradient of the op is not zero: that of a step is, and nothing spoils it."""
    subject = subject_of_op(case.op, case.values)
    assert subject is not None
    xs = [x.value for x in subject.inputs]
    bars = subject.pull(xs, [np.ones_like(y) for y in subject.forward(xs)])
    return any(bool(np.any(b)) for b in bars if b is not None)


HOWS = ("thousandth", "one element", "sign")
UNSEEN = ("Qr", "positive", "nextafter", "Astype")
"""Of which a spoiled rule can pass: QR's factors' signs jump from point to point, the identity with
a wrong sign is a reversed gradient, and of steps and casts one element is within the rounding."""
SOME = [c for c in CASES if c.op.states_vjp and kind(c.op) not in UNSEEN and slope(c)]


@pytest.mark.parametrize(
    ("case", "how"), [(c, HOWS[i % 3]) for i, c in enumerate(SOME[::7])], ids=str
)
def test_a_spoiled_rule_is_found(case: Case, how: str):
    subject = subject_of_op(new_op(Spoiled, case.op, how), case.values)
    assert subject is not None
    assert problems(subject), f"{case} with a rule spoiled by {how} passes"
