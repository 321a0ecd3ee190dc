"""`chainrule verify module:Name`: one thing, at arguments that are found by trying.

Nothing is said of what a function takes, so shapes are tried, simple ones first, until it computes.
Which ones were taken is what the report is called by.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import chainrule
from chainrule import verify
from chainrule.errors import ConfigError
from chainrule.verify.reporting.report import Report
from chainrule.verify.script.sandbox.quiet import calm
from chainrule.verify.subject import Array

SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((3, 4),),
    ((3, 4), (3, 4)),
    ((3, 4), (4, 5), (5,)),
    ((3, 4), (4,), (4,)),
    ((3, 4), (5, 4), (5,)),
    ((2, 3, 4), (2, 3, 4), (2, 3, 4)),
    ((3, 3), (3, 3), (3, 3)),
    ((2, 3, 8, 8), (4, 3, 3, 3), (4,)),
    ((4,),),
    ((),),
)
"""Shapes of the arguments, tried in this order; the last one is repeated as often as needed."""


def verify_name(name: str) -> Report:
    """The report on `module:Name` or `file.py:Name`: a function, a Function, a layer.

    Raises:
        ConfigError: If there is no such thing, or no arguments were found at which it computes.
    """
    where, _, path = name.partition(":")
    module = _import(where)
    thing: Any = module
    for part in path.split("."):
        if not hasattr(thing, part):
            raise ConfigError(f"{where} has no {part}: name something that is defined in it")
        thing = getattr(thing, part)
    if inspect.isclass(thing) and not _is_function(thing):
        thing = _build(name, thing)
    return _report(name, thing, module)


def _import(where: str) -> ModuleType:
    """The module of that path or name; raises `ConfigError` if there is none."""
    path = Path(where)
    if not path.is_file():
        sys.path.insert(0, str(Path.cwd()))
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"there is no file and no module {where} ({error}): give a path or a module's name"
            ) from error
    if path.stem in sys.modules:
        return sys.modules[path.stem]
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise ConfigError(f"{where} is not Python: give a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _report(name: str, thing: Any, module: ModuleType) -> Report:
    """By what the thing is."""
    faces: Any = verify
    inner: Any = getattr(thing, "forward", thing)
    if _is_function(thing):
        args = _arguments(name, thing.apply, _count(inner) - 1, _makers(module))
        return faces.function(thing, *args)
    if inner is not thing and hasattr(thing, "backward"):
        return faces.pair(thing, *_arguments(name, inner, _count(inner), [np.array]))
    if callable(inner):
        return faces.check(thing, *_arguments(name, inner, _count(inner), _makers(module)))
    raise ConfigError(f"{name} is {type(thing).__name__}: name a function, a Function or a layer")


def _is_function(thing: Any) -> bool:
    """Whether it is a class of ops, ours or PyTorch's."""
    from chainrule.engine.function import Function

    torch: Any = sys.modules.get("torch")
    bases = (Function,) if torch is None else (Function, torch.autograd.Function)
    return inspect.isclass(thing) and issubclass(thing, bases)


def _build(name: str, kind: type) -> Any:
    try:
        return kind()
    except TypeError as error:
        raise ConfigError(
            f"{name} cannot be built without arguments ({error}): make an object of it in the "
            "module and name that"
        ) from error


def _count(f: Callable[..., Any]) -> int:
    """How many arguments `f` must be given; self is not counted."""
    parameters = inspect.signature(f).parameters.values()
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return len([p for p in parameters if p.kind in plain and p.default is p.empty])


def _makers(module: ModuleType) -> list[Callable[[Array], Any]]:
    """What makes arguments, of the libraries that the module uses."""
    torch: Any = sys.modules.get("torch")
    used = [v for v in vars(module).values() if isinstance(v, ModuleType)]
    names = {m.__name__.partition(".")[0] for m in used}
    makers: list[Callable[[Array], Any]] = []
    if torch is not None and "torch" in names:
        makers += [_torch_maker(np.float32), _torch_maker(np.float64)]
    if "chainrule" in names:
        makers += [_native_maker]
    return [*makers, np.array]


def _native_maker(a: Array) -> Any:
    return chainrule.tensor(a, requires_grad=True)


def _torch_maker(dtype: type) -> Callable[[Array], Any]:
    torch: Any = sys.modules["torch"]

    def make(a: Array) -> Any:
        return torch.from_numpy(a.astype(dtype)).requires_grad_()

    return make


def _arguments(
    name: str, f: Callable[..., Any], count: int, makers: list[Callable[[Array], Any]]
) -> list[Any]:
    """The first arguments at which `f` computes."""
    reason = "it takes no arguments"
    for arrays in _trial_arguments(count):
        for make in makers:
            args = [make(a) for a in arrays]
            try:
                with calm():
                    f(*[make(a) for a in arrays])
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                return args
    shapes = "; ".join([", ".join([str(s) for s in row]) for row in SHAPES])
    raise ConfigError(
        f"no arguments were found at which {name} computes (tried the shapes {shapes}; the last "
        f"try said {reason}): call chainrule.verify.check({name.rpartition(':')[2]}, ...) with "
        "arguments of your own"
    )


def _trial_arguments(count: int) -> Iterator[list[Array]]:
    if count < 1:
        return
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for row in SHAPES:
        shapes = (row + (row[-1],) * count)[:count]
        if shapes not in seen:
            seen.add(shapes)
            random = np.random.default_rng(0)
            yield [random.normal(size=s) for s in shapes]
