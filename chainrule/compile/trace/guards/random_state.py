"""Generators of random numbers that are not chainrule's, clocks, and what else no call repeats."""

from __future__ import annotations

import sys
from typing import Any

from chainrule.errors import TraceError
from chainrule.transforms.replay import Chance

_STATES: dict[tuple[str, str], str] = {
    ("numpy.random", "Generator"): "bit_generator",
    ("numpy.random", "RandomState"): "get_state",
    ("random", "Random"): "getstate",
}
"""By module and class of a generator, the attribute that tells its state."""
_CHANGING: dict[str, tuple[str, ...]] = {
    "time": (
        "time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns",
        "process_time", "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime",
        "ctime", "strftime", "clock_gettime",
    ),
    "os": ("urandom", "getrandom", "times", "getloadavg"),
    "uuid": ("uuid1", "uuid4"),
    "secrets": ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits", "choice"),
    "builtins": ("input", "open"),
    "sys": ("settrace",),
}  # fmt: skip
"""Functions that answer differently at every call, by module."""


def random_state(x: Any) -> Any:
    """The state of a generator of NumPy's or Python's; None if x is none."""
    for (module, name), attribute in _STATES.items():
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None and isinstance(x, cls):
            found = getattr(x, attribute)
            return found() if callable(found) else found.state
    return None


def never_the_same(callee: Any, receiver: Any, count: int) -> str | None:
    """The name of a function whose answer no later call would find again: a clock, a source of
    entropy, a generator without a seed. None if the callee is none. `count` arguments are given.
    """
    for module, names in _CHANGING.items():
        loaded = vars(sys.modules[module]) if module in sys.modules else {}
        for name in names:
            if callee is loaded.get(name, _changing):
                return f"{module}.{name}"
    module, name = getattr(callee, "__module__", None), getattr(callee, "__name__", "")
    if receiver is not None and isinstance(receiver, type) and receiver.__module__ == "datetime":
        return f"datetime.{name}" if name in ("now", "utcnow", "today") else None
    if not count and module in ("numpy.random", "numpy.random._generator", "random"):
        return (
            f"{name} without a seed" if name in ("default_rng", "RandomState", "Random") else None
        )
    return None


_changing = object()


def refuse_draws(chance: Chance) -> None:
    """Raise `TraceError` if a traced function drew from Python's or NumPy's global generators."""
    if chance.python is not None or chance.numpy is not None:
        source = "random" if chance.python is not None else "numpy.random"
        raise TraceError(
            f"a compiled function draws from {source}: that would happen while it is traced, "
            "and never again. Draw from a chainrule Generator, or outside"
        )
