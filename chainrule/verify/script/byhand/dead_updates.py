"""Updates that change nothing: a loop's own variable gets another value, which nobody reads.

`for p, g in zip(params, grads): p = p - lr * g` leaves the parameters as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from chainrule.engine.source_text import source_line
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.ledger import TRAINING, Ledger
from chainrule.verify.observer import ObserverAtEnd
from chainrule.verify.place import Place
from chainrule.verify.script.byhand.updates import of_difference
from chainrule.verify.trees import blocks, tree_of_file
from chainrule.verify.where import users_files


class Dead(NamedTuple):
    """One of them: `name = name - step`."""

    line: int
    name: str
    step: str


def dead_updates(tree: ast.AST) -> Iterator[Dead]:
    """Those of a file."""
    for loop in [n for n in ast.walk(tree) if isinstance(n, ast.For)]:
        own = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        for block in blocks(ast.Module(loop.body, [])):
            for i, s in enumerate(block):
                if (found := _of(s, block[:i], own)) and not _is_read(loop, s, found.name):
                    yield found


def _of(s: ast.stmt, before: list[ast.stmt], own: set[str]) -> Dead | None:
    match s:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.Name(id=first), op=ast.Sub(), right=step) as value,
        ) if name == first and name in own and of_difference(value, s, before) is not None:
            return Dead(s.lineno, name, ast.unparse(step))
        case _:
            return None


def _is_read(loop: ast.For, s: ast.stmt, name: str) -> bool:
    """Whether a loop reads a name behind a statement, or has loops within that may."""
    inner = [n for n in ast.walk(loop) if isinstance(n, ast.For | ast.While) and n is not loop]
    if any(n.lineno <= s.lineno <= (n.end_lineno or 0) for n in inner):
        return True
    reads = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == name]
    return any(n.lineno > s.lineno and isinstance(n.ctx, ast.Load) for n in reads)


class DeadUpdates(ObserverAtEnd):
    """Looks through the text of the script and of the modules that it has loaded."""

    def findings(self, ledger: Ledger) -> list[Finding]:
        """One for each update."""
        files = users_files(self.before)
        return [_finding(file, d) for file in files for d in dead_updates(tree_of_file(file))]


def _finding(file: str, dead: Dead) -> Finding:
    place, line = Place(file, dead.line, ""), source_line(file, dead.line)
    says = f"`{dead.name}` is the loop's own name: another value of it changes no parameter"
    indent = line[: len(line) - len(line.lstrip())]
    change = Correction(
        "change the parameter in place", line, f"{indent}{dead.name} -= {dead.step}", place
    )
    name = Name("lost_updates", says, rank=1.0)
    return Finding(
        "error", "training loop", TRAINING, "", (name,), place, evidence=(says,),
        correction=change,
    )  # fmt: skip
