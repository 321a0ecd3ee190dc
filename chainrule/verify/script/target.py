"""What is to be run as `__main__`: a file or a module, found and compiled as Python would do it."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from chainrule.errors import ConfigError
from chainrule.verify.script.byhand import code_hooks
from chainrule.verify.script.byhand.loops import compile_telling


@dataclass(frozen=True, eq=False)
class Target:
    """Code that was read and compiled, and what it finds around it."""

    name: str
    """As the user called it: "train.py", "package.train"."""
    code: CodeType
    file: str
    argv0: str
    folder: str
    """What stands first in `sys.path`."""
    spec: ModuleSpec | None = None


def target(name: str) -> Target:
    """Read what `name` means: a file, or a module as after `python -m`.

    Raises:
        ConfigError: If there is no such thing, or it is not Python.
    """
    if Path(name).is_file():
        return _file(name)
    if name.endswith(".py") or os.sep in name:
        kind = "is a folder" if Path(name).is_dir() else "is not there"
        raise ConfigError(f"{name} {kind}: give the path of a Python script")
    return _module(name)


def _file(name: str) -> Target:
    path = os.path.abspath(name)  # noqa: PTH100 (as Python does it: links stay what they are)
    with io.open_code(path) as file:
        text = file.read()
    return Target(name, _compile(text, path), path, name, str(Path(path).resolve().parent))


def _module(name: str) -> Target:
    """The module of that name, compiled to run as `__main__`; raises `ConfigError` if there is
    none."""
    spec = _spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec(f"{name}.__main__")
        if spec is None:
            raise ConfigError(
                f"{name} is a package without __main__: name the module in it that trains"
            )
    if spec is None:
        raise ConfigError(
            f"there is no file and no module {name}: give the path of a script, the name of a "
            "module that can be imported from here, or module:Name for one thing in it"
        )
    loader: Any = spec.loader
    try:
        code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None
        source = loader.get_source(spec.name) if hasattr(loader, "get_source") else None
    except SyntaxError as error:
        raise _syntax_error(error) from error
    if code is None or spec.origin is None:
        raise ConfigError(f"{name} is not written in Python: there is nothing to run")
    if source is not None:
        code = _compile(source.encode(), spec.origin)
    return Target(name, code, spec.origin, spec.origin, str(Path.cwd()), spec)


def _spec(name: str) -> ModuleSpec | None:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # a parent is missing, or is no package
        return None
    finally:
        sys.path.pop(0)


def _compile(text: bytes, path: str) -> CodeType:
    try:
        return compile_telling(text, path)
    except SyntaxError as error:
        raise _syntax_error(error) from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a Python script: {error}") from error


def _syntax_error(error: SyntaxError) -> ConfigError:
    line = f", line {error.lineno}" if error.lineno else ""
    return ConfigError(f"{error.filename}{line}: {error.msg}: Python cannot read the script")


@contextmanager
def as_main(target: Target, args: Sequence[str]) -> Generator[dict[str, Any]]:
    """Within it the process looks as if Python had been started with `target`; its namespace."""
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=target.file,
        __builtins__=builtins,
        __spec__=target.spec,
        __package__=target.spec.parent if target.spec else None,
        __loader__=target.spec.loader if target.spec else None,
        __cached__=None,
    )
    before = sys.modules["__main__"], sys.argv, sys.path
    sys.modules["__main__"] = main
    sys.argv = [target.argv0, *args]
    sys.path = [target.folder, *sys.path[1:]]
    try:
        code_hooks.prepare()
        yield main.__dict__
    finally:
        sys.modules["__main__"], sys.argv, sys.path = before
