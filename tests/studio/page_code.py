"""Runs the code of the studio's pages in Node, as a page runs it: joined, without imports."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from chainrule.studio.modules import page_modules
from chainrule.studio.op_table import table_data
from chainrule.studio.page import joined_code

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="there is no Node: install nodejs")

NUMBERS = """
const view = new DataView(new ArrayBuffer(8));
// A float64 as its 16 hexadecimal digits, so that none is lost on the way.
const bits = (x) => {
  view.setFloat64(0, x);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
};
const print = (value) => fs.writeFileSync(answer, JSON.stringify(value));
"""


@cache
def op_module() -> bytes:
    return page_modules()["ops"]


def run_code(folder: Path, modules: Sequence[str], script: str, **values: Any) -> Any:
    """What a script `print`s that finds these modules of the page, and `values` by name.

    With `op_table.mjs` among them it finds `table`, too.
    """
    parts = ['import fs from "node:fs";', joined_code(*modules), NUMBERS]
    if "op_table.mjs" in modules:
        (folder / "ops.wasm").write_bytes(op_module())
        values = {**values, "tableData": table_data()}
        file = json.dumps(str(folder / "ops.wasm"))
        opening = f"const table = await OpTable.open(fs.readFileSync({file}), tableData);"
        script = f"{opening}\n{script}"
    answer, values_file = folder / "answer.json", folder / "values.json"
    values_file.write_text(json.dumps(values), encoding="utf-8")
    parts.append(f"const answer = {json.dumps(str(answer))};")
    if values:
        names, file = ", ".join(values), json.dumps(str(values_file))
        parts.append(f"const {{{names}}} = JSON.parse(fs.readFileSync({file}, 'utf8'));")
    file = folder / "code.mjs"
    file.write_text("\n".join([*parts, script]), encoding="utf-8")
    done = subprocess.run(
        [str(NODE), str(file)], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(answer.read_text(encoding="utf-8"))
