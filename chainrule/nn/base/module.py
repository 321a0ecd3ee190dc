"""Module: a function with parameters. They are read off its attributes; nothing is registered.

* A tensor that requires a gradient is a parameter; one that does not is a buffer.
* A Module is a child; so are the Modules in a list, tuple or dict (named `blocks.0`, say).
* An attribute whose name begins with an underscore is private: it is not looked at.

A tensor or Module that is reached twice (a tied weight) counts once, under its first name.

Besides, a module remembers, always, when its latest calls were, in the serial numbers that the
nodes of a graph have too: so it can be told afterwards which module made a node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self, cast

from chainrule.engine import graph
from chainrule.engine.arrays import admit_dtype
from chainrule.engine.dtypes import DEVICE, INEXACT, is_device
from chainrule.engine.graph import _next as serial  # pyright: ignore[reportPrivateUsage]
from chainrule.engine.tensors import Handle, Tensor, asarray
from chainrule.errors import ConfigError, DtypeError
from chainrule.names.spellings import MODULES, Hint
from chainrule.nn.base import hooks
from chainrule.nn.base.hooks import Hooks


class Incompatible(NamedTuple):
    """What `load_state_dict(strict=False)` did not find, and what it did not use.

    >>> nn.Linear(2, 1).load_state_dict({"weight": cr.ones((1, 2))}, strict=False)
    Incompatible(missing=['bias'], unexpected=[])
    """

    missing: list[str]
    unexpected: list[str]


_REMEMBERED = 16
"""How many calls of each module. More cost more: what stays alive is in the way of what comes."""


class Module:
    """A function with parameters: state what it computes in `forward`, and call the module itself.

    >>> import chainrule as cr
    >>> from chainrule import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self) -> None:
    ...         self.weight = cr.tensor([1.0, 2.0], requires_grad=True)
    ...     def forward(self, x: cr.Tensor) -> cr.Tensor:
    ...         return x * self.weight
    >>> Scale()
    Scale()  2 parameters
    """

    _hooks: Hooks | None = None
    _ran: deque[int] | None = None
    """Serial numbers before and after each of the latest calls, oldest first, one after the other.
    """

    @property
    def training(self) -> bool:
        """Whether `Dropout` and the like do what they do in training; see `train` and `eval`."""
        return vars(self).get("training", True)

    @training.setter
    def training(self, mode: bool) -> None:
        vars(self)["training"] = mode
        hooks.note_switch()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What a call of the module computes: a subclass states it. Call `module(x)`, not this.

        A module whose other methods compute need not have it: calling the module is the error.
        """
        name = type(self).__name__
        classes = [c for c in type(self).__mro__ if c.__module__ != __name__]
        own = {n: f for c in classes for n, f in vars(c).items()}
        methods = [f"{n}()" for n, f in own.items() if n[0] != "_" and callable(f)]
        raise ConfigError(
            f"{name} has no forward, which a call of it runs: state forward(self, x)"
            + (f", or call a method that it has: {', '.join(methods)}" if methods else "")
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`forward` of the same arguments, and what hooks make of it."""
        start = serial()
        try:
            if self._hooks is None and not hooks.watchers:
                return self.forward(*args, **kwargs)
            return hooks.call(self, self._hooks, args, kwargs)
        finally:
            if (ran := self._ran) is None:
                ran = deque[int](maxlen=2 * _REMEMBERED)
                object.__setattr__(self, "_ran", ran)  # also if the class is frozen
            ran.extend((start, serial()))

    def latest_calls(self) -> list[tuple[int, int]]:
        """The serial numbers between which this module ran, the latest times, oldest first."""
        ran = list(self._ran or ())
        return list(zip(ran[::2], ran[1::2], strict=True))

    def __dir__(self) -> list[str]:
        mine = vars(self)
        return [
            n
            for n in super().__dir__()
            if n in mine or n.startswith("__") or not (n.startswith("_") or n in MODULES)
        ]

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle has of this module: all but its calls, which were not theirs."""
        return {name: value for name, value in vars(self).items() if name != "_ran"}

    # --- what it has

    def children(self) -> Iterator[tuple[str, Module]]:
        """The Modules directly below, by name, in the order in which they were assigned."""
        return ((name, m) for name, m in _members(self) if isinstance(m, Module))

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """This module (named '') and all below it, each once, parents before children."""
        return _modules("", self, set())

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Parameters and buffers, each once, in the order in which they were assigned."""
        return _tensors("", self, set())

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that require a gradient, by name."""
        return ((name, t) for name, t in self.named_tensors() if t.requires_grad)

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The tensors that do not require a gradient, by name."""
        return ((name, t) for name, t in self.named_tensors() if not t.requires_grad)

    def parameters(self) -> list[Tensor]:
        """The tensors that require a gradient."""
        return [t for _, t in self.named_parameters()]

    def buffers(self) -> list[Tensor]:
        """The tensors that do not require a gradient."""
        return [t for _, t in self.named_buffers()]

    def num_parameters(self) -> int:
        """How many numbers the parameters hold together."""
        return sum([t.size for t in self.parameters()])

    # --- what it does in training

    def train(self, mode: bool = True) -> Self:
        """Behave as in training (or, with False, as in use); returns the module itself."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Behave as in use: `train(False)`."""
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make those that there are zeros."""
        for p in self.parameters():
            p.grad = None if set_to_none or p.grad is None else p.grad * 0

    def requires_grad_(self, on: bool = True) -> Self:
        """Train this module's tensors, or (False) freeze them: a frozen parameter is a buffer."""
        for _, t in self.named_tensors():
            t.requires_grad_(on)
        return self

    def to(self, dtype: Any) -> Self:
        """Convert floating-point parameters and buffers to `dtype`, in place; returns the module.

        Integers and booleans stay what they are; complex tensors take a complex `dtype` only.
        Parameters remain the same tensors, so an optimizer keeps them, but it keeps the dtypes of
        its own averages too: make it afterwards. Gradients are forgotten. Raises `DtypeError` for
        a dtype that is not floating-point or complex, `ConfigError` for a device other than "cpu",
        where everything is, and inside a compiled function.
        """
        if is_device(dtype):
            if str(dtype) == DEVICE:
                return self
            raise ConfigError(f"to: there is one device, {DEVICE!r}: leave the call out")
        new = admit_dtype(dtype, "a module")
        if new.kind not in INEXACT:
            raise DtypeError(f"to: a module computes with floating-point numbers, not {new}")
        if graph.tracer() is not None:
            raise ConfigError("to: a module is converted before a function of it is compiled")
        kinds = INEXACT if new.kind == "c" else INEXACT.replace("c", "")
        for _, t in self.named_tensors():
            if t.dtype != new and t.dtype.kind in kinds:
                needs = t.requires_grad
                t.requires_grad_(False).value = t.detach().astype(new).value
                t.requires_grad_(needs)
        return self

    # --- who looks on

    def register_forward_pre_hook(self, hook: Callable[[Any, tuple[Any, ...]], Any]) -> Handle:
        """Call `hook(module, args)` before each forward, args being the positional arguments.

        What it returns, if not None, takes their place: a tuple, or one argument. The handle's
        `remove()` takes the hook away.
        """
        return self._hook().add(self._hook().forward_pre, hook)

    def register_forward_hook(self, hook: Callable[[Any, tuple[Any, ...], Any], Any]) -> Handle:
        """Call `hook(module, args, result)` after each forward; what it returns, if not None, is
        the result."""
        return self._hook().add(self._hook().forward, hook)

    def register_full_backward_pre_hook(
        self, hook: Callable[[Any, tuple[Any, ...]], Any]
    ) -> Handle:
        """Call `hook(module, grad_output)` when the gradients of a call's result have arrived.

        grad_output has an entry for each tensor of the result, None where no gradient came. What
        the hook returns, if not None, takes their place: a tuple of as many, or one gradient.
        """
        return self._hook().add(self._hook().backward_pre, hook)

    def register_full_backward_hook(
        self, hook: Callable[[Any, tuple[Any, ...], tuple[Any, ...]], Any]
    ) -> Handle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of a call have arrived.

        grad_input has an entry for each positional argument, None for those that need no gradient
        or got none. What the hook returns, if not None, takes its place: a tuple of as many, or one
        gradient. Under `vmap` these hooks are not called.
        """
        return self._hook().add(self._hook().backward, hook)

    def _hook(self) -> Hooks:
        if self._hooks is None:
            self._hooks = Hooks()
        return self._hooks

    # --- its state

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by name, outside the graph, as they are now.

        A snapshot that costs nothing: a tensor's array is never written to, so later updates of the
        module do not show here.
        """
        return {name: t.detach() for name, t in self.named_tensors()}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> Incompatible:
        """Take over the tensors or arrays in `state`, converted to the dtypes that are here.

        Raises `ConfigError`, before anything is changed, that names every tensor that is missing,
        unexpected (both only if `strict`) or of another shape.
        """
        mine = dict(self.named_tensors())
        missing = [name for name in mine if name not in state]
        unexpected = [name for name in state if name not in mine]
        given = {name: asarray(state[name]) for name in mine if name in state}
        wrong = [
            f"{name} has shape {x.shape}, needed is {mine[name].shape}"
            for name, x in given.items()
            if x.shape != mine[name].shape
        ]
        reasons = [f"of another shape: {'; '.join(wrong)}"] if wrong else []
        if strict:
            reasons += [f"missing: {', '.join(missing)}"] if missing else []
            reasons += [f"unexpected: {', '.join(unexpected)}"] if unexpected else []
        if reasons:
            raise ConfigError(
                f"this state is not one of {type(self).__name__}: {'. '.join(reasons)}"
            )
        for name, x in given.items():
            mine[name].data = x.detach()
        return Incompatible(missing, unexpected)

    # --- how it looks

    def summary(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module once, and tell of each layer the shape of its result, its parameters,
        operations on numbers, and the bytes that a backward pass keeps: a table, to be printed.

        Buffers change as in any call.
        """
        from chainrule.nn.base.summaries import summary

        return summary(self, args, kwargs)

    def __repr__(self) -> str:
        lines = _tree("", self)
        width = max([len(text) for text, _ in lines])
        count = max([len(n) for _, n in lines[1:]], default=0)
        head, total = lines[0]
        rows = [f"{text:<{width}}  {n:>{count}}".rstrip() for text, n in lines[1:]]
        word = "parameter" if total == "1" else "parameters"
        return "\n".join([f"{head}  {total or 0} {word}", *rows])


for _name, _hint in MODULES.items():
    setattr(Module, _name, Hint(_name, _hint))


def _members(module: Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if not name.startswith("_"):
            yield from _unfold(name, value)


def _unfold(name: str, value: Any) -> Iterator[tuple[str, Tensor | Module]]:
    if isinstance(value, Tensor | Module):
        yield name, value
    elif isinstance(value, list | tuple):
        for i, part in enumerate(cast("list[Any]", value)):
            yield from _unfold(f"{name}.{i}", part)
    elif isinstance(value, dict):
        for key, part in cast("dict[Any, Any]", value).items():
            yield from _unfold(f"{name}.{key}", part)


def _modules(prefix: str, module: Module, seen: set[int]) -> Iterator[tuple[str, Module]]:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield prefix.removesuffix("."), module
    for name, child in module.children():
        yield from _modules(f"{prefix}{name}.", child, seen)


def _tensors(prefix: str, module: Module, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    seen.add(id(module))
    for name, member in _members(module):
        if id(member) in seen:
            continue
        if isinstance(member, Tensor):
            seen.add(id(member))
            yield prefix + name, member
        else:
            yield from _tensors(f"{prefix}{name}.", member, seen)


def _tree(indent: str, module: Module) -> list[tuple[str, str]]:
    """For the module and each one below: its line, and how many parameters it has, if any."""
    settings = [
        f"{name}={value}"
        for name, value in vars(module).items()
        if isinstance(value, int | float | str) and name != "training" and name[0] != "_"
    ]
    n = module.num_parameters()
    lines = [(f"{type(module).__name__}({', '.join(settings)})", f"{n:,}" if n else "")]
    for name, child in module.children():
        (text, count), *below = _tree(indent + "  ", child)
        lines += [(f"{indent}  {name}: {text}", count), *below]
    return lines
