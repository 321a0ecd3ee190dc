"""A compiled function: its traces, and which of them a call runs.

The first call with arguments of new shapes, dtypes or static values runs the function on
placeholders (see `trace`). What it did becomes a native program (see `backend`), which every
further call runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import update_wrapper
from operator import is_
from pathlib import Path
from sys import modules
from types import MethodType
from typing import TYPE_CHECKING, Any, final

from chainrule.compile.runtime.backend import without_gc
from chainrule.compile.runtime.call.arguments import Arguments, Given, runs_as_it_is
from chainrule.compile.runtime.call.declared_axes import sizes_now
from chainrule.compile.runtime.call.inputs import Inputs, inputs, native_of, nothing
from chainrule.compile.runtime.call.many_calls import call_many
from chainrule.compile.runtime.call.recorded_call import RecordedCall, recorded
from chainrule.compile.runtime.call.retracing import Retraces
from chainrule.compile.runtime.call.steady_call import Steady, steady
from chainrule.compile.runtime.call.traces import Traces, put_first
from chainrule.compile.trace.variant import MISFIT, Variant
from chainrule.engine import watch
from chainrule.engine.graph import around, tracer
from chainrule.errors import TraceError
from chainrule.page.readable import Words

if TYPE_CHECKING:
    from chainrule.compile.exporting import Exporter
    from chainrule.compile.inspect.explain import Explanation
    from chainrule.compile.inspect.source import Language
    from chainrule.compile.scalars.call import Scalars


@final
class Jitted:
    """A compiled function; see `jit`. `traces` counts how often it was traced.

    A copy is a compiled function of a copy of f, not traced yet. A pickle is a name, where the
    function is found under its own, and f with its settings elsewhere.
    """

    def __init__(
        self, f: Callable[..., Any], settings: tuple[Any, Any, Any], reassociate: bool = False
    ) -> None:
        update_wrapper(self, f, updated=())
        self._f = f
        self._settings = settings
        self._reassociate = reassociate
        self._name = name = getattr(f, "__qualname__", None) or type(f).__name__
        self._arguments = Arguments(f, name, *settings)
        self._variants = Traces(f, name)
        self._latest: Steady | RecordedCall | None = None
        self._numbers: Any = None
        self._given: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._retraces = Retraces()
        self.traces = 0

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __copy__(self) -> Jitted:
        return Jitted(self._f, self._settings, self._reassociate)

    def __deepcopy__(self, memo: dict[int, Any]) -> Jitted:
        return Jitted(deepcopy(self._f, memo), self._settings, self._reassociate)

    def __reduce__(self) -> Any:
        f: Any = self._f
        found: Any = modules.get(getattr(f, "__module__", None) or "")
        for name in getattr(f, "__qualname__", "").split("."):
            found = getattr(found, name, None)
        return f.__qualname__ if found is self else (Jitted, (f, self._settings, self._reassociate))

    def __repr__(self) -> str:
        return f"<jit {self._name}: {self.traces} traces>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's value: compiled, if it can be."""
        latest, result = self._latest, MISFIT
        if latest is not None and not kwargs and (short := latest.short) is not None:
            result = short(args)
        if result is not MISFIT:
            return result
        if kwargs or around.get() is not None or watch.watches:
            pass
        elif latest is not None:
            result = latest.call(args)
        elif self._numbers is not None and tracer() is None:
            result = self._numbers.again(args)
        if result is not MISFIT:
            return result
        return self._slowly(args, kwargs)

    def loop(self, batches: Iterable[Sequence[Any]]) -> Any:
        """What calls with each of `batches`, tuples of arguments, return: stacked along a new first
        axis. Calls that are like the one before run as one native call, without Python in between.

        `batches` may be a generator that does between two of them what a training loop does. It may
        change settings of an optimizer, which are read for each call. It runs ahead of the calls,
        so it must not ask what they did.

        >>> import chainrule as cr
        >>> double = cr.jit(lambda x: x + x)
        >>> double.loop([(cr.tensor(1.0),), (cr.tensor(2.0),)])
        tensor([2., 4.], dtype=float32)
        """
        return call_many(self, lambda: self._latest, iter(batches))

    def _slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Find the variant for these arguments, or make it."""
        if tracer() is not None or watch.watches:
            return self._f(*args, **kwargs)
        given = self._arguments.given(args, kwargs)
        leaves = given.leaves
        if runs_as_it_is(leaves):
            return self._f(*args, **kwargs)
        if self._of_values(leaves):
            return self._by_numbers(args, kwargs)
        sizes_now(self._name, leaves, given.axes)  # those of one name are one size
        variants = self._variants.of(given)
        for variant in variants:
            result = given.run(variant)
            if result is not MISFIT:
                self._remember(args, kwargs, given, variant)
                return result

        change = variants[0].read.changed() if variants else None
        variant = self._variants.record(given)
        self.traces += 1
        self._given = args, kwargs
        self._retraces.note(self._name, leaves)
        if change is not None:
            self._retraces.note_change(self._name, *change)
        put_first(variants, variant)
        self._remember(args, kwargs, given, variant)
        result = given.run(variant, fresh=True)
        if result is MISFIT:
            raise TraceError(
                f"jit: {self._name} changes the Python objects that it depends on while it is "
                "traced (a setting of an optimizer, the mode of a module): do that outside"
            )
        return result

    def _of_values(self, leaves: Sequence[Any]) -> bool:
        """Whether this is a call of a function of single numbers, `Value`s."""
        if "chainrule.scalar.value" not in modules:  # nobody has any
            return False
        from chainrule.compile.scalars.call import takes

        if self._numbers is not None and self._numbers.stays():
            return takes(None, leaves, otherwise=True)
        return takes(None if self._numbers is None and self._variants else self._f, leaves)

    def _by_numbers(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value of a function of `Value`s; see `scalars`."""
        with without_gc():
            result, fresh = self._scalars()(args, kwargs)
        self.traces += fresh
        if fresh:
            self._given = args, kwargs
        return result

    def _scalars(self) -> Scalars:
        """The compiled forms of a function of `Value`s."""
        from chainrule.compile.scalars.call import Scalars

        if self._numbers is None:
            of = self._f, self._name, self._retraces
            self._numbers = Scalars(*of, any_order=self._reassociate)
        return self._numbers

    def _remember(self, args: Any, kwargs: Any, given: Given, variant: Variant) -> None:
        """Let the next call that is like this one go the short way."""
        before, self._latest = [self._latest], None
        if kwargs or given.static or len(given.leaves) != len(args):
            return
        if around.get() is None and all(map(is_, args, given.leaves)):
            self._latest = recorded(variant, args) or steady(variant, args, given.axes, before)

    def loops(self, *args: Any, **kwargs: Any) -> str:
        """The loops that a call runs, as text, with the user's lines; of the arguments see
        `explain`."""
        return Words(native_of(self._variant(args, kwargs)[0]).loops)

    def source_of(
        self, kernel: str, *args: Any, language: Language = "assembly", **kwargs: Any
    ) -> str:
        """The code of one kernel, by its name in `loops()`: "assembly" of this machine, "llvm" for
        LLVM's language after its optimizations, or "loops". Raises `ConfigError` for other names;
        of the arguments see `explain`."""
        from chainrule.compile.inspect.source import source_of

        return Words(source_of(native_of(self._variant(args, kwargs)[0]), kernel, language))

    def explain(self, *args: Any, repeats: int = 100, **kwargs: Any) -> Explanation | str:
        """What a call does, kernel by kernel. Each row has the ops and lines that were fused, bytes
        moved, operations, measured time, and the fraction of this machine's peak. `str()` is a
        table, `.rows` are its numbers.

        The arguments are those of a call; without any, those that the function was traced with
        last. The program runs `repeats` times on copies: nothing that you hold is changed. Raises
        `ConfigError` if the function was never called, and no arguments are given.

        Of a function of `Value`s it is text, of its latest call. It lists the families of numbers
        that its loops compute, or says why it runs one operation after the other.
        """
        if self._numbers is not None and not self._variants:
            return Words(self._numbers.explained())
        from chainrule.compile.inspect.explain import measure_kernels

        variant, given = self._variant(args, kwargs)
        return measure_kernels(self._name, native_of(variant), given, variant.seconds, repeats)

    def _variant(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Variant, Inputs]:
        """The variant that a call would run, and copies of what it would be given."""
        if not args and not kwargs:
            args, kwargs = self._given or nothing(self._f, self._name)
        given = self._arguments.given(args, kwargs)
        for variant in self._variants.known(given):
            if (found := inputs(variant, given.leaves)) is not None:
                return variant, found
        variant = self._variants.record(given)
        found = inputs(variant, given.leaves)
        assert found is not None, f"{self._name} cannot be run on what it was traced with"
        return variant, found

    def to_c(
        self,
        path: str | Path,
        *args: Any,
        batches: Iterable[Sequence[Any]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write what a call would run as a C99 program that needs only the C library.

        `path` is the file, `step.c`, or the folder to write it to. The arguments are those of a
        call; without any, those that the function was traced with last. Beside the file goes a
        `.bin` with the state as it is now (parameters, an optimizer's moments) and what each call
        is given. The program calls the function as often as it is told. It prints its results that
        are single numbers, and updates its state as Python does: same losses, to rounding.

        `batches` gives the arguments of several calls, which are made in turn, over and over. The
        function is traced with the first of them, unless other arguments are given for that. It may
        be a generator that does what a training loop does between calls. Settings of an optimizer
        are read, and random numbers drawn, for each. Returns the paths (source, data).

        A function of `Value`s is written, too: its values and derivatives, or a whole step
        (docs/c_export.md). Floats and ints among its arguments are what each call is given; ints
        for which it does something else are refused when the program runs.

        Raises `TraceError` for an op that has no loops, `DtypeError` for numbers that C has not.
        """
        if batches is None:
            args, kwargs = (args, kwargs) if args or kwargs else self._given or ((), {})
        return self._exporter().to_c(path, args, kwargs, batches)

    def to_wasm(
        self,
        path: str | Path,
        *args: Any,
        largest: Mapping[str, int] | None = None,
        loader: bool = False,
        **kwargs: Any,
    ) -> Path:
        """Write what a call would run as one WebAssembly module that imports nothing.

        `path` is the file, `step.wasm`, or the folder to write it to. The arguments are those of a
        call; without any, those that the function was traced with last. The module has the state
        (parameters, an optimizer's moments) and the arguments as they are now. It has room for
        sizes of dynamic axes up to `largest`, by name: {"B": 64}; without it, for those of the
        arguments.

        It exports its memory and three functions: `init()` puts all that in its place, `step()` is
        a call, `steps(count, calls, results)` are many. Its section `chainrule` says in JSON where
        state, inputs and results are. With `loader` the file `chainrule.mjs` is written beside it,
        which reads that and runs in browsers, workers and Node. A module computes with vectors of
        128 bits, without fused multiply-add, on one core.

        A function of `Value`s is written, too (docs/webassembly.md).

        Returns the module's path. Raises `TraceError` for an op that has no loops, or calls LAPACK,
        and for draws other than uniform, normal, integers and bernoulli. Raises `DtypeError` for
        half precision that WebAssembly cannot convert, `ConfigError` where the program needs more
        than 4 GiB.
        """
        if not args and not kwargs:
            args, kwargs = self._given or nothing(self._f, self._name)
        return self._exporter().to_wasm(path, args, kwargs, largest, loader=loader)

    def _exporter(self) -> Exporter:
        """What writes calls down."""
        from chainrule.compile.exporting import Exporter

        return Exporter(self._f, self._arguments, self._variants, self._of_values, self._scalars)
