"""What one turn of a loop hands on to the next: terms and factors that are tried turn by turn.

Where too little is known of what a value should be in each turn, a term cannot be solved for: what
it is made of is itself wrong from the second turn on. So the loop runs with each of a few terms.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from chainrule.verify.repair.beside import Beside
from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, MUL, as_part
from chainrule.verify.repair.lab import Lab
from chainrule.verify.repair.numbers import bounds
from chainrule.verify.repair.response import Response
from chainrule.verify.repair.scene import VALUE

_FACTORS = ("{e} * {a}", "{e} * (1 - {a})")
_MASKS = ("{e} * (abs({a}) < {c})", "{e} * ({a} > {c})", "{e} * ({a} < {c})")
_TERMS = ("{e} + {a}", "{e} + {a} * {b}", "{e} + {a} * (1 - {b})")


def handed_on(lab: Lab, response: Response, beside: Beside) -> Iterator[Edit]:
    """Edits that multiply a value by what belongs to its turn, or add such products to it."""
    scene, node = lab.scene, response.node
    if node not in scene.roots:
        return
    for row, cost in _rows(beside, scene.draft.src(node), list(bounds(scene))):
        if lab.problem.over:
            return
        if lab.mends(node, row.format(e=VALUE)):
            factor = row.startswith("{e} *")
            here = as_part(scene.draft, node, MUL if factor else ADD)
            code = "wrong_value" if factor else "missing_term"
            yield scene.put(node, row.format(e=here), code, cost)


def _rows(beside: Beside, here: str, limits: list[str]) -> Iterator[tuple[str, float]]:
    """Rows with the names of arrays, and bounds, in them, and how unlikely each is."""
    filling = [n for n in beside.names if n != here and beside.fills(n)]
    for row, a in itertools.product(_FACTORS, filling):
        yield row.format(e="{e}", a=a), 1.2
    for row, a, c in itertools.product(_MASKS, beside.partners, limits):
        if a != here:
            yield row.format(e="{e}", a=a, c=c), 1.25
    smaller = [n for n in filling if n not in beside.partners]
    for row, a in itertools.product(_TERMS, beside.partners):
        if a != here:
            for b in smaller if "{b}" in row else [""]:
                yield row.format(e="{e}", a=a, b=b), 1.3
