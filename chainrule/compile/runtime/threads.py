"""The threads that compiled programs share: how many there are, when they start and end.

They are Python's threads, so that debuggers and profilers know them. Each spends its life in one
call of machine code (`cpu/thread_pool.py`), without the interpreter's lock. They start with the
first program that has work for them. Before a fork, at exit, and when their number changes they
end; the next such program starts new ones.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from functools import cache
from typing import Any, final

from chainrule.compile.cpu.symbols import MOST_THREADS, PARALLEL, RESET, STOP, WORKER, WORKERS
from chainrule.compile.runtime import linking
from chainrule.compile.runtime.cache.objects import kept_object
from chainrule.compile.runtime.code_placement import placed
from chainrule.errors import ConfigError

VARIABLES = ("CHAINRULE_NUM_THREADS", "OMP_NUM_THREADS")
"""Of the environment: ours, and the one that most numerical libraries follow."""
_Plain = ctypes.CFUNCTYPE(None)
_Count = ctypes.CFUNCTYPE(None, ctypes.c_int64)


@final
class Pool:
    """The machine code of the pool, and the threads in it."""

    def __init__(self) -> None:
        code = placed(kept_object("pool", _compiled))
        self._code = code
        self._worker, self._workers = [_Count(code.address(name)) for name in (WORKER, WORKERS)]
        self._stop, self._reset = [_Plain(code.address(name)) for name in (STOP, RESET)]
        self._reset()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._over = False
        self.running = False
        linking.known[PARALLEL] = code.address(PARALLEL)
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._fork, after_in_parent=self._lock.release, after_in_child=self._born
            )

    def run(self) -> None:
        """Start the threads, if they are not running."""
        if not self.running:  # this is on the way of every call
            self._start()

    def _start(self) -> None:
        """Start the threads, once; fewer where the system gives no more."""
        with self._lock:
            if self.running or self._over:
                return
            self.running = True
            count = min(get_num_threads(), MOST_THREADS) - 1 if os.name == "posix" else 0
            self._workers(count)
            for i in range(1, count + 1):
                t = threading.Thread(
                    target=self._worker, args=(i,), name=f"chainrule-{i}", daemon=True
                )
                try:
                    t.start()
                except RuntimeError:  # the system allows no more; those that there are do the work
                    break
                self._threads.append(t)

    def stop(self) -> None:
        """End the threads; what they are doing is done first."""
        with self._lock:
            self._halt()

    def _halt(self) -> None:
        self.running = False
        if self._threads:
            self._stop()
            for t in self._threads:
                t.join()
            self._threads.clear()

    def _end(self) -> None:
        # machine code goes when the interpreter does: nobody may be in it then
        self._over = True
        self.stop()

    def _fork(self) -> None:
        self._lock.acquire()  # held in the child, too, until it is born
        self._halt()

    def _born(self) -> None:
        self._reset()  # another thread of the parent may have been in the pool
        self._lock.release()


def _compiled() -> bytes:
    import llvmlite.binding

    from chainrule.compile.cpu.thread_pool import text
    from chainrule.compile.llvm.host_target import start, target

    llvm: Any = llvmlite.binding
    start()
    module = llvm.parse_assembly(text(llvm.get_process_triple()))
    module.verify()
    return target().emit_object(module)


@cache
def the_pool() -> Pool:
    """The only one; made when it is first needed."""
    return Pool()


_chosen: list[int] = []
_supposed: list[int] = []


def set_num_threads(n: int) -> None:
    """Let compiled programs use `n` threads, the calling one included.

    Results do not depend on it. Without a call it is what `CHAINRULE_NUM_THREADS` or, next,
    `OMP_NUM_THREADS` in the environment says, or the number of cores that this process may use.
    Matrix products are divided among these threads, too: the BLAS that SciPy brings is set to one.

    >>> cr.set_num_threads(cr.get_num_threads())
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"set_num_threads({n!r}): the number of threads is an int, at least 1")
    _use(_chosen, n)


def suppose(n: int) -> None:
    """Use `n` threads where neither a call nor the environment says how many."""
    _use(_supposed, n)


def _use(numbers: list[int], n: int) -> None:
    numbers[:] = [n]
    if the_pool.cache_info().currsize:
        the_pool().stop()


def get_num_threads() -> int:
    """How many threads compiled programs use, the calling one included.

    >>> cr.get_num_threads() >= 1
    True
    """
    if _chosen:
        return _chosen[0]
    return _from_environment() or (_supposed[0] if _supposed else _cores())


@cache
def _from_environment() -> int:
    """What the environment says; 0 if nothing."""
    for name in VARIABLES:
        said = os.environ.get(name, "")
        if said.isdecimal() and int(said) >= 1:
            return int(said)
        if said and name == VARIABLES[0]:
            raise ConfigError(f"{name}={said!r}: the number of threads is an integer, at least 1")
    return 0


_SETTERS = ("scipy_openblas_set_num_threads", "openblas_set_num_threads")


def single(library: str) -> None:
    """Let the BLAS behind a library use one thread, for this process.

    Compiled programs divide products among their own threads. BLAS's would come on top of those,
    and they spin for long when they have nothing to do. Where other programs want the cores, a
    product that takes 0.1 ms was seen to take 28. A BLAS without OpenBLAS's names stays as it is.
    """
    loaded = ctypes.CDLL(library)  # finds the symbols of what it is linked to, too
    for name in _SETTERS:
        setter: Any = getattr(loaded, name, None)
        if setter is not None:
            setter(ctypes.c_int(1))
            return


def _cores() -> int:
    """How many cores this process may use."""
    affinity: Any = getattr(os, "sched_getaffinity", None)  # Linux has it
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
