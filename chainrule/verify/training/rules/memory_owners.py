"""Who owns memory.

Optimizers are made again and again, and their means are lost each time. Parameters lie in the
memory of trained ones, though each is changed by itself. Values are loaded into a module, copied to
a parameter or compared with it, and lie in its own memory.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

from chainrule.engine.source_text import source_line
from chainrule.verify.place import Place
from chainrule.verify.training.facts.loops import loops_here
from chainrule.verify.training.facts.names import join_names
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.training.text.origins import kept_line, sharing_line
from chainrule.verify.user_frames import placed

_ROUND = re.compile(r"for (_|\w*(epoch|step|iter|it|round)\w*|ep|i|k|t)\b.* in (\w*range)\(")
"""A loop over turns of one training, not over trainings."""
_LEAST = 3
_SEARCH = 4
"""Calls of its closure by one step, on average, from which on that is a search."""


class _Remade(NamedTuple):
    """An optimizer that is made at a line again and again, of the same parameters."""

    kind: str
    place: Place | None
    times: int


class _Shared(NamedTuple):
    """Parameters in the memory of trained ones, which the program changes all the same."""

    names: str
    of: str
    times: int
    place: Place | None


class _Idle(NamedTuple):
    """A module is given the values that it has, from its own memory."""

    module: str
    place: Place | None


class _Same(NamedTuple):
    """A line that copies to trained parameters, or takes off them, what lies in their memory."""

    names: str
    times: int
    place: Place | None


class _Life:
    """What became of optimizers of the same parameters: how many were made at a line, how many
    steps they took in all, and how often these called their closures."""

    def __init__(self) -> None:
        self.made = self.steps = self.calls = 0

    @property
    def solves(self) -> bool:
        """Whether each step is a search of its own, which calls its closure again and again: what
        it has found out of one problem is of no use for the next."""
        return self.calls > _SEARCH * self.steps


@final
class Owners(Part):
    """Finds `state_lost`, `unseen_change` and `idle_load`."""

    title = "optimizers and the memory of parameters"
    rows = (
        Row(
            "state_lost",
            lambda f: f.remade(),
            "{kind} was made {times} times of the same parameters on this line: what it keeps of "
            "earlier gradients begins at zero each time",
            "make it once, in front of the loop",
        ),
        Row(
            "unseen_change",
            lambda f: f.shared(),
            "{names} lies in the memory of {of}: who changes one changes the other, and the "
            "program changes both",
            "copy the values: `.clone()`, or copy.deepcopy of the model",
            "error",
            (is_seldom,),
            place=lambda c: c.place,
            subject="{names}",
            kind="parameters",
        ),
        Row(
            "idle_load",
            lambda f: f.idle(),
            "the values that {module} is given lie in its own memory: loading them changes nothing",
            "keep copy.deepcopy(model.state_dict()), and make a second model by copy.deepcopy: "
            "state_dict() gives the parameters themselves",
        ),
        Row(
            "idle_load",
            lambda f: f.same("copy_"),
            "what this copies to {names} lies in the memory of these: it changes nothing",
            "keep a copy: p.detach().clone(), not p.detach(), p.data or state_dict() alone",
            unless=(is_seldom,),
        ),
        Row(
            "self_compared",
            lambda f: f.same("sub", "__sub__", "rsub"),
            "both sides of this difference are the memory of {names}: it is always 0",
            "keep a copy: p.detach().clone(), or copy.deepcopy of state_dict()",
            unless=(is_seldom,),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._made = Counter[tuple[Place, str, frozenset[int]]]()
        self._lives = defaultdict[tuple[Place, str, frozenset[int]], _Life](_Life)
        self._life_of: dict[int, _Life] = {}  # by the id of an optimizer
        self._idle: dict[tuple[str, Place | None], None] = {}
        self._versions: dict[int, int] = {}
        self._shared: dict[int, tuple[Any, Any, int]] = {}
        self._near: Place | None = None
        self._same = Counter[tuple[str, Any, int]]()

    def seen(self) -> Sequence[str]:
        """How many were made."""
        return [f"{self._made.total()} optimizers"] if self._made else []

    @on(events.Built)
    def _built(self, e: events.Built) -> None:
        loops = loops_here() if e.place is not None else ()
        if e.place is None or not _keeps(e.optimizer):
            return
        made = e.place, type(e.optimizer).__name__, e.ids
        self._life_of[id(e.optimizer)] = life = self._lives[made]
        life.made += 1
        if loops and _ROUND.search(source_line(loops[0].file, loops[0].line)):
            self._made[made] += 1

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        """Of parameters that nobody trains: whose memory they have, and whether they were changed
        since the last step."""
        if (life := self._life_of.get(id(e.optimizer))) is not None:
            life.steps += 1
        if not e.ids or not hasattr(e.params[0], "data_ptr"):
            return
        self._near = e.place
        homes: dict[int, Any] = {}
        for p in e.params:
            homes.setdefault(p.data_ptr(), p)
        optimized = self.history.optimized()
        for q in self.history.names.params():
            p = homes.get(q.data_ptr())
            if p is None or p is q or not q.data_ptr():
                continue
            before = self._versions.get(id(q))
            self._versions[id(q)] = q._version
            if before is not None and (before != q._version or id(q) in optimized):
                _, _, times = self._shared.get(id(q), (q, p, 0))
                self._shared[id(q)] = (q, p, times + 1)

    @on(events.ClosureEnds)
    def _called(self, e: events.ClosureEnds) -> None:
        if (life := self._life_of.get(id(e.optimizer))) is not None:
            life.calls += 1

    @on(events.Loaded)
    def _loaded(self, e: events.Loaded) -> None:
        """Whether all that a module is given is what it has."""
        own = {**dict(e.module.named_parameters()), **dict(e.module.named_buffers())}
        pairs = [(x, own.get(name)) for name, x in e.values.items() if hasattr(x, "data_ptr")]
        if pairs and all(
            x.data_ptr() and y is not None and x.data_ptr() == y.data_ptr() for x, y in pairs
        ):
            self._idle[type(e.module).__name__, e.place] = None
        else:  # with other values another training begins
            self._lives.clear()
            self._life_of.clear()

    @on(op_events.Coincided)
    def _coincided(self, e: op_events.Coincided) -> None:
        self._same[e.name, e.at, e.address] += 1

    def same(self, *names: str) -> Iterator[_Same]:
        """By line, of ops of some names."""
        homes = {p.data_ptr(): p for p in self.history.optimized().values() if self._same}
        found = defaultdict[Any, list[tuple[Any, int]]](list)
        for (name, at, address), times in self._same.items():
            if name in names and address in homes:
                found[at].append((homes[address], times))
        for at, rows in found.items():
            called = join_names([self.history.names.param(p) for p, _ in rows])
            yield _Same(called, max(times for _, times in rows), placed(at))

    def idle(self) -> list[_Idle]:
        """By line."""
        return [_Idle(module, kept_line(at) or at) for module, at in self._idle]

    def remade(self) -> list[_Remade]:
        """By line: those made in each turn of a training, and those that live for one step."""
        made = dict(self._made)
        made |= {k: x.made for k, x in self._lives.items() if x.made - 1 <= x.steps <= x.made}
        return [
            _Remade(kind, at, n)
            for (at, kind, ids), n in made.items()
            if n >= _LEAST and not self._lives[at, kind, ids].solves
        ]

    def shared(self) -> list[_Shared]:
        """All of them together."""
        name, rows = self.history.names.param, list(self._shared.values())
        if not rows:
            return []
        names, of = ([name(row[k]) for row in rows] for k in (0, 1))
        times, at = max(row[2] for row in rows), sharing_line(self._near)
        return [_Shared(join_names(names), join_names(of), times, at)]


def _keeps(optimizer: Any) -> bool:
    """Whether an optimizer keeps anything of gradients."""
    groups: list[dict[str, Any]] = getattr(optimizer, "param_groups", [])
    plain = "SGD" in type(optimizer).__name__
    return not plain or any(group.get("momentum") for group in groups)
