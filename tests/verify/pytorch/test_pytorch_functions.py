"""`torch.autograd.Function`s as subjects: what comes out is what PyTorch computes."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd.function import once_differentiable

from chainrule import verify
from chainrule.engine.dtypes import bfloat16
from chainrule.errors import ConfigError
from chainrule.verify.certifying.certify import certify
from chainrule.verify.diagnose.findings import diagnose
from chainrule.verify.measure.examine import examine
from chainrule.verify.pytorch import subject_of_function, subjects_of_function
from chainrule.verify.pytorch.convert import to_numpy, to_torch
from chainrule.verify.pytorch.derivation import UntraceableError
from chainrule.verify.pytorch.observing.function_calls import capturing
from chainrule.verify.subject import Subject, values
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b=None, scale=1.0):
        ctx.save_for_backward(x, w)
        ctx.scale, ctx.biased = scale, b is not None
        y = x @ w.t() * scale
        return y if b is None else y + b

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        b_bar = g.sum(0) if ctx.biased else None
        return g @ w * ctx.scale, g.t() @ x * ctx.scale, b_bar, None


class NewStyle(torch.autograd.Function):
    """Has a setup_context, a default, two outputs of which one is an index, and a jvp."""

    @staticmethod
    def forward(x, power=3):
        return x**power, x.abs().argmax()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.x, ctx.power = inputs
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        return ctx.power * ctx.x ** (ctx.power - 1) * g, None

    @staticmethod
    def jvp(ctx, t, _):
        return ctx.power * ctx.x ** (ctx.power - 1) * t, None


class WrongJvp(NewStyle):
    @staticmethod
    def jvp(ctx, t, _):
        return ctx.x ** (ctx.power - 1) * t, None


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.exp_()
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


class Unmarked(torch.autograd.Function):
    """Writes into its argument and does not say so."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * 2


class WritesCotangent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        g.mul_(3)
        return g


class Two(torch.autograd.Function):
    """Two outputs; cotangents may be None."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.set_materialize_grads(False)
        return a * b, a + b

    @staticmethod
    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        zero = torch.zeros_like(a)
        g, h = zero if g is None else g, zero if h is None else h
        return g * b + h, g * a + h


class Noise(torch.autograd.Function):
    """Draws from three streams; casts to float32 and makes constants."""

    @staticmethod
    def forward(ctx, x):
        mask = (torch.rand(x.shape) > 0.4) * np.random.default_rng().integers(1, 2)
        factor = torch.tensor(np.random.rand() + random.random())
        ctx.save_for_backward(mask, factor)
        return (x.float() * mask * factor).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        mask, factor = ctx.saved_tensors
        return g * mask * factor


class Complex(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, r):
        ctx.save_for_backward(z, r)
        return z * z * r

    @staticmethod
    def backward(ctx, g):
        z, r = ctx.saved_tensors
        return g * (2 * z * r).conj(), (g * (z * z).conj()).real


class Vjp(torch.autograd.Function):
    """PyTorch takes `vjp` for `backward`."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return torch.sin(x)

    @staticmethod
    def vjp(ctx, g):
        return torch.cos(ctx.x) * g


CORRECT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "linear": (Linear, (torch.randn(5, 3), torch.randn(4, 3), torch.randn(4), 0.5)),
    "linear, no bias": (Linear, (torch.randn(5, 3), torch.randn(4, 3))),
    "linear, frozen": (Linear, (torch.randn(5, 3), torch.randn(4, 3, requires_grad=True))),
    "bfloat16": (Linear, (torch.randn(5, 3).bfloat16(), torch.randn(4, 3).bfloat16())),
    "float16": (Linear, (torch.randn(5, 3).half(), torch.randn(4, 3).half())),
    "setup_context": (NewStyle, (torch.randn(2, 3),)),
    "in place": (InPlace, (torch.randn(2, 3),)),
    "two outputs": (Two, (torch.randn(2, 3), torch.randn(2, 3))),
    "noise": (Noise, (torch.randn(2, 3),)),
    "complex": (Complex, (torch.randn(4, dtype=torch.complex64), torch.randn(4))),
    "vjp": (Vjp, (torch.randn(4),)),
    "transposed": (Linear, (torch.randn(3, 5).t(), torch.randn(4, 3), torch.randn(4))),
    "one number": (Vjp, (torch.tensor(0.3),)),
}


