"""Puts a page together: one HTML file with styles, code, traces and modules in it.

The code is the ES modules in `web/`, one after the other in the order in which they need each
other, as one module: lines that import are left out, and the word `export`. So names at the top of
a file are unique over all files, which a test sees to. Nothing is fetched; the policy of the page
forbids it.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from chainrule.page.html import document
from chainrule.page.palette import PALETTE

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data:"
)
_IMPORT = re.compile(r'^import\s+\{[^}]*\}\s+from\s+"\./([\w.]+)";\n', re.M)
_EXPORT = re.compile(r"^export (?:\{.*$|(?=(?:async )?function|const|let|class))", re.M)
_LOADER = "chainrule.mjs"
"""The loader of WebAssembly modules, which stands with the compiler."""


@cache
def web_file(name: str) -> str:
    """The text of a file in `web/`, or of the loader of WebAssembly modules."""
    compiler, web = files("chainrule.compile.wasm"), files("chainrule.studio") / "web"
    return ((compiler if name == _LOADER else web) / name).read_text(encoding="utf-8")


def modules_in_order(*entries: str) -> list[str]:
    """The names of modules and of all that they import, each after those that it needs."""
    out: list[str] = []

    def visit(name: str) -> None:
        if name in out:
            return
        for other in _IMPORT.findall(web_file(name)):
            visit(other)
        out.append(name)

    for entry in entries:
        visit(entry)
    return out


def joined_code(*entries: str) -> str:
    """Modules and all that they import as one text without imports and exports."""
    texts = [_EXPORT.sub("", _IMPORT.sub("", web_file(n))) for n in modules_in_order(*entries)]
    return "\n".join(texts).replace("</script", "<\\/script")


def style_sheet(names: Sequence[str]) -> str:
    """The colours of the palette as variables for light and dark, then the sheets in `web/`."""

    def variables(scheme: str) -> str:
        return " ".join([f"--{name}: {getattr(c, scheme)};" for name, c in PALETTE.items()])

    return "\n".join(
        [
            f":root {{ color-scheme: light; {variables('light')} }}",
            "@media (prefers-color-scheme: dark) { :root:not([data-theme=light]) "
            f"{{ color-scheme: dark; {variables('dark')} }} }}",
            f":root[data-theme=dark] {{ color-scheme: dark; {variables('dark')} }}",
            *[web_file(name) for name in names],
        ]
    )


def pack(data: bytes) -> str:
    """Bytes as a page carries them: deflated, in base64."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def page(
    title: str,
    entry: str,
    *,
    data: Mapping[str, Any],
    binaries: Mapping[str, bytes] | None = None,
    styles: Sequence[str] = ("studio.css",),
) -> str:
    """A whole document: the module `entry` runs with `data` (JSON) and `binaries` (bytes)."""
    body = [
        '<div id="studio"></div>',
        "<noscript>This page computes with JavaScript, which is switched off here.</noscript>",
        *page_scripts(entry, data, binaries or {}),
    ]
    return document(title, style_sheet(styles), body, POLICY)


def page_scripts(
    entry: str, data: Mapping[str, Any], binaries: Mapping[str, bytes]
) -> tuple[str, str]:
    """What a page carries, and the code of the module `entry`."""
    content = {
        "data": pack(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()),
        "binaries": {name: pack(b) for name, b in binaries.items()},
    }
    text = json.dumps(content, separators=(",", ":"))
    return (
        f'<script type="application/json" id="carried">{text}</script>',
        f'<script type="module">{joined_code(entry)}</script>',
    )
