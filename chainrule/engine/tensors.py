"""Tensor: an array that remembers how it was computed. Its operators and methods are ops.

Nobody ever writes to a tensor's array. What comes in is copied, what goes out is a read-only view,
an assignment gives the tensor another array. So a graph keeps what it saw, whatever happens later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from sys import getrefcount
from typing import TYPE_CHECKING, Any, TypeGuard, cast, final

import numpy as np

from chainrule.engine import accumulation, graph, watch
from chainrule.engine.arrays import admit, admit_dtype, admit_values, operand
from chainrule.engine.border import public
from chainrule.engine.dtypes import DEVICE, INEXACT, Dtype, check_device, result_type
from chainrule.engine.graph import Extra, Node, Variable, apply, bind, is_recording, leaf, variable
from chainrule.engine.lost_assignments import references_of_unheld
from chainrule.engine.lost_gradients import differentiated, notice
from chainrule.engine.methods.making import put_methods
from chainrule.engine.misuse.foreign_arrays import unreadable
from chainrule.engine.op import Array, Detach, Spec
from chainrule.engine.operators import operators
from chainrule.errors import (
    WITHOUT_NUMBERS,
    ConfigError,
    DtypeError,
    GradientError,
    ShapeError,
    TraceError,
    describe,
)
from chainrule.names.spellings import MissingName, put_elsewhere
from chainrule.ops.indexing import index_arrays
from chainrule.ops.indexing.scattering import index_put
from chainrule.ops.shapes import joining, shaping

if TYPE_CHECKING:
    from chainrule.engine.methods.signatures import Methods
else:
    Methods = Variable

FLOAT = np.dtype(np.float32)
"""The dtype of Python floats."""
_PYTHON: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float64): FLOAT,
    np.dtype(np.complex128): np.dtype(np.complex64),
}
"""What Python numbers become, by what NumPy makes of them, where that differs."""

_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}
"""Kinds of dtypes in the order in which each can hold those before it."""


class _Shown(type):
    """The class of `Tensor`, which shows in completions only what users may call."""

    def __dir__(cls) -> list[str]:
        return [n for n in super().__dir__() if _is_shown(cls, n)]


def _is_shown(cls: type, name: str) -> bool:
    """Whether a name of the class is neither private nor there for the sake of an error."""
    private = name.startswith("_") and not name.startswith("__")
    return not (private or isinstance(vars(cls).get(name), MissingName))


@final
class Tensor(Methods, metaclass=_Shown):
    """An n-dimensional array with a place in a graph.

    `Tensor(data, dtype=None, requires_grad=False)` copies `data` (a number, nested lists, an array,
    a tensor), without their graph: it refuses lists that hold a tensor which requires a gradient.
    Python floats become float32, complex numbers complex64, ints int64, bools bool; NumPy arrays
    keep their dtype. Only floating-point (and complex) tensors can require a gradient.
    Operators broadcast and promote dtypes as NumPy does; Python numbers take the dtype of the
    tensor that they meet. An assignment `t[key] = values` is differentiable.

    >>> a = cr.Tensor([1.0, 2.0], requires_grad=True)
    >>> (a * a).sum().backward()
    >>> a.grad
    tensor([2., 4.], dtype=float32)
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def __init__(self, data: Any, dtype: Any = None, requires_grad: bool = False) -> None:
        self.node = None
        if graph.tracers and (t := graph.tracer()) is not None:
            t.fill(self, data, dtype)
        else:
            self.value = to_array(data, dtype, copy=True)
        if requires_grad:
            self.requires_grad_()

    # --- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each axis."""
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements."""
        return self.value.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.value.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.value.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.value.dtype.itemsize

    @property
    def device(self) -> str:
        """Where the elements are: "cpu"."""
        return DEVICE

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows to or through this tensor."""
        return self.node is not None and self.node.needs

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        if not isinstance(cast(object, on), bool | np.bool_):
            raise DtypeError(f"requires_grad is True or False, not {describe(on)}")
        if bool(on) != self.requires_grad:
            self.requires_grad_(bool(on))

    @property
    def is_leaf(self) -> bool:
        """Whether this was not computed by a recorded op."""
        return self.node is None or self.node.op is None

    @property
    def data(self) -> Tensor:
        """The same values outside the graph. Assigning gives the tensor new values of its shape and
        dtype; graphs that were built before keep the old ones."""
        if graph.tracers:
            _touch(self)
        if type(self.value) is Spec:
            return apply(Detach(), self)
        watch.leave(self, ".data")
        return variable(self.value)

    @data.setter
    def data(self, new: Any) -> None:
        if graph.tracers and (t := graph.tracer()) is not None:
            t.assign(self, new)
            return
        array = to_array(new, self.dtype, copy=not isinstance(new, Variable))
        if array.shape != self.shape:
            raise ShapeError(f"data: a tensor of shape {self.shape} cannot become {array.shape}")
        self.value = array

    # --- gradients

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` has accumulated here, None before the first."""
        if graph.tracers:
            _touch(self)
        return None if self.node is None or self.node.extra is None else self.node.extra.grad

    @grad.setter
    def grad(self, new: Tensor | None) -> None:
        if new is not None and not isinstance(cast(object, new), Tensor):
            new = asarray(new, self.dtype)
        if new is not None and new.shape != self.shape:
            raise ShapeError(
                f"grad: the gradient of {self.shape} cannot have shape {new.shape}; "
                "it is a tensor or None"
            )
        if new is not None and not self.requires_grad:
            raise GradientError("grad: this tensor does not require a gradient")
        if graph.tracers:
            _touch(self)
        if self.node is not None and (new is not None or self.node.extra is not None):
            self._extra().grad = new

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _extra(self) -> Extra:
        node = self._node("this")
        if node.extra is None:
            node.extra = Extra(retain=False)
        return node.extra

    def _node(self, what: str) -> Node:
        if self.node is None or not self.node.needs:
            raise GradientError(f"{what} needs a tensor that requires a gradient")
        return self.node

    def requires_grad_(self, on: bool = True) -> Tensor:
        """Ask for a gradient here (or no longer); returns the tensor itself."""
        if not self.is_leaf:
            if not on:
                raise GradientError(
                    "requires_grad_(False) is for leaves; use detach() to leave a graph"
                )
            return self
        if on and self.dtype.kind not in INEXACT:
            raise DtypeError(
                f"only floating-point tensors can require a gradient, not {self.dtype} {self.shape}"
            )
        if on and self.node is None:
            self.node = leaf(self.shape, self.dtype, needs=True)
        elif not on:
            self.node = None
        return self

    def detach(self) -> Tensor:
        """The same values outside the graph."""
        if graph.tracers:
            _touch(self)
        if type(self.value) is Spec:
            return apply(Detach(), self)
        watch.leave(self, "detach()")
        return variable(self.value)

    def backward(
        self,
        gradient: Any = None,
        *,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> None:
        """Add the derivative of this tensor to `grad` of every leaf that it depends on.

        `gradient` is the cotangent, of this tensor's shape; it may be left out for one number. The
        graph is freed, except with `retain_graph`. It also stays if this number is not finite, so
        that `first_bad` can tell why. With `create_graph` the gradients can themselves be
        differentiated.
        """
        if gradient is None:
            shape = self.value.shape
            if shape and self.size != 1:
                raise ShapeError(
                    f"backward: this tensor has shape {shape}, not one number: sum it, or "
                    "give the cotangent as `gradient`"
                )
            one = _one(self.value.dtype)
            g: Any = one.reshape(shape).copy() if shape else one.copy()
        elif gradient.__class__ is np.ndarray and _alike(gradient, self.value):
            lent = not create_graph and accumulation.only_reads(self.node)
            g = gradient if lent else gradient.copy()
        else:
            given = asarray(gradient)
            if given.shape != self.shape:
                raise ShapeError(
                    f"backward: gradient has shape {given.shape}, the tensor {self.shape}"
                )
            g = given.astype(self.dtype)
        traced = type(self.value) is Spec
        if create_graph or traced:
            g = g if isinstance(g, Variable) else variable(g)
        elif isinstance(g, Variable):
            g = g.value
        accumulation.backward(self, g, retain_graph=retain_graph, create_graph=create_graph)

    def register_hook(self, hook: Callable[[Tensor], Any]) -> Handle:
        """Call `hook(gradient)` whenever a gradient arrives here; what it returns, if not None,
        replaces the gradient. The handle's `remove()` takes the hook away."""
        self._node("register_hook")
        hooks = self._extra().hooks
        key = max(hooks, default=-1) + 1
        hooks[key] = hook
        return Handle(hooks, key)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], Any]) -> Handle:
        """Call `hook(self)` whenever `backward` has added to `grad` of this tensor, a leaf.

        The backward pass is over by then, so the hook may take an optimizer's step and set `grad`
        to None. The handle's `remove()` takes the hook away."""
        if not self.is_leaf:
            raise GradientError(
                "register_post_accumulate_grad_hook is for leaves, in which gradients accumulate; "
                f"this tensor was made by {self._node('it').name}: use register_hook"
            )
        self._node("register_post_accumulate_grad_hook")
        hooks = self._extra().after
        key = max(hooks, default=-1) + 1
        hooks[key] = lambda: hook(self)
        return Handle(hooks, key)

    def retain_grad(self) -> None:
        """Keep the gradient in `grad` although this tensor is not a leaf."""
        self._node("retain_grad")
        self._extra().retain = True

    # --- out of the graph

    def _concrete(self, what: str) -> Array:
        if graph.tracers and (t := graph.tracer()) is not None:
            return t.constant_array(self, what)
        if type(self.value) is Spec:
            where = self.node.where if self.node is not None else "an unknown line"
            raise TraceError(
                f"{what} of a value that is not known yet: {self.value} made at {where} stands for "
                f"what later calls bring. {WITHOUT_NUMBERS}"
            )
        if watch.watches:
            watch.escape(self, what)
        return self.value

    def numpy(self) -> Array:
        """The elements as a NumPy array that shares memory and cannot be made writeable."""
        value = self._concrete("numpy()")
        if self.requires_grad:
            raise GradientError(
                "numpy() would leave the graph without a trace: this tensor requires a gradient; "
                "say detach().numpy() if that is what you want"
            )
        return _unwritable(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.requires_grad:
            raise GradientError(
                "a NumPy array would leave the graph without a trace: this tensor requires a "
                "gradient. In place of np.array([x, y]) write cr.asarray([x, y]), of np.r_[x, y] "
                "cr.concat([x, y]), of np.c_[x, y] cr.column_stack([x, y]); if no gradient is to "
                "flow, x.detach().numpy()"
            )
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if _is_shown(Tensor, n)]

    # --- other libraries, in the words of `chainrule.interop`

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _interop("numpy").ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _interop("numpy").function(func, args, kwargs)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        return _interop("standard").namespace(api_version)

    def __dlpack__(
        self,
        /,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        return _interop("dlpack").to_dlpack(self.numpy(), stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _interop("dlpack").CPU

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The tensor itself: the only `device` is "cpu"."""
        check_device(device)
        if stream is not None:
            raise ConfigError("to_device: there are no streams on the CPU; leave `stream` out")
        return self

    def item(self) -> Any:
        """The one element as a Python number."""
        value = self.value
        if graph.tracers or watch.watches or value.__class__ is not np.ndarray:
            value = self._concrete("item()")
        if value.size != 1:
            raise ShapeError(f"item: needs one element, this tensor has shape {self.shape}")
        return value.item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._concrete("tolist()").tolist()

    def __bool__(self) -> bool:
        return bool(self._single("bool()"))

    def __float__(self) -> float:
        if self.node is not None and self.node.needs and differentiated.get():
            notice(self.node)
        return float(self._single("float()"))

    def __int__(self) -> int:
        return int(self._single("int()"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise DtypeError(f"an index must be an integer, not {self.dtype}")
        return int(self._single("an index"))

    def __complex__(self) -> complex:
        if self.node is not None and self.node.needs and differentiated.get():
            notice(self.node)
        return complex(self._single("complex()"))

    def _single(self, what: str) -> Any:
        value = self._concrete(what)
        if value.size != 1:
            raise ShapeError(f"{what} of {self.shape}: needs one element; use any() or all()")
        return value.item()

    def __len__(self) -> int:
        if not self.shape:
            raise DtypeError("a tensor without axes has no len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise DtypeError("a tensor without axes cannot be iterated over")
        return iter(joining.unstack(self))

    def __contains__(self, x: Any) -> bool:
        return bool((self._concrete("in") == np.asarray(x)).any())

    def __repr__(self) -> str:
        if type(self.value) is Spec:
            return f"tensor({self.value}, not known yet)"
        # NumPy writes numbers that are not its own as they come; these are to look like floats
        brain = self.dtype.kind == "V"
        seen, digits = (self.value.astype(FLOAT), 4) if brain else (self.value, None)
        text = np.array2string(
            seen, precision=digits, separator=", ", prefix="tensor(", threshold=200
        )
        notes = f", dtype={self.dtype}"
        if self.node is not None and self.node.needs:
            notes += ", requires_grad=True" if self.is_leaf else f", made by {self.node.name}"
        return f"tensor({text}{notes})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)

    def __reduce__(self) -> Any:
        return Tensor, (self._concrete("pickling"), None, self.requires_grad and self.is_leaf)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return Tensor(self.value, None, self.requires_grad and self.is_leaf)

    def __getitem__(self, key: Any) -> Tensor:
        return index_arrays.getitem(self, key)

    def _assign_result(self, how: str, new: Tensor) -> Tensor:
        """What a name stands for behind `+=` and its like: a new tensor. But within `no_grad()` a
        parameter stays itself and gets new values, since other names refer to it. So does a tensor
        that stands for a NumPy array while a function is compiled."""
        if graph.tracers and (t := graph.tracer()) is not None and t.arrays.changes(self, new):
            self[...] = new
            return self
        if not (self.requires_grad and self.is_leaf):
            return new
        if is_recording():
            if self.grad is None:  # a function's own name for its argument
                return new
            raise GradientError(
                f"{how} of a leaf that has a gradient ({describe(self.value)}) would give the name "
                "another tensor and leave the leaf as it is. To change a parameter, do it within "
                f"no_grad(); for a new tensor write y = x {how[:-1]} ..."
            )
        self.data = new
        return self

    def __setitem__(self, key: Any, values: Any) -> None:
        """This tensor gets a new array and a new place in the graph; what was computed from the old
        one keeps that. The rest is `index_put`'s."""
        unheld = getrefcount(self) <= _UNHELD
        if graph.tracers and (t := graph.tracer()) is not None:
            t.arrays.assigned(self, values)
        if self.requires_grad and self.is_leaf and is_recording():
            raise GradientError(
                f"assigning to a part of a leaf that requires a gradient ({describe(self.value)}): "
                "its gradient would be that of the old values. Assign to a copy (y = x.copy(); "
                "y[...] = ...), or, to change a parameter, do it within no_grad()"
            )
        known = isinstance(values, Variable) or holds_tensors(values)
        given: Any = values if known else operand(values)
        kind = given.dtype.kind if hasattr(given, "dtype") else np.asarray(given).dtype.kind
        if _RANK.get(kind, 9) > _RANK[self.dtype.kind]:
            raise DtypeError(
                f"{describe(values)} cannot stand in elements of {self.dtype}: convert one of them "
                "with astype"
            )
        new = index_put(self, key, given)
        if unheld:
            raise ConfigError(
                "this assignment would be lost: it changes a new tensor that nothing holds, for "
                "x.data, x.detach(), x[i] and x.T share no memory with x. Write x[i, j] = value, "
                "or for a parameter, within no_grad(), p[i] = value"
            )
        if graph.tracers and (t := graph.tracer()) is not None:
            t.assign(self, new, graph=not (self.is_leaf and self.requires_grad))
            return
        self.value = new.value
        if not (self.is_leaf and self.requires_grad):
            self.node = new.node

    @property
    def T(self) -> Tensor:  # noqa: N802
        """All axes in reverse order."""
        return shaping.permute_dims(self, tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two axes exchanged."""
        return shaping.matrix_transpose(self)


bind(Tensor)
for _name, _method in operators():
    setattr(Tensor, _name, _method)
_UNHELD = references_of_unheld()


def _touch(x: Tensor) -> None:
    """Let who traces, if somebody does, know that `x` is about to be read."""
    t = graph.tracer()
    if t is not None:
        t.touch(x)


@cache
def _interop(module: str) -> Any:
    """A module of `chainrule.interop`, which stands above and is loaded when it is first needed."""
    return import_module(f"chainrule.interop.{module}")


class Handle:
    """What `register_hook` returns: `remove()` takes the hook away again."""

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks = hooks
        self._key = key

    def remove(self) -> None:
        """Take the hook away; harmless if it is gone already."""
        self._hooks.pop(self._key, None)


def to_array(data: Any, dtype: Any = None, *, copy: bool) -> Array:
    """`data` as a NumPy array: Python's floats become float32, its complex numbers complex64,
    everything else as NumPy has it."""
    if holds_tensors(data):
        data = _stack_nested(data, dtype)
        if data.requires_grad:
            raise GradientError(
                "a tensor in this list requires a gradient, which would not flow to a new tensor: "
                "join them with cr.stack or cr.asarray, or, if none is to flow, detach() them"
            )
    if isinstance(data, Variable):
        data = data.value
    if type(data) is Spec:
        raise TraceError(
            f"a value that is not known yet ({data}) cannot be copied into a tensor: asarray and "
            "stack take it as it is"
        )
    typed = not isinstance(data, bool | int | float | complex | list | tuple)
    typed = typed or isinstance(data, np.generic)  # np.float64 is a Python float, too
    data = admit_values(data)
    dtype = None if dtype is None else admit_dtype(dtype)
    try:
        if not isinstance(data, np.ndarray | np.generic) and hasattr(data, "__dlpack__"):
            data = _interop("dlpack").read(data)
        array: Array = np.array(cast(Any, data), dtype=dtype, copy=True if copy else None)
    except (BufferError, RuntimeError) as cause:
        raise unreadable(data, cause) from cause
    except (ValueError, TypeError) as cause:
        raise ShapeError(f"cannot make a tensor of {describe(data)}: {cause}") from cause
    array = admit(array)
    if not typed and dtype is None and array.dtype in _PYTHON:
        return array.astype(_PYTHON[array.dtype])
    return array


@cache
def _one(dtype: Dtype) -> Array:
    return np.ones((), dtype)


def _alike(a: Array, b: Any) -> bool:
    """Whether two arrays have one shape and dtype."""
    return a.shape == b.shape and a.dtype == b.dtype and type(b) is not Spec


def _unwritable(value: Array) -> Array:
    """A view of `value` whose `writeable` flag nobody can set: its base is a read-only buffer.

    There are no buffers of bfloat16, so that goes as integers of its size.
    """
    if value.dtype.kind == "V":
        return _unwritable(value.view(np.uint16)).view(value.dtype)
    return np.asarray(memoryview(cast(Any, value)).toreadonly())


def _is_nested(data: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(data, list | tuple)


def holds_tensors(data: Any) -> bool:
    """Whether `data` is nested lists with a tensor among their elements."""
    return _is_nested(data) and any(isinstance(x, Variable) or holds_tensors(x) for x in data)


def _stack_nested(data: Sequence[Any], dtype: Any) -> Tensor:
    """Nested lists with tensors in them, stacked: so gradients flow. The dtype is that of an op on
    all of them: Python numbers take that of the tensors."""
    if dtype is None:
        dtype = result_type(*[getattr(x, "dtype", x) for x in _elements(data)])
    return joining.stack(
        [_stack_nested(x, dtype) if _is_nested(x) else asarray(x, dtype) for x in data]
    )


def _elements(data: Sequence[Any]) -> Iterator[Any]:
    for x in data:
        if _is_nested(x):
            yield from _elements(x)
        else:
            yield x


def tensor(data: Any, dtype: Any = None, *, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`; see `Tensor`.

    >>> cr.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    tensor([[1., 2.],
            [3., 4.]], dtype=float32, requires_grad=True)
    """
    return Tensor(data, dtype, requires_grad)


def asarray(x: Any, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """`x` itself if it is a tensor of that dtype, otherwise a tensor with its values.

    A tensor stays in its graph. Arrays are copied, so that changing them later changes nothing
    here: with `copy=False` only a tensor that needs no conversion is taken. `copy=True` gives a
    tensor of its own in any case. Objects with DLPack's or the buffer protocol count as arrays.
    Lists that hold tensors are stacked, so gradients flow to these.

    >>> t = cr.Tensor(2.0, requires_grad=True)
    >>> cr.asarray([t, 3 * t, 1.0])
    tensor([2., 6., 1.], dtype=float32, made by concat)
    """
    check_device(device)
    if isinstance(x, Tensor):
        if type(x.value) is Spec and x.value.weak:
            x = graph.tracer().strong(x, np.dtype(dtype or _PYTHON.get(x.dtype, x.dtype)))
        if dtype is None or x.dtype == dtype:
            return x.copy() if copy else x
        if copy is False:
            raise DtypeError(f"asarray: {describe(x)} cannot become {dtype} without a copy")
        return x.astype(dtype)
    if copy is False:
        raise DtypeError(f"asarray: {describe(x)} cannot become a tensor without a copy")
    if holds_tensors(x):
        return _stack_nested(x, dtype)
    if graph.tracers and (t := graph.tracer()) is not None and (y := t.standing_for(x)) is not x:
        return asarray(y, dtype)
    return variable(to_array(x, dtype, copy=True))


public(Tensor, __name__)
put_methods(Tensor)
put_elsewhere(Tensor)  # what is no method here
