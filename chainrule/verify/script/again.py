"""Corrections of a training loop are tried: the script, with its lines changed, is run once more.

It runs from its beginning, in a copy of the process, for as many steps as were observed, looked at
in the same way; what counts is whether the finding is gone and no other one has come. A correction
that was right on the values of its step has to stand that as well: a cut that is opened in the loss
of another network gives gradients that are derivatives, and wrong. The copy may read files, and
nothing else: what writes, connects or starts something ends it (`confined`).
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any

from chainrule.verify.finding import Correction, Finding
from chainrule.verify.ledger import STEP, TRAINING, Ledger, Skipped
from chainrule.verify.script.apart import LostError, apart, can_fork
from chainrule.verify.script.confined import confine
from chainrule.verify.script.target import Target
from chainrule.verify.where import is_library

CHEAP = 30.0
"""Seconds that an observation may have taken; a longer one is not repeated."""
LEAST = 8.0
"""Seconds that trying may take however short the observation was: copies take time themselves."""
MOST = 1 << 32
"""Bytes that a script may hold for a second one of it to be run beside it."""
KINDS = (TRAINING, STEP, "parameters")
"""Kinds of findings whose corrections are tried here; others were tried on their values."""

Codes = Counter[str]
"""How many findings, but for notes, have each name."""


@dataclass(frozen=True, eq=False)
class Again:
    """How a script is run once more: `run(target)` gives its exit code and what was found."""

    target: Target
    run: Callable[[Target], tuple[int, Codes]]

    def tried(self, findings: Sequence[Finding], ledger: Ledger, seconds: float) -> list[Finding]:
        """The findings, marked as re-checked if they are gone with their correction.

        `seconds` is what the observation took: all that is tried takes no longer, or `LEAST`.
        """
        can = [f for f in findings if _edit(f) is not None]
        why = _unsuited(seconds) if can else ""
        if why:
            ledger.skipped.append(Skipped("corrections of the loop", why))
        if why or not can:
            return list(findings)
        before, end = codes(findings), time.monotonic() + max(seconds, LEAST)
        done: list[Finding] = []
        for f in findings:
            correction = _edit(f)
            if correction is not None:
                helps = self._helps(correction, f, before, end, ledger)
                right = correction.rechecked if helps is None else helps
                f = replace(f, correction=replace(correction, rechecked=right))
            done.append(f)
        return done

    def _helps(
        self, correction: Correction, f: Finding, before: Codes, end: float, ledger: Ledger
    ) -> bool | None:
        """Whether the script with changed lines runs, and nobody finds what was found; None if it
        could not run to its end."""
        try:
            left = max(0.0, end - time.monotonic())
            code, after, refused = apart(lambda: self._edited(correction), left)
        except LostError as error:
            code, after, refused = 1, codes(()), [str(error)]
        if code:
            why = f"not tried to its end: {refused[0] if refused else f'exit code {code}'}"
            ledger.skipped.append(Skipped(f"the correction at {correction.place}", why))
            return None
        name = f.name.code
        return after[name] < before[name] and not after - before

    def _edited(self, correction: Correction) -> tuple[int, Codes, list[str]]:
        """In the copy: the run of the changed script; what it was refused."""
        assert correction.place is not None
        file = os.path.realpath(correction.place.file)
        text = compile(changed(correction), correction.place.file, "exec", dont_inherit=True)
        target = self.target
        if file == os.path.realpath(target.file):
            target = replace(target, code=text)
        _serve(file, text)
        held = _fresh()  # what modules hold (open files) is not to be closed a second time
        refused = confine()
        code, found = self.run(target)
        del held
        return code, found, refused


def codes(findings: Sequence[Finding]) -> Codes:
    """What was found by those who look at the loop."""
    return Counter([f.name.code for f in findings if f.kind in KINDS and f.level != "note"])


def changed(correction: Correction) -> str:
    """The text of the file, with the correction in it.

    Raises:
        LookupError: If the lines that it changes are not there.
    """
    assert correction.place is not None
    text = Path(correction.place.file).read_text(encoding="utf-8")
    lines, before = text.splitlines(), correction.before.splitlines()
    first = correction.place.line - 1
    if [line.rstrip() for line in lines[first : first + len(before)]] != before:
        raise LookupError(f"the lines at {correction.place} are not those that ran")
    lines[first : first + len(before)] = correction.after.splitlines()
    return "\n".join(lines) + "\n"


def _edit(f: Finding) -> Correction | None:
    """The correction of a finding, if it is changed code; on values it must have been right."""
    c = f.correction
    if f.kind not in KINDS or c is None or c.place is None or (f.kind == STEP) != c.rechecked:
        return None
    return c if c.before and c.after and f.level != "note" else None


def _unsuited(seconds: float) -> str:
    """Why the script is not run again; empty if it is."""
    if not can_fork():
        return "not tried: this process cannot be copied"
    if seconds > CHEAP:
        return f"not tried: the observed steps took {seconds:.0f} s, and would take that again"
    held = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return f"not tried: the script holds {held >> 30} GiB, and would again" if held > MOST else ""


def _fresh() -> list[Any]:
    """Forget the user's modules, so that they are run again; they themselves are returned."""
    users = [name for name, module in sys.modules.items() if _is_users(name, module)]
    return [sys.modules.pop(name) for name in users]


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
