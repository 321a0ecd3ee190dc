"""The examples run, with small numbers, come to the result that they promise, and show it."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

FOLDER = Path(__file__).parents[2] / "examples"


class Small(NamedTuple):
    """How an example runs here: arguments of `main`, what it prints near its end, what is true of
    its result, and what it needs: packages, or programs of which one is enough."""

    arguments: dict[str, Any]
    ending: str
    holds: Callable[[Any], bool]
    package: str = ""
    programs: tuple[str, ...] = ()


def _equal(pairs: list[tuple[float, float]]) -> bool:
    """Losses of two programs are the same to rounding, and fall."""
    same = all(a == pytest.approx(b, rel=1e-4) for a, b in pairs)
    return len(pairs) > 1 and same and pairs[-1][0] < pairs[0][0]


SMALL = {
    "resnet_digits": Small({"epochs": 2}, "right: ", lambda right: right > 0.5, "sklearn"),
    "lstm_names": Small({"steps": 12, "width": 16}, "names: ", lambda loss: loss < 3.2),
    "vae_digits": Small({"epochs": 2}, "epoch   2: ", lambda loss: loss < 40, "sklearn"),
    "ode_lynx_and_hare": Small({"steps": 2}, "1920 ", lambda loss: loss < 0.05),
    "maml_sinusoids": Small(
        {"steps": 4000}, "MAML",
        lambda table: table["MAML, trained with one"][1] < table["trained without"][1] / 2,
    ),
    "own_op": Small({}, "Hessian times t", lambda off: max(off.values()) < 1e-12),
    "pytorch_verified": Small(
        {"steps": 1}, "k_bar = s_bar.mT @ q / ",
        lambda report: [f.name.code for f in report.findings] == ["factor"], "torch",
    ),
    "c_export_names": Small({"steps": 9}, "   9  ", _equal, programs=("cc", "gcc")),
    "browser_spirals": Small({"steps": 9}, "   9  ", _equal, programs=("node",)),
}  # fmt: skip


def test_every_example_is_here():
    several_workers = {"parallel_names"}  # see tests/parallel
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SMALL) | several_workers


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_an_example_is_of_a_length_to_be_read(path: Path):
    assert 30 <= path.read_text(encoding="utf-8").count("\n") <= 100


@pytest.mark.parametrize("name", SMALL)
def test_an_example(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    small = SMALL[name]
    if small.package:
        pytest.importorskip(small.package)
    if small.programs and not any(map(shutil.which, small.programs)):
        pytest.skip(f"the example needs one of {', '.join(small.programs)}")
    main = runpy.run_path(str(FOLDER / f"{name}.py"))["main"]
    folder = [str(tmp_path)] if "folder" in main.__annotations__ else []
    result = main(*folder, **small.arguments)
    assert small.holds(result), result
    assert small.ending in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_the_page_of_an_example_trains(tmp_path: Path):
    main = runpy.run_path(str(FOLDER / "browser_spirals.py"))["main"]
    main(str(tmp_path), steps=1)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000"]
    page = (tmp_path / "spirals.html").as_uri()
    done = subprocess.run([*command, page], capture_output=True, text=True, check=True, timeout=60)
    assert re.search(r"step \d+: loss 0\.[67]\d", done.stdout)


def test_an_example_with_another_result_fails():
    assert not _equal([(3.0, 3.0), (2.9, 2.8)])
    assert not _equal([(3.0, 3.0)]) and not _equal([])
    assert not SMALL["own_op"].holds({"gradient": 1e-6})
