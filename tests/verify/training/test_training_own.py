"""Training loops of chainrule's own tensors: mistakes found, right ones left alone."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.verify.training.watching import watching
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


class Net(nn.Module):
    def __init__(self):
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.b(self.a(x).tanh())


def data():
    rng = np.random.default_rng(0)
    return cr.tensor(rng.normal(size=(16, 4))), cr.tensor(rng.normal(size=(16, 1)))


def small_data():
    return [t.astype("float32") for t in data()]


def loss_of(m, x, y):
    return ((m(x) - y) ** 2).mean()


def codes(loop):
    with watching() as report:
        loop()
    assert not [s for s in report.ledger.skipped if "error of the verifier" in s.why]
    return [f.name.code for f in report.findings if f.level != "note"]


def good(steps=4, reset=True, misplaced=False, replaced=False):
    m, (x, y) = Net(), data()
    o = optim.Adam(m.parameters(), lr=1e-2)
    if replaced:
        m = Net()
    for _ in range(steps):
        if reset and not misplaced:
            o.zero_grad()
            m.zero_grad()
        loss_of(m, x, y).backward()
        if misplaced:
            o.zero_grad()
        o.step()


def test_a_loop_that_is_right():
    assert codes(good) == []


def test_not_reset():
    assert codes(lambda: good(reset=False)) == ["not_reset"]


def test_reset_misplaced():
    assert codes(lambda: good(misplaced=True)) == ["reset_misplaced"]


def test_optimizer_of_another_model():
    assert "not_optimized" in codes(lambda: good(replaced=True))


def test_gan():
    def loop():
        g, d = Net(), Net()
        og, od = optim.Adam(g.parameters(), lr=1e-3), optim.Adam(d.parameters(), lr=1e-3)
        x, _ = data()
        for _ in range(4):
            fake = g(x) * cr.tensor(np.ones((16, 4)))
            od.zero_grad()
            (d(fake.detach()) - d(x)).mean().backward()
            od.step()
            og.zero_grad()
            (-d(fake).mean()).backward()
            og.step()

    assert codes(loop) == []


@pytest.mark.parametrize("reset", [True, False])
def test_results_are_the_same(reset):
    def run():
        m, (x, y) = Net(), data()
        for i, p in enumerate(m.parameters()):
            p.data = np.full(p.shape, 0.1 * (i + 1))
        o = optim.SGD(m.parameters(), lr=0.1)
        for _ in range(4):
            if reset:
                o.zero_grad()
            loss_of(m, x, y).backward()
            o.step()
        return [p.detach().numpy() for p in m.parameters()]

    plain = run()
    with watching():
        seen = run()
    assert all(np.array_equal(a, b) for a, b in zip(plain, seen, strict=True))


class Deep(nn.Module):
    """Ten layers of eight units, with a sigmoid behind each, or with a shortcut around it."""

    def __init__(self, shortcuts):
        self.layers = [nn.Linear(8, 8) for _ in range(10)]
        self.out = nn.Linear(8, 1)
        self.shortcuts = shortcuts

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x).relu() if self.shortcuts else layer(x).sigmoid()
        return self.out(x)


def deep(shortcuts):
    rng = np.random.default_rng(0)
    x, y = cr.tensor(rng.normal(size=(16, 8))), cr.tensor(rng.normal(size=(16, 1)))
    cr.manual_seed(0)
    m = Deep(shortcuts)
    o = optim.SGD(m.parameters(), lr=0.01)
    for _ in range(3):
        o.zero_grad()
        loss_of(m, x, y).backward()
        o.step()


def test_ten_sigmoid_layers_vanish_and_shortcuts_do_not():
    with watching() as report:
        deep(shortcuts=False)
    (finding,) = report.findings
    assert finding.name.code == "vanishing"
    status = {row[0]: row[-1] for row in finding.table[1:]}
    assert status["layers.0"] == "VANISHING"
    assert (status["layers.9"], status["out"]) == ("OK", "OK")
    assert codes(lambda: deep(shortcuts=True)) == []


@pytest.mark.sweep
def test_the_table_has_the_norms_of_the_gradients():
    with watching() as report:
        deep(shortcuts=False)
    rows = {row[0]: row for row in report.findings[0].table}
    assert 0 < float(rows["layers.0"][2]) < 1e-5 < float(rows["out"][2])


class Biased(nn.Module):
    """Two layers; `bias` is added to what the first one hands to `act`."""

    def __init__(self, act, bias, scale):
        self.a, self.b, self.c = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.a.weight.data = scale * self.a.weight.detach().numpy()
        self.a.bias.data = np.full(8, bias)
        self.act = act

    def forward(self, x):
        return self.c(self.b(self.act(self.a(x))).tanh())


@pytest.mark.parametrize(
    ("act", "bias", "scale", "expected"),
    [
        (cr.relu, -9.0, 1.0, ["dead"]),
        (lambda h: h.relu(), 0.0, 1.0, []),
        (cr.tanh, 0.0, 1.0, []),
    ],
)
def test_units_that_are_dead(act, bias, scale, expected):
    def loop():
        x = cr.tensor(np.random.default_rng(0).normal(size=(128, 4)))
        y = x[:, :1]
        cr.manual_seed(0)
        m = Biased(act, bias, scale)
        o = optim.SGD(m.parameters(), lr=1e-3)
        for _ in range(3):
            o.zero_grad()
            loss_of(m, x, y).backward()
            o.step()

    assert codes(loop) == expected


def test_units_behind_a_threshold_are_dead():
    class Shifted(nn.Module):
        def __init__(self):
            self.a, self.b = nn.Linear(4, 16), nn.Linear(16, 1)

        def forward(self, x):
            return self.b(cr.relu(self.a(x) - 20.0))

    def loop():
        x = cr.tensor(np.random.default_rng(0).normal(size=(64, 4)))
        m = Shifted()
        o = optim.SGD(m.parameters(), lr=1e-3)
        for _ in range(3):
            o.zero_grad()
            loss_of(m, x, x[:, :1]).backward()
            o.step()

    assert codes(loop) == ["dead"]


@pytest.mark.parametrize("held", [True, False])
def test_a_number_that_gets_gradients_and_is_never_trained(held):
    def loop():
        x = cr.tensor(np.random.default_rng(0).normal(size=(64, 4)))
        m, gain = nn.Linear(4, 1), cr.tensor(np.ones(1), requires_grad=True)
        o = optim.SGD([*m.parameters(), gain] if held else m.parameters(), lr=1e-3)
        for _ in range(3):
            o.zero_grad()
            gain.grad = None
            loss_of(lambda x: gain * m(x), x, x[:, :1]).backward()
            o.step()

    assert codes(loop) == ([] if held else ["not_optimized"])


@pytest.mark.parametrize(
    ("scaled", "expected"),
    [
        (lambda loss: loss, ["accumulation"]),
        (lambda loss: loss / 4, []),
        (lambda loss: 0.25 * loss, []),
        (lambda loss: loss / 8, ["accumulation"]),
    ],
)
def test_accumulation(scaled, expected):
    def loop():
        m, (x, y) = Net(), data()
        o = optim.SGD(m.parameters(), lr=1e-3)
        for i in range(16):
            scaled(loss_of(m, x, y)).backward()
            if i % 4 == 3:
                o.step()
                o.zero_grad()

    assert codes(loop) == expected


@pytest.mark.parametrize("detached", [True, False])
def test_losses_that_are_kept_with_their_graphs(detached):
    def loop():
        m, (x, y) = Net(), data()
        o = optim.SGD(m.parameters(), lr=1e-3)
        losses = []
        for _ in range(6):
            o.zero_grad()
            loss = loss_of(m, x, y)
            losses.append(loss.detach() if detached else loss)
            loss.backward()
            o.step()

    with watching() as report:
        loop()
    assert [f.name.code for f in report.findings] == ([] if detached else ["graph_kept"])
    if not detached:
        assert "losses.append" in report.findings[0].correction.before


class Cell(nn.Module):
    def __init__(self):
        self.inner, self.out = nn.Linear(8, 4), nn.Linear(4, 1)

    def forward(self, x, h):
        h = self.inner(cr.concat([x, h], axis=1)).tanh()
        return self.out(h), h


@pytest.mark.parametrize("goes_on", [True, False])
def test_pieces_of_one_sequence_are_no_accumulation(goes_on):
    def loop():
        cell, (x, y) = Cell(), data()
        o = optim.SGD(cell.parameters(), lr=1e-3)
        for _ in range(4):
            h = cr.tensor(np.zeros((16, 4)))
            for _ in range(2):
                out, last = cell(x, h)
                ((out - y) ** 2).mean().backward()
                h = last.detach() if goes_on else h
            o.step()
            o.zero_grad()

    assert codes(loop) == ([] if goes_on else ["accumulation"])


def by_hand(reset, steps=4):
    w, (x, y) = cr.tensor(np.zeros((4, 1)), requires_grad=True), data()
    for _ in range(steps):
        loss_of(lambda x: x @ w, x, y).backward()
        w.data = w.detach() - 0.1 * w.grad
        if reset:
            w.grad = None


@pytest.mark.parametrize(("reset", "expected"), [(True, []), (False, ["not_reset"])])
def test_parameters_that_are_changed_by_hand(reset, expected):
    assert codes(lambda: by_hand(reset)) == expected


def clipped(when):
    m, (x, y) = Net(), data()
    o = optim.SGD(m.parameters(), lr=0.1)
    for _ in range(4):
        o.zero_grad()
        if when == "early":
            optim.clip_grad_norm(m.parameters(), 0.1)
        loss_of(m, x, y).backward()
        if when == "in time":
            optim.clip_grad_value(m.parameters(), clip_value=0.1)
        o.step()
        if when == "late":
            optim.clip_grad_norm(m.parameters(), max_norm=0.1)


@pytest.mark.parametrize("when", ["early", "in time", "late"])
def test_gradients_that_are_clipped(when):
    assert codes(lambda: clipped(when)) == ([] if when == "in time" else ["clip_idle"])


@pytest.mark.parametrize("divided", ["first", "then"])
def test_a_loss_that_is_scaled_by_hand(divided):
    def loop():
        m, (x, y) = Net(), data()
        o = optim.SGD(m.parameters(), lr=1e-2)

        def divide():
            for p in m.parameters():
                p.grad = p.grad / 1024

        for _ in range(3):
            o.zero_grad()
            (loss_of(m, x, y) * 1024).backward()
            if divided == "first":
                divide()
            optim.clip_grad_value(m.parameters(), 0.5)
            if divided == "then":
                divide()
            o.step()

    assert codes(loop) == ([] if divided == "first" else ["clip_scaled"])


@pytest.mark.parametrize(
    ("count", "expected"), [(16, ["accumulation"]), (64, []), (4, []), (1, [])], ids=str
)
def test_sums_that_are_divided_by_their_own_examples(count, expected):
    """16 of them, four times: 64 in all; 4 is the number of passes."""

    def loop():
        m, (x, y) = Net(), data()
        o = optim.SGD(m.parameters(), lr=1e-3)
        for i in range(16):
            (((m(x) - y) ** 2).sum() / count).backward()
            if i % 4 == 3:
                o.step()
                o.zero_grad()

    assert codes(loop) == expected


@pytest.mark.parametrize("behind", [False, True])
def test_the_factor_of_a_scaler_is_no_divisor(behind):
    def loop():
        m, (x, y) = Net(), small_data()
        o, scaler = optim.SGD(m.parameters(), lr=1e-3), cr.GradScaler(init_scale=256.0)
        for _ in range(4):
            o.zero_grad()
            for _ in range(2):
                loss = loss_of(m, x, y)
                scaled = scaler.scale(loss) / 2 if behind else scaler.scale(loss / 2)
                scaled.backward()
            scaler.step(o)
            scaler.update()

    assert codes(loop) == []


def test_a_step_between_a_loss_and_its_backward_pass():
    def loop():
        m, (x, y) = Net(), data()
        o = optim.SGD(m.parameters(), lr=1e-2)
        for _ in range(4):
            loss = loss_of(m, x, y)
            o.step()
            o.zero_grad()
            loss.backward()

    assert codes(loop) == ["stale"]
