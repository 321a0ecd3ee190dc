"""Which elements: slices that begin elsewhere, indices off by one, the opposite order."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product
from typing import TypeGuard

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, ATOM, MUL, as_part
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import elements, names_in, writes
from chainrule.verify.repair.watch import is_torch, plain


def moved(scene: Scene) -> Iterator[Edit]:
    """A slice that begins at another place: `d[:T]` to `d[pad:pad + T]`, `d[n:2 * n]` to
    `d[2 * n:]`."""
    for node in scene.expressions:
        for part in elements(node.slice) if isinstance(node, ast.Subscript) else ():
            if not isinstance(part, ast.Slice) or part.step is not None:
                continue
            start, end = scene.draft.span(part)
            here = scene.draft.src(part)
            for text in _moved(scene, part):
                says = f"`{here}` becomes `{text}`"
                yield Edit(start, end, text, "wrong_value", 1.4, says)


def both_ends(scene: Scene) -> Iterator[Edit]:
    """The end of what is written to, and of what is written there, that was taken off both:
    `d[1:-1] += a[:-1]` to `d[1:] += a`."""
    for node, target, value in writes(scene.draft.statements):
        inside = [n for n in ast.walk(value) if isinstance(n, ast.Subscript)]
        for here, there in product(_slices(target), [s for n in inside for s in _slices(n)]):
            for end in ("lower", "upper"):
                texts = [_without_end(scene, s, end) for s in (here, there)]
                if all(texts):
                    start, last = scene.draft.span(node)
                    spans = [scene.draft.span(s) for s in (here, there)]
                    text = scene.draft.body[start:last]
                    for (a, b), new in reversed(list(zip(spans, texts, strict=True))):
                        text = text[: a - start] + new + text[b - start :]
                    says = f"`{scene.draft.src(target)}` and what it gets are one longer"
                    yield Edit(start, last, text, "region", 1.3, says)


def shifted(scene: Scene) -> Iterator[Edit]:
    """A slice whose two ends are off by the same: `d[p - 1 : n - 1]` to `d[p:n]`."""
    for node in scene.draft.nodes:
        match node:
            case ast.Slice(
                lower=ast.BinOp(op=op, left=a, right=c), upper=ast.BinOp(op=same, left=b, right=d)
            ) if type(op) is type(same) and isinstance(op, ast.Add | ast.Sub):
                ends, off = [scene.draft.src(e) for e in (a, b)], ast.unparse(c) == ast.unparse(d)
            case _:
                continue
        step = "" if node.step is None else f":{scene.draft.src(node.step)}"
        text = f"{ends[0]}:{ends[1]}{step}"
        if off:
            start, end = scene.draft.span(node)
            says = f"`{scene.draft.src(node)}` becomes `{text}`"
            yield Edit(start, end, text, "wrong_value", 1.2, says)


def both_sides(scene: Scene) -> Iterator[Edit]:
    """Both ends of an axis where one was changed: `w[0] *= 0.5` to `w[[0, -1]] *= 0.5`."""
    for node, target, value in writes(scene.draft.statements):
        if isinstance(node, ast.AugAssign) or not scene.shape(value):
            for part in elements(target.slice):
                if ast.unparse(part) in ("0", "-1"):
                    yield scene.put(part, "[0, -1]", "region", 1.4)


def _slices(node: ast.Subscript) -> list[ast.Slice]:
    return [s for s in elements(node.slice) if isinstance(s, ast.Slice) and s.step is None]


def _without_end(scene: Scene, part: ast.Slice, end: str) -> str:
    """A slice that begins at the first element, or goes on to the last one; empty if it does."""
    low, high = part.lower, part.upper
    if getattr(part, end) is None:
        return ""
    kept = low if end == "upper" else high
    text = "" if kept is None else scene.draft.src(kept)
    return f"{text}:" if end == "upper" else f":{text}"


def _moved(scene: Scene, part: ast.Slice) -> Iterator[str]:
    low, high = part.lower, part.upper
    if low is None and high is not None:
        count = as_part(scene.draft, high, ADD)
        times = as_part(scene.draft, high, MUL)
        yield from [f"{i} * {times}:({i} + 1) * {times}" for i in scene.counters]
        yield from [f"{k}:{k} + {count}" for k in scene.counts]
        yield f"-{as_part(scene.draft, high, ATOM)}:"
        yield from (f"{count}:", f"{count}:2 * {times}")
    elif low is not None and high is None:
        start = as_part(scene.draft, low, ATOM)
        yield f":-{start}"
        yield f"{start}:-{start}"
        yield f":{scene.draft.src(low)}"
    elif low is not None and high is not None:
        match high:
            case ast.BinOp(op=ast.Add(), left=left, right=right) if scene.draft.src(
                left
            ) == scene.draft.src(low):
                yield f":{scene.draft.src(right)}"
            case _:
                yield from (f":{scene.draft.src(low)}", f"{scene.draft.src(high)}:")


def off_by_one(scene: Scene) -> Iterator[Edit]:
    """Indices one too large, or one too small."""
    for node in scene.expressions:
        value = plain(scene.value(node))
        if value is None or value.dtype.kind != "i":
            continue
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=ast.Constant(value=1)):
                yield scene.put(node, scene.draft.src(left), "wrong_value", 1.4)
            case ast.BinOp(op=ast.Add() | ast.Sub()) if not value.ndim:
                here = scene.draft.src(node)
                for text in (f"{here} - 1", f"{here} + 1"):
                    yield scene.put(node, text, "wrong_value", 1.5)
            case ast.Name(id=name) if value.ndim and isinstance(
                scene.draft.parents[node], ast.Tuple
            ):
                for text in (f"{name} + 1", f"{name} - 1"):
                    yield scene.put(node, text, "wrong_value", 1.5)
            case _:
                continue


def one_more_each(scene: Scene) -> Iterator[Edit]:
    """A length one too small, or one too large, wherever a statement has it: `d[: n - 1] =
    g[: n - 1]` to `d[:n] = g[:n]`."""
    for statement in scene.draft.statements:
        if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Return):
            continue
        found = dict[str, list[ast.BinOp]]()
        for node in [n for n in ast.walk(statement) if _is_one_off(n)]:
            found.setdefault(scene.draft.src(node), []).append(node)
        start, end = scene.draft.span(statement)
        for here, nodes in found.items():
            if len(nodes) > 1:
                text = scene.draft.body[start:end]
                for node in sorted(nodes, key=lambda n: -scene.draft.span(n)[0]):
                    a, b = scene.draft.span(node)
                    text = text[: a - start] + scene.draft.src(node.left) + text[b - start :]
                says = f"`{here}` becomes `{scene.draft.src(nodes[0].left)}`"
                yield Edit(start, end, text, "region", 1.3, says)


def _is_one_off(node: ast.AST) -> TypeGuard[ast.BinOp]:
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub(), right=ast.Constant(value=1)):
            return True
        case _:
            return False


def other_turns(scene: Scene) -> Iterator[Edit]:
    """A loop that begins or ends one turn earlier or later, `range(n - 1)` to `range(n)`, or has
    another number of turns."""
    for node in scene.expressions:
        match node:
            case ast.Call(func=ast.Name(id="range"), args=args):
                bounds = args[:2]
            case _:
                continue
        for bound in bounds:
            for text in _one_off(scene, bound):
                yield scene.put(bound, text, "region", 1.3)
            for name in [k for k in scene.counts if k.isidentifier() and k not in scene.counters]:
                if name not in names_in(bound):
                    yield scene.put(bound, name, "region", 1.4)


def _one_off(scene: Scene, bound: ast.expr) -> list[str]:
    here = as_part(scene.draft, bound, ADD)
    match bound:
        case ast.Constant(value=int() as n):
            return [str(n - 1), str(n + 1)]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as n)):
            return [str(1 - n), str(-1 - n)]
        case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=ast.Constant(value=int())):
            return [scene.draft.src(left), f"{here} - 1", f"{here} + 1"]
        case _:
            return [f"{here} - 1", f"{here} + 1"]


def turned(scene: Scene) -> Iterator[Edit]:
    """Elements in the opposite order, or no more so."""
    for node in scene.expressions:
        if not isinstance(node, ast.Subscript) or not scene.shape(node):
            continue
        parts = elements(node.slice)
        if _steps_back(node):
            yield scene.put(node, scene.draft.src(node.value), "wrong_value", 1.3)
        elif isinstance(parts[-1], ast.Slice) and ast.unparse(parts[-1]) != ":":
            text, last = scene.draft.src(node), "-1" if len(parts) > 1 else "0"
            torch = scene.dialect.torch or is_torch(scene.value(node))
            order = f".flip({last})" if torch else "[..., ::-1]" if len(parts) > 1 else "[::-1]"
            yield scene.put(node, text + order, "wrong_value", 1.4)


def _steps_back(node: ast.Subscript) -> bool:
    """Whether a subscript changes nothing but the order: `x[::-1]`, `x[..., ::-1]`."""
    parts = elements(node.slice)
    slices = [p for p in parts if isinstance(p, ast.Slice)]
    back = [ast.unparse(p) == "::-1" for p in slices]
    rest = [p for p in parts if not isinstance(p, ast.Slice)]
    dots = all(isinstance(p, ast.Constant) and p.value is Ellipsis for p in rest)
    return bool(back) and all(back) and dots
