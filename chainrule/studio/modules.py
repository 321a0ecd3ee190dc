"""The WebAssembly modules that a page carries.

A module is compiled once, which takes seconds; then it is taken from the compiler's cache.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from chainrule.compile.runtime.cache.folder import folder as cache_folder
from chainrule.compile.runtime.cache.surroundings import surroundings
from chainrule.compile.wasm.target import WASM

MODULES: Final = ("ops", "network2", "network4", "values2", "values4", "gpt")
"""The op table; networks of up to two and up to four hidden layers, their steps and their values;
microgpt."""
_BESIDE: Final = ("network2", "network4")
"""Compiled by a second process, beside the rest, which takes as long."""
_FOLDERS: Final = ("engine", "transforms", "data", "models", "nn", "optim", "studio")
"""Folders of the package that modules depend on, beside the compiler and the ops."""


def page_modules() -> dict[str, bytes]:
    """The modules by name."""
    folder, names = cache_folder(), _entry_names()
    cached = {m: None if folder is None else folder.get(names[m]) for m in MODULES}
    compiled = _compile([m for m, data in cached.items() if data is None])
    if folder is not None:
        for m, data in compiled.items():
            folder.put(names[m], data)
    return {m: data if data is not None else compiled[m] for m, data in cached.items()}


def _entry_names() -> dict[str, str]:
    """A module's name in the cache: a digest of all that it depends on."""
    digest = blake2b(surroundings(WASM).encode(), digest_size=20)
    root = Path(__file__).parents[1]
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return {m: f"{digest.hexdigest()}-{m}" for m in MODULES}


def _compile(names: Sequence[str]) -> dict[str, bytes]:
    """Compile these modules, by two processes where both have something to do."""
    beside = [m for m in names if m in _BESIDE]
    here = [m for m in names if m not in beside]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not here or not beside:
            write_modules(folder, names)
        else:
            code = f"import sys; sys.path[:] = {sys.path!r}\n" + (
                f"from chainrule.studio.modules import write_modules\n"
                f"from pathlib import Path\nwrite_modules(Path({name!r}), {beside!r})"
            )
            with subprocess.Popen([sys.executable, "-c", code]) as process:
                write_modules(folder, here)
            if process.returncode:
                write_modules(folder, beside)
        return {m: (folder / f"{m}.wasm").read_bytes() for m in names}


def write_modules(folder: Path, names: Sequence[str]) -> None:
    """Compile modules, each to a file of its name."""
    from chainrule.studio.op_table import table_module
    from chainrule.studio.training_gpt import gpt_module
    from chainrule.studio.training_network import network_module, values_module

    makers: dict[str, Callable[[], Any]] = {
        "ops": lambda: table_module(folder),
        "network2": lambda: network_module(folder, 2),
        "network4": lambda: network_module(folder, 4),
        "values2": lambda: values_module(folder, 2),
        "values4": lambda: values_module(folder, 4),
        "gpt": lambda: gpt_module(folder),
    }
    for m in names:
        makers[m]()