@pytest.mark.parametrize("name", CORRECT)
def test_a_right_backward_is_right(name: str):
    fn, args = CORRECT[name]
    for subject in subjects_of_function(fn, args):
        seen = examine(subject)
        assert not seen.wrong, (subject.name, seen.trials, seen.behaviours)
        assert any(t.verdict == "right" for t in seen.trials), seen.skipped


def test_what_is_pulled_is_what_pytorch_computes():
    x, w, b = torch.randn(5, 3), torch.randn(4, 3), torch.randn(4)
    subject = subject_of_function(Linear, (x, w, b, 2.0))
    g = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    wanted = torch.autograd.grad(Linear.apply(*leaves, 2.0), leaves, torch.from_numpy(g))
    for mine, theirs in zip(subject.pull(values(subject), [g]), wanted, strict=False):
        assert mine is not None
        np.testing.assert_array_equal(mine, theirs.numpy())
    assert [i.name for i in subject.inputs] == ["x", "w", "b", "scale"]
    assert [i.wanted for i in subject.inputs] == [True, True, True, False]


def test_a_shape_that_the_engine_would_sum_or_refuse_is_seen():
    class Unsummed(Linear):
        @staticmethod
        def backward(ctx, g):
            return g @ ctx.saved_tensors[1], g[:2], g, None

    subject = subject_of_function(Unsummed, (torch.randn(5, 3), torch.randn(4, 3), torch.randn(4)))
    g = np.ones((5, 4), np.float32)
    raw = subject.pull(values(subject), [g])
    assert [None if r is None else r.shape for r in raw] == [(5, 3), (2, 4), (4,)]
    assert subject.summed(values(subject), [g]) == {2: (5, 4)}


def test_a_wrong_number_of_gradients_raises_as_in_pytorch():
    class Short(Linear):
        @staticmethod
        def backward(ctx, g):
            return g

    subject = subject_of_function(Short, (torch.randn(5, 3), torch.randn(4, 3)))
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        subject.pull(values(subject), [np.ones((5, 4), np.float32)])


@pytest.mark.parametrize(
    ("strides", "shape"), [((1, 3), (3, 4)), ((0, 0), (3, 4)), ((8, 2), (3, 4)), ((0, 1), (2, 5))]
)
def test_strides_of_cotangents_reach_the_backward(strides: tuple[int, ...], shape: tuple[int, ...]):
    seen: list[tuple[int, ...]] = []

    class Looks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(g.stride())
            return g

    memory = np.arange(100.0)
    g = np.lib.stride_tricks.as_strided(memory, shape, [s * 8 for s in strides])
    subject = subject_of_function(Looks, (torch.randn(shape, dtype=torch.float64),))
    (back,) = subject.pull(values(subject), [g])
    assert seen[-1] == strides
    np.testing.assert_array_equal(back, g)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64, np.int8, np.bool_])
def test_arrays_survive_the_journey(dtype: Any):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    for y in (x, x.T, x[:, ::2], x[::-1], x[:0]):
        back = to_numpy(to_torch(y))
        assert back.dtype == y.dtype
        np.testing.assert_array_equal(back, y)
    half = x.real.astype(np.float32).astype(bfloat16)
    assert to_numpy(to_torch(half)).dtype == bfloat16
    np.testing.assert_array_equal(to_numpy(to_torch(half)), half)


def test_writes_are_seen_and_declared_ones_are_not():
    x = torch.randn(2, 3)
    g = [np.ones((2, 3), np.float32)]
    changes = {
        f: subject_of_function(f, (x,)).changes([x.numpy()], g)
        for f in (InPlace, Unmarked, WritesCotangent, Vjp)
    }
    assert changes == {
        InPlace: (),
        Unmarked: ("x",),
        WritesCotangent: ("the cotangent",),
        Vjp: (),
    }


class OfTheWrongNeed(torch.autograd.Function):
    """Asks whether the data need a gradient before it gives the scale its own."""

    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        first = ctx.needs_input_grad[0]
        return (g * s, (g * x).sum(0)) if first else (None, None)


def test_a_gradient_that_depends_on_what_others_need_is_asked_for_as_it_is_run():
    x, s = torch.randn(4, 3), torch.randn(3, requires_grad=True)
    finding = verify.function(OfTheWrongNeed, x, s).findings[0]
    assert finding.input == "s" and "dropped" in [n.code for n in finding.names]
    assert finding.correction is not None and "needs_input_grad[1]" in finding.correction.after
    assert verify.function(OfTheWrongNeed, x.requires_grad_(), s).ok


