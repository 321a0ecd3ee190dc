"""The first finding stands at the mistake's line and has one of its names."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule import verify
from chainrule.verify.reporting.report import Report
from tests.sampling import sampled_file
from tests.verify.repair import repair_cases
from tests.verify.repair.lines.places_cases import ARGUMENTS, MISTAKES, OPS, Misplaced

pytestmark = sampled_file(one_in=12)


linalg: Any = np.linalg
_number = itertools.count(50_000)


def module(text: str, folder: Path) -> Any:
    return repair_cases.module(f"import numpy as np\n{text}", folder, next(_number))


def report_of(op: str, text: str, folder: Path) -> Report:
    made = module(text, folder)
    return verify.pair(made.forward, made.backward, *ARGUMENTS[op])


@pytest.mark.parametrize("op", OPS)
def test_right_ones_are_right(op: str, tmp_path: Path) -> None:
    report = report_of(op, OPS[op], tmp_path)
    assert report.ok and not report.findings, str(report)


def lines_of(case: Misplaced) -> tuple[int, int]:
    """The lines on which a mistake stands; around what is missing, those before and after."""
    before, _, _ = OPS[case.op].partition(case.right)
    first = before.count("\n") + 2
    return first - (not case.wrong), first + case.wrong.count("\n")


@pytest.mark.parametrize("case", MISTAKES, ids=lambda c: f"{c.op}: {c.wrong.strip() or 'gone'}")
def test_the_line_and_the_name_are_told(case: Misplaced, tmp_path: Path) -> None:
    assert OPS[case.op].count(case.right) == 1
    report = report_of(case.op, OPS[case.op].replace(case.right, case.wrong), tmp_path)
    finding = report.findings[0]
    first, last = lines_of(case)
    assert finding.place is not None and first <= finding.place.line <= last, str(report)
    assert finding.name.code in case.codes, str(report)
    if case.repaired:
        assert finding.correction is not None and finding.correction.after, str(report)
        assert finding.correction.rechecked


NORM = """
class Scaled:
    def __init__(self, v, s):
        self.v, self.s = v, s

    def norms(self):
        return np.sqrt((self.v**2).sum(axis=1, keepdims=True))

    def of_direction(self, dw):
        u = self.v / self.norms()
        return self.s[:, None] / self.norms() * (dw - u * (dw * u).sum(axis=1, keepdims=True))

def forward(x, v, s):
    layer = Scaled(v, s)
    return x @ (s[:, None] * v / layer.norms()).T, (x, layer)

def backward(g, cache):
    x, layer = cache
    w = layer.s[:, None] * layer.v / layer.norms()
    dw = g.T @ x
    return g @ w, layer.of_direction(dw), (dw * layer.v / layer.norms()).sum(axis=1)
"""


def test_a_method_that_the_backward_calls_is_corrected(tmp_path: Path) -> None:
    text = NORM.replace("(dw - u * (dw * u).sum(axis=1, keepdims=True))", "dw")
    made, rng = module(text, tmp_path), np.random.default_rng(5)
    args = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), rng.normal(size=4)
    finding = verify.pair(made.forward, made.backward, *args).findings[0]
    assert finding.input == "v" and finding.name.code == "missing_term"
    assert finding.place is not None and finding.place.function == "Scaled.of_direction"
    assert finding.correction is not None and "u *" in finding.correction.after


# What is right, though it looks wrong.


def log_density(cov: Any, x: Any) -> Any:
    low = linalg.cholesky(cov)
    z = linalg.solve(low, x.T)
    return -0.5 * (z**2).sum(axis=0) - np.log(np.diag(low)).sum(), (low, z)


def log_density_backward(g: Any, cache: Any) -> Any:
    low, z = cache
    a = linalg.solve(low.T, z)
    inverse = linalg.inv(low @ low.T)
    return 0.5 * (a * g) @ a.T - 0.5 * g.sum() * inverse, -(a * g).T


def halved(g: Any, cache: Any) -> Any:
    dcov, dx = log_density_backward(g, cache)
    return 0.5 * dcov, dx


def _density() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(4, 4))
    return root @ root.T + 3 * np.eye(4), rng.normal(size=(5, 4))


def test_half_of_a_symmetric_matrix_is_read() -> None:
    """Cholesky factors are made of what is below the diagonal; the gradient is symmetric."""
    report = verify.pair(log_density, log_density_backward, *_density())
    assert report.ok and not report.findings, str(report)


def test_a_wrong_gradient_of_a_symmetric_matrix_is_named() -> None:
    report = verify.pair(log_density, halved, *_density())
    assert [(f.input, f.name.code) for f in report.findings] == [("cov", "factor")], str(report)


def hinge(pred: Any, target: Any, delta: float = 1.0) -> Any:
    return np.maximum(abs(pred - target) - delta, 0).mean()


def hinge_backward(grad: Any, pred: Any, target: Any, delta: float = 1.0) -> Any:
    r = pred - target
    d = grad * np.sign(r) * (abs(r) > delta) / r.size
    return d, -d


def test_a_setting_that_is_left_at_its_default_is_no_cotangent() -> None:
    rng = np.random.default_rng(3)
    pred, target = 2 * rng.normal(size=(4, 5)), rng.normal(size=(4, 5))
    report = verify.pair(hinge, hinge_backward, pred, target)
    assert report.ok and not report.findings, str(report)


class Affine:
    """Gradients are added up: who uses it sets them to zero."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.W, self.b = rng.normal(size=(4, 3)), rng.normal(size=3)
        self.dW, self.db = np.zeros((4, 3)), np.zeros(3)

    def forward(self, x: Any) -> Any:
        self.x = x
        return x @ self.W + self.b

    def backward(self, g: Any) -> Any:
        self.dW += self.x.T @ g
        self.db += g.sum(axis=0)
        return g @ self.W.T


