"""What to say of a call whose arguments do not fit the signature of the function, or of the op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from chainrule.engine.misuse.argument_kinds import signature_of
from chainrule.errors import DtypeError
from chainrule.names.spellings import ARGUMENTS, LACKING


def unbound(
    f: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """What to say of a call whose arguments do not fit the signature of `f`."""
    named = [p for p in signature_of(f).parameters.values() if p.name != "self"]
    places = [p for p in named if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    words = [p.name for p in named if p.kind is not p.POSITIONAL_ONLY]
    for word in kwargs:
        if word not in words:
            return (
                f"{name} has no argument '{word}': {_spelling_hint(word, [p.name for p in named])}"
            )
    count = len(args) - ("self" in signature_of(f).parameters)
    if count > len(places) and not any(p.kind is p.VAR_POSITIONAL for p in named):
        return _too_many(name, named, places, args)
    twice = [p.name for p in places[:count] if p.name in kwargs]
    if twice:
        return f"{name} got its argument '{twice[0]}' twice, by place and by name"
    missing = [p.name for p in [*places[count:], *named] if p.name not in kwargs and is_required(p)]
    return f"{name} needs its argument '{missing[0]}': it takes {', '.join(p.name for p in named)}"


def _too_many(
    name: str, named: Sequence[Parameter], places: Sequence[Parameter], args: Sequence[Any]
) -> str:
    """What to say of a call with more arguments by place than `places`."""
    if not places:
        why = "nothing is changed in place, so " if args[-1] is True else ""
        return f"{name} takes no argument by place: {why}leave it out"
    settings = [f"{p.name}=" for p in named if p.kind is p.KEYWORD_ONLY]
    advice = f"give the others by name: {', '.join(settings)}" if settings else "leave out the rest"
    if places[0].name == "shape" and all(isinstance(x, int) for x in args):
        advice = f"a shape is one argument, {tuple(args)}"
    return f"{name} takes only {', '.join([p.name for p in places])} by place; {advice}"


def is_required(p: Parameter) -> bool:
    """Whether a call has to give it."""
    return p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)


def _spelling_hint(word: str, names: Sequence[str]) -> str:
    """What to write for an argument that a function with the arguments `names` lacks."""
    ours, hint = ARGUMENTS.get(word, ("", ""))
    if ours in names:
        return f"write {hint}"
    return LACKING.get(word, f"it takes {', '.join(names)}" if names else "it takes none")


def instead(name: str, argument: str, given: Mapping[str, Any]) -> str:
    """What to write where a shape was given as several arguments."""
    first = next(iter(given), None)
    if argument != "dtype" or first != "shape" or not isinstance(given["dtype"], int):
        return ""
    return f"; a shape is one argument, as in {name}({(given['shape'], given['dtype'])})"


def wrong_arguments(op: Any, count: int, words: Iterable[str]) -> DtypeError:
    """The error for a call of an op, which takes arrays by place, with others."""
    word = next(iter(words), None)
    if word is None:
        arrays = "1 array" if op.takes == 1 else f"{op.takes} arrays"
        return DtypeError(f"{op} takes {arrays}, not {count}; nothing is written to an `out`")
    hint = LACKING.get(word, "it takes arrays, by place")
    return DtypeError(f"{op} has no argument '{word}': {hint}")
