"""What each parameter of a hand-written backward is for: told by its name, then by trying, else
asked for.

`backward(g, x, w)`, `backward(x, w, g)`, `backward(dout, cache)`, `backward(g, y)`, `backward()`.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from chainrule.errors import ConfigError, describe
from chainrule.verify.arrays.convention import Convention, Slot
from chainrule.verify.arrays.naming_conventions import (
    gradient_of,
    is_cotangent,
    is_output,
    is_rate,
    is_saved,
    returned_names,
)
from chainrule.verify.user_code import name_of, parameters_of

Side = Literal["first", "last"]


@dataclass(eq=False)
class _Search:
    """One search: what is known of forward and backward."""

    forward: Any
    backward: Any
    inputs: tuple[str, ...]
    results: list[Any]
    side: Side | None
    cache: bool | None
    together: int

    def saved(self) -> int | None:
        """The first result that is there for the backward for certain: it was given or returned
        before, as an argument or as the output itself."""
        named = returned_names(self.forward)
        named = named if len(named) == len(self.results) else (None,) * len(self.results)
        given = set(self.inputs) - _rebound(self.forward)
        for i, result in enumerate(self.results[1:], 1):
            again = any(result is before for before in self.results[:i])
            if again or named[i] in (*given, *[n for n in named[:i] if n is not None]):
                return i
        return None

    def parameters(self) -> list[inspect.Parameter]:
        """The backward's parameters that a call can fill; made up for `*args`."""
        known = parameters_of(self.backward)
        found = list(known or ())
        if known is None or any(p.kind is p.VAR_POSITIONAL for p in found):
            fixed = [p for p in found if p.kind is p.POSITIONAL_OR_KEYWORD]
            more = self.inputs if fixed else ["g", *self.inputs]
            rest = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in _names(more)]
            named = {p.name for p in fixed}
            return [*fixed, *[p for p in rest if p.name not in named]]
        return [p for p in found if p.kind is not p.VAR_KEYWORD]

    def roles(self, parameters: Sequence[inspect.Parameter]) -> list[str]:
        """For each parameter `x3` (an input), `g`, `r0` (a result), `rest`, `lr`, `?` or `-`."""
        named = returned_names(self.forward)
        named = named if len(named) == len(self.results) else ()
        said = list(dict.fromkeys([n for n in named if n is not None]))
        settings = {p.name for p in parameters_of(self.forward) or () if p.default is not p.empty}
        roles: list[str] = []
        for i, p in enumerate(parameters):
            last = len(parameters) - 1
            if (self.side == "first" and i == 0) or (self.side == "last" and i == last):
                roles.append("g")
            elif p.name in self.inputs:
                roles.append(f"x{self.inputs.index(p.name)}")
            elif p.name in settings and p.default is not p.empty:
                roles.append("-")  # Both leave it at its default.
            elif is_saved(p.name) and self.cache is not False:
                roles.append("rest")
            elif p.name in named:
                roles.append(f"r{named.index(p.name)}")
            elif self.side is None and (is_cotangent(p.name) or _is_bar(p.name, said)):
                roles.append("g")
            elif is_output(p.name):
                roles.append("r0")
            elif is_rate(p.name) and p.default is p.empty:
                roles.append("lr")
            else:
                roles.append("?" if p.default is p.empty else "-")
        return self.without_results(roles)

    def without_results(self, roles: list[str]) -> list[str]:
        """The same, where something was kept for certain (`cache=True`, or an argument is returned
        after the output): the one parameter that is neither a cotangent nor an argument gets it,
        whatever it is called."""
        kept = self.cache or (self.cache is None and self.saved() == len(self.results) - 1)
        others = [i for i, role in enumerate(roles) if role == "?" or role[1:].isdigit()]
        others = [i for i in others if roles[i][0] != "x"]
        if not kept or "rest" in roles or len(others) != 2 - roles.count("g"):
            return roles
        return ["?" if i in others else role for i, role in enumerate(roles)]


def _rebound(f: Any) -> set[str]:
    """Names that a function gives to something else while it runs: what it returns by such a name
    is not what it was given."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    found = dis.get_instructions(code) if code is not None else ()
    return {i.argval for i in found if i.opname in ("STORE_FAST", "STORE_DEREF")}


def _is_bar(name: str, results: list[str]) -> bool:
    """Whether a name says that it is the gradient of something that the forward returned."""
    return name.lower() not in map(str.lower, results) and gradient_of(name, results) is not None


def _names(names: Sequence[str]) -> list[str]:
    """Names that can be a parameter's."""
    return [n if n.isidentifier() else f"p{i}" for i, n in enumerate(names)]


