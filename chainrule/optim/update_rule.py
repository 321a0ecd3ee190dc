"""UpdateRule: an optimizer as a row: its settings with their ranges, its memory, its update.

The annotated attributes of a subclass are its settings: name, range, default. What makes an object,
what checks a group and what appears in a signature are derived from them. Of an attribute that is
annotated again in a subclass only the default is new.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from inspect import Parameter, Signature
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    cast,
    dataclass_transform,
    get_args,
    get_type_hints,
)

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ConfigError
from chainrule.optim.bucket import Memory
from chainrule.optim.bucket_optimizers import Bucketed
from chainrule.optim.optimizer import Group, Params


@dataclass(frozen=True)
class Check:
    """Whether a setting makes sense, and the words for those that do."""

    holds: Callable[[Any], bool]
    words: str
    limits: tuple[float, float] | None = None
    """A range, its ends included, of which every float makes sense."""


def is_number(x: Any) -> bool:
    """Whether x is a number that is finite."""
    # the class first, which most have: a schedule's number is asked at each step
    number = x.__class__ is float or (isinstance(x, int | float) and not isinstance(x, bool))
    return number and math.isfinite(x)


def numbers_such_that(holds: Callable[..., Any], words: str, count: int = 2) -> Check:
    """A setting that is so many numbers of which `holds` is true."""

    def all_hold(x: Any) -> bool:
        parts = cast("list[Any]", x) if isinstance(x, tuple | list) else []
        return len(parts) == count and all(map(is_number, parts)) and bool(holds(*parts))

    return Check(all_hold, words)


def choice(*names: str) -> Check:
    """A setting that is one of these names, or None."""
    return Check(lambda x: x is None or x in names, f"one of {', '.join(names)}, or None")


def number_in(low: float, high: float, words: str) -> Check:
    """A setting that is a number from `low` to `high`."""
    return Check(lambda x: is_number(x) and low <= x <= high, words, (low, high))


_LARGEST = sys.float_info.max
Number = Annotated[float, number_in(-_LARGEST, _LARGEST, "a number")]
NotNegative = Annotated[float, number_in(0, _LARGEST, "a number that is not negative")]
NotPositive = Annotated[float, number_in(-_LARGEST, 0, "a number that is not positive")]
Fraction = Annotated[float, number_in(0, 1, "a number from 0 to 1")]
Fractions = Annotated[
    tuple[float, float],
    numbers_such_that(lambda *x: min(x) >= 0 and max(x) < 1, "two numbers in [0, 1)"),
]
Flag = Annotated[bool, Check(lambda x: isinstance(x, bool), "True or False")]


@dataclass_transform()
class _Row(Bucketed):
    """Tells type checkers that what its subclasses annotate are arguments."""


class UpdateRule(_Row):
    """What all share: `maximize`, weight decay, and everything that settings say of themselves.

    >>> class Signs(optim.UpdateRule):
    ...     lr: float = 0.1
    ...     def follow(self, group, step, p, g, state):
    ...         p -= group["lr"] * np.sign(g)
    >>> issubclass(Signs, optim.Optimizer)
    True
    """

    params: Params
    _: KW_ONLY
    maximize: Flag = False

    state_names: ClassVar[tuple[str, ...]] = ()
    """What is remembered, by name, always: each is as large as the parameters."""
    decay: ClassVar[Literal["gradient", "parameter", "own"]] = "gradient"
    """What weight decay acts on; "own": the rule sees to it."""
    _fields: ClassVar[dict[str, Check]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        hints = get_type_hints(cls, include_extras=True)
        places: dict[str, Parameter] = {}
        for base in reversed(cls.__mro__):
            words = False
            for name in vars(base).get("__annotations__", {}):
                words = words or name == "_"
                if (found := get_args(hints[name])) and isinstance(found[-1], Check):
                    before = places.get(name)
                    kind = Parameter.KEYWORD_ONLY if words else Parameter.POSITIONAL_OR_KEYWORD
                    places[name] = Parameter(
                        name,
                        before.kind if before else kind,
                        default=_default(cls, name),
                        annotation=found[0],
                    )
        cls._fields = {name: get_args(hints[name])[-1] for name in places}
        cls.__init__ = _maker(sorted(places.values(), key=lambda p: p.kind))

    def check(self, group: Group) -> None:
        """Each setting is in its range; `agree` sees to what they say together.

        A schedule changes one of them at each step: of the others nothing is asked again.
        """
        valid = self._valid
        for name, check in self._fields.items():
            value = group[name]
            if value is valid.get(name, self):
                continue
            if not check.holds(value):
                raise ConfigError(f"{name} is {check.words}, not {value!r}")
            # what cannot change in place
            if value.__class__ is float or isinstance(value, float | int | tuple):
                valid[name] = value
        self.agree(group)

    def agree(self, group: Group) -> None:
        """Raise `ConfigError` for settings that do not go together."""

    def limits(self, name: str) -> tuple[float, float] | None:
        """A range of a setting of which every float passes `check`, whatever the others are."""
        rule = type(self)
        if rule.check is not UpdateRule.check or rule.agree is not UpdateRule.agree:
            return None
        return self._fields[name].limits if name in self._fields else None

    def memory(self, group: Group, shape: tuple[int, ...]) -> Mapping[str, Memory]:
        """The names that the class states."""
        return dict.fromkeys(self.state_names, Memory())

    def update(
        self, group: Group, step: int, p: Array, g: Array, state: Mapping[str, Array]
    ) -> None:
        """The direction turned round, the weights decayed, then the step of the rule."""
        if group["maximize"]:
            np.negative(g, out=g)
        decay = group.get("weight_decay", 0) if self.decay != "own" else 0
        if decay:
            if group.get("decoupled_weight_decay", self.decay == "parameter"):
                p *= 1 - group["lr"] * decay
            else:
                g += decay * p
        self.follow(group, step, p, g, state)

    @abstractmethod
    def follow(
        self, group: Group, step: int, p: Array, g: Array, state: Mapping[str, Array]
    ) -> None:
        """Change p and its state by one step; direction and weight decay are in g already."""


def _default(cls: type, name: str) -> Any:
    """The default of a setting, which no object has as an attribute: it is in its groups."""
    return next(vars(base)[name] for base in cls.__mro__ if name in vars(base))


def _maker(settings: list[Parameter]) -> Callable[..., None]:
    """The `__init__` of a rule with those settings."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    first = [Parameter("self", kind), Parameter("params", kind, annotation=Params)]
    signature = Signature([*first, *settings], return_annotation=None)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 (that is its name)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        del given["self"]
        Bucketed.__init__(self, given.pop("params"), given)

    __init__.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    return __init__
