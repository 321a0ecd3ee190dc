"""Corrections of a training loop are tried: the script, with its lines changed, is run once more.

It runs from its beginning, in a copy of the process, for as many steps as were observed, looked at
in the same way; what counts is whether the finding is gone and no other one has come. A correction
that was right on the values of its step has to stand that as well: a cut that is opened in the loss
of another network gives gradients that are derivatives, and wrong. Where no changed code is known,
what a reader would change is tried, one proposal after the other (`remedies`). The copy may read
files, and nothing else: what writes, connects or starts something ends it (`confine`).
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

from chainrule.engine.source_text import file_text
from chainrule.engine.watch import Watch, watching
from chainrule.verify.finding import Correction, Finding
from chainrule.verify.ledger import STEP, TRAINING, Checked, Ledger, Skipped
from chainrule.verify.script.remedies import remedies
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.script.sandbox.quiet import confine
from chainrule.verify.script.target import Target
from chainrule.verify.stopwatch import Stopwatch
from chainrule.verify.user_frames import is_library

CHEAP = 30.0
"""Seconds that an observation may have taken; a longer one is not repeated."""
LEAST = 8.0
"""Seconds that trying may take however short the observation was: copies take time themselves."""
MOST = 1 << 32
"""Bytes that a script may hold for a second one of it to be run beside it."""
KINDS = (TRAINING, STEP, "parameters", "op", "model", "torch.utils.checkpoint")
"""Kinds of findings whose corrections are tried here; others were tried on their values."""
ENDING = ("detached", "graph_kept")
"""Mistakes that end a script by themselves: `backward()` fails. They are tried all the same."""

Codes = Counter[str]
"""How many findings, but for notes, have each name."""
_Left = Callable[[], float]
"""How many seconds are left."""


@dataclass(frozen=True, eq=False)
class Again:
    """How a script is run once more: `run(target)` gives its exit code and what was found."""

    target: Target
    run: Callable[[Target], tuple[int, Codes]]

    def tried(
        self, findings: Sequence[Finding], ledger: Ledger, seconds: float, code: int = 0
    ) -> list[Finding]:
        """The findings, marked as re-checked if they are gone with their correction.

        `seconds` is what the observation took: all that is tried takes no longer, or `LEAST`.
        `code` is the script's exit code; of one that failed, only what has ended it is tried.
        """
        can = [f for f in findings if not code or f.name.code in ENDING]
        options = {id(f): _options(f) for f in can}
        why = reason_not_to_rerun(seconds) if any(options.values()) else ""
        if why:
            ledger.skipped.append(Skipped("corrections of the loop", why))
        if why or not any(options.values()):
            return list(findings)
        before, left = codes(findings), partial(Stopwatch().left, max(seconds, LEAST))
        return [
            self._first_that_helps(options.get(id(f), ()), f, before, left, ledger)
            for f in findings
        ]

    def _first_that_helps(
        self,
        options: Sequence[Correction],
        f: Finding,
        before: Codes,
        left: _Left,
        ledger: Ledger,
    ) -> Finding:
        """The finding with the first of the corrections that helps."""
        own = _edit(f)
        for correction in options:
            if not left() and correction is not own:
                break
            notes = ledger if correction is own else Ledger()  # a proposal may well not run
            helps = self._helps(correction, f, before, left, notes)
            if helps or correction is own:
                right = correction.rechecked if helps is None else helps
                f = replace(f, correction=replace(correction, rechecked=right))
            if helps:
                break
        return f

    def _helps(
        self,
        correction: Correction,
        f: Finding,
        before: Codes,
        left: _Left,
        ledger: Ledger,
    ) -> bool | None:
        """Whether the script with changed lines runs, and nobody finds what was found; None if it
        could not run to its end."""
        try:
            code, after, refused = in_copy(lambda: self._run_edited(correction), left())
        except LostError as error:
            code, after, refused = 1, codes(()), [str(error)]
        if code:
            why = f"not tried to its end: {refused[0] if refused else f'exit code {code}'}"
            ledger.skipped.append(Skipped(f"the correction at {correction.place}", why))
            return None
        name = f.name.code
        return after[name] < before[name] and not after - before

    def _run_edited(self, correction: Correction) -> tuple[int, Codes, list[str]]:
        """In the copy: the run of the changed script; what it was refused."""
        assert correction.place is not None
        file = os.path.realpath(correction.place.file)
        text = compile(
            apply_correction(correction), correction.place.file, "exec", dont_inherit=True
        )
        target = self.target
        if file == os.path.realpath(target.file):
            target = replace(target, code=text)
        _serve(file, text)
        with _confined() as refused:
            code, found = self.run(target)
        return code, found, refused


def codes(findings: Sequence[Finding]) -> Codes:
    """What was found by those who look at the loop."""
    return Counter([f.name.code for f in findings if _is_of_loop(f)])


def _is_of_loop(f: Finding) -> bool:
    return f.level != "note" and (f.kind in KINDS or f.name.code == "unseen_change")


def apply_correction(correction: Correction) -> str:
    """The text of the file, with the correction in it.

    Raises:
        LookupError: If the lines that it changes are not there.
    """
    assert correction.place is not None
    text = file_text(correction.place.file)
    lines, before = text.splitlines(), correction.before.splitlines()
    first = correction.place.line - 1
    if [line.rstrip() for line in lines[first : first + len(before)]] != before:
        raise LookupError(f"the lines at {correction.place} are not those that ran")
    lines[first : first + len(before)] = correction.after.splitlines()
    return "\n".join(lines) + "\n"


def _options(f: Finding) -> list[Correction]:
    """What is to be tried for a finding: its own changed code, or else what a reader would do."""
    own = _edit(f)
    if own is not None:
        return [own]
    c = f.correction
    is_known = f.kind == STEP and c is not None and bool(c.after)  # and was not right
    return [] if is_known or not _is_of_loop(f) else remedies(f)


def _edit(f: Finding) -> Correction | None:
    """The correction of a finding, if it is changed code; on values it must have been right."""
    c = f.correction
    if f.kind not in KINDS or c is None or c.place is None or (f.kind == STEP) != c.rechecked:
        return None
    return c if c.before and c.after and f.level != "note" else None


def reason_not_to_rerun(seconds: float) -> str:
    """Why the script is not run again; empty if it is."""
    if not can_fork():
        return "not tried: this process cannot be copied"
    if seconds > CHEAP:
        return f"not tried: the observed steps took {seconds:.0f} s, and would take that again"
    held = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf(
        "SC_PAGE_SIZE"
    )
    return f"not tried: the script holds {held >> 30} GiB, and would again" if held > MOST else ""


def forget_modules() -> list[Any]:
    """Forget the user's modules, so that they are run again; they themselves are returned."""
    users = [name for name, module in sys.modules.items() if _is_users(name, module)]
    return [sys.modules.pop(name) for name in users]


