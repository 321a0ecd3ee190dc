"""Calls that give a new array and change none, as statements of their own: nothing comes of them.

`np.clip(g, -1, 1)` in a loop over gradients, where `np.clip(g, -1, 1, out=g)` was meant. What is
timed, or stands where it is to raise, is called for something else than its value; a cell of a
notebook shows it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from chainrule.verify.script.slips.slip import Slip
from chainrule.verify.trees import last_word

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
