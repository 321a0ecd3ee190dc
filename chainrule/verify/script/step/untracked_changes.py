"""Values that changed between the forward and the backward pass without autograd's knowledge.

PyTorch counts in-place changes of a tensor and refuses a backward that needs the old value. What
goes through `.data` or a NumPy view is not counted, and tensors that a Function keeps on its ctx by
hand are not checked. So sums of values are compared. One tensor under two names is changed by
itself: what is kept from step to step is no copy (`shared_spot`).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import torch
from torch import Tensor

from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.ledger import STEP
from chainrule.verify.place import Place
from chainrule.verify.pytorch.nested_tensors import checksum, tensors_in
from chainrule.verify.script.backwards.graphs import walk
from chainrule.verify.script.sandbox.fork import LostError, in_copy
from chainrule.verify.script.step.record.marks import Mark, version
from chainrule.verify.script.step.record.torch_tape import TorchTape
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.training.facts.names import parameter_names
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.origins import keeping_line
from chainrule.verify.training.text.source import line_as
from chainrule.verify.trees import function_at, tree_of_file
from chainrule.verify.user_frames import frames, users_line


@dataclass(frozen=True, eq=False)
class _Kept:
    """A tensor that a Function keeps as an attribute of its ctx."""

    function: Any
    node: Any
    name: str
    value: Tensor
    before: float


class UntrackedChanges:
    """Compares before each backward pass; `findings` are what it found."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._kept: list[_Kept] = []

    def keep(self, function: Any, out: Any) -> None:
        """Note what a call of a Function left on its ctx."""
        for t in tensors_in(out):
            node: Any = t.grad_fn
            for name, held in dict(getattr(node, "__dict__", {})).items():
                for value in tensors_in(held):
                    if (before := checksum(value)) is not None:
                        self._kept.append(_Kept(function, node, name, value, before))

    def compare(self, tape: TorchTape, losses: Sequence[Tensor]) -> None:
        """Before a backward pass: what is not what it was?"""
        changed = [t for mark in tape.marks.rows.values() if (t := _change_of(mark)) is not None]
        kept = [k for k in self._kept if checksum(k.value) != k.before]
        if not changed and not kept:
            return
        nodes = walk([loss.grad_fn for loss in losses if loss.grad_fn is not None])
        if changed:
            try:
                needed = in_copy(lambda: _saved_addresses(nodes))
            except LostError:
                needed = set[int]()
            self._report(tape, [t for t in changed if _address(t) in needed])
        for k in [k for k in kept if k.node in nodes]:
            self._report_kept(k)

    def _report(self, tape: TorchTape, changed: Sequence[Tensor]) -> None:
        names = parameter_names(torch.nn.Module)
        for t in changed:
            what = names.get(id(t), f"a tensor of shape {tuple(t.shape)}")
            place = _line(tape, t)
            because = (
                f"{what} was kept for the backward pass and changed before it, through `.data` or "
                "a NumPy view, which PyTorch does not count"
            )
            self._add("the training step", STEP, what, because, place)

    def _report_kept(self, k: _Kept) -> None:
        from chainrule.verify.pytorch.sources import saves_of
        from chainrule.verify.user_code import place_of as defined

        because = (
            f"ctx.{k.name} was set in forward and has other values when backward reads it: "
            "PyTorch checks only what ctx.save_for_backward was given"
        )
        place = _set_at(defined(getattr(k.function, saves_of(k.function))), k.name)
        self._add(k.function.__name__, "torch.autograd.Function", f"ctx.{k.name}", because, place)

    def _add(self, subject: str, kind: str, what: str, because: str, place: Place | None) -> None:
        doubt = "whether it was to be changed at all, or a copy of it kept"
        names = (Name("unseen_change", because), Name("stale", because, apart=doubt))
        advice = (
            "keep a copy of it, or leave it as it is until the backward pass has run"
            if what.startswith("ctx.")
            else "change a copy: x = x.clone() before, or write the change without `.data`"
        )
        correction = Correction(advice, before=place.text if place else "", place=place)
        self.findings.append(
            Finding("error", subject, kind, what, names, place=place, correction=correction)
        )


def _set_at(forward: Place | None, name: str) -> Place | None:
    """The line of a forward that sets an attribute; the forward's own if it has none."""
    if forward is None:
        return None
    function = function_at(tree_of_file(forward.file), forward.line)
    for node in ast.walk(function) if function is not None else ():
        match node:
            case ast.Attribute(attr=attr, ctx=ast.Store()) if attr == name:
                return replace(forward, line=node.lineno)
            case _:
                continue
    return forward


def _change_of(mark: Mark) -> Tensor | None:
    """The tensor, if it is there, was not written to as far as PyTorch knows, and has changed."""
    t = mark.ref()
    if t is None or version(t) != mark.version:
        return None
    try:
        return t if checksum(t) != mark.total else None
    except RuntimeError:  # memory that was given back on purpose
        return None


