"""Bus and Part: hooks publish events, each part collects the facts of some kinds of mistakes.

A part that fails is dropped, and nobody else."""

from __future__ import annotations

import abc
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from types import FunctionType
from typing import Any, ClassVar, TypeVar, cast, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.training.facts.history import History
from chainrule.verify.training.rules.finding import Row, checked

F = TypeVar("F", bound=Callable[..., Any])
Handlers = Mapping[type, Callable[[Any], None]]


class Tap(abc.ABC):
    """Hooks in a framework, which publish events on a bus while they are in place."""

    @abc.abstractmethod
    def put(self, bus: Bus) -> None:
        """Put the hooks in place."""

    @abc.abstractmethod
    def take(self) -> None:
        """Take them away again."""

    def knows(self, optimizer: Any) -> None:
        """Tell of an optimizer that was there before, if that is what it looks at."""
        return


@final
class Bus:
    """Hands events to the parts that listen. Its taps are in place while it has parts."""

    def __init__(self, taps: Sequence[Tap]) -> None:
        self.taps = taps
        self._parts: list[Part] = []
        self._handlers: dict[type, list[tuple[Part, Callable[[Any], None]]]] = {}
        self._within = False
        self._attentive: set[int] = set()
        self.attentive = False
        """Whether some part has to hear of every op and every call, ordinary ones as well."""
        self.following = False
        """Whether some part follows values without a graph, so that ops on them matter."""
        self.history = History()
        """Where gradients come from, for all rules."""
        self.ops = 0
        """Ops that were seen."""
        self.notes: list[tuple[str, str]] = []
        """What taps could not see, and why: for the ledger."""

    def attend(self, part: Part, wanted: bool) -> None:
        """Let a part hear of everything from now on, or no more."""
        if wanted:
            self._attentive.add(id(part))
        else:
            self._attentive.discard(id(part))
        self.attentive = bool(self._attentive)

    def add(self, part: Part) -> None:
        """Let a part listen."""
        if not self._parts:
            self._put()
        self._parts.append(part)
        for kind, handler in part.listens().items():
            self._handlers.setdefault(kind, []).append((part, handler))

    def _put(self) -> None:
        put: list[Tap] = []
        try:
            for tap in self.taps:
                put.append(tap)
                tap.put(self)
        except BaseException:
            for tap in reversed(put):
                with contextlib.suppress(Exception):
                    tap.take()
            raise

    def drop(self, part: Part) -> None:
        """A part listens no longer."""
        if part not in self._parts:
            return
        self._parts.remove(part)
        self._unhear(part)
        if not self._parts:
            for tap in reversed(self.taps):
                tap.take()

    def hears(self, kind: type) -> bool:
        """Whether anybody listens to events of a kind, so that they are worth making."""
        known = kind in self.history.handlers
        return (known or bool(self._handlers.get(kind))) and not self._within

    def tell(self, event: Any) -> None:
        """Hand on an event. What handlers run publishes nothing itself."""
        rows = self._handlers.get(event.__class__, ())
        if self._within or not self._parts:
            return
        self._within = True
        start = perf_counter()
        try:
            self._remember(event)
            for part, handler in tuple(rows):
                try:
                    handler(event)
                except Exception as error:
                    self._mute(part, error)
                end = perf_counter()
                part.seconds += end - start
                start = end
        finally:
            self._within = False

    def _remember(self, event: Any) -> None:
        """Let the history hear of it first."""
        self.history.known.clear()
        note = self.history.handlers.get(event.__class__)
        try:
            if note is not None:
                note(event)
        except Exception as error:
            self.history.handlers = {}
            why = f"an error of the verifier: {type(error).__name__}: {error}"
            self.notes.append(("the history of gradients", why))

    def _mute(self, part: Part, error: Exception) -> None:
        part.failed(error)
        self._unhear(part)

    def _unhear(self, part: Part) -> None:
        self.attend(part, False)
        for kind in list(self._handlers):
            self.unhear(part, kind)

    def silence(self) -> None:
        """Let nobody hear any more: in a copy of the process."""
        self._handlers.clear()

    def unhear(self, part: Part, kind: type) -> None:
        """A part needs to hear no more of a kind."""
        self._handlers[kind] = [r for r in self._handlers.get(kind, ()) if r[0] is not part]


_heard: dict[FunctionType, tuple[type, ...]] = {}
"""By method of a part: the kinds of events that it hears."""


def on(*kinds: type) -> Callable[[F], F]:
    """Lets a method of a part hear events of some kinds."""

    def mark(f: F) -> F:
        _heard[cast("FunctionType", f)] = kinds
        return f

    return mark


class Part(Observer):
    """Facts that are collected from events, and the rows of mistakes that read them."""

    title: str
    """What is looked at, for the ledger: "resets of gradients"."""
    rows: ClassVar[Sequence[Row]] = ()

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._error: Exception | None = None
        self.seconds = 0.0
        """Spent on what was heard."""

    @property
    def history(self) -> History:
        """Where gradients come from, and what things are called."""
        return self._bus.history

    def seen(self) -> Sequence[str]:
        """What the ledger says of it, once it has seen anything: "3 steps"."""
        return ()

    def settle(self, ledger: Ledger) -> None:
        """What is left to be done before rows read the facts."""

    @final
    def listens(self) -> Handlers:
        """Methods that were marked, by the kinds of events that they hear."""
        return {
            kind: getattr(self, name)
            for name, f in vars(type(self)).items()
            for kind in (_heard.get(f, ()) if isinstance(f, FunctionType) else ())
        }

    @final
    def failed(self, error: Exception) -> None:
        """Note why this part looks no further."""
        self._error = error

    def start(self) -> None:
        """Listen from now on."""
        self._bus.add(self)

    def stop(self) -> None:
        """Listen no longer."""
        self._bus.drop(self)

    @final
    def findings(self, ledger: Ledger) -> list[Finding]:
        """What was found; a part that failed says so in the ledger instead."""
        while self._bus.notes:
            ledger.skipped.append(Skipped(*self._bus.notes.pop()))
        try:
            if self._error is None:
                return self._reported(ledger)
        except Exception as error:
            self._error = error
        why = f"an error of the verifier: {type(self._error).__name__}: {self._error}"
        ledger.skipped.append(Skipped(self.title, why))
        return []

    def _reported(self, ledger: Ledger) -> list[Finding]:
        self.settle(ledger)
        before = len(ledger.checked)
        for how, times in Counter(self.seen()).items():
            checked(ledger, self.title, how if times == 1 else f"{times} times {how}")
        found = [f for row in self.rows for f in row.findings(self)]
        new = ledger.checked[before:]
        ledger.checked[before:] = [replace(c, seconds=self.seconds / len(new)) for c in new]
        return found
