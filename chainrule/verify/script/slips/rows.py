"""Slips that the text of a script shows by itself: each is a row, a function of the tree of a file.

They are about values that go nowhere and counts that go wrong, of which no run tells more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeGuard

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.observer import ObserverAtEnd
from chainrule.verify.place import Place
from chainrule.verify.script.byhand.updates import of_difference
from chainrule.verify.script.slips.kept_aliases import kept_aliases
from chainrule.verify.script.slips.single_statements import (
    idle_masks,
    thrown_results,
    whole_ramps,
)
from chainrule.verify.script.slips.slip import Slip
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text.source import line_as
from chainrule.verify.trees import blocks, function_at, last_word, tree_of_file
from chainrule.verify.user_frames import users_files

# --- a loop's own name that gets another value in vain

_COPIES = {"clone", "copy", "detach", "deepcopy"}


def lost_values(tree: ast.AST) -> Iterator[Slip]:
    """`for p, g in zip(params, grads): p = p - lr * g`, `for p, q in ...: p = q.clone()`."""
    for loop in _loops(tree):
        own = _names(loop.target)
        for block in blocks(ast.Module(loop.body, [])):
            for i, s in enumerate(block):
                found = _lost(s, block[:i], own)
                if found is not None and not _is_read(loop, s, found[0]):
                    name, after = found
                    says = f"`{name}` is the loop's own name: another value of it changes nothing"
                    advice = "change the parameter in place"
                    yield Slip("lost_updates", s.lineno, says, advice, after, "error")


def _lost(s: ast.stmt, before: list[ast.stmt], own: set[str]) -> tuple[str, str] | None:
    """The name that gets another value, and what changes the thing in place."""
    match s:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in own:
            pass
        case _:
            return None
    match value:
        case ast.BinOp(left=ast.Name(id=first), op=ast.Sub(), right=step) if name == first:
            is_update = of_difference(value, s, before) is not None
            return (name, f"{name} -= {ast.unparse(step)}") if is_update else None
        case ast.BinOp(op=ast.Add()) if name in _names(value) and _names(value) & own - {name}:
            return name, f"{name}.copy_({ast.unparse(value)})"  # a mean of both
        case _:
            is_copy = any(last_word(n.func) in _COPIES for n in ast.walk(value) if _is_call(n))
            others = _names(value) & own - {name}
            return (name, f"{name}.copy_({ast.unparse(value)})") if is_copy and others else None


def _is_read(loop: ast.For, s: ast.stmt, name: str) -> bool:
    """Whether a loop reads a name behind a statement, or has loops within that may."""
    inner = [n for n in ast.walk(loop) if isinstance(n, ast.For | ast.While) and n is not loop]
    if any(n.lineno <= s.lineno <= (n.end_lineno or 0) for n in inner):
        return True
    reads = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == name]
    return any(n.lineno > s.lineno and isinstance(n.ctx, ast.Load) for n in reads)


# --- values that are put into the dictionary that a model made, which is not the model


def lost_states(tree: ast.AST) -> Iterator[Slip]:
    """`sd = model.state_dict()`, then `sd[k] = value`, and nobody reads `sd` after that."""
    if any(isinstance(n, ast.FunctionDef) and n.name == "state_dict" for n in ast.walk(tree)):
        return  # it may give what it has itself
    for n in ast.walk(tree):
        match n:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_state(value):
                yield from _lost_entries(function_at(tree, n.lineno) or tree, n.targets[0], name)
            case ast.Assign(targets=[ast.Subscript(value=owner)]) if _is_state(owner):
                yield _lost_state(n, ast.unparse(owner))
            case _:
                pass


def _is_state(node: ast.expr) -> bool:
    return _is_call(node) and last_word(node.func) == "state_dict" and not node.args


def _lost_entries(scope: ast.AST, made: ast.expr, name: str) -> Iterator[Slip]:
    """Entries that get other values in vain: what asks for that name does so only for these."""
    nodes = list(ast.walk(scope))
    sets = [n for n in nodes if isinstance(n, ast.Assign) and _is_entry(n, name)]
    calm: list[ast.AST] = [made, *sets]
    calm += [n.iter for n in nodes if isinstance(n, ast.For) and any(_holds(n, [s]) for s in sets)]
    calm += [n.test for n in nodes if isinstance(n, ast.If)]
    known = {id(n) for whole in calm for n in ast.walk(whole)}
    if all(id(n) in known for n in nodes if isinstance(n, ast.Name) and n.id == name):
        yield from (_lost_state(n, name) for n in sets)


def _is_entry(node: ast.Assign, name: str) -> bool:
    """`name[key] = value`, of a value that is not what lies there, changed in place."""
    match node:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=owner))], value=value):
            in_place = _is_call(value) and last_word(value.func).endswith("_")
            return owner == name and not in_place
        case _:
            return False


def _lost_state(node: ast.Assign, name: str) -> Slip:
    says = f"`{name}` is a dictionary of its own: another value in it changes nothing of the model"
    advice = f"copy into what is there, or give `{name}` to load_state_dict behind that"
    after = f"{ast.unparse(node.targets[0])}.copy_({ast.unparse(node.value)})"
    return Slip("lost_updates", node.lineno, says, advice, after, "error")


# --- a count of steps that counts parameters


def counted_parameters(tree: ast.AST) -> Iterator[Slip]:
    """`for p in params: t += 1; p -= lr * m / (1 - beta ** t)`: one step, as many counts as
    parameters."""
    for loop in _loops(tree):
        nodes = list(_own_nodes(loop.body))
        own = _names(loop.target) | {n for s in nodes for n in _made_of(s, _names(loop.target))}
        if isinstance(loop.iter, ast.Call) and last_word(loop.iter.func) == "range":
            continue
        for n in nodes:
            match n:
                case ast.AugAssign(target=t, op=ast.Add(), value=ast.Constant(value=1)):
                    count = ast.unparse(t)
                case _:
                    continue
            if not _names(t) & own and _corrects_by(nodes, count, own):
                says = (
                    f"`{count}` counts steps, and grows with each parameter of one step: what is "
                )
                says += "corrected by a power of it differs from parameter to parameter"
                advice = f"count before the loop: `{count} += 1` once a step"
                yield Slip("wrong_update", n.lineno, says, advice, level="error")


def _corrects_by(nodes: Sequence[ast.AST], count: str, own: set[str]) -> bool:
    """Whether a loop changes something of its own by what a power of the count goes into."""
    powers = [
        n for n in nodes
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow) and ast.unparse(n.right) == count
    ]  # fmt: skip
    made = {name for n in nodes if isinstance(n, ast.Assign) and _holds(n.value, powers)
            for t in n.targets for name in _names(t)}  # fmt: skip
    for n in nodes:
        match n:
            case ast.AugAssign(target=target, value=value):
                pass
            case ast.Assign(targets=[target], value=value):
                pass
            case ast.Call(func=ast.Attribute(value=target, attr=attr)) if attr.endswith("_"):
                value = n
            case _:
                continue
        changes = bool(_names(target) & own) and not isinstance(target, ast.Name)
        changes |= isinstance(n, ast.AugAssign | ast.Call) and bool(_names(target) & own)
        if changes and (_holds(value, powers) or _names(value) & made):
            return True
    return False


def _holds(node: ast.AST, some: Sequence[ast.AST]) -> bool:
    return any(n is m for n in ast.walk(node) for m in some)


def _made_of(node: ast.AST, names: set[str]) -> set[str]:
    """Names that an assignment makes of elements that some names lead to: `p = params[k]`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(slice=index)):
            return {name} if _names(index) & names else set()
        case _:
            return set()


