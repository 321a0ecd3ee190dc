"""What the modules that are alive call their parameters."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any


def parameter_names(kind: type, called: Callable[[Any], str] = lambda module: "") -> dict[int, str]:
    """Names of the parameters of all modules of a kind, by ids, the longest for each; those of a
    module that is no part of another one begin with what it is `called`.

    It looks through all that there is, which takes tenths of a second.
    """
    names: dict[int, str] = {}
    for module in [o for o in gc.get_objects() if issubclass(type(o), kind)]:
        before = called(module)
        for name, parameter in module.named_parameters():
            full = f"{before}.{name}" if before and "." not in name else name
            if len(full) > len(names.get(id(parameter), "")):
                names[id(parameter)] = full
    return names
