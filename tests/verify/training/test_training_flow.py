"""What findings of training say: the table of flow, numbers, lines, corrections."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.sampling import sampled_file
from tests.verify.training.programs import training_wrong
from tests.verify.training.programs.training_models import GPT, batch, mlp
from tests.verify.training.test_training_right import observed

pytestmark = sampled_file(one_in=12)


def only(loop, code):
    found, _ = observed(loop)
    return next(f for f in found if f.name.code == code)


def sigmoids(layers=10, w=8):
    """Orthogonal weights: a layer shrinks the gradient by the sigmoid's derivative alone."""
    torch.manual_seed(0)
    m = nn.Sequential(*[p for _ in range(layers) for p in (nn.Linear(w, w), nn.Sigmoid())])
    for p in m.parameters():
        nn.init.orthogonal_(p) if p.dim() == 2 else nn.init.zeros_(p)
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(3):
        x = torch.randn(32, w)
        o.zero_grad()
        m(x).sum().backward()
        o.step()


def test_ten_sigmoid_layers_vanish_where_they_do():
    finding = only(sigmoids, "vanishing")
    status = {row[0]: row[-1] for row in finding.table[1:]}
    names = list(status)
    assert finding.table[0][-1] == "status"
    assert status[names[0]] == "VANISHING"
    assert status[names[-1]] == "OK"
    first_ok = [status[name] for name in names].index("OK")
    assert 3 <= first_ok <= 6  # 0.25^5 is 1e-3
    assert "sigmoid" in finding.name.detail


def test_rows_are_in_the_order_of_the_forward_pass():
    table = only(sigmoids, "vanishing").table
    assert [row[0] for row in table[1:]] == [str(2 * i) for i in range(10)]
    gradients = [float(row[2]) for row in table[1:]]
    assert gradients == sorted(gradients)


@pytest.mark.parametrize("layers", [2, 3])
def test_a_few_sigmoid_layers_are_fine(layers):
    found, _ = observed(lambda: sigmoids(layers))
    assert not found


def test_kept_losses_name_the_list_and_its_line():
    finding = only(training_wrong.losses_kept_in_a_list, "graph_kept")
    assert "losses" in finding.name.detail
    assert finding.place.text == "losses.append(loss)"


def test_a_running_sum_names_the_sum_and_its_line():
    finding = only(training_wrong.running_sum_of_losses, "graph_kept")
    assert finding.place.text == "total += loss"


def test_a_carried_state_is_an_error_where_torch_raises():
    finding = only(training_wrong.hidden_state_carried_over, "graph_kept")
    assert finding.level == "error"
    assert "input 1 of GRU" in finding.name.detail
    assert "a second time" in finding.name.detail


def test_the_first_bad_op_has_its_inputs_ranges():
    finding = only(training_wrong.log_of_zero, "first_bad")
    assert finding.place.text
    assert "float32 (16, 3)" in finding.name.because + finding.name.detail


def test_bad_data_are_called_so():
    finding = only(training_wrong.data_with_nan, "first_bad")
    assert "check the data" in finding.correction.formula


def test_not_reset_says_how_much_is_old():
    finding = only(training_wrong.never_reset, "not_reset")
    assert finding.level == "error"
    assert finding.place.text == "F.mse_loss(m(x), y).backward()"
    assert len(finding.evidence) == 2  # of three steps, the first is right


def test_accumulation_says_how_often_and_by_what():
    finding = only(training_wrong.accumulation_divided_by_another_number, "accumulation")
    assert "divided by 8" in finding.name.because
    assert "(loss / 4)" in finding.correction.formula


def test_a_healthy_gpt_has_no_table():
    def loop():
        torch.manual_seed(1)
        m = GPT(L=8)
        o = torch.optim.AdamW(m.parameters(), 1e-3)
        for _ in range(3):
            t = torch.randint(0, 31, (4, 17))
            o.zero_grad()
            F.cross_entropy(m(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten()).backward()
            o.step()

    found, ledger = observed(loop)
    assert not found
    assert any("layers" in c.how for c in ledger.checked)


def test_unused_parameters_are_a_note():
    def loop():
        m = nn.ModuleDict({"a": mlp(), "b": mlp()})
        o = torch.optim.SGD(m.parameters(), 0.1)
        root = Wrapped(m)
        for _ in range(3):
            x, y = batch()
            o.zero_grad()
            F.mse_loss(root(x), y).backward()
            o.step()

    finding = only(loop, "no_gradient")
    assert finding.level == "note"
    assert "did not run" in finding.name.because


class Wrapped(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = parts

    def forward(self, x):
        return self.parts["a"](x)


def test_graphs_are_measured():
    finding = only(training_wrong.state_kept_on_the_model, "graph_kept")
    assert math.isfinite(len(finding.name.because))
    assert "nodes" in finding.name.because


def trained_in_eval_mode():
    m = nn.Sequential(mlp(4, 8), nn.Dropout(), nn.Linear(8, 1)).eval()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


def test_training_in_eval_mode_is_a_note():
    assert only(trained_in_eval_mode, "eval_mode").level == "note"


@pytest.mark.parametrize(
    ("loop", "code", "before", "after"),
    [
        ("never_reset", "not_reset", "o.step()", "o.step()\n        o.zero_grad()"),
        ("lbfgs_reset_outside_of_the_closure", "not_reset", "backward()", "o.zero_grad()\n"),
        ("reset_between_backward_and_step", "reset_misplaced", "o.zero_grad()\n", "o.step()\n"),
        ("accumulation_not_divided", "accumulation", ".backward()", "(F.mse_loss(m(x), y) / 4)"),
        ("losses_kept_in_a_list", "graph_kept", "append(loss)", "losses.append(loss.detach())"),
        ("running_sum_of_losses", "graph_kept", "total += loss", "total += loss.detach()"),
    ],
)
def test_the_correction_is_code(loop, code, before, after):
    change = only(getattr(training_wrong, loop), code).correction
    assert before in change.before
    assert change.after.strip().startswith(after)
    lines = Path(change.place.file).read_text(encoding="utf-8").splitlines()
    count = len(change.before.splitlines())
    start = change.place.line - 1
    assert "\n".join(lines[start : start + count]) == change.before


def test_the_first_step_of_a_thread_counts():
    """Serial numbers of nodes begin with 0, which is no reason to overlook the first graph."""
    seen: list[object] = []

    def run():
        seen.append(torch.ones(1, requires_grad=True).exp().grad_fn._sequence_nr())
        seen.append([f.name.code for f in observed(training_wrong.accumulation_not_divided)[0]])

    def first():  # numbers are a thread's own
        seen.append([f.name.code for f in observed(training_wrong.accumulation_not_divided)[0]])

    for target in (run, first):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert seen == [0, ["accumulation"], ["accumulation"]]
