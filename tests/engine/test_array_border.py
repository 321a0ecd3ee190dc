"""The border for arrays: every way in, with every kind of array.

Each pair either gives exactly what a plain array of the same numbers gives, or an error of
chainrule's that names the class or the dtype and says what to write.
"""

from __future__ import annotations

import array
import datetime
import fractions
import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided

import chainrule as cr
from chainrule import nn, verify
from chainrule.engine import arrays
from chainrule.nn import functional
from tests.ops.test_generated import SAMPLES

# ruff: noqa: E501 (tables: one kind, one line)

pytestmark = pytest.mark.filterwarnings(
    "ignore::PendingDeprecationWarning", "ignore::numpy.exceptions.ComplexWarning"
)

Array = np.ndarray[Any, np.dtype[Any]]

PLAIN: Array = np.array([[0.75, -1.25, 2.5], [3.125, 0.25, -0.5]])
"""Sums of these are exact, in any order."""

# --- Classes from outside ------------------------------------------------------------------------


class Holder:
    """It holds an array, and has no operators."""

    def __init__(self, values: Any) -> None:
        self.values: Array = np.asarray(values)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.values


class Labelled(Holder):
    """As xarray's arrays: operators of its own, which take tensors for arrays."""

    __array_priority__ = 60

    def __add__(self, other: Any) -> Any:
        return Combined(other, lambda x: self.values + x)

    def __radd__(self, other: Any) -> Any:
        return Combined(other, lambda x: x + self.values)

    def __mul__(self, other: Any) -> Any:
        return Combined(other, lambda x: self.values * x)

    def __rmul__(self, other: Any) -> Any:
        return Combined(other, lambda x: x * self.values)


class Combined:
    """What such operators give: it holds a tensor, with its graph."""

    def __init__(self, other: Any, f: Callable[[Any], Any]) -> None:
        self.data = f(other)


class Speaking(Holder):
    """As pandas' series: it speaks `__array_ufunc__`."""

    def __array_ufunc__(self, ufunc: Any, method: str, *xs: Any, **_: Any) -> Any:
        return Combined(None, lambda _: ufunc(*[getattr(x, "values", x) for x in xs]))

    def __rmul__(self, other: Any) -> Any:
        return Combined(other, lambda x: x * self.values)


class Silent(Holder):
    """It wants to be left alone by NumPy, and knows no operator."""

    __array_ufunc__ = None


class Measured(np.ndarray[Any, Any]):
    """A subclass with a unit, say."""

    def __mul__(self, other: Any) -> Any:
        return "a product with its unit"


class Tagged(np.ndarray[Any, Any]):
    """A subclass that computes as arrays do."""

    tag = "seen"


def mapped(a: Array) -> Any:
    with tempfile.TemporaryFile() as file:  # the map outlives it
        out = np.memmap(cast(Any, file), a.dtype, "w+", shape=a.shape)
    out[...] = a
    return out


def unaligned(a: Array) -> Any:
    room = np.zeros(a.nbytes + 1, np.uint8)
    out = np.frombuffer(room.data, a.dtype, a.size, offset=1).reshape(a.shape)
    out[...] = a
    return out


def field(a: Array) -> Any:
    rows = np.zeros(a.shape, [("flag", "u1"), ("x", a.dtype)])
    rows["x"] = a
    return rows["x"]


def frozen(a: Array) -> Any:
    out = a.copy()
    out.flags.writeable = False
    return out


