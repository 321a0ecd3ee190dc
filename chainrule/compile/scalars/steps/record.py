"""Recording a step: it runs on numbers that write down what is done to them, and once more as it
is, for other numbers; then everything is as it was before."""

# What Value keeps to itself is looked at; lists may hold anything.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from threading import get_ident
from types import FunctionType
from typing import Any, final

from chainrule.compile.scalars.ints.failures import on_symbols
from chainrule.compile.scalars.ints.subscripts import seeing
from chainrule.compile.scalars.ints.symbolic import SymbolicInt
from chainrule.compile.scalars.lines import Lines, noting_lines
from chainrule.compile.scalars.reads import Reads
from chainrule.compile.scalars.reroll.containers import named, objects_among, stands
from chainrule.compile.scalars.steps.counts import Count, writing_line
from chainrule.compile.scalars.steps.math_functions import functions_of_math
from chainrule.compile.scalars.steps.memory import DATA, GRADIENT, LIST
from chainrule.compile.scalars.steps.numbers import TracedNumber, number_of
from chainrule.compile.scalars.steps.outcome import FLOAT, RESULT, SLOPE, Outcome, RecordedStep
from chainrule.compile.scalars.steps.state import State
from chainrule.compile.scalars.tape import Tape, ranked
from chainrule.compile.trace.guards.notes import Notes
from chainrule.compile.trace.guards.random_state import refuse_draws
from chainrule.errors import TraceError
from chainrule.scalar import Value
from chainrule.transforms.replay import note_random_state
from chainrule.tree import Structure, flatten

_FACTORS = (0.8, -1.3)


class _ComparedError(Exception):
    """Ends a run whose graph is known."""


