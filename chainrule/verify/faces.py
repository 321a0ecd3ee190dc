"""What a user calls: each makes subjects of what it is given and has them certified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.verify.reading import name_of
from chainrule.verify.subject import Subject

if TYPE_CHECKING:
    from chainrule.verify.arrays.convention import Side
    from chainrule.verify.report import Report


def _certified(what: str, subjects: Sequence[Subject]) -> Report:
    from chainrule.verify.certify import certify

    return certify(what, subjects)


def check(f: Callable[..., Any], *args: Any) -> Report:
    """Verify the derivative that the engine makes of the function `f` at `args`."""
    from chainrule.verify.own.call import subject_of_call

    return _certified(name_of(f), [subject_of_call(f, args)])


def pair(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    *args: Any,
    cotangent: Side | None = None,
    cache: bool | None = None,
    wrt: Sequence[str | int] | None = None,
) -> Report:
    """Verify a hand-written backward."""
    from chainrule.verify.arrays.pair import subject_of_pair

    made = subject_of_pair(forward, backward, args, cotangent=cotangent, cache=cache, wrt=wrt)
    return _certified(made.name, [made])


def assert_gradients(f: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Raise `AssertionError` with the report's text unless the gradients of `f` are right."""
    __tracebackhide__ = True
    report = check(f, *args, **options)
    if not report.ok:
        raise AssertionError(str(report))