# fmt: off
TAKEN: dict[str, Callable[[Array], Any]] = {
    "foreign byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "foreign byte order, Fortran order": lambda a: np.asfortranarray(a.astype(a.dtype.newbyteorder())),
    "foreign byte order, unaligned": lambda a: unaligned(a.astype(a.dtype.newbyteorder())),
    "unaligned": unaligned,
    "field of a structured array": field,
    "read-only": frozen,
    "Fortran order": np.asfortranarray,
    "negative strides": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "every other element": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "zero strides": lambda a: np.broadcast_to(a[:1], (2, 3)),
    "overlapping elements": lambda a: as_strided(a.ravel().copy(), (2, 3), (8, 8)),
    "memory map": mapped,
    "harmless subclass": lambda a: a.copy().view(Tagged),
    "record array": lambda a: a.copy().view(np.recarray),
    "holder of an array": Holder,
    "holder of foreign byte order": lambda a: Holder(a.astype(">f8")),
    "no axes": lambda a: np.array(a[0, 0]),
    "no axes, foreign byte order": lambda a: np.array(a[0, 0], ">f8"),
    "NumPy's scalar": lambda a: a[0, 0],
    "empty": lambda a: np.zeros((0, 3), ">f8"),
    "half precision, foreign": lambda a: a.astype(">f2"),
    "single precision, foreign": lambda a: a.astype(">f4"),
    "complex, foreign": lambda a: a.astype(">c16"),
    "integers, foreign": lambda a: a.astype(">i2"),
}
"""What computes as a plain array does."""
REFUSED: dict[str, tuple[Callable[[Array], Any], str]] = {
    "masked": (lambda a: np.ma.array(a, mask=a > 2), "MaskedArray"),
    "masked, nothing": (lambda a: np.ma.array(a), "MaskedArray"),
    "masked constant": (lambda a: np.ma.masked, "MaskedConstant"),
    "matrix": (np.matrix, "numpy.matrix"),
    "subclass with operators": (lambda a: a.copy().view(Measured), "Measured"),
    "objects": (lambda a: a.astype(object), "object"),
    "text": (lambda a: a.astype(str), "<U"),
    "bytes": (lambda a: a.astype("S8"), "|S8"),
    "text of any length": (lambda a: a.astype(np.dtypes.StringDType()), "StringDType"),
    "structured": (lambda a: np.zeros((2, 3), "f8,i4"), "f0"),
    "dates": (lambda a: a.astype("i8").astype("M8[D]"), "datetime64[D]"),
    "durations": (lambda a: a.astype("i8").astype("m8[s]"), "timedelta64[s]"),
    "extended precision": (lambda a: a.astype(np.longdouble), str(np.dtype(np.longdouble))),
    "extended complex": (lambda a: a.astype(np.clongdouble), str(np.dtype(np.clongdouble))),
}
"""What is refused everywhere, with what the error names."""
FOREIGN: dict[str, tuple[Callable[[Array], Any], str]] = {
    "labelled": (Labelled, "Labelled"),
    "with __array_ufunc__": (Speaking, "Speaking"),
    "with __array_ufunc__ = None": (Silent, "Silent"),
    "PyTorch's": (lambda a: torch.tensor(a), "torch.Tensor"),
    "PyTorch's with a gradient": (lambda a: torch.tensor(a, requires_grad=True), "torch.Tensor"),
}
"""Arrays of other libraries: read where a tensor is made of them, refused where they would be
computed with; an operator leaves the matter to them."""
# fmt: on


def plain(x: Any) -> Any:
    """A plain array of the same numbers: native, contiguous, of NumPy's own class."""
    a = x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)
    native = a.dtype.kind not in "biufc" or a.dtype.isnative
    return np.array(a, None if native else a.dtype.newbyteorder("="), order="C")


# --- Ways in -------------------------------------------------------------------------------------


def like(x: Any, *, grad: bool = False) -> cr.Tensor:
    """A tensor of the shape and dtype of `x`, which may be asked for a gradient."""
    a = np.asarray(plain(x))
    t = cr.tensor((a if a.dtype in arrays.native else PLAIN) * 2 + 1)
    return t.requires_grad_() if grad and t.dtype.kind in "fc" else t


def graph_of(f: Callable[[Any], Any], x: Any) -> Any:
    """Value and gradient of f, which gets a tensor like `x` beside it."""
    w = like(x, grad=True)
    y = f(w)
    if not w.requires_grad:
        return y
    cr.sum(cr.real(y)).backward()
    return y.detach(), w.grad


