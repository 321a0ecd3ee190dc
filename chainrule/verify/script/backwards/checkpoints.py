"""Checkpointed code is run a second time during the backward pass: does it give the same values,
and does a gradient reach it at all (`has_no_graph`)?

PyTorch compares shapes and dtypes only. Here the sums of what every call gives are compared, for
the checkpoints of one step; the first call that differs is named. The line that decided it is told
from the function's text. If the runs went on at different lines, it is the `if` around one of them.
If they came to one line with other numbers in variables that it reads, it is the line that gave the
variable its number.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from time import perf_counter
from typing import Any, TypeVar, final

import torch

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import TRAINING, Checked, Ledger
from chainrule.verify.observer import Observer
from chainrule.verify.patches import Patches
from chainrule.verify.place import Place
from chainrule.verify.pytorch import modes
from chainrule.verify.pytorch.call_observers import Seen
from chainrule.verify.pytorch.nested_tensors import tensors_in
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.trees import tree_of_file
from chainrule.verify.user_frames import (
    Frames,
    Line,
    frames,
    is_library,
    placed,
    user_frame,
    users_line,
)

N = TypeVar("N", bound=ast.stmt | ast.expr)
_CHECKPOINT = "checkpoint.py"
"""Frames outside of it are not those of the function that is run twice."""


def numbers() -> dict[str, float]:
    """Numbers in variables of the user's running function, and in attributes of its `self`."""
    frame = user_frame()
    if frame is None:
        return {}
    own: Mapping[str, Any] = getattr(frame.f_locals.get("self"), "__dict__", {})
    named = {**frame.f_locals, **{f"self.{key}": value for key, value in own.items()}}
    return {name: x for name, x in named.items() if isinstance(x, int | float)}


def deciding_line(
    first: Frames, second: Frames, before: Mapping[str, float], after: Mapping[str, float]
) -> Place | None:
    """Where it was decided what differs between two runs; None if the text does not tell.

    Args:
        first: Where the first run was when they differed.
        second: Where the second one was.
        before: Its `numbers` in the first run.
        after: The same in the second.
    """
    here, there = _frames_within(first), _frames_within(second)
    if not here or not there:
        return None
    if here[0] == there[0]:
        return _assigning_line(
            here[0], [name for name, x in before.items() if after.get(name, x) != x]
        )
    lines = dict(reversed(there))
    for code, line in here:
        other = lines.get(code, line)
        if other != line:
            return _branching_line((code, line), other)
    return None


def _frames_within(frames: Frames) -> Sequence[Line]:
    """The user's lines within the function that is run twice, the innermost first."""
    files = [code.co_filename for code, _ in frames]
    end = next((i for i, f in enumerate(files) if f.endswith(_CHECKPOINT)), len(files))
    return [row for row, f in zip(frames[:end], files[:end], strict=True) if not is_library(f)]


def _branching_line(at: Line, other: int) -> Place | None:
    """The outermost condition that holds one of the lines and not the other."""
    code, line = at
    first = min(line, other)
    for n in sorted(_nodes(at, ast.If), key=lambda n: n.lineno):
        end = n.body[-1].end_lineno or n.lineno
        inside = [n.lineno < x <= end for x in (line, other)]
        if n.lineno < first and inside[0] != inside[1]:
            return placed((code, n.lineno))
    return None


def _assigning_line(at: Line, changed: Sequence[str]) -> Place | None:
    """The last line of the function, before `at`, that gives a number which `at` reads."""
    code, line = at
    names = [*_nodes(at, ast.Name), *_nodes(at, ast.Attribute)]
    read = {ast.unparse(n) for n in names if n.lineno <= line <= (n.end_lineno or n.lineno)}
    some = read.intersection(changed)
    gives = [*_nodes(at, ast.Assign), *_nodes(at, ast.AugAssign)]
    made = [
        n.lineno
        for n in gives
        if n.lineno < line and some.intersection(map(ast.unparse, _targets(n)))
    ]
    return placed((code, max(made))) if made else None


def _targets(n: ast.Assign | ast.AugAssign) -> Sequence[ast.expr]:
    return n.targets if isinstance(n, ast.Assign) else [n.target]


def _nodes(at: Line, kind: type[N]) -> list[N]:
    """Nodes of a kind in the function of a line."""
    code = at[0]
    tree = tree_of_file(code.co_filename)
    ends = {line for _, _, line in code.co_lines() if line is not None}
    first, last = min(ends, default=0), max(ends, default=0)
    return [n for n in ast.walk(tree) if isinstance(n, kind) and first <= n.lineno <= last]


ALLOWED = 1e-3
"""Relative difference that is rounding, where the order of sums is left to chance."""
_ALIAS = "detach"
"""It gives what it is given. PyTorch calls it in the second run, for what a Function saves."""
_STEP = 1
"""Checkpoints are compared from the end of this step to that of the next."""


@dataclass(frozen=True)
class _Call:
    name: str
    sums: tuple[float, ...]
    sizes: tuple[float, ...]
    """Sums of absolute values: what differences are measured by."""
    frames: Frames
    numbers: Mapping[str, float]
    """See `decision`."""

    def differs(self, other: _Call) -> float:
        """By how much two runs of one call differ, relative to the values' size."""
        if self.name != other.name or len(self.sums) != len(other.sums):
            return 1.0
        pairs = zip(self.sums, other.sums, self.sizes, other.sizes, strict=True)
        return max([abs(a - b) / (max(m, n) or 1.0) for a, b, m, n in pairs], default=0.0)


