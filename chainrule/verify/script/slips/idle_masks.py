"""Masks of what is within bounds, asked of what has been brought within them: they are idle."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from chainrule.verify.script.slips.slip import Slip
from chainrule.verify.trees import last_word

_BOUNDING = {"clamp", "clip"}


def idle_masks(tree: ast.AST) -> Iterator[Slip]:
    """`q = r.clamp(lo, hi)` is kept, and a backward asks `q >= lo` and `q <= hi`: it always is."""
    for c in [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]:
        methods = {f.name: f for f in c.body if isinstance(f, ast.FunctionDef)}
        if not {"forward", "backward"} <= methods.keys():
            continue
        forward, backward = methods["forward"], methods["backward"]
        compared = [n for n in ast.walk(backward) if isinstance(n, ast.Compare)]
        asked = {ast.unparse(n).replace("ctx.", "") for n in compared}
        for (call, k, name), (own, inner, low, high) in itertools.product(
            _unpacked(forward, backward), _bounded(forward)
        ):
            mask = {f"{name} >= {low}", f"{name} <= {high}"}
            if ast.unparse(call.args[k]) == own and mask <= asked:
                words = [ast.unparse(a) for a in call.args]
                words[k] = inner
                after = f"{ast.unparse(call.func)}({', '.join(words)})"
                says = f"`{own}` is within these bounds always: the mask lets all gradients through"
                advice = f"keep `{inner}` for the mask, before it is brought within the bounds"
                yield Slip("region", call.lineno, says, advice, after, "error")


def _unpacked(forward: ast.AST, backward: ast.AST) -> Iterator[tuple[ast.Call, int, str]]:
    """What keeps tensors for a backward, and for each of them its place and its name there."""
    calls = [n for n in ast.walk(forward) if isinstance(n, ast.Call)]
    kept = [n for n in calls if last_word(n.func) == "save_for_backward"]
    for n in ast.walk(backward):
        match n:
            case ast.Assign(
                targets=[ast.Tuple(elts=names)], value=ast.Attribute(attr="saved_tensors")
            ) if len(kept) == 1 and len(names) == len(kept[0].args):
                yield from [(kept[0], k, ast.unparse(x)) for k, x in enumerate(names)]
            case _:
                pass


def _bounded(forward: ast.AST) -> Iterator[tuple[str, str, str, str]]:
    """What a forward brings within bounds: its name, what it is of, both bounds."""
    for n in ast.walk(forward):
        match n:
            case ast.Assign(targets=[ast.Name(id=own)], value=ast.Call(func=f, args=args)) if (
                last_word(f) in _BOUNDING
            ):
                owner = [f.value] if isinstance(f, ast.Attribute) and len(args) == 2 else []
                words = [ast.unparse(a) for a in (*owner, *args)]
                if len(words) == 3 and words[0] != own and words[0].isidentifier():
                    yield own, words[0], words[1], words[2]
            case _:
                pass
