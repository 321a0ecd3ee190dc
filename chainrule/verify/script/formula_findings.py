"""What is wrong with the formulas of a program: recorded runs are searched, the likeliest first."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from chainrule.engine.source_text import file_text
from chainrule.verify.finding import Finding
from chainrule.verify.formulas.candidates import unit_of
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.nearest import Found, Search
from chainrule.verify.formulas.recording import Activation
from chainrule.verify.formulas.shortening import shortened
from chainrule.verify.formulas.words import speaks_of, words_in, words_of
from chainrule.verify.place import Place
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text.source import Edit, line_as
from chainrule.verify.trees import tree_of_file

WHAT = "known formulas"
_MORE = 1.0
"""What a change may cost more than the first one that has been found."""
_ELSEWHERE = 1.5
"""What it costs a change that no name of its function speaks of a formula."""


def spoken_of(files: Sequence[str], formulas: Sequence[Formula]) -> list[Formula]:
    """The formulas of which identifiers of some files speak."""
    words = set[str]().union(*[words_in(tree_of_file(file)) for file in files])
    return [f for f in formulas if speaks_of(f, words)]


def search(
    activations: Sequence[Activation], formulas: Sequence[Formula], is_over: Callable[[], bool]
) -> list[Finding]:
    """Formulas that nothing of a program is, and that a small change makes of it.

    Args:
        activations: Runs of its functions.
        formulas: Of which its words speak.
        is_over: Whether there is no time left.
    """
    searches, right = list[tuple[float, Search]](), set[str]()
    for activation in {a.code: a for a in activations}.values():
        own = _spoken_by(activation, formulas)
        if not own or is_over():
            continue
        unit = unit_of(activation)
        if any(line.statement is not None for line in unit.lines):
            made = Search(shortened(unit), own, is_over)
            right |= made.right()
            named = set(words_of(activation.code.co_qualname.replace(".", "_")))
            is_named = any(speaks_of(f, named) for f in own)
            searches.append((_ELSEWHERE * (not is_named), made))
    rows = [(cost + c.cost, i, n, c) for i, (cost, s) in enumerate(searches)
            for n, c in enumerate(s.changes(right))]  # fmt: skip
    found = list[Found]()
    limit = float("inf")
    for cost, i, _, change in sorted(rows, key=lambda row: row[:3]):
        if is_over() or cost > limit:
            break
        row = searches[i][1].made_by(change, right)
        if row is not None:
            found.append(row)
            limit = min(limit, cost + _MORE)
    return [_finding(row) for row in sorted(found, key=lambda row: row.rank)[:1]]


def _spoken_by(activation: Activation, formulas: Sequence[Formula]) -> list[Formula]:
    """Those of which a function's own text speaks, or its name and that of its class."""
    words = words_in(activation.node)
    words |= set(words_of(activation.code.co_qualname.replace(".", "_")))
    return [f for f in formulas if speaks_of(f, words)]


def _finding(found: Found) -> Finding:
    edit, formula = found.edit, found.meaning.formula
    place = Place(found.file, edit.line)
    says = f"these values are the {formula.name} ({formula.source}), but for one change: "
    says += f"`{edit.before}` becomes `{edit.after}`"
    return finding(
        "warning", "near_formula", says, f"`{edit.before}` becomes `{edit.after}`", place,
        subject=WHAT, evidence=(says,), rank=1.0, edit=_line(place, found), rechecked=True,
    )  # fmt: skip


def _line(place: Place, found: Found) -> Edit | None:
    """The statement as it is then, where it stands on one line."""
    text = file_text(place.file).splitlines()[place.line - 1].strip()
    statement = found.edit.statement
    if isinstance(statement, ast.For | ast.While | ast.If | ast.With):
        node = next((n for n in ast.walk(statement) if isinstance(n, ast.stmt)
                     and n.lineno == place.line and not hasattr(n, "body")), None)  # fmt: skip
        if node is None:
            return None
        statement = node
    made = ast.unparse(statement)
    if made.startswith("return = "):
        made = "return " + made.removeprefix("return = ")
    return line_as(place, made) if "\n" not in made and text else None
