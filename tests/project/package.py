"""Build the distributions, install the wheel into a clean environment and use it, step by step.

Run by `make test`. Exits with 0, or with the first step that failed and what it said.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

GRADIENT = """
import chainrule as cr
x = cr.tensor([1.5, -2.0], requires_grad=True)
(x * x).sum().backward()
assert x.grad.tolist() == [3.0, -4.0], x.grad
assert cr.grad(lambda x: x**3)(2.0).item() == 12.0
assert "site-packages" in cr.__file__, cr.__file__
"""


def run(what: str, *command: str | Path, cwd: Path) -> str:
    """Run a command elsewhere than in the repository, whose package must not be found; say so."""
    start = time.perf_counter()
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"{what}: FAILED ({done.returncode})\n{done.stdout}\n{done.stderr}")
        sys.exit(1)
    print(f"{what}: ok ({time.perf_counter() - start:.1f} s)", flush=True)
    return done.stdout


def expect(what: str, holds: bool) -> None:
    """Stop with a sentence if something that must hold does not."""
    if not holds:
        print(f"{what}: FAILED")
        sys.exit(1)
    print(f"{what}: ok", flush=True)


def check_contents(wheel: Path, sdist: Path) -> None:
    """The package and nothing else in the wheel, with its data; its sources in the sdist."""
    names = zipfile.ZipFile(wheel).namelist()
    foreign = [n for n in names if not n.startswith(("chainrule/", "chainrule-"))]
    expect(f"wheel holds only the package {foreign or ''}", not foreign)
    kept = [p.relative_to(ROOT) for p in (ROOT / "chainrule").rglob("*") if p.is_file()]
    wanted = {p.as_posix() for p in kept if "__pycache__" not in p.parts}
    expect(f"wheel is complete {sorted(wanted - set(names)) or ''}", wanted <= set(names))
    expect("wheel holds the licence", any(n.endswith("licenses/LICENSE") for n in names))
    with tarfile.open(sdist) as tar:
        tops = {n.partition("/")[2].split("/")[0] for n in tar.getnames()}
    expect("sdist holds what builds it", {"pyproject.toml", "chainrule", "README.md"} <= tops)


def use(env: Path, away: Path) -> None:
    """What a newcomer does first."""
    python, command = env / "bin" / "python", env / "bin" / "chainrule"
    run("import and gradient", python, "-W", "error", "-c", GRADIENT, cwd=away)
    version = run("chainrule --version", command, "--version", cwd=away)
    expect(f"version is the package's ({version.strip()})", "0." in version)
    out = away / "out"
    run("chainrule train", command, "train", "--steps", "3", "--out", out, cwd=away)
    files = sorted(p.name for p in out.iterdir())
    expect(f"training left {files}", {"losses.csv", "losses.svg"} <= set(files))
    names = run(
        *("chainrule sample", command, "sample", "--checkpoint", out),
        *("--count", "3", "--seed", "1"),
        cwd=away,
    )
    # A model that has hardly learnt anything may invent an empty name: a line all the same.
    expect("sampling printed 3 lines", len(names.splitlines()) == 3)


def main() -> None:
    """Build, install, use."""
    with tempfile.TemporaryDirectory(prefix="chainrule-package-") as folder:
        away = Path(folder)
        dist = away / "dist"
        run("build", sys.executable, "-m", "build", "--outdir", dist, ROOT, cwd=away)
        (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
        check_contents(wheel, sdist)
        env = away / "env"
        venv.create(env, with_pip=True)
        pip = [env / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        run("install into a clean environment", *pip, "install", wheel, cwd=away)
        use(env, away)
    print("package: ok")


if __name__ == "__main__":
    main()
