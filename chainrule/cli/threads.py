"""How many threads NumPy's matrix products use. For the sizes that are trained here, one.

Waiting threads of OpenBLAS spin. With small matrices a second one gains nothing on an idle machine.
Where other programs want the cores it costs a multiple: `chainrule train` on two busy cores took
22 s with one thread and 170 s with two. One thread also adds up in the same order everywhere.
"""

from __future__ import annotations

from chainrule.blas_threads import is_set_by_user, set_threads
from chainrule.cli.settings import Settings

SMALL = 1 << 26
"""Multiplications of the largest product below which more than one thread does not pay."""


def limit(settings: Settings) -> bool:
    """Use one thread if the model is small and the user has not chosen; whether it now does."""
    largest = settings.batch * settings.block_size * settings.n_embd * 4 * settings.n_embd
    if largest >= SMALL or is_set_by_user():
        return False
    return set_threads(1)