class Twice(cr.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def assigned(attribute: str, x: Any) -> Any:
    t = like(x, grad=True)
    if attribute == "data" or t.requires_grad:
        setattr(t, attribute, x)
    return getattr(t, attribute)


def set_items(x: Any) -> Any:
    t = like(x)
    t[...] = x
    return t


def cotangent(x: Any) -> Any:
    t = like(x, grad=True)
    if t.requires_grad:
        t.copy().backward(x)
    return t.grad


def hooked(x: Any) -> Any:
    t = like(x, grad=True)
    if t.requires_grad:
        t.register_hook(lambda g: x)
        cr.sum(cr.real(t * 3)).backward()
    return t.grad


def loaded(x: Any) -> Any:
    layer = nn.Linear(3, 2, bias=False, dtype=np.float64)
    layer.load_state_dict({"weight": x})
    return layer.weight


jitted_sum = cr.jit(lambda x: cr.sum(x * 2, axis=-1) if x.ndim else x * 2)
jitted_tree = cr.jit(lambda p: p["a"][0] + p["a"][0])


def steady(x: Any) -> Any:
    """Calls that are like the one before, and one that is not."""
    jitted_sum(plain(x)), jitted_sum(plain(x))
    return jitted_sum(x), jitted_sum(x), jitted_sum(plain(x))


WAYS: dict[str, Callable[[Any], Any]] = {
    "op": lambda x: cr.exp(x),
    "op of two": lambda x: cr.mul(x, x),
    "function": lambda x: cr.sum(x),
    "function with settings": lambda x: cr.flip(x, axis=()),
    "list of arrays": lambda x: cr.stack([x, x]),
    "method's argument": lambda x: like(x).clip(x),
    "op beside a tensor": lambda x: graph_of(lambda w: cr.mul(w, x), x),
    "where": lambda x: graph_of(lambda w: cr.where(w == w, w, x), x),
    "loss": lambda x: functional.l1_loss(like(x), x),
    "NumPy's ufunc": lambda x: graph_of(lambda w: np.add(w, x), x),
    "NumPy's function": lambda x: graph_of(lambda w: np.stack([w, x]), x),
    "compiled": lambda x: jitted_sum(x),
    "compiled, in containers": lambda x: jitted_tree({"a": [x]}),
    "compiled, captured": lambda x: cr.jit(lambda w: w * x)(like(x)),
    "compiled, call after call": steady,
    "compiled, many calls as one": lambda x: jitted_sum.loop([(plain(x),), (plain(x),), (x,)]),
    "grad": lambda x: cr.grad(lambda v: cr.sum(v * v))(x),
    "jvp": lambda x: cr.jvp(lambda v: v * 3, (like(x),), (x,)),
    "vjp": lambda x: cr.vjp(lambda v: v * 3, like(x))[1](x),
    "vmap": lambda x: cr.vmap(lambda v: v * 2)(x),
    "scan": lambda x: cr.scan(lambda c, v: (c, v * 2), cr.tensor(0.0), x),
    "while_loop": lambda x: cr.while_loop(lambda v: cr.sum(v) < 0, lambda v: v + 1, x),
    "checkpoint": lambda x: cr.checkpoint(cr.exp)(x),
    "Function": lambda x: Twice.apply(cr.asarray(x)),
    "tensor": lambda x: cr.tensor(x),
    "tensor of a list": lambda x: cr.tensor([x, x]),
    "asarray": lambda x: cr.asarray(x),
    "astype": lambda x: cr.astype(x, np.float64),
    "full": lambda x: cr.full_like(like(x), 2.0, dtype=getattr(x, "dtype", None)),
    "data": lambda x: assigned("data", x),
    "grad of a tensor": lambda x: assigned("grad", x),
    "assignment": set_items,
    "cotangent": cotangent,
    "what a hook returns": hooked,
    "layer": lambda x: nn.Linear(3, 2, generator=cr.Generator(0))(x),
    "state of a module": loaded,
}
"""What is done with an array from outside: a function of it."""
READING = {
    *("tensor", "tensor of a list", "asarray", "data", "grad of a tensor", "cotangent"),
    *("Function", "state of a module", "grad", "jvp", "vjp", "vmap", "scan", "while_loop"),
}
"""Ways on which a tensor is made of the array, which the caller knows: so values are read."""


def numbers(x: Any) -> Any:
    """What is compared: class, dtype, shape and elements of each array."""
    if x is None:
        return x
    if isinstance(x, tuple | list):
        return [numbers(part) for part in cast(Any, x)]
    if isinstance(x, cr.Tensor):
        x = x.detach().numpy()
    assert type(x) is not Tagged and not isinstance(x, np.memmap), f"a {type(x)} came out"
    a = np.asarray(x)
    assert a.dtype in arrays.native, f"{a.dtype} came out"
    return str(a.dtype), a.shape, a.tolist()


def outcome(f: Callable[[Any], Any], x: Any) -> Any:
    """The numbers, or the error of chainrule's; other errors pass."""
    try:
        return numbers(f(x))
    except cr.ChainruleError as error:
        return error


def check(way: str, x: Any, names: str | None) -> None:
    """Raise `AssertionError` unless `x` goes this way as it must."""
    found = outcome(WAYS[way], x)
    if names is not None:
        assert isinstance(found, cr.ChainruleError), f"took {type(x)}: {found}"
        assert names in str(found) and "write" in str(found), str(found)
        return
    wanted = outcome(WAYS[way], plain(x))
    if isinstance(wanted, cr.ChainruleError):  # of its shape or dtype, say
        assert type(found) is type(wanted), f"{found} is not {wanted}"
    else:
        assert repr(found) == repr(wanted), f"{found} is not {wanted}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", TAKEN)