# --- a schedule that waits for the wrong thing

_RISES = re.compile(
    r"(^|_)(acc|accuracy|f1|auc|iou|dice|score|reward|return|bleu|r2)(_|$|\d)", re.I
)
_FALLS = re.compile(r"(^|_)(loss|nll|mse|mae|rmse|err|error|ppl|perplexity)(_|$|\d)", re.I)


def turned_schedules(tree: ast.AST) -> Iterator[Slip]:
    """`ReduceLROnPlateau(opt)`, which waits for something to fall, and `step(accuracy)`."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    modes = dict[str, str]()
    for n in ast.walk(tree):
        match n:
            case ast.Assign(targets=[target], value=ast.Call(func=f) as call) if (
                last_word(f) == "ReduceLROnPlateau"
            ):
                modes[ast.unparse(target)] = _mode(call)
            case _:
                pass
    for n in calls:
        match n:
            case ast.Call(func=ast.Attribute(value=schedule, attr="step"), args=[given, *_]):
                mode, name = modes.get(ast.unparse(schedule)), last_word(given)
            case _:
                continue
        wrong = {"min": _RISES, "max": _FALLS}.get(mode or "")
        if wrong is not None and wrong.search(name):
            says = f"the schedule waits for `{name}` to stop "
            says += "falling, which is to rise" if mode == "min" else "rising, which is to fall"
            other = "max" if mode == "min" else "min"
            yield Slip("schedule_mode", n.lineno, says, f"mode='{other}' for this measure")


def _mode(call: ast.Call) -> str:
    given = [k.value for k in call.keywords if k.arg == "mode"] or call.args[1:2]
    if not given:
        return "min"
    return str(given[0].value) if isinstance(given[0], ast.Constant) else ""


# --- a reversal that reverses nothing

_REVERSES = re.compile(r"revers|(^|_)GRL", re.I)


def kept_signs(tree: ast.AST) -> Iterator[Slip]:
    """A Function that is called a reversal of gradients, and none of whose code has a minus."""
    nodes = list(ast.walk(tree))
    for kind in nodes:
        if not isinstance(kind, ast.ClassDef) or not _REVERSES.search(kind.name):
            continue
        own = {f.name: f for f in kind.body if isinstance(f, ast.FunctionDef)}
        used = [n for n in nodes if _is_call(n) and ast.unparse(n.func).startswith(kind.name)]
        if {"forward", "backward"} <= own.keys() and not any(map(_turns, [kind, *used])):
            line = next(
                (n.lineno for n in ast.walk(own["backward"]) if isinstance(n, ast.Return)), 0
            )
            says = f"{kind.name} hands its gradient on with the sign that it came with"
            yield Slip("sign", line, says, "hand on the negative: `-g`, times its weight")


def _turns(node: ast.AST) -> bool:
    """Whether something has a minus in it, or is negated by a call."""
    return any(
        isinstance(n, ast.USub | ast.Sub) or (_is_call(n) and "neg" in last_word(n.func))
        for n in ast.walk(node)
    )


ROWS: Sequence[Callable[[ast.AST], Iterator[Slip]]] = (
    lost_values, lost_states, counted_parameters, turned_schedules, kept_signs, idle_masks,
    thrown_results, kept_aliases, whole_ramps,
)  # fmt: skip


def _loops(tree: ast.AST) -> list[ast.For]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.For)]


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _is_call(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call)


def _own_nodes(block: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Nodes of statements, but for those of loops and functions within."""
    for node in block:
        if not isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.ClassDef):
            yield node
            yield from _own_nodes(list(ast.iter_child_nodes(node)))


class TextSlips(ObserverAtEnd):
    """Looks through the text of the script and of the modules that it has loaded."""

    def findings(self, ledger: Ledger) -> list[Finding]:
        """One for each slip."""
        files = users_files(self.before)
        rows = [(file, slip) for file in files for row in ROWS for slip in row(tree_of_file(file))]
        return [_finding(file, slip) for file, slip in rows]


def _finding(file: str, slip: Slip) -> Finding:
    place = Place(file, slip.line)
    edit = line_as(place, slip.after) if slip.after else None
    return finding(
        slip.level, slip.code, slip.says, slip.advice, place, evidence=(slip.says,), rank=1.0,
        edit=edit,
    )  # fmt: skip