@final
class StepRecorder:
    """Records a step `f` for arguments with these leaves; ints are symbols if they are
    `symbolic`."""

    def __init__(
        self,
        f: Callable[..., Any],
        name: str,
        leaves: Sequence[Any],
        structure: Structure,
        symbolic: bool,
    ) -> None:
        self._f = f
        self._name = name
        self._leaves = leaves
        self._structure = structure
        self._state = State([f, *objects_among(leaves)])
        self._where = where = stands(named(self._state.roots))
        apart = (("", 1), (0,))
        order_of = ranked(where)
        self._state.values.sort(key=lambda v: order_of(where.get(id(v), apart)))
        self._seen: Reads | None = None
        self._symbolic = symbolic
        self._written: list[int] = []
        """The lists that it changes."""
        self._lines: Lines = {}
        self._polluted: list[Any] = []
        self._counted: list[Count] = []
        """Ints that the latest run changed, which are not counted among the state."""
        self._functions: list[FunctionType] = []
        if any(isinstance(x, Value) for x in leaves):
            raise TraceError(
                f"jit: {name} calls backward and is given Values: give it floats, or let it find "
                "Values that it changes by a name"
            )

    def record(self, notes: Notes) -> RecordedStep | None:
        """Run it, and leave everything as it was; None if it does not call backward after all."""
        state = self._state
        self._functions = notes.functions
        put_back = state.saved()
        try:
            with seeing(notes.functions), note_random_state() as chance:
                outcome = self._run(None, put_back)
                if self._take_lists_of_ints() | self._take_counts():
                    outcome = self._run(None, put_back)
            if outcome.root is None:
                return None
            refuse_draws(chance)
            self._written = [k for k in range(len(state.lists)) if _is_written(outcome, k)]
            for k in self._written:
                notes.forget_items(state.lists[k])
            for c in state.counts:
                notes.forget(*c.entry, c.cell)
            guards = notes.finish()
            self._open(outcome, self._where)
            with seeing(notes.functions):
                if self._seen is not None and self._seen.open:
                    self._compare(put_back)
            outcomes = [outcome, *[self._as_it_is(x, put_back) for x in _FACTORS]]
        finally:
            put_back()
        assert self._seen is not None
        maxima, _ = self._seen.maxima()
        tape = Tape(self._seen, self._where, maxima)
        steps = outcome.steps
        ints = sum(type(x) is int for x in self._leaves)
        traced = self._symbolic and (ints or state.counts)
        check = steps.compiled(outcome.counts) if traced else None
        fixed = frozenset([i for i in steps.fixed if i < ints])
        structure = flatten(outcome.returned)[1]
        return RecordedStep(state, tape, outcomes, structure, guards, check, fixed)

    def _run(self, factor: float | None, put_back: Callable[[], None]) -> Outcome:
        """A run on numbers that write down what is done to them."""
        out = self._outcome(factor)
        state, nodes, steps = self._state, out.nodes, out.steps
        steps.as_number = nodes.scalar
        given: list[Any] = []
        ints = 0
        floats = iter(out.floats)
        for x in self._leaves:
            if type(x) is float:
                leaf = Value(next(floats))
                x = nodes.input((FLOAT, len(out.leaves)), leaf.data)
                x.leaf = leaf
                given.append(x)
                out.leaves.append(leaf)
            elif type(x) is int and self._symbolic:
                given.append(SymbolicInt(steps, f"a[{ints}]", x, ints))
                ints += 1
            else:
                given.append(x)
        for i, v in enumerate(state.values):
            v._g = nodes.input((GRADIENT, i), v._g)
        with ExitStack() as stack:
            stack.callback(put_back)
            for n, c in enumerate(state.counts, ints):
                c.write(SymbolicInt(steps, f"a[{n}]", c.value, n))
            stack.enter_context(functions_of_math(nodes))
            stack.enter_context(_backward(lambda v, own: self._pass(out, v, own)))
            noting = noting_lines(self._lines) if factor is None else nullcontext()
            with on_symbols(self._symbolic, _ComparedError, TraceError), noting:
                self._finish(out, given)
        return out

    def _compare(self, put_back: Callable[[], None]) -> None:
        """Let the graph of another run tell what the numbers in it are."""
        with suppress(_ComparedError):
            self._run(_FACTORS[0], put_back)

    def _take_lists_of_ints(self) -> bool:
        """Count those lists of ints among the state that got floats; whether there are any."""
        found = self._polluted
        self._state.lists += found
        self._state.ints = [x for x in self._state.ints if not any(x is y for y in found)]
        return bool(found)

    def _take_counts(self) -> bool:
        """Count the ints that it changed among the state; whether there are any."""
        found, self._counted = self._counted, []
        self._state.counts += found
        return bool(found)

    def _as_it_is(self, factor: float, put_back: Callable[[], None]) -> Outcome:
        """A run of the program as it is."""
        out = self._outcome(factor)
        floats = iter(out.floats)
        given = [next(floats) if type(x) is float else x for x in self._leaves]
        try:
            self._finish(out, given)
        finally:
            put_back()
        return out

    def _outcome(self, factor: float | None) -> Outcome:
        """What a run finds: the state's numbers as they are, or others, which are put there."""
        state = self._state
        floats = [x for x in self._leaves if type(x) is float]
        if factor is not None:
            floats = [factor * x for x in floats]
            for i, v in enumerate(state.values):
                v.data = factor * (1 + 0.1 * (i % 7)) * v.data + 0.01 * (1 + i % 3)
                v._g = factor * (0.2 + 0.1 * (i % 5))
            for k in self._written:
                x = state.lists[k]
                x[:] = [1.1 * y + 0.01 * (1 + (i + k) % 4) for i, y in enumerate(x)]
        before: dict[Any, list[float]] = {
            (DATA,): [v.data for v in state.values],
            (GRADIENT,): [v._g for v in state.values],
        }
        before |= {(LIST, k): list(x) for k, x in enumerate(state.lists)}
        return Outcome(before, floats)

    def _finish(self, out: Outcome, given: list[Any]) -> None:
        """Run the program, and note what it leaves."""
        args, kwargs = self._structure.unflatten(given)
        out.returned = self._f(*args, **kwargs)
        after, structure = flatten((list(args), kwargs))
        if structure != self._structure or any(
            x is not y for x, y in zip(after, given, strict=True)
        ):
            raise TraceError(
                f"jit: {self._name} changes a list that it is given, which would change a copy: "
                "let it find the list by a name"
            )
        state = self._state
        out.data = [v.data for v in state.values]
        out.gradients = [v._g for v in state.values]
        out.lists = [list(x) for x in state.lists]
        if [len(x) for x in out.lists] != [len(out.before[LIST, k]) for k in range(len(out.lists))]:
            raise TraceError(f"jit: {self._name} changes the length of a list of numbers")
        self._counted = state.find_counts() if self._symbolic else []
        state.counts += self._counted
        what = state.changed()
        del state.counts[len(state.counts) - len(self._counted) :]
        self._polluted = [x for x in state.ints if any(type(y) is TracedNumber for y in x)]
        if what is not None:
            raise TraceError(
                f"jit: {self._name} changes {what}{writing_line(self._functions, state.name)}, "
                "which no later call would do: do that outside. Numbers may be changed in lists of "
                "floats and in Values, and ints anywhere"
            )
        out.counts = [c.value for c in state.counts]

    def _pass(self, out: Outcome, root: Value, own: Callable[[Value], None]) -> None:
        """The backward pass of a run."""
        state, nodes = self._state, out.nodes
        if out.root is not None:
            raise TraceError(f"jit: {self._name} calls backward twice: add the results up first")
        changed = [v.data is not x for v, x in zip(state.values, out.before[DATA,], strict=True)]
        if any(changed):
            raise TraceError(f"jit: {self._name} changes data of Values before it calls backward")
        out.root = root
        if self._seen is not None:
            self._seen.compare([root])
            raise _ComparedError
        before = [v._g for v in state.values]
        for v in state.values:
            v._g = 0
        own(root)
        for i, (v, g) in enumerate(zip(state.values, before, strict=True)):
            slope = nodes.input((SLOPE, i), float(v._g))
            v._g = slope if type(g) in (int, float) and g == 0 else g + slope
            v.data = nodes.input((DATA, i), v.data)
        for k, x in enumerate(state.lists):
            was = out.before[LIST, k]
            for i, y in enumerate(x):
                if i < len(was) and y is was[i]:
                    x[i] = nodes.input((LIST, k, i), y)
        root.data = nodes.input((RESULT, 0), root.data)

    def _open(self, out: Outcome, where: Any) -> None:
        """Read the graph of the first run, whose numbers are back in their places."""
        if out.root is None or out.root._made is None:
            raise TraceError(f"jit: {self._name} calls backward on a Value that it did not compute")
        root = out.root
        root.data = number_of(root.data)
        results = [root]
        for y in flatten(out.returned)[0]:
            if isinstance(y, Value):
                results += [] if y is root else [y]
            elif type(y) is not TracedNumber:
                raise TraceError(
                    f"jit: {self._name} returns {y!r}, which would be the same at every call: "
                    "return Values, their data, or numbers computed from these"
                )
        self._seen = Reads(out.leaves, results, where, self._lines)


def _is_written(out: Outcome, k: int) -> bool:
    """Whether a list has other numbers after a run than before it."""
    nodes = out.nodes.nodes
    return any(
        type(x) is not TracedNumber or nodes[x.node] != ("input", (LIST, k, i))
        for i, x in enumerate(out.lists[k])
    )


@contextmanager
def _backward(run: Callable[[Value, Callable[[Value], None]], None]) -> Generator[None]:
    """Within it a backward pass is `run`, with the Value and what does it."""
    own, mine = Value.backward, get_ident()

    def backward(self: Value) -> None:
        if get_ident() == mine:
            run(self, own)
        else:
            own(self)

    Value.backward = backward  # type: ignore[method-assign]
    try:
        yield
    finally:
        Value.backward = own  # type: ignore[method-assign]


@contextmanager
def counting_backward() -> Generator[list[Value]]:
    """Gives a list of the Values whose `backward` is called within it."""
    calls: list[Value] = []

    def noted(root: Value, own: Callable[[Value], None]) -> None:
        calls.append(root)
        own(root)

    with _backward(noted):
        yield calls