def test_taken_as_a_plain_array_of_its_numbers(way: str, kind: str):
    check(way, TAKEN[kind](PLAIN), None)


@pytest.mark.parametrize("way", [w for w in WAYS if w != "full"])
@pytest.mark.parametrize("kind", REFUSED)
def test_refused_with_what_to_write(way: str, kind: str):
    make, names = REFUSED[kind]
    check(way, make(PLAIN), names)


# --- Other libraries' arrays ---------------------------------------------------------------------


DEFERRING = {"compiled, captured", "NumPy's ufunc"}
"""Ways on which their own operators are asked."""


@pytest.mark.parametrize("way", [w for w in WAYS if w not in DEFERRING | {"full"}])
@pytest.mark.parametrize("kind", FOREIGN)
def test_arrays_of_other_libraries(way: str, kind: str):
    make, names = FOREIGN[kind]
    found = outcome(WAYS[way], make(PLAIN))
    if isinstance(found, cr.ChainruleError):
        assert way not in READING or "gradient" in kind, found
        assert names in str(found) or "grad" in str(found), found
    else:
        assert repr(found) == repr(outcome(WAYS[way], PLAIN))


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "*": lambda a, b: a * b,
    "+": lambda a, b: a + b,
    "@": lambda a, b: a @ b,
    "**": lambda a, b: a**b,
    "<": lambda a, b: a < b,
    "-=": lambda a, b: a.__isub__(b),
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("sign", OPERATORS)
def test_an_operator_leaves_it_to_the_other_class_or_says_so(sign: str, kind: str):
    make, names = FOREIGN[kind]
    t = like(PLAIN, grad=True)
    try:
        found = OPERATORS[sign](t, make(PLAIN))
    except cr.ChainruleError as error:
        assert names in str(error) and "write" in str(error)
    else:
        assert isinstance(found, Combined)
        assert isinstance(found.data, cr.Tensor) and found.data.requires_grad
        cr.sum(found.data).backward()
        assert t.grad is not None


def test_labelled_arrays_get_the_tensor_with_its_graph():
    t = like(PLAIN, grad=True)
    assert isinstance(t * Labelled(PLAIN), Combined)
    assert isinstance(Labelled(PLAIN) * t, Combined)
    assert isinstance(t * Speaking(PLAIN), Combined)
    assert isinstance(np.multiply(t, cast(Any, Speaking(PLAIN))), Combined)
    cr.sum((t * Labelled(PLAIN)).data).backward()
    assert t.grad is not None and t.grad.tolist() == PLAIN.tolist()


def test_numbers_of_other_classes():
    for odd in (fractions.Fraction(1, 3), datetime.date(2020, 1, 1), "2", {}, object()):
        with pytest.raises(cr.DtypeError, match=r"mul: cannot be applied to .* neither an array"):
            like(PLAIN) * odd
    assert (like(PLAIN)[0] * array.array("d", [2, 4, 8])).tolist() == [5, -6, 48]
    with pytest.raises(cr.DtypeError, match=r"Value meets Values and numbers.*write float"):
        cr.Value(2.0) * PLAIN
    with pytest.raises(cr.DtypeError, match=r"Value meets Values and numbers"):
        PLAIN * cr.Value(2.0)
    with pytest.raises(cr.DtypeError, match="one real number"):
        cr.Value(np.longdouble(1))