@contextmanager
def _confined() -> Generator[list[str]]:
    """Within it, in a copy, the user's modules are run again; what they are refused."""
    held = forget_modules()  # what modules hold (open files) is not to be closed a second time
    yield confine()
    del held


def _is_users(name: str, module: Any) -> bool:
    file = getattr(module, "__file__", None)
    return (
        name != "__main__"
        and isinstance(file, str)
        and file.endswith(".py")
        and not is_library(file)
    )


def _serve(file: str, code: CodeType) -> None:
    """Let imports of the file get this code."""
    loader: Any = importlib.machinery.SourceFileLoader
    get = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        mine = os.path.realpath(self.get_filename(fullname)) == file
        return code if mine else get(self, fullname)

    loader.get_code = get_code


PATIENCE = 60.0
"""Seconds that the copy may take."""

Seen = tuple[int, Sequence[Finding], Ledger]
"""The exit code of a script, what was found in it, and what was looked at."""


@contextmanager
def uncompiled() -> Generator[None]:
    """Within it what is compiled runs in Python, as it does wherever somebody watches ops."""
    with watching(Watch()):
        yield


@dataclass(frozen=True, eq=False)
class Uncompiled:
    """How a script is run once more: `run()` runs it, and looks at it, with all observers."""

    run: Callable[[], Seen]

    def seen(self, names: Sequence[str], seconds: float) -> tuple[Sequence[Finding], Ledger]:
        """What is found in the compiled functions `names` where they run in Python. The observation
        took so many `seconds`.

        Raises:
            LostError: If the script could not be run once more.
        """
        why = reason_not_to_rerun(seconds)
        if why:
            raise LostError(why)
        code, found, ledger, refused = in_copy(self._run_uncompiled, PATIENCE)
        if code:
            raise LostError(f"run in Python, {refused[0] if refused else f'exit code {code}'}")
        how = "its steps ran in Python, in a copy of the process, and were looked at there"
        ledger.checked += [Checked(f"{name}, compiled", TRAINING, 0, 0.0, how) for name in names]
        return found, ledger

    def _run_uncompiled(self) -> tuple[int, list[Finding], Ledger, list[str]]:
        """In the copy: the run, and what it was refused."""
        with _confined() as refused, uncompiled():
            code, found, ledger = self.run()
        return code, list(found), ledger, refused
