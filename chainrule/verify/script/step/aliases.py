"""One tensor under two names: what is kept from step to step is changed by itself."""

from __future__ import annotations

import ast

from chainrule.verify.place import Place
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.trees import function_at, tree_of_file

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
    return None