class Running(torch.autograd.Function):
    """Keeps running statistics in buffers: one in the forward, which is usual, one too late."""

    @staticmethod
    def forward(ctx, x, mean, late):
        mean.lerp_(x.mean(0), 0.1)
        ctx.late = late
        return x - x.mean(0)

    @staticmethod
    def backward(ctx, g):
        ctx.late.add_(g.mean(0))
        return g - g.mean(0), None, None


def test_a_forward_may_keep_running_statistics():
    args = torch.randn(4, 3, requires_grad=True), torch.zeros(3), torch.zeros(3)
    subject = subject_of_function(Running, args)
    changes = subject.changes([a.detach().numpy() for a in args], [np.ones((4, 3), np.float32)])
    assert changes == ("late",)


class Tracking(torch.autograd.Function):
    """Keeps running statistics in a dictionary, and takes them for those of the batch."""

    @staticmethod
    def forward(ctx, x, stats):
        var = x.var(0, unbiased=False)
        stats["var"].lerp_(var, 0.3)
        z = (x - x.mean(0)) / var.sqrt()
        ctx.save_for_backward(z)
        ctx.var = stats["var"].clone()
        return z

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return (g - g.mean(0) - z * (g * z).mean(0)) / ctx.var.sqrt(), None


def test_every_run_finds_the_tensors_of_a_dictionary_as_the_call_did():
    stats = {"var": torch.ones(3, dtype=torch.float64)}
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    finding = verify.function(Tracking, x, stats).findings[0]
    assert "wrong_value" in [n.code for n in finding.names]
    assert finding.correction is not None and finding.correction.after.strip() == "ctx.var = var"
    assert torch.equal(stats["var"], torch.ones(3))


class Counting(torch.autograd.Function):
    """Right, though what a list holds scales the result and changes with every call."""

    @staticmethod
    def forward(ctx, x, calls):
        ctx.times = float(calls[0])
        calls[0] += 1
        return x * ctx.times

    @staticmethod
    def backward(ctx, g):
        return g * ctx.times, None


def test_every_run_finds_the_tensors_of_a_list_as_the_call_did():
    calls = [torch.tensor(2.0)]
    assert verify.function(Counting, torch.randn(3, requires_grad=True), calls).ok
    assert calls[0] == 2


def test_arguments_and_random_streams_are_left_alone():
    x = torch.randn(2, 3)
    kept = x.clone()
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    subject = subject_of_function(Noise, (x,))
    first = subject.forward([x.numpy()])
    again = subject.forward([x.numpy()])
    np.testing.assert_array_equal(first[0], again[0])
    examine(subject_of_function(InPlace, (x,)))
    assert torch.equal(x, kept)
    assert torch.equal(states[0], torch.get_rng_state())
    np.testing.assert_array_equal(states[1], np.random.get_state()[1])
    assert states[2] == random.getstate()


def test_noise_is_the_same_in_every_dtype():
    subject = subject_of_function(Noise, (torch.randn(20, 3),))
    low = subject.forward(values(subject))[0]
    high = subject.forward(values(subject, np.float64))[0]
    assert (low.dtype, high.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(low, high, rtol=1e-6)
    assert torch.get_default_dtype() == torch.float32


def test_code_and_lines_are_known_and_a_backward_can_be_replaced():
    class Wrong(Linear):
        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g @ w * 2, g.t() @ x, None, None

    subject = subject_of_function(Wrong, (torch.randn(5, 3), torch.randn(4, 3)))
    assert subject.backward_place is not None and subject.place is not None
    assert subject.backward_place.text == "def backward(ctx, g):"
    assert subject.place.text == "def forward(ctx, x, w, b=None, scale=1.0):"
    source = subject.source
    assert source is not None and source.text.lstrip().startswith("@staticmethod")
    assert examine(subject).wrong
    assert not examine(source.replaced(Linear.backward)).wrong
    assert "g @ w * 2" in source.text


def test_a_jvp_that_disagrees_is_found_though_the_backward_is_right():
    own, its_jvp = subjects_of_function(WrongJvp, (torch.randn(2, 3),))
    assert not examine(own).wrong
    assert examine(its_jvp).wrong
    assert its_jvp.backward_place is not None and "jvp" in its_jvp.backward_place.text


def test_what_is_derived_from_a_forward_is_the_gradient():
    class Normal(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            d = x - x.mean(-1, keepdim=True)
            d *= torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5)
            return torch.softmax(d * w, -1)

        @staticmethod
        def backward(ctx, g):
            return g, g

    subject = subject_of_function(Normal, (torch.randn(3, 4), torch.randn(4)))
    xs = values(subject, np.float64)
    g = np.random.default_rng(1).normal(size=(3, 4))
    leaves = [torch.tensor(x, requires_grad=True) for x in xs]
    d = leaves[0] - leaves[0].mean(-1, keepdim=True)
    y = torch.softmax(d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5) * leaves[1], -1)
    right = torch.autograd.grad(y, leaves, torch.from_numpy(g))
    found = subject.derived(xs, [g])
    assert found is not None
    for mine, theirs in zip(found, right, strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), atol=1e-12)


