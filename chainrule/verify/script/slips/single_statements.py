"""Slips in one statement: values that go nowhere, or are not what they are taken for."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator
from typing import TypeGuard

import numpy as np

from chainrule.verify.script.slips.slip import Slip
from chainrule.verify.trees import last_word

# --- masks of what is within bounds, asked of what has been brought within them

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


# --- shares of what is done that were to rise from 0 to 1, and are whole numbers


def whole_ramps(tree: ast.AST) -> Iterator[Slip]:
    """`min(1, step // warmup)`, which is 0 and then 1; `max(0, 1 - step // total)`."""
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.Assign | ast.Return)]
    for statement in map(copy.deepcopy, statements):
        found = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and _is_bounded(n)]
        for call in found:
            division = next(n for n in ast.walk(call) if _is_floor(n))
            says = f"`{ast.unparse(division)}` is a whole number, so that what is bounded by 0 and "
            says += "1 here is one of the two, and never between them"
            division.op = ast.Div()
            after = ast.unparse(statement) if statement.lineno == statement.end_lineno else ""
            yield Slip("wrong_value", call.lineno, says, "divide by `/`", after)


def _is_bounded(call: ast.Call) -> bool:
    """Whether it is the smaller one of 1 and a quotient, or the larger one of 0 and what is left of
    1."""
    name = last_word(call.func)
    if name not in ("min", "max") or len(call.args) != 2 or call.keywords:
        return False
    bounds = [x for x in call.args if _is_number(x, 1 if name == "min" else 0)]
    others = [x for x in call.args if x not in bounds]
    if len(bounds) != 1 or len(others) != 1:
        return False
    share = others[0]
    if name == "max" and isinstance(share, ast.BinOp) and isinstance(share.op, ast.Sub):
        return _is_number(share.left, 1) and _is_floor(share.right)
    return name == "min" and _is_floor(share)


def _is_number(x: ast.expr, value: int) -> bool:
    return isinstance(x, ast.Constant) and not isinstance(x.value, bool) and x.value == value


def _is_floor(x: ast.AST) -> TypeGuard[ast.BinOp]:
    """Whether it is a division of values, as `step // warmup`, that leaves whole numbers."""
    return isinstance(x, ast.BinOp) and isinstance(x.op, ast.FloorDiv)


# --- new arrays that nothing reads

_NEW = {
    "clip": 3, "reshape": 2, "transpose": 2, "swapaxes": 3, "moveaxis": 3, "squeeze": 2,
    "expand_dims": 2, "broadcast_to": 2, "concatenate": 1, "stack": 1, "vstack": 1, "hstack": 1,
    "where": 3, "sort": 1, "roll": 3, "flip": 2, "tile": 2, "repeat": 3, "pad": 3, "delete": 3,
    "append": 3, "insert": 4, "nan_to_num": 1, "zeros_like": 1, "round": 2,
}  # fmt: skip
"""Functions of NumPy's, and how many arguments they take without a place for the result."""
_METHODS = {"reshape", "clip", "astype", "swapaxes", "squeeze", "transpose", "clamp", "permute",
            "unsqueeze", "masked_fill", "type_as"}  # fmt: skip
"""Of arrays and tensors alike, where no class of the file has one."""
_TIMES = {"time", "perf_counter", "process_time", "monotonic", "timeit", "perf_counter_ns"}


def thrown_results(tree: ast.AST) -> Iterator[Slip]:
    """`np.clip(g, -1, 1)`, `x.reshape(n, -1)` as whole statements, in a function or a loop."""
    modules = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import)
               for a in n.names if a.name == "numpy"}  # fmt: skip
    own = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    kinds = ast.FunctionDef | ast.For | ast.While
    inner = [n for n in ast.walk(tree) if isinstance(n, kinds) and not _is_called_for_more(n)]
    lines = dict[int, Slip]()
    for n in (n for body in inner for n in ast.walk(body)):
        match n:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr=name)) as call) if (
                not any(k.arg in ("out", "copy", None) for k in call.keywords)
            ):
                of_numpy = isinstance(of, ast.Name) and of.id in modules
                is_new = _gives_new(name, call) if of_numpy else name in _METHODS - own
                if is_new:
                    lines[n.lineno] = _slip(call, call.args[0] if of_numpy else of, of_numpy)
            case _:
                pass
    yield from lines.values()


def _is_called_for_more(body: ast.AST) -> bool:
    """Whether calls in it may be timed or tested, or are to raise or to warn."""
    nodes = list(ast.walk(body))
    if isinstance(body, ast.FunctionDef) and body.name.startswith("test"):
        return True  # that it runs is what is tested
    timed = any(last_word(n.func) in _TIMES for n in nodes if isinstance(n, ast.Call))
    return timed or any(isinstance(n, ast.Try | ast.With) for n in nodes)


def _gives_new(name: str, call: ast.Call) -> bool:
    """Whether a function of NumPy's, called so, only gives a new array."""
    f = getattr(np, name, None)
    most = f.nin if isinstance(f, np.ufunc) else _NEW.get(name, 0)
    return 0 < len(call.args) <= most and not any(isinstance(a, ast.Starred) for a in call.args)


def _slip(call: ast.Call, first: ast.expr, of_numpy: bool) -> Slip:
    text, target = ast.unparse(call), ast.unparse(first)
    in_place = of_numpy and isinstance(getattr(np, last_word(call.func)), np.ufunc)
    in_place |= of_numpy and last_word(call.func) == "clip"
    after = f"{text[:-1]}, out={target})" if in_place else f"{target} = {text}"
    says = f"`{text}` gives a new array, which nothing reads, and changes none"
    is_held = isinstance(first, ast.Name | ast.Attribute | ast.Subscript)
    return Slip("unused", call.lineno, says, f"say `{after}`", after if is_held else "", "error")