def _saved_addresses(nodes: Sequence[Any]) -> set[int]:
    """Addresses of what the nodes keep. Reading may compute it again: only in a copy."""
    found: set[int] = set()
    for node in nodes:
        training = getattr(node, "_saved_training", False)
        for name in dir(node):
            if name.startswith("_saved_running_") and training:
                continue  # batch norm updates its statistics at every call, and needs the batch's
            if name.startswith("_saved_"):
                try:
                    found.update([_address(t) for t in tensors_in(getattr(node, name))])
                except RuntimeError:  # PyTorch refuses: it has seen a change, and will say so
                    continue
        for t in getattr(node, "saved_tensors", ()) or ():
            if isinstance(t, Tensor):
                found.add(_address(t))
    return found


def _address(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()


def _line(tape: TorchTape, changed: Tensor) -> Place | None:
    """The last line that got hold of the memory behind autograd's back; if none is known, that of
    the backward pass."""
    slot = tape.slot(changed)
    group = None if slot is None else tape.group[slot]
    for entry in reversed(tape.entries):
        same = group is not None and any(tape.group[s] == group for s in entry.inputs)
        if same and entry.name in ("data", "detach") and entry.frames:
            return users_line(entry.frames)
    return users_line(frames())


_MEANS = {
    "lerp_": "a mean of both changes nothing",
    "copy_": "to copy one to the other changes nothing",
}


def shared_spot(place: Place, name: str) -> Spot | None:
    """What is said of a call of that name which was given the tensor that it changes; None if the
    text gives it the same one: `x.add_(x)`."""
    pair = _names(place, name)
    if pair is None or pair[0] == pair[1]:
        return None
    means = _MEANS.get(name, f"`{name}` adds it to itself, and who sets one to 0 clears both")
    says = f"`{pair[0]}` and `{pair[1]}` lie in the same memory: {means}"
    code = "idle_load" if name in _MEANS else "unseen_change"
    return Spot(code, _made_at(place, pair) or place, says, "keep a copy: .detach().clone()")


def _names(place: Place, name: str) -> tuple[str, str] | None:
    """The text of what a call on a line changes, and of what it is given."""
    for n in ast.walk(tree_of_file(place.file)):
        if not isinstance(n, ast.expr | ast.stmt) or not n.lineno <= place.line <= (
            n.end_lineno or 0
        ):
            continue
        match n:
            case ast.Call(func=ast.Attribute(value=x, attr=attr), args=[y, *_]) if attr == name:
                return _owner(x), ast.unparse(y)
            case ast.AugAssign(target=x, value=y) if name in ("add_", "sub_"):
                return ast.unparse(x), ast.unparse(y)
            case _:
                pass
    return None


def _owner(x: ast.expr) -> str:
    """What a chain of calls in place changes: `b` of `b.mul_(m).add_(g)`."""
    match x:
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr.endswith("_"):
            return _owner(inner)
        case _:
            return ast.unparse(x)


def _made_at(place: Place, pair: tuple[str, str]) -> Place | None:
    """The line of the function that gives one the other."""
    function = function_at(tree_of_file(place.file), place.line)
    nodes = ast.walk(function) if function is not None else ()
    for n in [n for n in nodes if isinstance(n, ast.Assign)]:
        if {ast.unparse(x) for x in (n.value, *n.targets)} <= {*pair}:
            return Place(place.file, n.lineno, place.function)
    return keeping_line(place.file, pair[0].partition("[")[0])


def renamed_spot(place: Place, names: set[str]) -> Spot | None:
    """What is said of a value that a line changes in place, and that has these names: one was made
    by `skip = h`, and both are read behind the change, as if they were two values."""
    function = function_at(tree_of_file(place.file), place.line)
    nodes = list(ast.walk(function)) if function is not None else []
    changed = [n for n in nodes if _changes(n, place.line) & names]
    outer = {id(n.value) for n in nodes if isinstance(n, ast.Attribute) and n.attr in _FORM}
    for n in nodes:
        match n:
            case ast.Assign(targets=[ast.Name(id=a)], value=ast.Name(id=b)) if {a, b} <= names:
                pass
            case _:
                continue
        read = {x.id for x in nodes if _is_behind(x, place.line) and id(x) not in outer}
        if n.lineno < place.line and changed and {a, b} <= read:
            says = f"`{a}` and `{b}` are one value since `{ast.unparse(n)}`: this changes both, "
            says += "and both are read below"
            advice = f"change another one: {b} = {b} + ..., or {a} = {b}.clone()"
            return Spot("unseen_change", place, says, advice, _summed(place, changed[0]))
    return None


_FORM = ("shape", "dtype", "device", "size", "ndim", "dim")
"""What of a value does not change with it."""


def _changes(n: ast.AST, line: int) -> set[str]:
    """The name of what a line changes in place."""
    match n:
        case ast.AugAssign(target=ast.Name(id=name), lineno=at) if at == line:
            return {name}
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=x, attr=attr)), lineno=at):
            own = isinstance(x, ast.Name) and attr.endswith("_") and at == line
            return {ast.unparse(x)} if own else set()
        case _:
            return set()


def _is_behind(n: ast.AST, line: int) -> TypeGuard[ast.Name]:
    return isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.lineno > line


def _summed(place: Place, n: ast.AST) -> Edit | None:
    """`h += x` as `h = h + x`."""
    if not isinstance(n, ast.AugAssign):
        return None
    value = ast.BinOp(ast.parse(ast.unparse(n.target), mode="eval").body, n.op, n.value)
    return line_as(place, f"{ast.unparse(n.target)} = {ast.unparse(value)}")
