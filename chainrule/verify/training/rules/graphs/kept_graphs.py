"""Kept graphs: steps that are over, and still hold memory or take part in the next backward pass.

A graph that grows is seen in the loss: nodes that are older than the last step. One that is only
held is seen by a bead, an object that lives as long as the node that it was hung on: in a loop that
lets go, the beads of two steps ago are gone.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts import holders
from chainrule.verify.training.facts.loops import HandSteps
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import edits
from chainrule.verify.user_frames import Frames, placed


class Bead:
    """Hangs on a node, and does nothing when gradients come by."""

    def __call__(self, *_: Any) -> None:
        """Change nothing about the gradient."""
        return


@dataclass(eq=False)
class GraphLine:
    """One line that makes graphs: calls a model, or starts a backward pass."""

    what: str
    place: Place | None
    beads: dict[int, list[weakref.ref[Any]]] = field(
        default_factory=dict[int, list[weakref.ref[Any]]]
    )
    """By the number of the step in which they were made."""
    alive: tuple[int, ...] = ()
    """Steps whose graphs were all held at once."""
    holder: tuple[str, Place | None] | None = None
    inner: bool = False
    """Whether it is a layer's, whose graph others may hold as well: only a container counts."""
    newest: int = 0
    old: list[int] = field(default_factory=list[int])
    """Nodes older than the last step, backward pass by backward pass."""
    sizes: list[int] = field(default_factory=list[int])
    error: str = ""

    @property
    def name(self) -> str:
        """What holds them; empty if that was not found."""
        return self.holder[0] if self.holder is not None else ""

    @property
    def filled_at(self) -> Place | None:
        """The line that puts them there."""
        return self.holder[1] if self.holder is not None else None


def held_steps(line: GraphLine) -> tuple[int, ...]:
    """Three last steps in a row of which everything is still held; empty if something is gone."""
    steps = tuple(sorted(line.beads)[-3:])
    return steps if len(steps) == 3 and is_alive(line, steps) else ()


def is_alive(line: GraphLine, steps: Sequence[int]) -> bool:
    """Whether something of each of these steps is held."""
    return all(any(ref() is not None for ref in line.beads[step]) for step in steps)


def is_growing(line: GraphLine) -> bool:
    """Whether the part of its graph that is older than a step grew in the last passes."""
    last = line.old[-3:]
    return len(line.old) >= 3 and 0 < last[1] < last[2] and last[0] < last[1]


def _reasons(line: GraphLine, carried: tuple[str, Place | None] | None) -> str:
    brings = f"{carried[0]} brings the graph of an earlier step with it." if carried else ""
    return f"{brings} {f'the backward pass says: {line.error}' if line.error else ''}".strip()


def _first(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:5]))


_INNER = 6
"""Steps in which layers within models are looked at: who keeps their results does so at once."""
_TWICE = ("a second time", "modified by an inplace operation")
"""What a backward pass says when an old graph is used again."""


