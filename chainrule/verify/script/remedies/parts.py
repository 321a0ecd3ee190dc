"""What an optimizer is given, and what a model knows as its own: all that is to be trained."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from chainrule.verify.finding import Finding
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import Piece, Source, called_name, nodes

_PARAMETERS = ("parameters", "named_parameters")


def build_after_parts(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """The optimizer, made behind each later statement of its block, the last one before a loop
    first."""
    if (statement := source.statement()) is None:
        return
    block = [
        s
        for s in nodes(source.scope, ast.stmt)
        if s.col_offset == statement.col_offset and s.lineno > statement.lineno
    ]
    ends = [i for i, s in enumerate(block) if isinstance(s, ast.For | ast.While)]
    rows = block[: ends[0] if ends else 0]
    if rows:
        yield source.moved(statement, rows[-1])


def add_group(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """What was put into a model after its optimizer was made, as one more group of it: behind the
    line that puts it there, or in front of the loop that makes the steps."""
    if (statement := source.statement()) is None:
        return
    if not isinstance(statement, ast.Assign):
        return
    taken = source.text(statement.targets[0])
    for put, parts in _part_assignments(source, finding):
        yield source.behind(put, _group_call(taken, parts))
    models = [source.text(c.func.value) for c in _of_parameters(statement.value)]
    steps = nodes(source.tree, ast.Expr, lambda e: source.text(e) == f"{taken}.step()")
    loops = [loop for e in steps for loop in source.around(ast.For, ast.While, line=e.lineno)[-1:]]
    for model in dict.fromkeys(models):
        for loop in loops:
            yield source.before(loop, _group_call(taken, _listed_modules(finding, model)))


def _group_call(optimizer: str, parts: Sequence[str]) -> str:
    given = f"{parts[0]}.parameters()" if parts else "[]"
    if len(parts) > 1:
        given = f"[{', '.join([f'*{part}.parameters()' for part in parts])}]"
    return f'{optimizer}.add_param_group({{"params": {given}}})'


def _part_assignments(source: Source, finding: Finding) -> Iterator[tuple[ast.Assign, list[str]]]:
    """Statements that give a model one of the parts whose parameters the finding lists."""
    ends = {path[-1] for path in _paths(finding)}
    for s in nodes(source.tree, ast.Assign):
        texts = [source.text(t) for t in s.targets if _last(t) in ends]
        if texts and isinstance(s.value, ast.Call):
            yield s, texts


def _last(target: ast.AST) -> str:
    """The last name of `model.head`, the number of `model[2]`."""
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return str(target.slice.value)
    return target.attr if isinstance(target, ast.Attribute) else ""


def _of_parameters(value: ast.AST) -> Iterator[Any]:
    """Calls of `.parameters()` of something."""
    for call in nodes(value, ast.Call):
        if called_name(call) in _PARAMETERS and isinstance(call.func, ast.Attribute):
            yield call


def give_all(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """All parameters of the models that it has some of; where it has groups, one group more."""
    if (call := _optimizer(source)) is None:
        return
    first = call.args[0]
    made = source.made(first)
    roots = list(dict.fromkeys([n for c in nodes(made, ast.Call) if (n := _root(c))]))
    if isinstance(made, ast.List) and any(isinstance(e, ast.Dict) for e in made.elts):
        for root in roots:
            more = [f'{{"params": {m}.parameters()}}' for m in _listed_modules(finding, root)]
            groups = [*[source.text(e) for e in made.elts], *more]
            yield source.with_pieces([(made, f"[{', '.join(groups)}]")])
        return
    all_of = [f"{root}.parameters()" for root in roots]
    if len(all_of) == 1:
        yield source.with_pieces([(first, all_of[0])])
    elif all_of:
        yield source.with_pieces([(first, f"[{', '.join([f'*{a}' for a in all_of])}]")])


def give_other_model(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """The parameters of another model: one that is called."""
    call = _optimizer(source)
    first = call.args[0] if call else None
    if not isinstance(first, ast.Call) or not _root(first):
        return
    used = [c.func.id for c in nodes(source.scope, ast.Call) if isinstance(c.func, ast.Name)]
    written = nodes(source.scope, ast.Name, lambda n: isinstance(n.ctx, ast.Store))
    made = {n.id for n in written}
    for name in dict.fromkeys([u for u in used if u in made and u != _root(first)]):
        yield source.with_pieces([(first, f"{name}.parameters()")])


def _optimizer(source: Source) -> ast.Call | None:
    """The call that makes it, with what it is given."""
    statement = source.statement()
    value = statement.value if isinstance(statement, ast.Assign) else None
    return value if isinstance(value, ast.Call) and value.args else None


def _root(call: ast.Call) -> str:
    """The variable m of `m.parameters()`, `m.head.parameters()` and `m[2].parameters()`."""
    if called_name(call) not in _PARAMETERS:
        return ""
    node: ast.AST = call.func
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _listed_modules(finding: Finding, root: str) -> list[str]:
    """Modules whose parameters the finding lists, as the program reaches them from the model."""
    paths = [".".join(path) for path in _paths(finding)]
    return list(dict.fromkeys([root + re.sub(r"\.(\d+)", r"[\1]", f".{p}") for p in paths]))


def _paths(finding: Finding) -> list[list[str]]:
    """How the model reaches the modules whose parameters the finding lists."""
    listed = [p.split(".")[:-1] for p in finding.subject.split(", ")]
    below = [path[path[0][:1].isupper() :] for path in listed if path]  # a class's name, or none
    return [path for path in below if path]


_LISTS = (ast.List, ast.ListComp)
_DICTS = (ast.Dict, ast.DictComp)


def register_parts(source: Source, finding: Finding) -> Iterator[Edit | None]:
    """Lists and dicts of the class as `ModuleList` and `ModuleDict`; a tensor as a Parameter."""
    if not (owners := source.around(ast.ClassDef)):
        return
    prefix = next((source.text(b)[: -len("Module")] for b in owners[0].bases
                   if source.text(b).endswith("Module")), "torch.nn.")  # fmt: skip
    kept: list[Piece] = []
    for s in nodes(owners[0], ast.Assign, _is_own):
        if isinstance(s.value, _LISTS) or (called_name(s.value) == "list" and _has_module(s.value)):
            kept.append((s.value, f"{prefix}ModuleList({source.text(s.value)})"))
        elif isinstance(s.value, _DICTS):
            kept.append((s.value, f"{prefix}ModuleDict({source.text(s.value)})"))
    yield from (source.with_pieces([piece]) for piece in kept)
    yield source.with_pieces(kept)
    yield from (source.with_pieces([p]) for p in _tensors(source, owners[0], prefix))


def _tensors(source: Source, owner: ast.ClassDef, prefix: str) -> Iterator[Piece]:
    """`self.a = torch.ones(3, requires_grad=True)` as a Parameter."""
    for s in nodes(owner, ast.Assign, lambda s: _is_own(s) and isinstance(s.value, ast.Call)):
        assert isinstance(s.value, ast.Call)
        wanted = [k for k in s.value.keywords if k.arg == "requires_grad"]
        if not wanted and called_name(s.value) != "requires_grad_":
            continue
        rest = [k for k in s.value.keywords if k.arg != "requires_grad"]
        bare = ast.Call(s.value.func, s.value.args, rest)
        if not wanted and isinstance(s.value.func, ast.Attribute):
            yield s.value, f"{prefix}Parameter({source.text(s.value.func.value)})"
        else:
            yield s.value, f"{prefix}Parameter({source.text(bare)})"


def _is_own(s: ast.Assign) -> bool:
    target = s.targets[0]
    return (
        len(s.targets) == 1
        and isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    )


def _has_module(node: ast.AST) -> bool:
    """Whether something is made in it that may be a module: a call of a class."""
    return any(called_name(n)[:1].isupper() for n in ast.walk(node))