@final
class _Sums(Seen):
    """Notes what every call gives."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = [float(t.detach().sum()) for t in tensors_in(given)]
        """What tells a run from those with other arguments."""
        self.is_again = torch._C._current_graph_task_id() != -1  # pyright: ignore[reportPrivateUsage]
        """Whether it is within a backward pass."""
        self.calls: list[_Call] = []
        self.seconds = 0.0

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call, its result summed."""
        out = func(*args, **kwargs)
        start = perf_counter()
        name: str = getattr(func, "__name__", "")
        made = [t for t in tensors_in(out) if t.is_floating_point() and t.numel()]
        if made and name != _ALIAS:
            with torch.no_grad():
                sums = tuple([float(t.sum(dtype=torch.float64)) for t in made])
                sizes = tuple([float(t.abs().sum(dtype=torch.float64)) for t in made])
            self.calls.append(_Call(name, sums, sizes, frames(), numbers()))
        self.seconds += perf_counter() - start
        return out


class Recomputed(Observer):
    """Compares the runs of what scripts give to `torch.utils.checkpoint`."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._on = False
        self._compared = 0
        self._seconds = 0.0
        self._found: dict[str, Finding] = {}

    def start(self) -> None:
        """Watch, from the beginning: scripts import the function by name."""
        import torch.utils.checkpoint

        self._patches.around(torch.utils.checkpoint, "checkpoint", self._watch)
        level: Any = torch.autograd.Function.__mro__[1]
        self._patches.around_class_method(level, "apply", self._watch_apply)

    def step_done(self, step: int) -> None:
        """Compare in one step only."""
        self._on = step == _STEP

    def stop(self) -> None:
        """Watch no more."""
        self._on = False
        self._patches.undo()

    def _watch(self, checkpoint: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        if not self._on:
            return checkpoint(function, *args, **kwargs)
        runs: list[_Sums] = []
        return checkpoint(self._record_runs(function, runs), *args, **kwargs)

    def _watch_apply(self, run: Any, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`apply` of Functions: what it is given to run may be run again by its backward."""
        if self._on and not is_library(cls.forward.__code__.co_filename):
            args = tuple([self._recorded(x) for x in args])
        return run(cls, *args, **kwargs)

    def _recorded(self, given: Any) -> Any:
        """What is given to a Function; if it can be run, so that its runs are compared."""
        runs: list[_Sums] = []
        if isinstance(given, torch.nn.Module):
            if "forward" not in vars(given):
                self._patches.put(given, "forward", lambda f: self._record_runs(f, runs))
        elif inspect.isfunction(given) or inspect.ismethod(given):
            return self._record_runs(given, runs)
        return given

    def _record_runs(self, function: Callable[..., Any], runs: list[_Sums]) -> Callable[..., Any]:
        """The function; what its runs give is noted in `runs`."""

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not self._on:
                return function(*args, **kwargs)
            sums, at = _Sums((args, kwargs)), frames()
            try:
                with modes.within(sums):
                    return function(*args, **kwargs)
            finally:  # a second run is cut short when it has what it needs
                runs.append(sums)
                self._seconds += sums.seconds
                before = [r for r in runs[:-1] if r.given == sums.given and not r.is_again]
                if sums.is_again and len(before) == 1:
                    self._compare(before[0].calls, sums.calls, at)

        return run

    def _compare(self, first: Sequence[_Call], second: Sequence[_Call], at: Frames) -> None:
        self._compared += 1
        for a, b in zip(first, second, strict=False):
            error = a.differs(b)
            if not error <= ALLOWED:
                found = _finding(a, b, error, at)
                self._found.setdefault(str(found.place), found)
                return

    def findings(self, ledger: Ledger) -> list[Finding]:
        """The first call that differed, for each line."""
        if self._compared:
            how = "sums of values of both runs"
            row = Checked("checkpoints", TRAINING, self._compared, self._seconds, how)
            ledger.checked.append(row)
        return list(self._found.values())


def _finding(first: _Call, second: _Call, error: float, at: Frames) -> Finding:
    """`at`: where the second run began; by a backward of the user's, or within the library."""
    made = users_line(first.frames)
    if any(code.co_filename.endswith(_CHECKPOINT) for code, _ in at):
        place = deciding_line(first.frames, second.frames, first.numbers, second.numbers) or made
    else:
        place = users_line(at) or made
    because = (
        f"`{first.name}` gave values of sum {first.sums[0]:.6g} in the forward pass and "
        f"{second.sums[0]:.6g} when the backward pass ran it again"
        if first.name == second.name
        else f"`{first.name}` was called in the forward pass, and `{second.name}` in its place "
        "when the backward pass ran it again"
    ) + ("" if made is None or place == made else f", at line {made.line}")
    advice = (
        "let both runs draw the same random numbers (preserve_rng_state=True, no generators of "
        "your own) and change nothing that the code reads"
    )
    found = finding(
        "error", "recomputed", because, advice, place, subject="a checkpoint", kind=_KIND
    )
    return replace(found, error=error, tolerance=ALLOWED)


_KIND = "torch.utils.checkpoint"
