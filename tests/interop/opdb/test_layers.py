"""PyTorch's own table of layers: state, values, gradients; eager and compiled, in training and use.

Each sample of each entry that has a name of ours is made here as it is made there, given PyTorch's
parameters, and called with the same arguments.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the oracle is PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's op table imports it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from torch.testing._internal.common_modules import module_db

from torch.utils._pytree import tree_map

import chainrule as cr
from chainrule import nn
from tests.interop.opdb.translate import leaves, to_ours
from tests.sampling import sampled

pytestmark = pytest.mark.filterwarnings("ignore")
ENTRIES = {
    m.name.removeprefix("nn."): m for m in module_db if hasattr(nn, m.name.removeprefix("nn."))
}
POOLS = (*[f"LPPool{n}d" for n in (1, 2, 3)], "FractionalMaxPool2d", "FractionalMaxPool3d")
for _name in ("TransformerEncoder", "CTCLoss", *POOLS):
    del ENTRIES[_name]  # tests/nn/test_layers.py has them, and says why
MODES = [(compiled, training) for compiled in (False, True) for training in (True, False)]


def samples(name: str, training: bool) -> list[Any]:
    info = ENTRIES[name]
    torch.manual_seed(0)
    return list(
        info.module_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
        )
    )


def make(name: str, sample: Any) -> tuple[Any, Any] | None:
    """The layer here and there, with the same parameters; None where ours says that it cannot."""
    given = sample.constructor_input
    theirs = getattr(torch.nn, name)(*given.args, **given.kwargs).double()
    kwargs = {k: tree_map(ours, v) for k, v in given.kwargs.items() if k != "dtype"}
    cls = getattr(nn, name)
    if "dtype" in inspect.signature(cls).parameters:
        kwargs["dtype"] = np.float64
    try:
        mine = cls(*tree_map(ours, given.args), **kwargs)
    except cr.ChainruleError as error:
        assert name in str(error), error
        return None
    assert sorted(mine.state_dict()) == sorted(theirs.state_dict())
    mine.load_state_dict({k: t.numpy() for k, t in theirs.state_dict().items()})
    return mine, theirs


FUNCTIONS = {torch.nn.functional.gelu: nn.functional.gelu, torch.nn.functional.relu: cr.relu}


def ours(x: Any) -> Any:
    """An argument of PyTorch's as one of ours."""
    return FUNCTIONS[x] if callable(x) and x in FUNCTIONS else to_ours(x)


def named(name: str, text: str) -> bool:
    """Whether an error speaks of the layer, or of the function that it is."""
    plain = [t.lower().replace("_", "").rstrip("123d") for t in (name, text.split(":")[0])]
    return plain[1] in plain[0] or "shape" in text


def numbers(t: Any) -> Any:
    return t.detach().numpy()


def same(got: Any, want: Any, what: str) -> None:
    np.testing.assert_allclose(numbers(got), numbers(want), rtol=1e-9, atol=1e-11, err_msg=what)


def compare(name: str, sample: Any, compiled: bool, training: bool) -> bool:
    """Whether it could be compared."""
    made = make(name, sample)
    given = sample.forward_input
    if made is None or given is None:
        return False
    mine, theirs = made
    mine.train(training)
    theirs.train(training)
    try:
        want = theirs(*given.args, **given.kwargs)
    except RuntimeError:  # of PyTorch's fast paths, where its own sample does not run
        return False
    args, kwargs = tree_map(ours, (given.args, given.kwargs))
    floats = [t for t in leaves((args, kwargs)) if t.dtype.kind == "f"]
    for t in floats:
        t.requires_grad_()
    try:
        got = (cr.jit(lambda *a, **k: mine(*a, **k)) if compiled else mine)(*args, **kwargs)
    except cr.ChainruleError as error:
        assert named(name, str(error)), error
        return False
    except TypeError as error:  # of Python's: arguments of forward are called x here, not input
        assert "unexpected keyword argument" in str(error)
        return False
    outs, wanted = leaves(got), [t for t in leaves(want) if t is not None]
    assert len(outs) == len(wanted)
    for y, t in zip(outs, wanted, strict=True):
        same(y, t, "value")
    for key, t in mine.named_buffers():
        same(t, dict(theirs.named_buffers())[key], key)
    gradients(mine, theirs, (outs, wanted), (floats, leaves((given.args, given.kwargs))))
    return True


def gradients(mine: Any, theirs: Any, results: Any, inputs: Any) -> None:
    """Of parameters and inputs, from random cotangents of all results."""
    rng = np.random.default_rng(0)
    ours, others = results
    pairs = [(y, t) for y, t in zip(ours, others, strict=True) if t.requires_grad]
    if not pairs:
        return
    gs = [rng.normal(size=tuple(t.shape)) for _, t in pairs]
    total = sum([(y * cr.tensor(g)).sum() for (y, _), g in zip(pairs, gs, strict=True)])
    total.backward()
    sum([(t * torch.tensor(g)).sum() for (_, t), g in zip(pairs, gs, strict=True)]).backward()
    for key, p in mine.named_parameters():
        q = dict(theirs.named_parameters())[key]
        if q.grad is not None:
            assert p.grad is not None, key
            same(p.grad, q.grad, key)
    floats = [t for t in inputs[1] if t.dtype.is_floating_point]
    for x, z in zip(inputs[0], floats, strict=True):
        if z.requires_grad and z.grad is not None:
            assert x.grad is not None
            same(x.grad, z.grad, "an input")


@sampled(one_in=16)
@pytest.mark.parametrize("mode", MODES, ids=lambda m: f"{'jit' if m[0] else 'eager'}-{m[1]}")
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_layer_is_pytorchs(name: str, mode: tuple[bool, bool]):
    compiled, training = mode
    every = samples(name, training)
    chosen = every if not compiled else every[:: max(len(every) // 3, 1)]
    found = [compare(name, s, compiled, training) for s in chosen]
    assert any(found), "no sample could be compared"


def test_the_table_covers_most_of_pytorchs():
    assert len(ENTRIES) > 85


def test_a_wrong_layer_is_noticed(monkeypatch: pytest.MonkeyPatch):
    right = nn.functional.conv2d
    monkeypatch.setattr(nn.functional, "conv2d", lambda *a, **k: right(*a, **k) * 1.0001)
    sample = samples("Conv2d", True)[0]
    with pytest.raises(AssertionError):
        compare("Conv2d", sample, False, True)
