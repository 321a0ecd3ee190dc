"""Backwards whose code is not Python: found, located to the call, named by the Jacobian."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import verify
from chainrule.verify.foreign_kernels import kernels_in
from chainrule.verify.reporting.report import Report
from tests.project.test_docs import ROOT, blocks_of, run

COMPILER = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")
PAGE = {block.info: block.text for block in blocks_of(ROOT / "docs" / "kernels.md")}
WRONG, RIGHT = "sum / n", "sum"
X = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)


def compiled(text: str, folder: Path) -> Path:
    (folder / "softmax.c").write_text(text, encoding="utf-8")
    command = [COMPILER, "-O2", "-shared", "-fPIC", "-o", "softmax.so", "softmax.c", "-lm"]
    subprocess.run([str(c) for c in command], cwd=folder, check=True)
    return folder / "softmax.so"


@pytest.fixture
def library(tmp_path: Path) -> Callable[..., Any]:
    """The page's kernels with another term, in float32 or float64."""

    def built(term: str, dtype: str = "float") -> Any:
        assert WRONG in PAGE["c"]
        text = PAGE["c"].replace(WRONG, term).replace("float", dtype)
        name = f"{len(list(tmp_path.iterdir()))}"
        (tmp_path / name).mkdir()
        return ctypes.CDLL(str(compiled(text, tmp_path / name)))

    return built


def launched(kernel: Any, *arrays: Any) -> Any:
    """What a kernel makes of contiguous arrays of the dtype of the first one."""
    dtype = np.asarray(arrays[0]).dtype
    arrays = tuple([np.ascontiguousarray(a, dtype) for a in arrays])
    out = np.empty_like(arrays[-1])
    addresses = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
    kernel(*addresses, *[ctypes.c_size_t(n) for n in out.shape])
    return out


def report_on(built: Any) -> Report:
    def forward(x: Any) -> Any:
        y = launched(built.softmax, x)
        return y, y

    def backward(g: Any, y: Any) -> Any:
        return launched(built.softmax_backward, g, y)

    return verify.pair(forward, backward, X.astype(np.float64))


@needs_compiler
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    compiled(PAGE["c"], tmp_path)
    (tmp_path / "check.py").write_text(PAGE["python"], encoding="utf-8")
    assert run("check.py", cwd=tmp_path).stdout == PAGE["text"]


@needs_compiler
@pytest.mark.parametrize(
    ("term", "codes"),
    [
        ("sum / n", {"factor"}),
        ("sum * 2", {"factor"}),
        ("-sum", {"factor", "sign"}),
        ("0", {"missing_term"}),
        (RIGHT, set[str]()),
    ],
)
def test_a_wrong_kernel_is_named_where_it_is_called(
    library: Any, term: str, codes: set[str]
) -> None:
    report = report_on(library(f"({term})", "double"))
    assert {f.name.code for f in report.findings} <= codes
    assert report.ok is not bool(codes), str(report)
    for finding in report.findings:
        assert finding.place is not None and "softmax_backward" in finding.place.text
        assert finding.correction is None or not finding.correction.after
    untouched = [s.why for s in report.ledger.skipped if "corrections" in s.subject]
    assert bool(untouched) is bool(codes)


@needs_compiler
@pytest.mark.parametrize("contiguous", [True, False])
def test_a_kernel_of_one_dtype_runs_in_that_and_gets_every_layout(
    library: Any, contiguous: bool
) -> None:
    built = library(RIGHT)

    class Softmax(cr.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = np.empty_like(x.numpy())
            Softmax.launch(built.softmax, np.ascontiguousarray(x.numpy()), y)
            ctx.save_for_backward(cr.tensor(y))
            return cr.tensor(y)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            y = ctx.saved_tensors[0].numpy()
            sent = np.ascontiguousarray(g.numpy()) if contiguous else g.numpy()
            x_bar = np.empty_like(y)
            Softmax.launch(built.softmax_backward, sent, y, x_bar)
            return cr.tensor(x_bar)

        @staticmethod
        def launch(kernel: Any, *arrays: Any) -> None:
            addresses = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
            kernel(*addresses, *[ctypes.c_size_t(n) for n in arrays[-1].shape])

    report = verify.function(Softmax, cr.tensor(X))
    assert [f.name.code for f in report.findings] == ([] if contiguous else ["contiguity"])
    assert any("made for one dtype" in s.why for s in report.ledger.skipped), str(report)


class Launched:
    """Called as Triton's kernels are: `kernel[grid](x, out, n)`; it has no text."""

    def __init__(self, text: str) -> None:
        scope: dict[str, Any] = {"np": np}
        exec(text, scope)
        self._kernel = scope["kernel"]

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any) -> None:
            for i in range(grid[0]):
                self._kernel(i, *args)

        return launch


SQUARED = Launched("def kernel(i, x, y): y[i] = (x[i] ** 2).sum()")
WRONG_SQUARED = Launched("def kernel(i, g, x, x_bar): x_bar[i] = g[i] * x[i]")


def squared(x: Any) -> Any:
    y = np.empty(len(x), x.dtype)
    SQUARED[(len(x),)](x, y)
    return y


def squared_backward(g: Any, x: Any) -> Any:
    x_bar = np.empty_like(x)
    WRONG_SQUARED[(len(x),)](g, x, x_bar)
    return x_bar


def test_a_launched_kernel_is_named_and_its_call_not_changed() -> None:
    report = verify.pair(squared, squared_backward, X)
    (finding,) = report.findings
    assert finding.name.code == "factor" and "1/2" in finding.name.detail
    assert finding.place is not None and finding.place.text.startswith("WRONG_SQUARED[")
    assert any("could write anywhere" in s.why for s in report.ledger.skipped)


def _plain(x: Any) -> Any:
    return [np.sin, np.cos][0](x) + np.linalg.norm(x) * np.lib.stride_tricks.as_strided(x).sum()


def _through_another(x: Any) -> Any:
    return squared(x)


@pytest.mark.parametrize(("f", "is_kernel"), [(_plain, False), (_through_another, True)])
def test_what_is_a_kernel(f: Any, is_kernel: bool) -> None:
    assert bool(kernels_in([f])) is is_kernel


def test_every_corpus_function_is_python() -> None:
    """No right code is taken for a kernel: else its corrections would be lost."""
    from tests.verify.planted import modules
    from tests.verify.repair import repair_cases

    functions = [f for m in (repair_cases, modules) for f in vars(m).values() if callable(f)]
    assert len(functions) > 10 and not kernels_in(functions)
