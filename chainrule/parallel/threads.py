"""A worker's share of the threads: the cores of its machine divided by the workers on it.

Our pool and BLAS read their share when the group starts. What the user has said, by a call or in
the environment, stays.
"""

from __future__ import annotations

import os

from chainrule.blas_threads import is_set_by_user, set_threads
from chainrule.optional import is_installed


def share(workers: int) -> None:
    """Use the threads of one of so many workers on this machine."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux has it
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    mine = max(1, cores // workers)
    if not is_set_by_user():
        set_threads(mine)
    if is_installed("llvmlite"):
        from chainrule.compile.runtime import threads

        threads.suppose(mine)
