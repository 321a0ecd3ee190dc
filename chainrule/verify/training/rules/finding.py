"""Row: a mistake of a training loop as data, and the finding that is made of it.

A row says among which facts it is looked for (`when`), what excuses it (`unless`), and what is
said. Texts are templates: "{count} times {kind} steps" is filled in with attributes of the case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias, final

from chainrule.verify.finding import Correction, Finding, Level, Name
from chainrule.verify.ledger import TRAINING, Checked, Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.text.edits import Edit

Case: TypeAlias = Any
"""One occurrence of a mistake: an object whose attributes the texts of its row name."""
Text: TypeAlias = str | Callable[[Case], str]


@final
class _Attributes(dict[str, Any]):
    """The attributes of a case, for a template."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._case = case

    def __missing__(self, name: str) -> Any:
        return getattr(self._case, name)


@dataclass(frozen=True)
class Row:
    """One mistake."""

    code: str
    when: Callable[[Any], Iterable[Case]]
    """Cases among the facts of a part."""
    words: Text
    fix: Text
    """What to do, in words."""
    level: Level | Callable[[Case], Level] = "warning"
    unless: tuple[Callable[[Case], object], ...] = ()
    """What a right program does that looks like it; each is there because one does."""
    place: Callable[[Case], Place | None] = attrgetter("place")
    detail: Text = ""
    subject: Text = "training loop"
    kind: str = TRAINING
    input: Text = ""
    evidence: Callable[[Case], Sequence[str]] = lambda case: ()
    table: Callable[[Case], tuple[tuple[str, ...], ...]] = lambda case: ()
    edit: Callable[[Case], Edit | None] = lambda case: None
    """The same as changed code, where that is known."""

    def findings(self, facts: Any) -> Iterator[Finding]:
        """One for each case that nothing excuses."""
        for case in self.when(facts):
            if not any(excuses(case) for excuses in self.unless):
                yield self._of(case)

    def _of(self, case: Case) -> Finding:
        def filled(text: Text) -> str:
            return text.format_map(_Attributes(case)) if isinstance(text, str) else text(case)

        level: Level = self.level(case) if callable(self.level) else self.level
        return finding(
            level,
            self.code, filled(self.words), filled(self.fix), self.place(case),
            detail=filled(self.detail), subject=filled(self.subject), kind=self.kind,
            input=filled(self.input), evidence=self.evidence(case), table=self.table(case),
            edit=self.edit(case),
        )  # fmt: skip


of_parameters = partial(Row, subject="{names}", kind="parameters")
"""A row about parameters that are named."""


def is_seldom(case: Case) -> bool:
    """Whether it was seen once only: it may have been shown on purpose."""
    return case.times < 2


def finding(
    level: Level, code: str, because: str, correction: str, place: Place | None, *,
    detail: str = "", subject: str = "training loop", kind: str = TRAINING, input: str = "",
    evidence: Sequence[str] = (), table: tuple[tuple[str, ...], ...] = (), edit: Edit | None = None,
    rank: float = 50.0, rechecked: bool = False,
) -> Finding:  # fmt: skip
    """The finding `code`, with what to do in words and, where that is known, as changed code."""
    change = Correction(correction, place=place, rechecked=rechecked)
    if edit is not None:
        change = replace(change, before=edit.before, after=edit.after, place=edit.place)
    name = Name(code, because, detail, rank=rank)
    return Finding(
        level, subject, kind, input, (name,), place, evidence=tuple(evidence), correction=change,
        table=table,
    )  # fmt: skip


def checked(ledger: Ledger, what: str, how: str) -> None:
    """Note in the ledger what was looked at; nothing was evaluated for it."""
    ledger.checked.append(Checked(what, TRAINING, 0, 0.0, how))
