"""docs/errors.md shows what is really said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.explain.pages import programs, run

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
PROGRAMS = programs(PAGE)


def test_every_program_of_the_page_is_found():
    text = PAGE.read_text(encoding="utf-8")
    assert len(PROGRAMS) == text.count("```python") == text.count("```text") > 10


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_output_is_that_of_the_page(number: int):
    program, output = PROGRAMS[number]
    assert run(program) == output


def test_every_section_of_the_table_exists():
    text = PAGE.read_text(encoding="utf-8")
    table = [row for row in text.splitlines() if row.startswith("| [")]
    sections = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    named = [row.split("](")[0].removeprefix("| [") for row in table]
    assert named == sections
