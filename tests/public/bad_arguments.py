"""Wrong arguments for every public callable, made from its signature and one call that works.

Functions of arrays are called by the samples of all ops while a profiler looks on: the arguments
that come in are the call that works. The rest stand in tables.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import amp, fft, linalg, nn, optim, special
from chainrule.engine.op import Op
from chainrule.nn import functional, init
from tests.ops.sample import apart
from tests.public import samples_shapes

SPACES = {"cr": cr, "linalg": linalg, "fft": fft, "special": special, "F": functional}
SAMPLES = {
    "tests.ops.samples_arrays": ["SAMPLES"],
    "tests.ops.samples_elementwise": ["SAMPLES"],
    "tests.ops.samples_extra": ["SAMPLES"],
    "tests.ops.samples_network": ["SAMPLES"],
    "tests.ops.samples_replacing": ["SAMPLES"],
}


@dataclass(frozen=True)
class Valid:
    """A public callable and arguments with which it works."""

    name: str
    f: Callable[..., Any]
    make: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]


def public_names(space: Any) -> list[str]:
    return [n for n in dir(space) if not n.startswith("_")]


def _deep() -> Any:
    """Lists in lists, 900 deep."""
    x: Any = 1.0
    for _ in range(900):
        x = [x]
    return x


BAD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a string": lambda: "quux",
    "a class": lambda: np.float32,
    "an object": object,
    "NaN": lambda: float("nan"),
    "a negative integer": lambda: -7,
    "a huge integer": lambda: 10**30,
    "deep lists": _deep,
    "a dict": lambda: {"a": 1},
    "words": lambda: np.array(["a", "b"]),
    "objects": lambda: np.array([None, "x"], object),
    "a wrong shape": lambda: np.ones((5, 3, 7, 2, 2)),
    "a wrong dtype": lambda: np.ones((2, 3), np.complex128),
    "a ragged list": lambda: [[1.0], [2.0, 3.0]],
    "a function": lambda: len,
    "a set": lambda: {1, 2},
}
"""What stands in place of an argument."""


# --- Calls that work -----------------------------------------------------------------------------


def _watched(run: list[Callable[[], Any]], codes: Mapping[CodeType, str]) -> dict[str, Any]:
    """The arguments of the first call of each function of `codes`, while everything runs."""
    found: dict[str, Any] = {}

    def look(frame: FrameType, event: str, _: Any) -> None:
        name = codes.get(frame.f_code) if event == "call" else None
        if name is not None and name not in found:
            found[name] = dict(frame.f_locals)

    for f in run:
        sys.setprofile(look)
        try:
            with contextlib.suppress(cr.ChainruleError):
                f()
        finally:
            sys.setprofile(None)
    return found


def _samples() -> list[Callable[[], Any]]:
    run: list[Callable[[], Any]] = []
    for home, tables in SAMPLES.items():
        for table in tables:
            for s in getattr(importlib.import_module(home), table):
                run.append(lambda s=s: s.f(*[cr.tensor(x) for x in s.args]))
    tables = [v for v in vars(samples_shapes).values() if isinstance(v, list) and v]
    return run + [f for t in tables for f in t if callable(f)]


@cache
def functions() -> dict[str, Valid]:
    """Every public function of arrays, with the arguments of a sample."""
    codes: dict[CodeType, str] = {}
    shown: dict[str, list[tuple[str, Any]]] = {}
    valid: dict[str, Valid] = {}
    for label, space in SPACES.items():
        for name in public_names(space):
            f = getattr(space, name)
            key = f"{label}.{name}"
            if isinstance(f, Op):
                valid[key] = Valid(name, f, lambda f=f: (_arrays(f), {}))
            elif inspect.isfunction(f):
                code = inspect.unwrap(f).__code__
                shown.setdefault(codes.setdefault(code, key), []).append((key, f))
    calls = _watched(_samples(), codes)
    for first, arguments in calls.items():
        for key, f in shown[first]:
            valid[key] = Valid(f.__name__, f, lambda f=f, a=arguments: _split(f, a))
    return valid


def _arrays(op: Any) -> tuple[Any, ...]:
    """Arguments that an elementwise op takes: positive floats, or integers for ops on bits."""
    whole = op.name.startswith("bitwise")
    xs = [apart(2, 3, low=0.3, high=0.9, salt=i) for i in range(op.takes)]
    return tuple([cr.tensor(np.arange(6).reshape(2, 3) if whole else x) for x in xs])


def _split(f: Any, locals_: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What came in as arguments by place and by name."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p in inspect.signature(f).parameters.values():
        x = locals_[p.name]
        if p.kind is p.VAR_POSITIONAL:
            args += x
        elif p.kind is p.KEYWORD_ONLY:
            kwargs[p.name] = x
        elif p.kind is not p.VAR_KEYWORD:
            args.append(x)
    return tuple(args), kwargs


def _square_sum(x: Any) -> Any:
    return cr.sum(x * x)


def _carried(c: Any, x: Any) -> Any:
    return c + x, c


def _below_3(x: Any) -> Any:
    return x < 3


def _doubled(x: Any) -> Any:
    return x * 2


def _whatever() -> Any:
    return cr.sum(_leaf() * 2)


X = apart(2, 3)


def _leaf() -> cr.Tensor:
    return cr.tensor(X, requires_grad=True)


def _call(*args: Any, **kwargs: Any) -> Callable[[], Any]:
    return lambda: (tuple([a() if a is _module else a for a in args]), kwargs)


def _module() -> nn.Linear:
    return nn.Linear(3, 2, generator=cr.Generator(0))


def _one(f: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: ((f(),), {})


SETTINGS: dict[str, Any] = {
    "kernel_size": 2, "output_size": 2, "dropout": 0.1, "p": 0.3, "padding": 1, "value": 0.5,
    "upscale_factor": 2, "downscale_factor": 2, "groups": 1, "threshold": 0.5, "dim": 4,
    "unflattened_size": (2, 2), "num_groups": 1, "normalized_shape": 3, "num_heads": 2,
    "n_head": 2, "nhead": 2,
}  # fmt: skip
"""For arguments of layers without a default; others are 4."""
LAYERS = [
    name
    for name, c in vars(nn).items()
    if isinstance(c, type)
    and issubclass(c, nn.Module)
    and name
    not in (
        *("Module", "Sequential", "Checkpoint", "FeedForward"),
        *("Transformer", "TransformerEncoder", "TransformerDecoder"),
    )
]
"""Layers that can be made of numbers."""


def _layer(name: str) -> Callable[[], Any]:
    """A layer of that name, with all its settings by place or by name."""
    settings = list(inspect.signature(getattr(nn, name)).parameters.values())
    given = {
        p.name: SETTINGS.get(p.name, 4) if p.default is p.empty else p.default for p in settings
    }
    places = [given[p.name] for p in settings if p.kind is p.POSITIONAL_OR_KEYWORD]
    words = {p.name: given[p.name] for p in settings if p.kind is p.KEYWORD_ONLY}
    words.pop("init", None)  # a function of the user's, whose errors are its own
    return lambda: (tuple(places), words)


RULES = [n for n, c in vars(optim).items() if hasattr(c, "follow") and n != "UpdateRule"]
"""Optimizers that are a row of settings, a memory and an update."""


def _rule(name: str) -> Callable[[], Any]:
    """An optimizer of that name, with all its settings by place or by name."""
    settings = list(inspect.signature(getattr(optim, name)).parameters.values())[1:]
    places = [p.default for p in settings if p.kind is p.POSITIONAL_OR_KEYWORD]
    words = {p.name: p.default for p in settings if p.kind is p.KEYWORD_ONLY}
    return lambda: (([_leaf()], *places), words)


OTHERS: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "cr.grad": _call(_square_sum, argnums=0),
    "cr.value_and_grad": _call(_square_sum, argnums=0),
    "cr.hessian": _call(_square_sum, argnums=0),
    "cr.jacobian": _call(_square_sum, argnums=0, mode="auto"),
    "cr.vjp": _call(_square_sum, X),
    "cr.jvp": _call(_square_sum, (X,), (X,)),
    "cr.hvp": _call(_square_sum, (X,), (X,)),
    "cr.vmap": _call(_square_sum, in_axes=0, out_axes=0),
    "cr.jit": _call(_square_sum, static_argnums=(), static_argnames=(), reassociate=False),
    "cr.checkpoint": _call(_square_sum),
    "cr.record": _call(_whatever, max_elements=9),
    "cr.scan": _call(_carried, cr.tensor(1.5), cr.tensor([0.5, 0.7])),
    "cr.while_loop": _call(_below_3, _doubled, cr.tensor(0.5)),
    "cr.tree_map": _call(_doubled, {"a": 1.5}),
    "cr.tensor": _call([[0.5, 1.5]], np.float64, requires_grad=True),
    "cr.asarray": _call([[0.5, 1.5]], np.float64, device="cpu", copy=None),
    "cr.zeros": _call((2, 3), np.float64, device="cpu"),
    "cr.ones": _call((2, 3), np.float64, device="cpu"),
    "cr.empty": _call((2, 3), np.float64, device="cpu"),
    "cr.full": _call((2, 3), 0.5, np.float64, device="cpu"),
    "cr.eye": _call(3, 4, k=1, dtype=np.float64),
    "cr.arange": _call(1, 7, 2, np.float64),
    "cr.linspace": _call(0.5, 2.5, 5, np.float64, endpoint=False),
    "cr.logspace": _call(0.5, 2.5, 5, 2.0, np.float64),
    "cr.zeros_like": _call(X, np.float32),
    "cr.ones_like": _call(X, np.float32),
    "cr.empty_like": _call(X, np.float32),
    "cr.full_like": _call(X, 0.5, np.float32),
    "cr.from_dlpack": _call(cr.tensor(X), device="cpu", copy=None),
    "cr.astype": _call(cr.tensor(X), np.float32),
    "cr.broadcast_shapes": _call((2, 1), (3,)),
    "cr.can_cast": _call(np.float32, np.float64),
    "cr.finfo": _call(np.float32),
    "cr.iinfo": _call(np.int32),
    "cr.isdtype": _call(np.dtype(np.float32), "real floating"),
    "cr.result_type": _call(np.float32, np.float64),
    "cr.manual_seed": _call(3),
    "cr.set_num_threads": _call(1),
    "cr.Generator": _call(3),
    "cr.Tensor": _call([[0.5, 1.5]], np.float64, True),
    "cr.Value": _call(0.5),
    **{
        f"cr.{name}": _call(cr.tensor(X), cr.tensor(X))
        for name in ("subtract", "multiply", "divide")
    },
    "cr.negative": _call(cr.tensor(X)),
    "cr.sign": _call(cr.tensor(X)),
    "special.expit": _call(cr.tensor(X)),
    **{f"special.{name}": _call(cr.tensor(X)) for name in vars(special) if "bessel" in name},
    **{f"special.{name}": _call(cr.tensor(X), 3) for name in vars(special) if "polynomial" in name},
    "cr.first_bad": _one(lambda: cr.sum(_leaf() * 2)),
    "cr.saved_bytes": _one(lambda: cr.sum(_leaf() * 2)),
    "cr.who_keeps": _one(_leaf),
    "cr.why": lambda: ((cr.sum((x := _leaf()) * 2), x), {}),
    "cr.leaks": _call(lambda: None, steps=2),
    "cr.capture": _one(lambda: cr.sum(_leaf() * 2)),
    "cr.trap_nan": _call(inf=True),
    "cr.track": _call([1.0], "title", total=1, first=0),
    **{f"nn.{name}": _layer(name) for name in LAYERS},
    **{f"nn.FractionalMaxPool{n}d": _call(2, 3, None, False) for n in (2, 3)},
    "nn.AdaptiveLogSoftmaxWithLoss": _call(8, 5, [1, 2], 2.0, False, dtype=np.float32),
    "nn.Sequential": _call(_module, _module),
    **{f"optim.{name}": _rule(name) for name in RULES},
    "optim.LBFGS": lambda: (([_leaf()], 1.0, 5, 6, 1e-7, 1e-9, 3, "strong_wolfe"), {}),
    "optim.ReduceLROnPlateau": lambda: (
        (optim.SGD([_leaf()]), "min", 0.1, 10, 1e-4, "rel", 0, 0.0, 1e-8),
        {},
    ),
    "optim.Scheduler": lambda: ((optim.SGD([_leaf()]), optim.Constant()), {"setting": "lr"}),
    "optim.AveragedModel": _call(_module),
    "optim.get_ema_avg_fn": _call(0.9),
    "optim.clip_grad_norm": lambda: (([_leaf()], 1.0), {}),
    "optim.clip_grad_value": lambda: (([_leaf()], 1.0), {}),
    "amp.autocast": _call(np.float16, enabled=True),
    "amp.GradScaler": _call(2.0, 2.0, 0.5, 20, True),
    "init.normal_": lambda: ((_leaf(), 0.5, 1.5), {"generator": None}),
    "init.uniform_": lambda: ((_leaf(), 0.5, 1.5), {"generator": None}),
    "init.xavier_uniform_": lambda: ((_leaf(),), {"gain": 1.5}),
    "init.trunc_normal_": lambda: ((_leaf(), 0.5, 1.5), {"a": -1.0, "b": 2.0, "generator": None}),
    "init.orthogonal_": lambda: ((_leaf(),), {"gain": 1.5}),
    "init.eye_": lambda: ((_leaf(),), {}),
    "init.kaiming_uniform_": lambda: ((_leaf(),), {}),
    "init.constant_": lambda: ((_leaf(), 0.5), {}),
}
"""Arguments of what is no function of arrays."""
_HOMES: dict[str, Any] = {**SPACES, "nn": nn, "optim": optim, "amp": amp, "init": init}

METHOD_CALLS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "Tensor.reshape": (_leaf, _call((3, 2))),
    "Tensor.permute_dims": (_leaf, _call((1, 0))),
    "Tensor.transpose": (_leaf, _call(1, 0)),
    "Tensor.swapaxes": (_leaf, _call(0, 1)),
    "Tensor.squeeze": (lambda: cr.ones((1, 3)), _call(0)),
    "Tensor.astype": (_leaf, _call(np.float32)),
    "Tensor.dot": (_leaf, _call(np.ones((3, 2)))),
    "Tensor.clip": (_leaf, _call(0.5, 1.5)),
    "Tensor.requires_grad_": (_leaf, _call(True)),
    "Tensor.register_hook": (_leaf, _call(abs)),
    "Tensor.to_device": (_leaf, _call("cpu")),
    "Tensor.backward": (lambda: _leaf() * 2, _call(np.ones((2, 3)), retain_graph=True)),
    **{
        f"Tensor.{name}": (_leaf, _call(1, keepdims=True))
        for name in ("sum", "mean", "prod", "max", "min", "var", "std", "argmax", "any", "all")
    },
    "Module.load_state_dict": (_module, lambda: ((_module().state_dict(),), {"strict": True})),
    "Module.train": (_module, _call(True)), "Module.to": (_module, _call("float64")),
    "Optimizer.load_state_dict": (
        lambda: optim.SGD([_leaf()], 0.1),
        lambda: ((optim.SGD([_leaf()], 0.1).state_dict(),), {}),
    ),
    "Optimizer.add_param_group": (
        lambda: optim.SGD([_leaf()], 0.1), lambda: (({"params": [_leaf()]},), {}),
    ),
    "Generator.manual_seed": (cr.Generator, _call(3)),
    "Generator.normal": (cr.Generator, _call((2, 3), mean=0.5, std=1.5)),
    "Generator.uniform": (cr.Generator, _call((2, 3), low=0.5, high=1.5)),
    "Generator.integers": (cr.Generator, _call(0, 5, (2, 3))),
    "Generator.permutation": (cr.Generator, _call(5)),
    "Generator.bernoulli": (cr.Generator, _call(0.5, (2, 3))),
}  # fmt: skip
"""Methods: what makes the object, and the arguments."""


WITHOUT = {
    *("enable_grad", "get_num_threads", "keep_products", "load_file", "no_grad", "op_by_op"),
    *("save_file", "strict", "Function", "Trace", "Track", "meshgrid", "round"),
}
"""Public callables that have no row: they take no argument, a file, or stand in another module."""


def names() -> list[str]:
    """The keys of `everything`, for which no function has to be called."""
    functions = [
        f"{label}.{name}"
        for label, space in SPACES.items()
        for name in public_names(space)
        if name not in WITHOUT
        and (isinstance(f := getattr(space, name), Op) or inspect.isfunction(f))
    ]
    return [*dict.fromkeys([*functions, *OTHERS, *METHOD_CALLS])]


@cache
def everything() -> dict[str, Valid]:
    """Every public callable for which arguments are known, by its name."""
    seen = functions().items()  # what makes a kernel calls others, the first time
    valid = {key: v for key, v in seen if key.partition(".")[2] not in WITHOUT}
    for key, make in OTHERS.items():
        home, _, name = key.partition(".")
        valid[key] = Valid(name, getattr(_HOMES[home], name), make)
    for key, (owner, make) in METHOD_CALLS.items():
        name = key.partition(".")[2]
        valid[key] = Valid(name, _method(owner, name), make)
    return valid


def _method(owner: Callable[[], Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(owner(), name)(*args, **kwargs)

    call.__signature__ = inspect.signature(getattr(owner(), name))  # type: ignore[attr-defined]
    return call


# --- Wrong calls ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wrong:
    """A call with one thing wrong: which argument, and what stands there."""

    of: Valid
    argument: str
    what: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.of.name} with {self.what} as {self.argument}"


def wrong_calls(valid: Valid) -> Iterator[Wrong]:
    """Every argument of a call replaced by each bad thing; one too few, one too many, a new one."""
    args, kwargs = valid.make()
    names = _names(valid.f, len(args))
    for i, name in enumerate(names):
        for what, bad in BAD.items():
            changed, same = valid.make()
            yield Wrong(valid, name, what, (*changed[:i], bad(), *changed[i + 1 :]), same)
    for name in kwargs:
        for what, bad in BAD.items():
            same, changed = valid.make()
            yield Wrong(valid, name, what, same, {**changed, name: bad()})
    args, kwargs = valid.make()
    yield Wrong(valid, "?", "one more argument", (*args, *[3] * 9), kwargs)
    yield Wrong(valid, "?", "no argument", (), {})
    yield Wrong(valid, "quux", "an unknown name", args, {**kwargs, "quux": 1})


def _names(f: Any, count: int) -> list[str]:
    """The names of the arguments by place, for an op their numbers."""
    if isinstance(f, Op):
        return [f"argument {i}" for i in range(count)]
    names: list[str] = []
    for p in inspect.signature(f).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            names += [p.name] * (count - len(names))
        elif p.kind is not p.KEYWORD_ONLY:
            names.append(p.name)
    return names[:count]


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` if it takes longer."""

    def late(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of processor time
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _users(error: BaseException, wrong: Wrong) -> bool:
    """Whether a function that was an argument has raised it, or never ends; or it is Python's own
    sentence about the public name."""
    at, depth = error.__traceback__, 0
    while at is not None:
        depth += at.tb_frame.f_code.co_filename == __file__ and at.tb_frame.f_code.co_name[0] == "_"
        at = at.tb_next
    ours = depth and wrong.of.name in ("while_loop", "tree_map", "scan")
    endless = (wrong.of.name, wrong.what) in ENDLESS and isinstance(error, TimeoutError)
    return ours or endless or str(error).startswith(f"{wrong.of.name}.__init__() ")


ENDLESS = {
    ("leaks", "a huge integer"),
    ("while_loop", "a class"),
    ("while_loop", "a function"),
}
"""What runs for ever, as it was told to."""
PRIVATE = ("apply(", "eval", "lambda", "bordered", "__", "getset_descriptor", "NoneType' object")
"""What a message must not speak of."""


def complaint(wrong: Wrong) -> str | None:
    """What is wrong with the answer to a wrong call, None if it is as it should be."""
    try:
        with within(2):
            wrong.of.f(*wrong.args, **wrong.kwargs)
    except cr.ChainruleError as error:
        raised, said = error, str(error)
    except BaseException as error:
        return None if _users(error, wrong) else f"{type(error).__name__}: {error}"
    else:
        return None
    plain = said
    for name in [] if isinstance(wrong.of.f, Op) else inspect.signature(wrong.of.f).parameters:
        plain = plain.replace(name, "x")  # `max_eval` is no private word
    private = [word for word in PRIVATE if word in plain]
    if private:
        return f"speaks of {private[0]}: {said}"
    named = wrong.of.name.strip("_") in said or _users(raised, wrong)
    return None if named else f"does not name the function: {said}"
