"""The derivative of a compiled call, for results that are differentiated outside.

`loss = step(x); loss.backward()`: the call leaves one node, whose rule is a second program of the
same trace. It goes from inputs and cotangents of results to cotangents of inputs. For higher
derivatives, and forward mode, the function itself runs, on the values of that call.

Notation: `g` a cotangent; `wrt` the inputs that a gradient can flow to.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from chainrule.compile.graph.sizes import size_at
from chainrule.compile.graph.terms import Program
from chainrule.compile.runtime.backend import Run, build, without_gc
from chainrule.engine.derive import pullback_nodes
from chainrule.engine.graph import alias, is_recording, order, recording, variable
from chainrule.engine.node import Node, Variable
from chainrule.engine.op import Need, Op, Spec
from chainrule.errors import GradientError
from chainrule.ops.families import conj
from chainrule.tree import flatten


@final
@dataclass(eq=False)
class Derivative:
    """What is known of the derivative of one compiled trace."""

    name: str
    forward: Run
    specs: list[Spec]
    """Of the results; sizes may be in symbols."""
    open: list[bool]
    """Which results are differentiable: the cotangents of those follow the inputs in `back`."""
    wrt: list[int]
    """The inputs whose cotangents `back` gives, in order."""
    back: Program
    saved_inputs: list[int]
    """The inputs that the program updates and `back` reads, as they were before the call."""
    rerun: Callable[[Sequence[Any]], Any] | None
    """Runs the function itself on inputs; None if it changes its state or draws random numbers."""
    make: Callable[[], Run] | None = None
    """Makes what runs `back`, where that is not just to build it."""
    symbols: Callable[[Sequence[Any]], Mapping[str, int]] = lambda inputs: {}
    """The values of the symbols, for inputs."""
    _run: Run | None = field(default=None)

    def run_back(self, inputs: Sequence[Any]) -> list[Any]:
        """Run `back`, which is compiled when it is first needed."""
        if self._run is None:
            with without_gc():
                self._run = build(self.back) if self.make is None else self.make()
        return self._run(inputs)


class Compiled(Op):
    """One compiled function as an op: its inputs are those of its program, then copies of what that
    overwrites and the derivative reads."""

    known: Derivative
    quiet: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`jit(f)`."""
        return f"jit({self.known.name})"

    @property
    def many(self) -> bool:  # type: ignore[override]
        """Whether there are several results."""
        return len(self.known.specs) != 1

    def eval(self, *xs: Any) -> Any:
        """The results; what the program updates is written."""
        results = self.known.forward(list(xs[: len(xs) - len(self.known.saved_inputs)]))
        return tuple(results) if self.many else results[0]

    def spec(self, *xs: Any) -> Any:
        """Those of the results."""
        return tuple(self.known.specs) if self.many else self.known.specs[0]

    def reads(self, i: int) -> tuple[int, ...] | None:
        """All inputs."""
        known = self.known
        count = len(known.back.inputs) - sum(known.open) + len(known.saved_inputs)
        return tuple(range(1, 1 + count)) if i in known.wrt else None

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The second program's results, or what differentiating the function itself gives."""
        known = self.known
        xs = self._as_before(xs)
        gs: Sequence[Any] = g if self.many else (g,)
        wrapped = any(isinstance(c, Variable) for c in gs)
        if wrapped and is_recording():
            bars = self._record(gs, xs)
        else:
            inputs = [_plain(x) for x in xs]
            symbols = known.symbols(inputs)
            specs = zip(gs, known.specs, known.open, strict=True)
            full = [_array(c, s, symbols) for c, s, o in specs if o]
            bars = [conj(b) for b in known.run_back([*inputs, *full])]
        by_place = dict(zip(known.wrt, bars, strict=True))
        return [
            _as(by_place[i], wrapped) if needed and i in by_place else None
            for i, needed in enumerate(need)
        ]

    def _as_before(self, xs: Sequence[Any]) -> list[Any]:
        """The program's inputs, as they were before the call."""
        kept = self.known.saved_inputs
        inputs, copies = list(xs[: len(xs) - len(kept)]), xs[len(xs) - len(kept) :]
        for place, x in zip(kept, copies, strict=True):
            inputs[place] = x
        return inputs

    @property
    def states_jvp(self) -> bool:  # type: ignore[override]
        """The transpose of the vjp."""
        return False

    def _record(self, gs: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
        """The cotangents as tensors that can be differentiated again."""
        known = self.known
        if known.rerun is None:
            raise GradientError(
                f"{self.name} was called for a first derivative in reverse mode: it changes its "
                "state or draws random numbers, so it cannot run again. Take the other derivatives "
                "inside the compiled function"
            )
        given = [x if isinstance(x, Variable) else variable(x) for x in xs]
        aliases = [alias(x) if i in known.wrt else x for i, x in enumerate(given)]
        with recording(True):
            outs = [x for x in flatten(known.rerun(aliases))[0] if isinstance(x, Variable)]
        seeds: dict[Node, Any] = {}
        for out, c in zip(outs, gs, strict=True):
            if c is not None and out.node is not None and out.node.needs:
                before = seeds.get(out.node)
                c = conj(c)
                seeds[out.node] = c if before is None else before + c
        nodes: list[Any] = [aliases[i].node for i in known.wrt]
        got = pullback_nodes(order(seeds, nodes), seeds, set(nodes), record=True, free=False)
        return [conj(got[n]) if n in got else variable(np.zeros(n.shape, n.dtype)) for n in nodes]


def _array(g: Any, spec: Spec, symbols: Mapping[str, int]) -> Any:
    """A cotangent as the program wants it."""
    if g is None:
        return np.zeros([size_at(n, symbols) for n in spec.shape], spec.dtype)
    return np.asarray(_plain(conj(g)), spec.dtype, order="C")


def _plain(x: Any) -> Any:
    return x.value if isinstance(x, Variable) else x


def _as(bar: Any, wrap: bool) -> Any:
    return variable(bar) if wrap and not isinstance(bar, Variable) else bar


@contextmanager
def standing_in(pairs: Sequence[tuple[Any, Any]]) -> Generator[None]:
    """Within it, the first tensor of each pair has the value and the place of the second."""
    before = [(t, t.value, t.node) for t, _ in pairs]
    try:
        for t, x in pairs:
            t.value, t.node = x.value, x.node
        yield
    finally:
        for t, value, node in before:
            t.value, t.node = value, node
