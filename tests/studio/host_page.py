"""A page that holds one training page of the studio, put together as the studio's own is."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path

import chainrule.studio
from chainrule.page.palette import PALETTE

WEB = Path(chainrule.studio.__file__).parent / "web"
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data:"
)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.M)


def joined(entries: Sequence[str]) -> str:
    """Modules and all that they import, in order of need, as one script."""
    found: dict[str, str] = {}

    def add(name: str) -> None:
        if name in found:
            return
        text = (WEB / name).read_text(encoding="utf-8")
        for other in _IMPORT.findall(text):
            add(other)
        found[name] = re.sub(
            r"^export (?=(async )?(function|const|class))", "", _IMPORT.sub("", text), flags=re.M
        )

    for name in entries:
        add(name)
    return "\n".join(found.values())


def variables(dark: bool) -> str:
    return "".join([f"--{n}: {c.dark if dark else c.light};" for n, c in PALETTE.items()])


def host_page(page: str, modules: dict[str, bytes], data: dict[str, object]) -> str:
    """The HTML of one page, `network` or `gpt`; the fragment of its address are its params."""
    packed = {name: base64.b64encode(b).decode() for name, b in modules.items()}
    css = (WEB / "training.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{page}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<style>:root {{ color-scheme: light dark; {variables(False)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {variables(True)} }} }}
body {{ background: var(--ground); color: var(--ink); margin: 0; }}
body {{ font: 16px system-ui, sans-serif; }}
main {{ padding: 1.5rem clamp(0.75rem, 3vw, 2rem); }} h1 {{ font-size: 1.375rem; }}
{css}</style></head><body><main><h1>{page}</h1></main><script type="module">
{joined([f"{page}_page.mjs"])}
const packed = {json.dumps(packed)};
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const modules = Object.fromEntries(Object.entries(packed).map(([k, v]) => [k, bytes(v)]));
const params = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
globalThis.page = {page}Page({{modules, data: {json.dumps(data)}, params, openTrace() {{}}}});
document.querySelector("main").append(page.element);
page.start();
</script></body></html>"""
