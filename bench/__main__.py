"""Run every benchmark, or those named on the command line, and print a Markdown table.

`python -m bench` or `python -m bench eager microgpt`. With `--write` the rows also go to
`bench/RESULTS.md`, in place of the older rows of the same questions.
"""

from __future__ import annotations

import datetime
import importlib
import os
import platform
import sys
from pathlib import Path
from typing import Any

from bench.pairs import Row

QUESTIONS = (
    *("eager", "composites", "modules", "models", "microgpt", "mlp", "scalar", "scalar_loops"),
    *("chain", "convolution", "checkpointing", "algorithms", "traps", "verifier", "observing"),
    *("importing", "compile_time", "interrupts", "sampling", "wasm", "studio", "parallel"),
)
FOLDERS = {
    **dict.fromkeys(("scalar", "scalar_loops", "chain"), "scalars"),
    **dict.fromkeys(("traps", "verifier", "observing"), "verifying"),
}
"""Where the module of a question is, if it is in a folder."""
RESULTS = Path(__file__).parent / "RESULTS.md"
HEAD = "| what | ours | peer | ratio | aim |\n|---|---|---|---|---|\n"


def module_of(name: str) -> Any:
    """The module that answers a question."""
    folder = FOLDERS.get(name)
    return importlib.import_module(f"bench.{folder}.{name}" if folder else f"bench.{name}")


def line(row: Row) -> str:
    return f"| {row.what} | {row.ours} | {row.peer} | {row.ratio} | {row.aim} |\n"


def section(name: str, rows: list[Row]) -> str:
    """The Markdown of one question: its doc line, its command, its rows."""
    question = (module_of(name).__doc__ or name).strip().splitlines()[0]
    day = datetime.date.today().isoformat()
    where = f"{day}, CPython {platform.python_version()}, {os.cpu_count()} cores"
    return (
        f"## {name}\n\n{question}\n\n`python -m bench {name}` ({where})\n\n"
        + HEAD
        + "".join([line(r) for r in rows])
    )


def write(name: str, text: str) -> None:
    """Put a section into the results, in place of an older one of the same name."""
    old = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "# Results\n"
    head, *sections = old.split("\n## ")
    kept = [s for s in sections if not s.startswith(f"{name}\n")]
    parts = [*kept, text.removeprefix("## ").rstrip("\n")]
    RESULTS.write_text(
        head.rstrip("\n") + "".join([f"\n\n## {p.strip()}" for p in parts]) + "\n", encoding="utf-8"
    )


def main() -> None:
    names = [a for a in sys.argv[1:] if not a.startswith("-")] or list(QUESTIONS)
    unknown = [n for n in names if n not in QUESTIONS]
    if unknown:
        sys.exit(f"no benchmark {unknown[0]!r}; there are {', '.join(QUESTIONS)}")
    for name in names:
        text = section(name, module_of(name).run())
        print(text, flush=True)
        if "--write" in sys.argv:
            write(name, text)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