@final
class Kept(Part):
    """Finds `graph_kept`."""

    title = "graphs kept over steps"
    rows = (
        Row(
            "graph_kept",
            lambda f: [(line, f.carried) for line in f.grown()],
            lambda c: (
                f"the graph of the loss has {_first(c[0].sizes)} nodes in successive backward "
                f"passes, of which {_first(c[0].old)} were made in steps that are over"
            ),
            "detach what goes from one step into the next: h = h.detach()",
            lambda c: "error" if c[0].error else "warning",
            place=lambda c: (c[1] and c[1][1]) or c[0].place,
            detail=lambda c: _reasons(*c),
        ),
        Row(
            "graph_kept",
            lambda f: f.held(),
            "after three steps the graphs of all of them are still in memory (made by {what} at "
            "{place})",
            lambda c: (
                f"{c.name}{': ' if c.name else ''}keep numbers, not tensors with a graph: "
                "loss.item(), or output.detach()"
            ),
            place=lambda c: c.filled_at or c.place,
            detail=lambda c: f"held by {c.name}" if c.name else "what holds them was not found",
            edit=lambda c: edits.detach_line(c.filled_at) if c.name else None,
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._lines: dict[Any, GraphLine] = {}
        self._step = 0
        self._newest = 0  # of all graphs so far
        self._over = 0  # the newest node of the steps that are over
        self.carried: tuple[str, Place | None] | None = None
        self._first = False  # whether no layer of the model that is called has passed yet
        self._by_hand: HandSteps | None = HandSteps()  # until there is an optimizer

    # --- steps

    @on(events.Built)
    def _built(self, e: events.Built) -> None:
        self._by_hand = None

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        self._by_hand = None
        self._step_over()

    def _look_for_step(self) -> None:
        if self._by_hand is not None and self._by_hand.taken():
            self._step_over()

    def _step_over(self) -> None:
        """Look at the end of a step which graphs of earlier steps are still held, and by whom."""
        before, self._over = self._over, self._newest
        for line in self._lines.values():
            if not is_alive(line, line.alive):
                line.alive, line.holder = (), None  # it was let go: we held it, or a list of late
        suspects = [line for line in self._lines.values() if not line.alive and held_steps(line)]
        if suspects and not holders.is_collecting():
            gc.collect()  # what only a cycle of references holds is nobody's mistake
            for line in [s for s in suspects if held_steps(s)]:
                line.holder = holders.container() if line.inner else holders.holder(before)
                line.alive = held_steps(line) if line.holder or not line.inner else ()
        self._step += 1
        if self._step == _INNER:
            self._bus.unhear(self, op_events.Passed)

    # --- graphs that are carried into the next step

    @on(op_events.Entered)
    def _entered(self, e: op_events.Entered) -> None:
        if e.depth or not e.recording:
            return
        self._first = True
        self._look_for_step()
        if not self._over:
            return
        for i, x in enumerate(holders.tensors(e.inputs)):
            if holders.age(x) and holders.age(x) <= self._over:
                name = f"input {i} of {type(e.module).__name__}"
                self.carried = (name, placed(e.at))

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins | events.Differentiated) -> None:
        """Note how many nodes of a loss's graph are older than the last step."""
        self._look_for_step()
        line = self._line(e.site, "loss", e.place)
        mark = min(self._over, line.newest) if line.newest else -1  # numbers begin with 0
        line.old.append(sum([serial <= mark for serial in e.graph.serials]))
        line.sizes.append(len(e.graph.serials))
        line.newest = max(line.newest, e.graph.newest)
        self._newest = max(self._newest, e.graph.newest)
        for root in e.roots:
            self._hang(line, root)

    @on(events.Differentiated)
    def _differentiated(self, e: events.Differentiated) -> None:
        if self._by_hand is not None and self._by_hand.replaced(e.leaves, e.site):
            self._step_over()
        self._begins(e)
        if self._by_hand is not None:
            self._by_hand.watch(e.engine, e.leaves, e.site)

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        line = self._line(e.begin.site, "loss", e.begin.place)
        if e.error is not None and line.old and line.old[-1]:
            text = str(e.error)
            if any(part in text for part in _TWICE):
                line.error = text.splitlines()[0]
        if self._by_hand is not None and e.error is None:
            self._by_hand.remember(e)

    # --- graphs that are only held

    @on(op_events.Left)
    def _left(self, e: op_events.Left) -> None:
        if not e.recording:
            return
        place = placed(e.at)
        line = self._line((id(e.module), e.at), type(e.module).__name__, place)
        for y in holders.tensors(e.output)[:1]:
            self._hang(line, y)

    @on(op_events.Passed)
    def _passed(self, e: op_events.Passed) -> None:
        """The first layer of a model: who holds what a later one has made holds that, too."""
        if self._first:
            self._first = False
            key = ("first", id(e.module), e.at)
            line = self._line(key, type(e.module).__name__, placed(e.at))
            line.inner = True
            for y in holders.tensors(e.output)[:1]:
                self._hang(line, y)

    def _line(self, key: Frames | tuple[Any, ...], what: str, place: Place | None) -> GraphLine:
        return self._lines.setdefault(key, GraphLine(what, place))

    def _hang(self, line: GraphLine, tensor: Any) -> None:
        node: Any = holders.node_of(tensor)
        if node is None:
            return
        bead = node
        if hasattr(node, "register_prehook"):  # a name for a node of PyTorch's, which holds it
            bead = Bead()
            node.register_prehook(bead)
        line.beads.setdefault(self._step, []).append(weakref.ref(bead))

    # --- cases: graphs that grow, else ones that are held

    def seen(self) -> Sequence[str]:
        """How many steps there were."""
        return [f"{self._step} steps"] if self._step else []

    def grown(self) -> list[GraphLine]:
        """Lines whose graphs reach further and further back, or failed to."""
        return [line for line in self._lines.values() if line.error or is_growing(line)]

    def held(self) -> list[GraphLine]:
        """The line whose graphs are held: that of a loss, if there is one."""
        held_steps = [line for line in self._lines.values() if line.alive and not self.grown()]
        return [max(held_steps, key=lambda line: line.what == "loss")] if held_steps else []
