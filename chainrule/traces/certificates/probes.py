"""Ops that are run again, at the point where they ran and beside it.

Whatever made a node (an op of ours, a user's `Function`, a call of PyTorch's) is asked for its
value with other inputs. Its rules are never asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.engine.function import Call as UserCall
from chainrule.engine.op import Op, Pick
from chainrule.errors import ChainruleError
from chainrule.traces.kept_values import is_array
from chainrule.traces.trace import Trace

if TYPE_CHECKING:
    from chainrule.verify.measure.noise import Base
    from chainrule.verify.measure.run import Run
    from chainrule.verify.subject import Subject

_CLOSE = {2: 3e-2, 4: 1e-4, 8: 1e-6}
"""Relative difference that is rounding, by the bytes of a number."""
_EPSILON = {2: 2.0**-8, 4: 2.0**-23, 8: 2.0**-52}
"""The distance of 1 to the next number, by the bytes of a number; of 2, bfloat16's."""
_RANDOM = 100
"""A value that is further off than so many times rounding is another value."""


class NotCheckedError(Exception):
    """Why a number is not compared with differences, as the end of a sentence."""


@final
@dataclass(frozen=True, eq=False)
class CustomFunctionCall:
    """A user's function of PyTorch's that ran, and what it was applied to."""

    function: Any
    args: Sequence[Any]


@final
@dataclass(frozen=True, eq=False)
class Probe:
    """An op at the point where it ran. `at` has for each input of the node its place among the
    subject's, `outputs` the nodes of its outputs."""

    run: Run
    base: Base
    at: Sequence[int]
    outputs: Sequence[int | None]
    bytes: int
    """Of a number of the op's."""
    eval: Callable[..., Any] | None
    """The op's value, where it is asked without a subject."""
    is_users: bool
    """Whether a user wrote its rule."""

    @property
    def close(self) -> float:
        """The relative difference that is rounding."""
        return _CLOSE[min(max(self.bytes, 2), 8)]

    @property
    def epsilon(self) -> float:
        """The rounding of one number."""
        return _EPSILON[min(max(self.bytes, 2), 8)]

    @cached_property
    def expected_inputs(self) -> frozenset[int]:
        """The inputs of the node for which a gradient is expected."""
        return frozenset([i for i, k in enumerate(self.at) if k in self.run.wanted])

    def rerun(self, changed: Mapping[int, Any]) -> Sequence[Any]:
        """Its outputs where these inputs of the node are others."""
        xs = list(self.base.xs)
        for i, x in changed.items():
            k = self.at[i]
            xs[k] = np.asarray(x, np.asarray(xs[k]).dtype)
        if self.eval is None:
            return self.run.raw(xs)
        y = self.eval(*[xs[k] for k in self.at])
        return y if isinstance(y, tuple) else (y,)  # pyright: ignore[reportUnknownVariableType]


