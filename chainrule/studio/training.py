"""What trains in the studio's pages: WebAssembly modules, and the names that microgpt reads.

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

from chainrule.compile.runtime import cache
from chainrule.compile.wasm.loader import script
from chainrule.compile.wasm.target import WASM

MODULES: Final = ("network2", "network4", "gpt")
"""Networks of up to two and up to four hidden layers, and microgpt."""
_BESIDE: Final = MODULES[:2]
"""Compiled by a second process, beside the rest, which takes as long."""
_FOLDERS: Final = ("", "data", "models", "nn", "optim", "studio")
"""Folders of the package that modules depend on, beside the compiler and the ops."""


def training_modules() -> dict[str, bytes]:
    """The modules by name: `network2`, `network4`, `gpt`."""
    folder, names = cache.folder(), _entry_names()
    found = {m: None if folder is None else folder.get(names[m]) for m in MODULES}
    missing = [m for m, data in found.items() if data is None]
    made = _compiled(missing)
    if folder is not None:
        for m, data in made.items():
            folder.put(names[m], data)
    return {m: data if data is not None else made[m] for m, data in found.items()}


def training_data() -> dict[str, Any]:
    """What the pages need beside modules, fit for JSON: the names in the order of training, and the
    loader of modules for their workers."""
    from chainrule.studio.training_gpt import shuffled_names

    return {"names": "\n".join(shuffled_names()[0].training), "loader": script()}


def _entry_names() -> dict[str, str]:
    """A module's name in the cache: a digest of all that it depends on."""
    digest = blake2b(cache.surroundings(WASM).encode(), digest_size=20)
    root = Path(__file__).parents[1]
    for folder in _FOLDERS:
        for path in sorted((root / folder).glob("*.py")):
            digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return {m: f"{digest.hexdigest()}-{m}" for m in MODULES}


def _compiled(names: Sequence[str]) -> dict[str, bytes]:
    """Modules made now, by two processes where both have something to do."""
    beside = [m for m in names if m in _BESIDE]
    here = [m for m in names if m not in beside]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not here or not beside:
            write_modules(folder, names)
        else:
            code = f"import sys; sys.path[:] = {sys.path!r}\n" + (
                f"from chainrule.studio.training import write_modules\n"
                f"from pathlib import Path\nwrite_modules(Path({name!r}), {beside!r})"
            )
            with subprocess.Popen([sys.executable, "-c", code]) as process:
                write_modules(folder, here)
            if process.returncode:
                write_modules(folder, beside)
        return {m: (folder / f"{m}.wasm").read_bytes() for m in names}


def write_modules(folder: Path, names: Sequence[str]) -> None:
    """Compile modules, each to a file of its name."""
    from chainrule.studio.training_gpt import gpt_module
    from chainrule.studio.training_network import network_module

    makers: dict[str, Callable[[], Any]] = {
        "network2": lambda: network_module(folder, 2),
        "network4": lambda: network_module(folder, 4),
        "gpt": lambda: gpt_module(folder),
    }
    for m in names:
        makers[m]()
