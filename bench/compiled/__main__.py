"""Run the compiled benchmarks, or those named, and print Markdown tables.

`python -m bench.compiled` or `python -m bench.compiled microgpt gpt@2`: each question in a process
of its own, with as many threads as stand behind the @ (one by default). The number of threads of
BLAS, PyTorch and XLA is read from the environment when they are imported, so it is set before.
With `--write` the rows also go to `bench/RESULTS.md`.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict

from bench.__main__ import HEAD, line, write
from bench.pairs import Row

QUESTIONS = (
    "microgpt", "mlp", "convnet", "gpt", "gpt@2", "gpt2", "compiling", "fused", "hvp", "threads@2",
    "scalars",
)  # fmt: skip


def environment(threads: str) -> dict[str, str]:
    """The variables under which every library uses so many threads."""
    many = "true" if int(threads) > 1 else "false"
    names = (
        "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NPROC",
        "CHAINRULE_NUM_THREADS",
    )  # fmt: skip
    return {
        **os.environ,
        **dict.fromkeys(names, threads),
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={many}",
        "JAX_PLATFORMS": "cpu",
    }


def ask(question: str) -> str:
    """The Markdown of one question."""
    name, _, threads = question.partition("@")
    module = importlib.import_module(f"bench.compiled.{name}")
    call = [sys.executable, "-m", "bench.compiled", "--child", name]
    done = subprocess.run(
        call, env=environment(threads or "1"), check=True, stdout=subprocess.PIPE, text=True
    )
    rows = [Row(**r) for r in json.loads(done.stdout.splitlines()[-1])]
    doc = (module.__doc__ or name).strip().splitlines()[0]
    day = datetime.date.today().isoformat()
    where = f"{day}, CPython {platform.python_version()}, {threads or 1} of {os.cpu_count()} cores"
    command = f"`python -m bench.compiled {question}` ({where})"
    body = HEAD + "".join([line(r) for r in rows])
    return f"## compiled {question}\n\n{doc}\n\n{command}\n\n{body}"


def main() -> None:
    if "--child" in sys.argv:
        rows = importlib.import_module(f"bench.compiled.{sys.argv[-1]}").run()
        print(json.dumps([asdict(r) for r in rows]))
        return
    names = [a for a in sys.argv[1:] if not a.startswith("-")] or list(QUESTIONS)
    known = {q.partition("@")[0] for q in QUESTIONS}
    unknown = [n for n in names if n.partition("@")[0] not in known]
    if unknown:
        sys.exit(f"no benchmark {unknown[0]!r}; there are {', '.join(QUESTIONS)}")
    for name in names:
        text = ask(name)
        print(text, flush=True)
        if "--write" in sys.argv:
            write(f"compiled {name}", text)


if __name__ == "__main__":
    main()
