"""Run the Array API standard's conformance suite on chainrule and on NumPy, side by side.

    python scripts/array_api_tests.py FOLDER [--max-examples 5] [--numpy-only | --ours-only]

FOLDER is a checkout of github.com/data-apis/array-api-tests with its submodule `array-api`; the
interpreter needs what that suite's requirements.txt lists. Prints how many tests pass, and our
failures that are not in array_api_known_failures.txt; exits with 1 if there are any. The suite
draws random examples: a rare case may fail in one run and not in the next.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

KNOWN = Path(__file__).with_name("array_api_known_failures.txt")


def run(folder: Path, module: str, examples: int) -> tuple[str, set[str]]:
    """The suite's last line, and the names of the tests that failed."""
    command = [sys.executable, "-m", "pytest", "array_api_tests", "-q", "-rf", "--tb=no"]
    command += ["-p", "no:cacheprovider", "--max-examples", str(examples), "--disable-deadline"]
    env = os.environ | {"ARRAY_API_TESTS_MODULE": module, "ARRAY_API_TESTS_VERSION": "2024.12"}
    env |= {"COLUMNS": "500"}  # so that pytest does not cut the names short
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if not lines or "passed" not in lines[-1]:
        sys.exit(f"the suite did not run on {module}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    failed = [line.removeprefix("FAILED array_api_tests/") for line in lines if "FAILED " in line]
    return lines[-1], {
        re.sub(r" - [A-Za-z_.]*(Error|Exception|Failed|Group).*$", "", f) for f in failed
    }


def known() -> list[str]:
    """The beginnings of the names of tests that are known to fail."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def main() -> int:
    """Run, compare, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--max-examples", type=int, default=5)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--numpy-only", action="store_true")
    only.add_argument("--ours-only", action="store_true")
    args = parser.parse_args()
    if not (args.folder / "array_api_tests").is_dir():
        parser.error(f"{args.folder} is no checkout of array-api-tests")
    if not args.ours_only:
        print(f"numpy:     {run(args.folder, 'numpy', args.max_examples)[0]}")
    if args.numpy_only:
        return 0
    line, failed = run(args.folder, "chainrule", args.max_examples)
    print(f"chainrule: {line}")
    new = sorted(f for f in failed if not f.startswith(tuple(known())))
    print("\n".join(["new failures:", *new]) if new else "every failure is a known one")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
