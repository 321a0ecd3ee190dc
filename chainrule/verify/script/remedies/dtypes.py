"""Numbers that float16 or bfloat16 cannot hold: another dtype, in all of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from chainrule.verify.finding import Finding
from chainrule.verify.script.remedies.source import Piece, Source, nodes
from chainrule.verify.training.text.edits import Edit

_RANGE = {"float16": "bfloat16", "half": "bfloat16"}
_FINE = {"float16": "float32", "bfloat16": "float32", "half": "float"}
_METHODS = {"half", "bfloat16"}


def wider(finding: Finding) -> Iterator[Edit | None]:
    """A dtype that has float32's range, then float32 itself."""
    yield _in_all(finding, _RANGE)
    yield _in_all(finding, _FINE)


def usual_scale(finding: Finding) -> Iterator[Edit | None]:
    """A gradient scaler that begins, and goes down, as it does by default; and is not set anew."""
    source = Source.at(finding.place)
    for call in [] if source is None else source.around(ast.Call):
        if (
            source is not None
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "update"
        ):
            yield source.with_pieces([(call, f"{source.text(call.func)}()")])
            continue
        settings = [k for k in call.keywords if k.arg not in ("init_scale", "backoff_factor")]
        if source is not None and len(settings) < len(call.keywords):
            parts = [source.text(x) for x in (*call.args, *settings)]
            yield source.with_pieces([(call, f"{source.text(call.func)}({', '.join(parts)})")])


def switched_on(finding: Finding) -> Iterator[Edit | None]:
    """A gradient scaler that is enabled, for the device that there is."""
    source = Source.at(finding.place)
    for call in [] if source is None else source.around(ast.Call):
        if source is None or not source.text(call.func).endswith("GradScaler"):
            continue
        settings = [k for k in call.keywords if k.arg != "enabled"]
        parts = [source.text(x) for x in (*call.args, *settings)]
        for given in dict.fromkeys([", ".join(parts), '"cpu"']):
            yield source.with_pieces([(call, f"{source.text(call.func)}({given})")])


def finer(finding: Finding) -> Iterator[Edit | None]:
    """float32, in which small updates count."""
    yield _in_all(finding, _FINE)


def _in_all(finding: Finding, names: Mapping[str, str]) -> Edit | None:
    source = Source.at(finding.place)
    return source.with_pieces(_renamed(source, names)) if source is not None else None


def _renamed(source: Source, names: Mapping[str, str]) -> list[Piece]:
    """`torch.float16` and `x.half()` under other names."""
    methods = [c.func for c in nodes(source.tree, ast.Call) if not c.args]
    found: list[Piece] = []
    for n in nodes(source.tree, ast.Attribute, lambda n: n.attr in names):
        new = names[n.attr]
        if n in methods and n.attr in _METHODS:
            new = "float" if new == "float32" else new
        elif n in methods or (n.attr == "half" and source.text(n.value) != "torch"):
            continue
        found.append((n, f"{source.text(n.value)}.{new}"))
    return found