def test_cuts_inside_a_forward_are_looked_through():
    class Cut(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.sin(x.detach()) * x.data

        @staticmethod
        def backward(ctx, g):
            return g

    subject = subject_of_function(Cut, (torch.randn(4),))
    (x,) = values(subject, np.float64)
    found = subject.derived([x], [np.ones(4)])
    assert found is not None
    np.testing.assert_allclose(found[0], np.sin(x) + x * np.cos(x), rtol=1e-12)


def test_a_forward_that_leaves_the_graph_is_not_derived():
    class Item(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * float(x.sum())

        @staticmethod
        def backward(ctx, g):
            return g

    class Numpy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.from_numpy(np.sin(x.numpy()))

        @staticmethod
        def backward(ctx, g):
            return g

    for function in (Item, Numpy):
        subject: Subject = subject_of_function(function, (torch.randn(3),))
        with pytest.raises((UntraceableError, RuntimeError)):
            subject.derived(values(subject, np.float64), [np.ones(3)])


def test_calls_are_recorded_wherever_apply_is_kept():
    kept = Linear.apply
    x, w = torch.randn(5, 3), torch.randn(4, 3, requires_grad=True)
    with capturing() as seen:
        y = kept(x, w)
        kept(x * 2, w)
        kept(x.double(), w.double())
        with torch.no_grad():
            kept(x, w, None, 9.0)
        thread = threading.Thread(target=lambda: NewStyle.apply(w))
        thread.start()
        thread.join()
    kept(x, w, None, 7.0)
    assert [c.function for c in seen.calls] == [Linear, Linear, NewStyle]
    assert seen.hidden == 1
    assert torch.equal(seen.calls[0].args[0], x)
    place = seen.calls[0].place
    assert place is not None and place.text == "y = kept(x, w)"
    torch.testing.assert_close(y, x @ w.t())
    assert not any(examine(s).wrong for s in seen.subjects())
    assert "apply" not in vars(torch.autograd.Function.__mro__[1])


def test_recording_is_bounded():
    w = torch.randn(4, 3, requires_grad=True)
    with capturing(max_bytes=100) as seen:
        Linear.apply(torch.randn(50, 3), w)
        for i in range(20):
            NewStyle.apply(torch.randn(1, requires_grad=True), i)
    assert len(seen.calls) == 8
    assert [s.subject for s in seen.skipped] == ["Linear"]


@pytest.mark.parametrize("given", [torch.sin, 3, torch.autograd.Function])
def test_what_is_no_function_is_refused(given: Any):
    with pytest.raises(ConfigError):
        subject_of_function(given, (torch.randn(2),))


def test_a_report_names_the_mistake_and_corrects_it():
    class Half(Linear):
        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g @ w * ctx.scale, g.t() @ x * ctx.scale / 2, None, None

    args = (torch.randn(5, 3), torch.randn(4, 3))
    report = certify("Half", [subject_of_function(Half, args)])
    (finding,) = report.findings
    assert (finding.input, finding.name.code) == ("w", "factor")
    assert finding.correction is not None and finding.correction.rechecked


def test_a_large_call_is_looked_at_in_part():
    x, w = torch.randn(64, 96), torch.randn(80, 96, requires_grad=True)
    with capturing() as seen:
        Linear.apply(x, w)
    (subject,) = seen.subjects()
    assert [i.value.shape for i in subject.inputs[:2]] == [(7, 5), (3, 5)]
    np.testing.assert_array_equal(subject.inputs[0].value, x[:7, :5].numpy())
    assert not examine(subject).wrong


def test_a_mistake_that_only_the_whole_shows_keeps_the_whole():
    class Sized(Linear):
        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g @ w, g.t() @ x * (1 if len(x) < 50 else 2), None, None

    with capturing() as seen:
        Sized.apply(torch.randn(64, 96), torch.randn(80, 96, requires_grad=True))
    assert seen.subjects()[0].inputs[0].value.shape == (64, 96)


class Shifted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shift, factor):
        ctx.factor = factor
        return x + shift

    @staticmethod
    def backward(ctx, g):
        return g, ctx.factor * g, None


@pytest.mark.parametrize("shape", [(6,), (1, 6), (5, 1), ()])
def test_what_the_engine_sums_is_a_note(shape: tuple[int, ...]):
    shift = torch.randn(shape)
    report = certify("Shifted", [subject_of_function(Shifted, (torch.randn(5, 6), shift, 1.0))])
    assert report.ok
    assert [(f.level, f.input, f.name.code) for f in report.findings] == [
        ("note", "shift", "not_summed")
    ]
    wrong = certify("Shifted", [subject_of_function(Shifted, (torch.randn(5, 6), shift, 2.0))])
    assert [(f.input, f.name.code) for f in wrong.findings if f.level == "error"] == [
        ("shift", "factor")
    ]


class Descent(torch.autograd.Function):
    """Two steps down a field, a module whose parameters are arguments, too; rebuilt on the way."""

    @staticmethod
    def forward(ctx, z, field, h, *params):
        ctx.field, ctx.h, ctx.params = field, h, params
        states = [z]
        with torch.no_grad():
            for _ in range(2):
                states.append(states[-1] - 0.5 * field(states[-1]))
        ctx.save_for_backward(*states[:-1])
        return states[-1]

    @staticmethod
    def backward(ctx, g):
        bars = [torch.zeros_like(p) for p in ctx.params]
        for z in reversed(ctx.saved_tensors):
            with torch.enable_grad():
                z = z.detach().requires_grad_()
                wrt = (z, *ctx.params)
                got = torch.autograd.grad(ctx.field(z), wrt, g, materialize_grads=True)
            g = g - ctx.h * got[0]
            bars = [b - ctx.h * x for b, x in zip(bars, got[1:], strict=True)]
        return g, None, None, *bars


@pytest.mark.parametrize(("h", "ok"), [(0.5, True), (0.25, False)])
def test_a_module_whose_parameters_are_arguments(h: float, ok: bool):
    torch.manual_seed(0)
    field = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    args = (torch.randn(5, 3, requires_grad=True), field, h, *field.parameters())
    with capturing() as capture:
        Descent.apply(*args)
    for subject in [subject_of_function(Descent, args), *capture.subjects()]:
        evidence = examine(subject)
        found = diagnose(evidence)
        assert evidence.trials
        assert bool(found) is not ok and not any(f.name.code == "raises" for f in found)


def test_a_module_that_cannot_be_copied_stops_nobody():
    field = torch.nn.Linear(3, 3)
    field.latest = field(torch.randn(2, 3))  # a result with its graph
    args = (torch.randn(5, 3, requires_grad=True), field, 0.5, *field.parameters())
    with capturing() as capture:
        assert Descent.apply(*args).shape == (5, 3)
    (skipped,) = capture.skipped
    assert "Linear, an argument beside its parameters, cannot be copied" in str(skipped)
    with pytest.raises(ConfigError, match="keep what it computes detached"):
        subject_of_function(Descent, args)


class SoftRank(torch.autograd.Function):
    """How near each element is to the k-th largest. Where two are equal it has a derivative, and
    the rule, as PyTorch's own of these calls, another one: sign(0) is 0."""

    @staticmethod
    def forward(ctx, x):
        top, order = x.sort(descending=True)
        apart = top[:, :, None] - x[:, None, :]
        near = torch.softmax(-apart.abs(), -1)
        ctx.save_for_backward(near, apart.sign(), order)
        return near

    @staticmethod
    def backward(ctx, g):
        near, sign, order = ctx.saved_tensors
        t = near * (g - (g * near).sum(-1, keepdim=True)) * sign
        return t.sum(1).scatter_add(1, order, -t.sum(2))


class Unsorted(SoftRank):
    @staticmethod
    def backward(ctx, g):
        near, sign, _ = ctx.saved_tensors
        t = near * (g - (g * near).sum(-1, keepdim=True)) * sign
        return t.sum(1) - t.sum(2)


@pytest.mark.parametrize(("function", "ok"), [(SoftRank, True), (Unsorted, False)])
def test_ties_at_which_each_op_has_its_convention(function: Any, ok: bool):
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    report = certify("ranks", [subject_of_function(function, (x,))])
    assert report.ok is ok
