"""What an epoch leaves over: backward passes of a last, shorter group that no step uses, because
the next epoch begins with a reset.

Who skips a batch resets where the batch is. Here the reset stands outside of the loop over the
batches; as some drop what is left over on purpose, that is a note.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.training.said import said
from chainrule.verify.trees import tree_of_file

_LOOPS = (ast.For, ast.While, ast.AsyncFor)


def leftover(
    dropped: Sequence[int], usual: int, reset: Place | None, passes: Place | None
) -> Finding | None:
    """The finding; None if the reset could be meant for the batch itself.

    Args:
        dropped: How many passes each reset has dropped.
        usual: How many passes there are for a step.
        reset: Where they were dropped.
        passes: Where the backward passes are.
    """
    if not dropped or not all(n < usual for n in dropped) or not _is_outside(reset, passes):
        return None
    some = ", ".join(map(str, dropped))
    because = (
        f"{usual} backward passes go into each step, and at the end of an epoch {some} are left "
        "over, which a reset drops: these batches train nothing"
    )
    words = (
        "step for the last, shorter group of an epoch, too, and divide it by its own size, if they "
        "are not dropped on purpose"
    )
    return said("note", "accumulation", because, words, reset)


def uneven(sizes: list[int], usual: int, place: Place | None) -> Finding | None:
    """Groups that are larger (gradients were left over) or smaller (the last of an epoch)."""
    larger = [k for k in sizes if k > usual]
    because = f"backward passes for each step: {', '.join(map(str, sizes))}; all divided by {usual}"
    if larger:
        detail = (
            f"a step has used {larger[0]} of them: what was left over was neither used nor reset"
        )
        correction = "step (or reset) at the end of the epoch, too, so that nothing is left over"
        return said("warning", "accumulation", because, correction, place, detail=detail)
    detail = (
        f"a group of {min(sizes)} is divided by {usual}: its step is {min(sizes)}/{usual} as long"
    )
    correction = "divide the last group of an epoch by its own size"
    return said("note", "accumulation", because, correction, place, detail=detail)


def _is_outside(reset: Place | None, passes: Place | None) -> bool:
    """Whether the loop around the reset is one around the loop of the passes."""
    if reset is None or passes is None:
        return False
    if reset.file != passes.file or reset.function != passes.function:
        return False
    outer, inner = _loops(reset), _loops(passes)
    return bool(outer) and len(outer) < len(inner) and inner[: len(outer)] == outer


def _loops(at: Place) -> list[int]:
    """Lines of the loops around a line, the outermost first."""
    loops = [n for n in ast.walk(tree_of_file(at.file)) if isinstance(n, _LOOPS)]
    return sorted([n.lineno for n in loops if n.lineno < at.line <= (n.end_lineno or 0)])
