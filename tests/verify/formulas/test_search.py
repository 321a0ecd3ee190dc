"""Programs are silent as they are; with a mistake planted, the change back is found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chainrule.verify.finding import Finding
from chainrule.verify.formulas.recording import Recording
from chainrule.verify.formulas.table import FORMULAS
from chainrule.verify.script.formula_findings import search, spoken_of
from tests.verify.formulas.programs import PROGRAMS, Program

pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")
"""What a changed program warns of is its own."""

MISTAKES = [(p, *m) for p in PROGRAMS for m in p.mistakes]


def found_in(tmp_path: Path, text: str) -> list[Finding]:
    """What is wrong with a program, which is run and recorded here."""
    file = tmp_path / "program.py"
    file.write_text(text, encoding="utf-8")
    recording = Recording([str(file)], lambda: False, lambda: None)
    code = compile(text, str(file), "exec")
    old = sys.gettrace()
    sys.settrace(recording.call)
    try:
        exec(code, {"__name__": "program"})
    finally:
        sys.settrace(old)
    formulas = spoken_of([str(file)], FORMULAS)
    return search(recording.activations, formulas, lambda: False)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_right_programs_are_silent(tmp_path: Path, program: Program) -> None:
    assert not found_in(tmp_path, program.text)


@pytest.mark.parametrize(
    ("program", "right", "wrong"), MISTAKES, ids=lambda x: getattr(x, "name", x)
)
def test_mistakes_are_found(tmp_path: Path, program: Program, right: str, wrong: str) -> None:
    assert right in program.text
    text = program.text.replace(right, wrong)
    (found,) = found_in(tmp_path, text)
    line = next(n for n, row in enumerate(text.split("\n"), 1) if wrong in row)
    assert found.place is not None
    assert found.place.line == line, found.names[0].because
    assert found.correction is not None and found.correction.after
    mended = text.split("\n")
    mended[line - 1] = found.correction.after
    assert not found_in(tmp_path, "\n".join(mended))