@final
class Probes:
    """The probe of each node of a trace, made when it is first needed; `ops` made the nodes."""

    def __init__(self, trace: Trace, ops: Sequence[Any]) -> None:
        self._trace, self._ops = trace, ops
        self._known: dict[int, Probe | str] = {}
        self._outputs: dict[int, dict[int, int]] = {}
        for i, node in enumerate(trace.nodes):
            if node.op.startswith("output ") and len(node.inputs) == 1:
                self._outputs.setdefault(node.inputs[0], {})[int(node.op.split()[1])] = i

    def of(self, number: int) -> Probe:
        """The probe of a node. Raises `NotCheckedError` where it cannot be run again."""
        if number not in self._known:
            try:
                self._known[number] = self._make_probe(number)
            except NotCheckedError as error:
                self._known[number] = str(error)
        found = self._known[number]
        if isinstance(found, str):
            raise NotCheckedError(found)
        return found

    def _make_probe(self, number: int) -> Probe:
        """The op of a node, ready to be run again; raises `NotCheckedError` if it cannot be."""
        from chainrule.verify.evidence import Evidence
        from chainrule.verify.measure.noise import base_at
        from chainrule.verify.measure.run import Point, Run, UnusableError

        op, node = self._ops[number], self._trace.nodes[number]
        if op is None or isinstance(op, Pick):
            raise NotCheckedError(f"what made {node.op} is not known, so it cannot be run again")
        xs: list[Any] = [self._trace.nodes[i].value for i in node.inputs]
        if not isinstance(op, CustomFunctionCall) and not all(is_array(x) for x in xs):
            raise NotCheckedError(f"not all that {node.op} was computed from is kept")
        try:
            subject, at = _subject(op, xs)
            run = Run(subject, Evidence(subject))
            values = tuple([x.value for x in subject.inputs])
            base = base_at(run, Point("as recorded", values, "captured"))
        except (UnusableError, ChainruleError, RuntimeError, TypeError, ValueError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise NotCheckedError(f"{node.op} cannot be run again: {why}") from error
        picks = self._outputs.get(number)
        outputs: list[int | None] = [None] * len(base.ys)
        for k, i in ({0: number} if picks is None else picks).items():
            if k >= len(outputs):
                raise NotCheckedError(f"{node.op} has outputs that are not numbers")
            outputs[k] = i
        arrays = [x for x in (*xs, *self._values(outputs)) if _is_float(x)]
        narrow = min([_bytes_of_op(op), *[_bytes(x.dtype) for x in arrays]])
        own = op.eval if isinstance(op, Op) and not isinstance(op, UserCall) else None
        users = isinstance(op, UserCall | CustomFunctionCall)
        probe = Probe(run, base, at, outputs, narrow, own, users)
        self._compare(probe, node.op)
        return probe

    def _values(self, outputs: Sequence[int | None]) -> list[Any]:
        return [None if i is None else self._trace.nodes[i].value for i in outputs]

    def _compare(self, probe: Probe, name: str) -> None:
        """Raise `NotCheckedError` where the op does not give its recorded value again."""
        for known, y in zip(self._values(probe.outputs), probe.base.ys, strict=True):
            if not _is_float(known):
                continue
            close = _RANDOM * probe.close
            size = float(np.abs(np.where(np.isfinite(known), known, 0)).max(initial=0.0))
            with np.errstate(all="ignore"):
                same = known.shape == y.shape and np.allclose(
                    y, known, rtol=close, atol=close * size, equal_nan=True
                )
            if not same:
                raise NotCheckedError(f"{name}, run again, gives another value")


def _is_float(x: Any) -> bool:
    return is_array(x) and x.dtype.kind in "fcV"


def _bytes(dtype: np.dtype[Any]) -> int:
    """Of a number; of each part of a complex one."""
    return dtype.itemsize // (2 if dtype.kind == "c" else 1)


def _bytes_of_op(op: Any) -> int:
    """Of the narrowest number that PyTorch computed with, whose bfloat16 is float32 in a trace."""
    if isinstance(op, Op):
        return 8
    from chainrule.traces.pytorch.calls import bytes_of

    return bytes_of(op.args) if isinstance(op, CustomFunctionCall) else op.bytes


def _subject(op: Any, xs: Sequence[Any]) -> tuple[Subject, Sequence[int]]:
    """What the verifier sees of an op, and where each of its inputs stands there."""
    if isinstance(op, CustomFunctionCall):
        from chainrule.verify.pytorch import functions

        subject = functions.subject_of_function(op.function, op.args)
        return subject, [i for i, x in enumerate(subject.inputs) if x.wanted]
    if isinstance(op, UserCall):
        from chainrule.verify.own.function import subject_of_function

        needs, args = [False] * len(op.static), list(op.static)
        for i, x in zip(op.tensor_positions, xs, strict=True):
            needs[i], args[i] = True, _wide(x)
        return subject_of_function(op.function, args, needs=needs), op.tensor_positions
    if isinstance(op, Op):
        from chainrule.verify.own.call import subject_of_op

        found = subject_of_op(op, [_wide(x) for x in xs])
        if found is None:
            raise NotCheckedError(f"no gradient flows through {op.name}")
        return found, range(len(xs))
    from chainrule.traces.pytorch.call_subject import subject_of_torch_call

    return subject_of_torch_call(op), range(len(xs))


def _wide(x: Any) -> Any:
    """Numbers as float64, or complex128: rounding of their own is not what is looked for."""
    if not _is_float(x):
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
