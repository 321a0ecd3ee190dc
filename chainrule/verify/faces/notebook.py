"""`%load_ext chainrule.verify`, then `%%verify` on a cell: the cell's training, looked at.

The cell runs as it would without us, in the notebook's own names. What is shown is its report, and
whatever it prints itself. Of IPython no more is used than a shell's `register_magic_function`,
`run_cell`, `user_ns` and `ast_transformers`.
"""

from __future__ import annotations

import ast
from typing import Any, Final, final

from chainrule.errors import ConfigError
from chainrule.verify.reporting.report import Report, joined
from chainrule.verify.script.byhand import code_hooks
from chainrule.verify.script.byhand.loops import telling
from chainrule.verify.script.observers import OWN, TORCH
from chainrule.verify.script.phases import Phases
from chainrule.verify.script.session import Session

STEPS: Final = 3
"""Steps that are observed in full."""
WINDOW: Final = 60
"""Steps that are looked at for what shows late."""
NAME: Final = "the cell"


def load(shell: Any) -> None:
    """Let a shell of IPython's know `%%verify`."""

    def verify(line: str, cell: str) -> Report:
        """Run the cell, and report on the training in it. `%%verify 10` observes ten steps."""
        return verified(shell, cell, _steps(line))

    shell.register_magic_function(verify, "cell", "verify")


def _steps(line: str) -> int | None:
    """How many steps are asked for behind `%%verify`."""
    words = line.split()
    if not words:
        return None
    if len(words) > 1 or not words[0].isdecimal() or not int(words[0]):
        raise ConfigError(
            f"%%verify {line.strip()}: what follows is the number of training steps to observe, as "
            "in %%verify 10, or nothing"
        )
    return int(words[0])


def verified(shell: Any, cell: str, steps: int | None = None) -> Report:
    """The report on a cell that a shell runs; what the cell raises, the shell shows."""
    reports: list[Report] = []
    window = WINDOW if steps is None else 0

    def session(number: int, at: Any, ended: Any) -> Session:
        what = NAME if at is None else f"{NAME} from line {at.line} on"
        return Session(
            what, steps or STEPS, ended, own=OWN, torch=TORCH, window=window, waits=phases.waits
        )

    phases = Phases(session, reports.append)
    rewriting = _Telling()
    shell.ast_transformers.append(rewriting)
    try:
        code_hooks.prepare()
        phases.begin()
        result = shell.run_cell(cell)
        failed = not getattr(result, "success", True)
        phases.end(phases.last.missing, int(failed))
    finally:
        shell.ast_transformers.remove(rewriting)
    return joined(NAME, reports)


@final
class _Telling(ast.NodeTransformer):
    """Lets loops that change parameters by themselves tell of their turns."""

    def visit(self, node: ast.AST) -> ast.AST:
        """The cell as a whole."""
        return telling(node) if isinstance(node, ast.Module) else node