class Mixed(Affine):
    """One of the gradients is added up, the other set."""

    def backward(self, g: Any) -> Any:
        self.dW = self.x.T @ g
        self.db += g.sum(axis=0)
        return g @ self.W.T


def test_gradients_may_be_added_up() -> None:
    report = verify.pair(Affine(), np.random.default_rng(4).normal(size=(5, 4)))
    assert report.ok and not report.findings, str(report)


def test_either_all_gradients_are_added_up_or_none() -> None:
    finding = verify.pair(Mixed(), np.random.default_rng(4).normal(size=(5, 4))).findings[0]
    assert (finding.input, finding.name.code) == ("b", "not_reset")
    assert finding.correction is not None
    assert finding.correction.after.strip() == "self.db = g.sum(axis=0)"


class Reset(Affine):
    """Sets its gradients back itself."""

    def zero_grad(self) -> None:
        self.dW[...], self.db[...] = 0, 0


class Forgetful(Affine):
    """Sets one of its gradients back."""

    def zero_grad(self) -> None:
        self.dW[...] = 0


def test_what_is_to_be_set_back_is_set_back() -> None:
    x = np.random.default_rng(4).normal(size=(5, 4))
    report = verify.pair(Reset(), x)
    assert report.ok and not report.findings, str(report)
    finding = verify.pair(Forgetful(), x).findings[0]
    assert (finding.input, finding.name.code) == ("b", "not_reset")


torch = pytest.importorskip("torch")


class Bump(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * torch.exp(-x * x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        peak = torch.exp(-(x.data**2))
        return g * (1 - 2 * x * x) * peak


def test_a_cut_within_a_backward_is_the_line_of_a_wrong_second_derivative() -> None:
    x = torch.linspace(-1.3, 1.7, 5, dtype=torch.float64, requires_grad=True)
    finding = verify.check(Bump.apply, x, order=2).findings[0]
    assert finding.name.code == "partly_detached"
    assert finding.place is not None and finding.place.function.endswith("Bump.backward")


class Collected(torch.autograd.Function):
    """The gradient of w is added up in a buffer that every call is given."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, room: Any) -> Any:
        ctx.save_for_backward(x, w)
        ctx.room = room
        return x @ w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        ctx.room += x.t() @ g
        return g @ w.t(), ctx.room, None


def test_a_buffer_that_is_not_set_to_zero_is_seen() -> None:
    args = [torch.randn(s, dtype=torch.float64) for s in ((4, 3), (3, 2))]
    args = [a.requires_grad_() for a in args]
    room = torch.zeros(3, 2, dtype=torch.float64)
    finding = verify.function(Collected, *args, room).findings[0]
    assert (finding.input, finding.name.code) == ("w", "not_reset")


class Cell:
    """Has names that differ in their capitals alone."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.params = {"Bz": rng.normal(size=(3, 3)), "bz": rng.normal(size=3)}
        self.grads: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        self.x = x
        self.y = np.tanh(x @ self.params["Bz"] + self.params["bz"])
        return self.y

    def backward(self, g: Any) -> Any:
        d = g * (1 - self.y**2)
        self.grads = {"Bz": self.x.T @ d, "bz": d.sum(axis=0)}
        return d @ self.params["Bz"].T


def test_capitals_tell_names_apart() -> None:
    report = verify.pair(Cell(), np.random.default_rng(4).normal(size=(3, 3)))
    assert report.ok and not report.findings, str(report)


def survival(x: Any) -> Any:
    return np.cumprod(x, axis=1)


def survival_by_quotients(g: Any, x: Any) -> Any:
    rest = np.cumsum((g * np.cumprod(x, axis=1))[:, ::-1], axis=1)[:, ::-1]
    return np.divide(rest, x, out=np.zeros_like(x), where=x != 0)


def test_products_have_a_gradient_where_a_factor_is_zero() -> None:
    x = np.random.default_rng(2).uniform(0.4, 1.4, size=(3, 5))
    report = verify.pair(survival, survival_by_quotients, x)
    assert [f.name.code for f in report.findings] == ["region"], str(report)


class Keeping:
    """Keeps its argument under the argument's own name, and returns it for the backward."""

    def forward(self, x: Any) -> Any:
        self.x = x
        return np.sin(x), x

    def backward(self, g: Any, x: Any) -> Any:
        return g * np.cos(x)


def test_an_attribute_of_its_name_makes_an_argument_nothing_else() -> None:
    layer = Keeping()
    report = verify.pair(
        layer.forward, layer.backward, np.random.default_rng(6).normal(size=(3, 4))
    )
    assert report.ok and not report.findings, str(report)
