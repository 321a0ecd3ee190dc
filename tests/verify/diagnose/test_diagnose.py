"""Mistakes are named by the structure of the error: a table of slips, and what must not be said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule.verify.arrays.pair import subject_of_pair
from chainrule.verify.diagnose import diagnose, measure
from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.findings import RULES
from chainrule.verify.evidence import Behaviour, Evidence, Jacobians, Trial
from chainrule.verify.finding import Finding
from chainrule.verify.measure.examine import examine
from chainrule.verify.subject import Subject, wanted
from tests.sampling import sampled_file
from tests.verify.diagnose.slips import OPS, Op, Slip, compiled, slips

pytestmark = sampled_file(one_in=12)


SEEN_BY_CONDUCT = {"ignores_cotangent", "not_linear", "not_summed", "contiguity", "size"}
"""Names that need more than Jacobians: these slips are examined as a whole."""
STRUCTURE_IS_SILENT = "*"


def subject_of(slip: Slip, seed: int = 1) -> Subject:
    forward, backward = slip.functions()
    args = slip.op.args(np.random.default_rng(seed))
    return subject_of_pair(forward, backward, args, cotangent="first")


def measured(subject: Subject) -> Evidence:
    """Jacobians at the captured point, by plain differences: what `examine` gives, and no more."""
    xs = measure.captured_point(subject)
    evidence = Evidence(subject)
    for k in wanted(subject):
        for o, y in enumerate(measure.outputs(subject, xs)):
            _compare(evidence, xs, k, o, y)
    return evidence


def _compare(evidence: Evidence, xs: tuple[Any, ...], k: int, o: int, y: np.ndarray) -> None:
    subject, x = evidence.subject, xs[k]
    true = measure.jacobian(subject, xs, k, o)
    ys = measure.outputs(subject, xs)
    rows = [measure.one_output(ys, o, e.reshape(y.shape)) for e in np.eye(y.size)]
    seen = np.stack([measure.pull(subject, xs, gs, k).ravel() for gs in rows])
    bound = np.full(true.shape, 1e-9 * max(1.0, float(np.abs(true).max())))
    if np.linalg.norm(seen - true) > 1e-6 * np.linalg.norm(true):
        found = Jacobians(xs, k, o, seen, true, bound, y.shape, x.shape)
        evidence.jacobians.append(found)
        evidence.trials.append(Trial("as captured", "random", k, found.relative, 1e-9, "wrong"))


def named(slip: Slip) -> list[Finding]:
    subject = subject_of(slip)
    whole = SEEN_BY_CONDUCT & set(slip.codes)
    return diagnose(examine(subject) if whole else measured(subject))


TOLD = [s for s in slips() if STRUCTURE_IS_SILENT not in s.codes]
SILENT = [s for s in slips() if STRUCTURE_IS_SILENT in s.codes]


@pytest.mark.parametrize("slip", TOLD, ids=str)
def test_a_slip_is_named(slip: Slip) -> None:
    found = named(slip)
    assert any(f.name.code in slip.codes for f in found), [f.names for f in found]
    assert all(f.level == "error" and f.place is not None for f in found)


@pytest.mark.parametrize("slip", SILENT[::3], ids=str)
def test_what_structure_cannot_tell_is_found_all_the_same(slip: Slip) -> None:
    found = named(slip)
    assert found
    assert all(f.evidence for f in found)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_right_backwards_have_no_finding(op: Op) -> None:
    forward, backward = compiled(op.forward, op.backward)
    subject = subject_of_pair(
        forward, backward, op.args(np.random.default_rng(2)), cotangent="first"
    )
    assert diagnose(examine(subject)) == []


def case_of(op_name: str, spoil: Any, k: int = 0) -> Case:
    """The case of an op whose analytic Jacobian is the true one, spoiled."""
    op = next(op for op in OPS if op.name == op_name)
    forward, backward = compiled(op.forward, op.backward)
    args = op.args(np.random.default_rng(4))
    subject = subject_of_pair(forward, backward, args, cotangent="first")
    xs = measure.captured_point(subject)
    true = measure.jacobian(subject, xs, k, 0)
    y = measure.outputs(subject, xs)[0]
    bound = np.full(true.shape, 1e-10)
    seen = spoil(true, np.random.default_rng(6))
    found = Jacobians(xs, k, 0, seen, true, bound, y.shape, np.shape(xs[k]))
    return Case(Evidence(subject, jacobians=[found]), found)


def dense(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return true + rng.normal(size=true.shape)


def elementwise(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return true * rng.uniform(0.5, 2, size=true.shape)


def almost_transposed(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    other = true.T.copy() if true.shape[0] == true.shape[1] else -true
    other.flat[int(np.argmax(np.abs(other)))] *= 1.01
    return other


@pytest.mark.parametrize("op_name", ["linear", "softmax", "tanh", "layer_norm", "product"])
@pytest.mark.parametrize("spoil", [dense, elementwise], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_no_rule_explains_noise(rule: Any, spoil: Any, op_name: str) -> None:
    assert [g for g in rule(case_of(op_name, spoil)) if g.rank < 20] == []


@pytest.mark.parametrize("op_name", ["linear", "softmax", "layer_norm"])
def test_a_prediction_that_is_off_by_a_percent_in_one_element_is_none(op_name: str) -> None:
    case = case_of(op_name, almost_transposed)
    exact = [g for rule in RULES for g in rule(case) if g.rank < 5]
    assert exact == []


@pytest.mark.parametrize(
    ("before", "after", "detail"),
    [
        ("g.sum(axis=0)", "g.mean(axis=0)", "1/x.shape[0] = 0.25"),
        ("g @ W.T", "g @ W.T * x.shape[0]", "x.shape[0] = 4"),
        ("x.T @ g", "x.T @ g * np.sqrt(x.shape[1])", "sqrt(W.shape[0]) = 1.732"),
        ("x.T @ g", "x.T @ g / x.size", "1/x.size = 0.08333"),
        ("x.T @ g", "x.T @ g * 1.37", "no number at hand"),
    ],
)
def test_the_factor_is_recognised(before: str, after: str, detail: str) -> None:
    found = named(Slip(OPS[0], before, after, ("factor",)))
    assert found[0].name.code == "factor"
    assert detail in found[0].name.detail


def test_a_number_of_one_shape_is_told_from_a_constant_at_another_shape() -> None:
    forward, backward = compiled(
        "def forward(x):\n    return x.sum(axis=0)\n",
        "def backward(g, x):\n    return np.tile(g, (len(x), 1)) * 2.0\n",
    )
    small = np.random.default_rng(0).normal(size=(2, 3))
    large = np.random.default_rng(0).normal(size=(5, 3))
    captured = subject_of_pair(forward, backward, (large,), cotangent="first")
    found = measured(subject_of_pair(forward, backward, (small,), cotangent="first")).jacobians[0]
    evidence = Evidence(captured, [Trial("as captured", "random", 0, 1.0, 1e-9, "wrong")])
    evidence.jacobians.append(found)
    name = diagnose(evidence)[0].name
    assert name.detail == "the factor is 2 = 2"


def test_every_input_gets_its_own_finding() -> None:
    slip = Slip(OPS[0], "return dx, dW, db", "return -dx, dW.T, db / len(x)", ())
    found = {f.input: f.name.code for f in named(slip)}
    assert found == {"x": "sign", "W": "transposed", "b": "factor"}


def test_names_that_fit_alike_say_what_would_tell_them_apart() -> None:
    found = named(Slip(OPS[0], "g.sum(axis=0)", "g[-1]", ("overwritten",)))[0]
    assert {n.code for n in found.names[:2]} == {"overwritten", "not_summed"}
    assert all(n.apart for n in found.names[:2])


def test_unnamed_comes_with_numbers() -> None:
    case = case_of("linear", dense)
    evidence = case.evidence
    evidence.trials.append(Trial("as captured", "random", 0, 1.0, 1e-9, "wrong"))
    found = diagnose(evidence)[0]
    assert found.name.code == "unnamed"
    assert any("rank" in s for s in found.evidence)


def test_corrections_by_formula_are_tried() -> None:
    found = named(Slip(OPS[0], "g.sum(axis=0)", "g.mean(axis=0)", ("factor",)))[0]
    assert found.correction is not None
    assert found.correction.rechecked
    assert found.correction.error is not None
    assert found.correction.error < 1e-8


def test_a_straight_through_gradient_is_a_note() -> None:
    evidence = case_of("linear", dense).evidence
    evidence.behaviours.append(Behaviour("straight_through", 0, "the forward is a step"))
    evidence.trials.append(Trial("as captured", "random", 0, 1.0, 1e-9, "unsure"))
    assert [f.level for f in diagnose(evidence)] == ["note"]


def test_unsure_and_kinked_points_are_no_findings() -> None:
    evidence = case_of("linear", dense).evidence
    evidence.trials.append(Trial("as captured", "random", 0, 1.0, 1e-9, "unsure"))
    evidence.trials.append(Trial("ties", "random", 0, 1.0, 1e-9, "kink"))
    assert diagnose(evidence) == []


def test_a_rule_that_fails_leaves_a_line_and_the_others_speak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(case: Case) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr("chainrule.verify.diagnose.findings.RULES", (broken, *RULES))
    evidence = measured(subject_of(Slip(OPS[0], "g @ W.T", "-g @ W.T", ("sign",))))
    assert diagnose(evidence)[0].name.code == "sign"
    assert any("broken failed" in why for _, why in evidence.skipped)


def complex_pair(backward: Any) -> Subject:
    rng = np.random.default_rng(3)
    a, b = [rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)) for _ in range(2)]
    return subject_of_pair(lambda a, b: a * b, backward, (a, b), cotangent="first")


@pytest.mark.parametrize(
    ("backward", "codes"),
    [
        (lambda g, a, b: (g * np.conj(b), g * np.conj(a)), []),
        (lambda g, a, b: (g * b, g * np.conj(a)), ["wrong_value"]),
        (lambda g, a, b: (g * np.conj(b), -g * np.conj(a)), ["sign"]),
    ],
)
def test_complex_gradients(backward: Any, codes: list[str]) -> None:
    assert [f.name.code for f in diagnose(examine(complex_pair(backward)))] == codes


def test_a_number_is_diagnosed_like_an_array() -> None:
    made = subject_of_pair(lambda x: x * x, lambda g, x: g * x, (np.array(3.0),), cotangent="first")
    evidence = examine(made)
    assert diagnose(evidence)[0].name.detail == "the factor is 1/2 = 0.5"
    assert not any("failed" in why for _, why in evidence.skipped)


def test_an_output_that_is_not_heard_is_a_missing_path() -> None:
    made = subject_of_pair(
        lambda x: (np.sin(x), np.cos(x)),
        lambda g, x: g[0] * np.cos(x),
        (np.random.default_rng(0).normal(size=(2, 3)),),
        cotangent="first",
        cache=False,
    )
    (found,) = diagnose(examine(made))
    assert found.name.code == "missing_term"
    assert "y[1]" in found.name.detail
