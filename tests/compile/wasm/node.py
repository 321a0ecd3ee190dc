"""Node, and what WebAssembly modules compute in it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.compile.wasm.loader import write_loader

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no Node: install nodejs")

CALL = """
for (let i = 0; i < count; i++) step.call();
const kinds = ["results", "state"];
const out = kinds.map((kind) => step.about[kind].map((entry) => {
  const v = step.view(entry);
  return {name: entry.name, dtype: entry.dtype, shape: step.shape(entry),
          bytes: Buffer.from(v.buffer, v.byteOffset, v.byteLength).toString("base64")};
}));
console.log(JSON.stringify(out));
"""


def ran(
    module: Path, script: str, *, fails: bool = False, options: Sequence[str] = (), **values: Any
) -> str:
    """What a script prints that finds the module as `step`, and these values by name; if it
    `fails`, what it complains of. `options` are Node's."""
    write_loader(module.parent)
    head = [
        'import {load} from "./chainrule.mjs";',
        'import fs from "node:fs";',
        *[f"const {name} = {json.dumps(v)};" for name, v in values.items()],
        f"const step = await load(fs.readFileSync({json.dumps(str(module))}));",
    ]
    file = module.with_suffix(".mjs")
    file.write_text("\n".join([*head, script]), encoding="utf-8")
    done = subprocess.run(
        [str(NODE), *options, str(file)], capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) is fails, done.stderr
    return done.stderr if fails else done.stdout


def left(module: Path, count: int = 1) -> tuple[list[Any], dict[str, Any]]:
    """The results of so many calls, and the state after them."""
    results, state = json.loads(ran(module, CALL, count=count))
    return [_array(x) for x in results], {x["name"]: _array(x) for x in state}


def _array(x: dict[str, Any]) -> Any:
    data = base64.b64decode(x["bytes"])
    kind = np.dtype(np.uint16 if x["dtype"] == "bfloat16" else x["dtype"])
    return np.frombuffer(data, kind).reshape(x["shape"])
