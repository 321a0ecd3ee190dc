"""Array code without floating-point warnings, whatever the user has set for his own.

NumPy keeps what it does about such errors in a context variable. Code runs in a context of its own
in which they are ignored; only NaNs are noted (`watch.invalid`). Entering a prepared context costs
a hundredth of `np.errstate`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

from chainrule.engine import watch

Run = Callable[..., Any]
"""`run(f, *xs)` gives f(*xs), computed quietly."""


def run_alone(f: Callable[..., Any], *xs: Any) -> Any:
    """f(*xs) in a new quiet context, which is used here from now on."""
    context = copy_context()
    context.run(be_quiet)
    runner.set(context.run)
    return context.run(f, *xs)


runner: ContextVar[Run | None] = ContextVar("runner", default=run_alone)
"""How array code runs quietly here; None where it is quiet already, so that code just runs."""


def be_quiet() -> None:
    """For the rest of this context, array code gives no warnings; `watch.invalid` hears of NaNs."""
    watch.ignore_errors()
    runner.set(None)


def is_taken(error: Exception) -> bool:
    """Whether nothing ran, for another thread runs in the context: it was handed a copy of this
    one's variables."""
    return isinstance(error, RuntimeError) and "cannot enter context" in str(error)


def quietly(f: Callable[..., Any], *xs: Any) -> Any:
    """f(*xs), pure array code, without floating-point warnings."""
    run = runner.get()
    try:
        return run(f, *xs) if run else f(*xs)
    except RuntimeError as error:
        if not is_taken(error):
            raise
    return run_alone(f, *xs)