# --- Dtypes, ops, the verifier -------------------------------------------------------------------


SWAPPED = [d for d in arrays.native if d.itemsize > 1 and d.kind != "V"]
"""The dtypes of more than a byte, without bfloat16, which has no other byte order."""


@pytest.mark.parametrize("dtype", SWAPPED, ids=str)
def test_all_dtypes_of_foreign_byte_order(dtype: np.dtype[Any]):
    x = np.arange(1, 7).reshape(2, 3).astype(dtype)
    for way in ("op of two", "function", "compiled", "compiled, captured", "tensor", "loss"):
        check(way, x.astype(dtype.newbyteorder()), None)
    foreign = dtype.newbyteorder()
    made = [
        cr.zeros(2, foreign),
        cr.ones(2, foreign),
        cr.arange(3, dtype=foreign),
        cr.eye(2, dtype=foreign),
    ]
    made += [cr.full(2, 1, foreign), cr.tensor([1], foreign), cr.tensor([1]).astype(foreign)]
    assert {t.dtype.isnative for t in made} == {True}
    assert {t.dtype for t in made} == {dtype}


@pytest.mark.parametrize("dtype", ["g", "G", "O", "U3", "M8[s]", "f4,f4"])
def test_dtypes_that_tensors_do_not_have(dtype: str):
    calls: list[Callable[[], Any]] = [
        lambda: cr.zeros(2, dtype),
        lambda: cr.full(2, 1.0, dtype),
        lambda: cr.tensor([1.0], dtype),
        lambda: cr.tensor([1.0]).astype(dtype),
        lambda: cr.Generator(0).normal((2,), dtype=dtype),
        lambda: nn.Linear(2, 3, dtype=dtype),
    ]
    for call in calls:
        with pytest.raises(cr.DtypeError, match=r"cannot have the dtype .*write"):
            call()


PYTHONS = {"getitem"}
"""What NumPy's arrays do by themselves."""


def test_every_op_takes_foreign_byte_order_and_refuses_masks():
    """All ops of the table, with each argument in turn."""
    for sample in SAMPLES:
        if sample.name in PYTHONS:
            continue
        wanted = _numbers_of(sample.f, sample.args)
        swapped = [x.astype(x.dtype.newbyteorder()) if _is_array(x) else x for x in sample.args]
        assert _numbers_of(sample.f, swapped) == wanted, str(sample)
        for i, x in enumerate(sample.args):
            if _is_array(x):
                odd = [*sample.args[:i], np.ma.array(x), *sample.args[i + 1 :]]
                found = _refusal(sample.f, odd)
                # what NumPy's own operators made of it has its mask
                assert isinstance(found, np.ma.MaskedArray) or "MaskedArray" in str(found), (
                    f"{sample} takes a mask as argument {i}"
                )


def _refusal(f: Callable[..., Any], args: Any) -> Any:
    """The result, or the error of chainrule's."""
    try:
        return f(*args)
    except cr.ChainruleError as error:
        return error


def _is_array(x: Any) -> bool:
    return type(x) is np.ndarray


def _numbers_of(f: Callable[..., Any], args: Any) -> str:
    return repr(numbers(f(*args)))


def test_the_verifier():
    x = PLAIN[0].astype(">f8")
    assert verify.check(cr.exp, x).ok
    assert verify.pair(np.sin, lambda g, x: g * np.cos(x), x).ok
    for face in (
        lambda x: verify.check(lambda v: cr.sum(v * v), x),
        lambda x: verify.pair(np.sin, lambda g, x: g * np.cos(x), x),
        lambda x: verify.model(nn.Linear(3, 2), (x,)),
    ):
        with pytest.raises(cr.DtypeError, match=r"verify\.\w+: numpy.*matrix.*write"):
            face(np.matrix(PLAIN))


# --- Memory --------------------------------------------------------------------------------------


