"""How this process becomes a worker: it finds its place, its threads, and the other workers."""

from __future__ import annotations

from chainrule.errors import ConfigError
from chainrule.parallel import faults, rendezvous, threads
from chainrule.parallel.group import Group
from chainrule.parallel.membership import membership


def group(micro_batches: int | None = None, *, timeout: float = 300.0) -> Group:
    """This process's group, from its environment: Ray Train, torchrun, `chainrule train`, or none.

    Use it as a context: `with parallel.group() as group:`. A batch is divided into `micro_batches`
    (one for each worker if None). With a power of two of them for each worker, sums are the same
    bits for any number of workers. A worker that does not answer within `timeout` seconds is an
    error. Raises `ParallelError` if the workers cannot meet or do not fit together.

    >>> with cr.parallel.group() as alone:
    ...     alone
    Group(worker 0 of 1, 1 micro-batch a step)
    """
    place = membership()
    count = place.size if micro_batches is None else micro_batches
    if isinstance(count, bool) or not isinstance(count, int) or count < place.size:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"group: micro_batches={count!r} for {place.size} workers: it is a whole number, at "
            "least one for each worker"
        )
    if not timeout > 0:
        raise ConfigError(f"group: timeout={timeout!r} is a number of seconds above 0")
    if place.size == 1:
        return Group(place, count)
    threads.share(place.local_size)
    if place.parent:
        faults.watch_parent(place.parent)
    wire, board = rendezvous.meet(place, {"micro_batches": count}, timeout)
    return Group(place, count, wire, board)
