"""Where the instructions of a function go: the builder, the lanes and the type of numbers there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol, final

from llvmlite import ir

from chainrule.compile.mathlib.reals import Bits, Mask, Real
from chainrule.compile.target import Target


class SharedValues(Protocol):
    """What has been made where instructions go, by key."""

    def get_or_make(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is there, or else what `make` makes."""
        ...

    def lookup(self, key: Any) -> Any | None:
        """What is there."""
        ...


@final
class Lanes:
    """A place where instructions go, and the width and type of the numbers there."""

    def __init__(
        self, builder: Any, kind: Any, target: Target, made: SharedValues | None = None
    ) -> None:
        self.builder, self.kind, self.target, self._made = builder, kind, target, made
        self.width: int = kind.count if isinstance(kind, ir.VectorType) else 0
        element = kind.element if self.width else kind
        self.bits = 32 if isinstance(element, ir.FloatType) else 64
        self.integer = self.shaped(ir.IntType(self.bits))
        self.element = element
        self.mantissa = 23 if self.bits == 32 else 52
        self.bias = 127 if self.bits == 32 else 1023
        self.sign = -(1 << self.bits - 1)
        # A number to which small integers add without rounding, in its lowest bits.
        self.magic = 1.5 * 2.0**self.mantissa
        self.magic_bits = (self.bias + self.mantissa << self.mantissa) | 1 << (self.mantissa - 1)

    def shaped(self, element: Any) -> Any:
        """The type of one `element` per lane."""
        return ir.VectorType(element, self.width) if self.width else element

    def constant(self, kind: Any, x: float | int) -> Any:
        """`x` in every lane."""
        return ir.Constant(kind, [x] * self.width if self.width else x)

    def real(self, x: float) -> Real:
        """`x`, a number known now, in every lane."""
        return Real(self, self.constant(self.kind, x))

    def int(self, x: int) -> Bits:
        """`x`, an integer known now, in every lane."""
        return Bits(self, self.constant(self.integer, x))

    def call(self, name: str, *xs: Any, result: Any = None) -> Any:
        """LLVM's intrinsic of that name, declared for the types of its arguments."""
        kinds = [x.type for x in xs]
        overloads = dict.fromkeys(map(_suffix, kinds))
        full = ".".join(["llvm", name, *overloads])
        return self.call_function(full, result or kinds[0], xs)

    def call_function(self, name: str, result: Any, xs: Sequence[Any]) -> Any:
        """The function of that name in this module, declared if it is not there yet."""
        module = self.builder.module
        known = module.globals.get(name)
        if known is None:
            known = ir.Function(module, ir.FunctionType(result, [x.type for x in xs]), name)
        return self.builder.call(known, xs)

    def shared(self, name: str, x: Real, make: Callable[[], Any]) -> Any:
        """What `make` makes of x, known by `name` to the functions of x that are written after."""
        return make() if self._made is None else self._made.get_or_make((name, x.v), make)

    def shared_value(self, name: str, x: Real) -> Any | None:
        """What another function of x has shared here by that name."""
        return None if self._made is None else self._made.lookup((name, x.v))

    @cached_property
    def half(self) -> Lanes:
        """The same lanes, in float32."""
        return Lanes(self.builder, self.shaped(ir.FloatType()), self.target)

    @cached_property
    def wide(self) -> Lanes:
        """The same lanes, in float64."""
        return Lanes(self.builder, self.shaped(ir.DoubleType()), self.target)

    @cached_property
    def narrower(self) -> Lanes:
        """Half as many lanes."""
        return Lanes(self.builder, ir.VectorType(self.element, self.width // 2), self.target)

    def halves(self, v: Any) -> tuple[Any, Any]:
        """The first and the second half of the lanes of v."""
        half = self.width // 2
        return self._lanes_of(v, v, 0, half), self._lanes_of(v, v, half, half)

    def joined(self, first: Any, second: Any) -> Any:
        """The lanes of both, one after the other."""
        return self._lanes_of(first, second, 0, self.width)

    def _lanes_of(self, a: Any, b: Any, start: int, count: int) -> Any:
        places = ir.VectorType(ir.IntType(32), count)
        return self.builder.shuffle_vector(a, b, places(list(range(start, start + count))))

    def rarely(self, mask: Mask, body: Callable[[], Real], x: Real) -> Real:
        """`body()` where the mask holds, x elsewhere; jumps over it if it holds nowhere."""
        builder, before = self.builder, self.builder.block
        inside, after = builder.append_basic_block("rare"), builder.append_basic_block("usual")
        builder.cbranch(mask.any(), inside, after)
        builder.position_at_end(inside)
        other = mask.where(body(), x)
        end = builder.block
        builder.branch(after)
        builder.position_at_end(after)
        phi = builder.phi(x.v.type)
        phi.add_incoming(x.v, before)
        phi.add_incoming(other.v, end)
        return Real(self, phi)

    def repeat(self, body: Callable[[Real], tuple[Real, Mask]], x: Real) -> Real:
        """x = body(x), again while its mask holds in a lane."""
        builder, before = self.builder, self.builder.block
        again, after = builder.append_basic_block("again"), builder.append_basic_block("enough")
        builder.branch(again)
        builder.position_at_end(again)
        phi = builder.phi(x.v.type)
        phi.add_incoming(x.v, before)
        fresh, going = body(Real(self, phi))
        phi.add_incoming(fresh.v, builder.block)
        builder.cbranch(going.any(), again, after)
        builder.position_at_end(after)
        return fresh


def _suffix(kind: Any) -> str:
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{_suffix(kind.element)}"
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    return "f32" if isinstance(kind, ir.FloatType) else "f64"