def candidates(search: _Search) -> list[Convention]:
    """The conventions that the names allow, the likelier first."""
    parameters = search.parameters()
    roles = search.roles(parameters)
    if "g" in roles or "?" not in roles:
        return [_settled(search, parameters, roles)]
    unknown = [i for i, role in enumerate(roles) if role == "?"]
    found: list[Convention] = []
    for place in dict.fromkeys((unknown[0], unknown[-1])):
        tried = list(roles)
        tried[place] = "g"
        found.append(_settled(search, parameters, tried))
    return found


def _settled(
    search: _Search, parameters: Sequence[inspect.Parameter], roles: Sequence[str]
) -> Convention:
    """The convention in which parameters whose names say nothing get what nobody else got."""
    outputs = _outputs(search, roles)
    gs = [i for i, r in enumerate(roles) if r == "g"]
    used = {int(r[1:]) for r in roles if r[0] == "x"}
    if roles.count("?") <= len(search.results) - outputs:
        left = [Slot("result", outputs + k) for k in range(len(search.results) - outputs)]
    else:
        left = [Slot("input", k) for k in range(len(search.inputs)) if k not in used]
    free = iter(left)
    slots: list[tuple[str, Slot]] = []
    gap = by_name = False
    for i, (p, role) in enumerate(zip(parameters, roles, strict=True)):
        slot = _slot(role, gs.index(i) if role == "g" else 0, len(gs), outputs, free)
        if slot is None:
            gap = True
            continue
        by_name = by_name or gap or p.kind is p.KEYWORD_ONLY
        slots.append((p.name, slot))
    return Convention(tuple(slots), outputs, by_name)


def _slot(role: str, k: int, cotangents: int, outputs: int, free: Any) -> Slot | None:
    if role == "g":
        return Slot("cotangents") if cotangents == 1 and outputs > 1 else Slot("cotangent", k)
    if role in ("rest", "lr"):
        return Slot("rest" if role == "rest" else "rate")
    if role == "?":
        return next(free, None)
    if role == "-":
        return None
    return Slot("input" if role[0] == "x" else "result", int(role[1:]))


def _outputs(search: _Search, roles: Sequence[str]) -> int:
    """How many of the forward's results are outputs; those after them were kept for backward."""
    count = len(search.results)
    if count == 1 or search.together:
        return search.together or 1
    cotangents = roles.count("g")
    if search.cache or "rest" in roles:
        return count - 1 if search.cache or count == 2 else min(cotangents or 1, count - 1)
    if cotangents > 1:
        return min(cotangents, count)
    if (saved := search.saved()) is not None:
        return saved
    bound = [int(r[1:]) for r in roles if r[0] == "r" and r != "r0" and r != "rest"]
    if bound:
        return min(bound)
    unnamed = max(roles.count("?") - (len(search.inputs) - len(set(roles) & _xs(search))), 0)
    if unnamed or not all(isinstance(r, np.ndarray | np.generic | float) for r in search.results):
        return 1
    return count


def _xs(search: _Search) -> set[str]:
    return {f"x{i}" for i in range(len(search.inputs))}


def find(
    forward: Any,
    backward: Any,
    inputs: tuple[str, ...],
    results: list[Any],
    attempt: Callable[[Convention], tuple[int, str]],
    *,
    side: Side | None = None,
    cache: bool | None = None,
    together: int = 0,
) -> Convention:
    """The convention of `backward`, after a forward that returned `results`, the first of them
    `together` in a tuple.

    `attempt` runs the backward and says how badly it does not fit (0: it does), and why. It decides
    only where the names do not. Raises `ConfigError` where it decides nothing either.
    """
    found = candidates(_Search(forward, backward, inputs, results, side, cache, together))
    if len(found) == 1:
        return found[0]
    said = [attempt(c) for c in found]
    best = min([badness for badness, _ in said])
    fitting = [c for c, (badness, _) in zip(found, said, strict=True) if badness == best]
    if len(fitting) == 1 and best < 2:
        return fitting[0]
    takes = ", ".join([p.name for p in parameters_of(backward) or ()])
    returned = ", ".join([describe(r) for r in results])
    whys = "; ".join([why for _, why in said])
    reason = f"no way works: {whys}" if best else "several ways of calling it work"
    raise ConfigError(
        f"pair: cannot tell how to call {name_of(backward)}({takes}) after a forward of "
        f"({', '.join(inputs)}) that returned {returned}: {reason}. Name the cotangent's parameter "
        'g or dout, or say cotangent="first" or "last"; say cache=True if the last thing that the '
        "forward returns was kept for the backward"
    )
