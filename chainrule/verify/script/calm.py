"""Work of ours between two steps of a script leaves no trace in it.

Random streams, modes and defaults are put back, nothing is printed, warnings are kept to ourselves.
"""

from __future__ import annotations

import io
import random
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import numpy as np


@contextmanager
def calm() -> Generator[None]:
    """Within it the user's code may run again: what it draws, sets or prints does not count."""
    back = [_streams(), *_torch()]
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(io.StringIO()))
        stack.enter_context(redirect_stderr(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(np.errstate(all="ignore"))
        warnings.simplefilter("ignore")
        for restore in back:
            stack.callback(restore)
        yield


def _streams() -> Callable[[], None]:
    from chainrule.random import default_generator

    python, own = random.getstate(), default_generator.state
    numpy: Any = np.random.get_state(legacy=False)

    def restore() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        default_generator.state = own

    return restore


def _torch() -> list[Callable[[], None]]:
    """How PyTorch is put back to where it is now; nothing if the script has not imported it."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_rng_state"):
        return []
    stream, grad, dtype = torch.get_rng_state(), torch.is_grad_enabled(), torch.get_default_dtype()
    threads, exact = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    def restore() -> None:
        torch.set_rng_state(stream)
        torch.set_grad_enabled(grad)
        if torch.get_default_dtype() != dtype:
            torch.set_default_dtype(dtype)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.are_deterministic_algorithms_enabled() != exact:
            torch.use_deterministic_algorithms(exact)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)

    return [restore]