def test_what_a_graph_keeps_cannot_be_changed_through_a_read_only_view():
    a = PLAIN.copy()
    view = a.view()
    view.flags.writeable = False
    for kept in (view, np.broadcast_to(a[0], (2, 3)), np.asarray(memoryview(a).toreadonly())):
        t, before = like(PLAIN, grad=True), kept.tolist()
        y = cr.sum(t * kept)
        saved, a[...] = a.copy(), 0
        y.backward()
        a[...] = saved
        assert t.grad is not None and t.grad.tolist() == before


def double_and_add(x: Any, y: Any) -> Any:
    x[...] = x * 2
    return x + y


WRITTEN: dict[str, tuple[Callable[[], tuple[Any, Any]], str]] = {
    "twice": (lambda: (a := PLAIN.copy(), a), "shares memory"),
    "views of one array": (
        lambda: (a := PLAIN.ravel().copy(), a)[:0] or (a[:4], a[2:]),
        "shares memory",
    ),
    "read-only": (lambda: (frozen(PLAIN), PLAIN), "read-only"),
    "overlapping elements": (
        lambda: (as_strided(PLAIN.ravel().copy(), (2, 3), (8, 8)), PLAIN),
        "some of its elements",
    ),
    "a holder": (lambda: (Holder(PLAIN), PLAIN), "it is a Holder"),
    "a tensor twice": (lambda: (t := cr.tensor(PLAIN), t), "shares memory"),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_compiled_code_does_not_write_into_memory_that_others_read(how: str):
    make, says = WRITTEN[how]
    x, y = make()
    with pytest.raises(cr.ConfigError, match=rf"writes into argument 0.*{says}"):
        cr.jit(double_and_add)(x, y)


@pytest.mark.parametrize(
    "kind", ["foreign byte order", "memory map", "Fortran order", "negative strides", "unaligned"]
)
def test_the_caller_sees_what_compiled_code_writes(kind: str):
    x = TAKEN[kind](PLAIN)
    assert cr.jit(double_and_add)(x, PLAIN).tolist() == (PLAIN * 3).tolist()
    assert x.tolist() == (PLAIN * 2).tolist()
    both = np.zeros((4, 3))
    both[::2] = PLAIN
    cr.jit(double_and_add)(both[::2], both[1::2])
    assert both[::2].tolist() == (PLAIN * 2).tolist()


# --- The checker ---------------------------------------------------------------------------------


def _swapped(a: Array) -> Any:
    return TAKEN["foreign byte order"](a)


BYPASSES: list[tuple[str, str, str, Callable[[Array], Any], str | None]] = [
    ("chainrule.compile.runtime.call.arguments", "admit", "compiled", _swapped, None),
    ("chainrule.engine.graph", "operand", "compiled, captured", _swapped, None),
    ("chainrule.engine.graph", "operand", "op", np.ma.array, "MaskedArray"),
    ("chainrule.engine.tensors", "admit_values", "grad", np.matrix, "numpy.matrix"),
    ("chainrule.engine.graph", "operand", "op beside a tensor", Labelled, "Labelled"),
]
"""A module, the function of the border that it asks, and what goes wrong without it."""


@pytest.mark.parametrize(("module", "name", "way", "make", "names"), BYPASSES)
def test_a_way_around_the_border_is_noticed(
    module: str,
    name: str,
    way: str,
    make: Callable[[Array], Any],
    names: str | None,
    monkeypatch: pytest.MonkeyPatch,
):
    check(way, make(PLAIN), names)
    monkeypatch.setattr(importlib.import_module(module), name, lambda x: x)
    with pytest.raises((AssertionError, AttributeError, ValueError, TypeError)):
        check(way, make(PLAIN), names)


# --- docs/arrays.md ------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "arrays.md"
ROWS = [
    [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").partition("## The Array API")[0].splitlines()
    if line.startswith("| ") and not line.startswith("| kind")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_row_of_the_page(row: list[str]):
    _, code, says = row
    names = {"np": np, "torch": torch, "array": array, "fractions": fractions}
    names["Measured"] = lambda x: np.array(x).view(Measured)
    x = eval(code, names)
    t = cr.tensor([3.0, 5.0], np.float64)
    if says == "taken":
        assert cr.mul(t, x).tolist() == cr.mul(t, plain(x)).tolist()
    else:
        with pytest.raises(cr.ChainruleError) as caught:
            cr.mul(t, x)
        assert says in str(caught.value)
