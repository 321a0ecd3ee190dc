"""What who knows PyTorch types to freeze, change and reset parameters: it works, or an error names
what to write. And what completions show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import amp, data, explain, fft, linalg, nn, optim, show, special
from chainrule.names.spellings import LAYERS, MODULES, PACKAGE
from chainrule.nn import functional, init


def leaf() -> cr.Tensor:
    return cr.tensor([1.0, 2.0, 3.0], requires_grad=True)


def run(statement: str) -> dict[str, Any]:
    """The names after a statement about `p` (with a gradient), `q`, `h` (no leaf), `model`."""
    p, q = leaf(), cr.tensor([4.0, 5.0, 6.0])
    (p * q).sum().backward()
    model = nn.Linear(3, 2, generator=cr.Generator(0))
    opt = optim.SGD([p], 0.1)
    names = {"p": p, "q": q, "h": p * 2, "model": model, "opt": opt, "cr": cr, "np": np, "nn": nn}
    exec(statement, names)
    return names


WORKS: dict[str, str] = {
    "p.requires_grad = False": "not p.requires_grad and p.grad is None",
    "p.requires_grad = True": "p.requires_grad and p.grad is not None",
    "q.requires_grad = True": "q.requires_grad and q.is_leaf",
    "h.requires_grad = True": "h.requires_grad and not h.is_leaf",
    "for w in model.parameters(): w.requires_grad = False": "not model.parameters()",
    "model.requires_grad_(False)": "not model.parameters()",
    "model.weight.requires_grad = False": "len(model.parameters()) == 1",
    "p.grad = None": "p.grad is None",
    "del p.grad": "p.grad is None",
    "p.grad *= 0": "p.grad.tolist() == [0.0, 0.0, 0.0]",
    "p.grad.zero_()": "p.grad.tolist() == [0.0, 0.0, 0.0]",
    "with cr.no_grad(): p.copy_(q)": "p.tolist() == q.tolist() and p.requires_grad",
    "with cr.no_grad(): p.sub_(q)": "p.tolist() == [-3.0, -3.0, -3.0] and p.is_leaf",
    "p.uniform_(7.0, 7.5)": "p.min() >= 7 and p.is_leaf and p.requires_grad",
    "p.grad[0] = 9.0": "p.grad.tolist() == [9.0, 5.0, 6.0]",
    "p.grad = np.ones(3)": "p.grad.dtype == np.float32 and p.grad.sum().item() == 3",
    "p.data = q": "p.tolist() == q.tolist() and p.requires_grad",
    "p.data -= 0.5 * q": "p.tolist() == [-1.0, -0.5, 0.0] and p.requires_grad",
    "with cr.no_grad(): p[0] = 7.0": "p.tolist() == [7.0, 2.0, 3.0] and p.is_leaf",
    "with cr.no_grad(): p -= q": "p.tolist() == [-3.0, -3.0, -3.0] and p.is_leaf",
    "opt.param_groups[0]['lr'] = 0.5; opt.step()": "p.tolist() == [-1.0, -0.5, 0.0]",
    "opt.zero_grad(set_to_none=True)": "p.grad is None",
    "opt.zero_grad(set_to_none=False)": "p.grad.tolist() == [0.0, 0.0, 0.0]",
    "f = cr.no_grad(lambda: p * 2); y = f()": "not y.requires_grad",
    "f = cr.no_grad()(lambda: p * 2); y = f()": "not y.requires_grad",
    "(p * q).sum().backward(gradient=np.float32(2))": "p.grad.tolist() == [12.0, 15.0, 18.0]",
}
"""A statement, and what holds after it."""
SAYS: dict[str, str] = {
    "h.requires_grad = False": "detach()",
    "p.requires_grad = 3": "True or False",
    "cr.tensor([1]).requires_grad = True": "only floating-point",
    "p.copy_(q)": "within no_grad()",
    "p.data.copy_(q)": "would be lost",
    "p.data.fill_(0.5)": "would be lost",
    "p.data.normal_()": "would be lost",
    "p.data.add_(q)": "would be lost",
    "p.grad.detach_()": "x.detach()",
    "p.grad = 3": "a tensor or None",
    "p.data[0] = 5.0": "would be lost",
    "p.detach()[0] = 5.0": "would be lost",
    "h.reshape(3, 1)[0, 0] = 5.0": "would be lost",
    "model.weight.data[0][1] = 5.0": "would be lost",
    "model.weight.transpose(0, 1)": "swapaxes(0, 1)",
    "model.double()": "dtype=",
    "model.half()": "autocast",
    "opt = cr.optim.SGD(p, 0.1)": "[p]",
    "nn.Parameter(q)": "requires_grad=True",
    "nn.LazyConv2d(2, 3)": "nn.Conv2d with x.shape[1] for in_channels",
    "cr.optim.lr_scheduler": "Scheduler",
}


@pytest.mark.parametrize("statement", WORKS)
def test_it_works(statement: str):
    assert eval(WORKS[statement], run(statement))


@pytest.mark.parametrize("statement", SAYS)
def test_it_names_what_to_write(statement: str):
    with pytest.raises((cr.ChainruleError, AttributeError)) as caught:
        run(statement)
    assert SAYS[statement] in str(caught.value)


class Device:
    """Another package's device, as PyTorch has it: its text names it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


Device.__name__ = "device"


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:1", "mps", "tpu:0"])
def test_there_is_one_device(name: str):
    model: Any = nn.Linear(3, 2)
    linear: Any = nn.Linear
    x: Any = leaf()
    for given in (name, Device(name)):
        if name == "cpu":
            assert model.to(given) is model and x.to(given) is x
            continue
        for move in (model.to, x.to):
            with pytest.raises(cr.ConfigError, match="one device, 'cpu': leave the call out"):
                move(given)
    for call in (lambda: model.to(device=name), lambda: linear(3, 2, device=name)):
        with pytest.raises(cr.DtypeError, match="'device': leave it out: everything is on the CPU"):
            call()
    if name != "cpu":
        with pytest.raises(cr.ConfigError, match=r"one device, 'cpu', and no .*leave `device` out"):
            cr.ones(3, device=name)


@pytest.mark.parametrize("name", MODULES)
def test_methods_of_modules(name: str):
    model = nn.Linear(3, 2)
    with pytest.raises(AttributeError, match="'Linear' object has no attribute"):
        getattr(model, name)
    assert not hasattr(model, name) and name not in dir(model)

    class Own(nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    own = Own()
    vars(own)[name] = 3
    assert getattr(own, name) == 3


@pytest.mark.parametrize(("space", "names"), [(nn, LAYERS), (optim, LAYERS), (cr, PACKAGE)])
def test_classes_and_functions_that_there_are_not(space: Any, names: dict[str, str]):
    for name in names:
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': "):
            getattr(space, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        space.nonsense


def test_assignments_that_something_holds_are_kept():
    xs = [cr.zeros(2), cr.zeros(2)]
    xs[0][1] = 5.0
    box = {"x": cr.zeros(2)}
    box["x"][0] = 3.0

    class Holder:
        x = cr.zeros(2)

    Holder.x[0] = 4.0
    y = cr.zeros(2)
    y[0] = 6.0

    def inner() -> None:
        y[1] = 7.0

    inner()
    assert xs[0].tolist() == [0.0, 5.0] and box["x"].tolist() == [3.0, 0.0]
    assert Holder.x.tolist() == [4.0, 0.0] and y.tolist() == [6.0, 7.0]


HOMES = ("chainrule", "numpy", "builtins", "ml_dtypes", "typing")
SHOWN = [cr, nn, optim, amp, data, explain, fft, linalg, show, special, functional, init]


@pytest.mark.parametrize("space", SHOWN, ids=lambda m: m.__name__)
def test_modules_show_what_users_may_call(space: Any):
    names = dir(space)
    assert names and not [n for n in names if n.startswith("_") and not n.startswith("__")]
    for name in names:
        home = getattr(getattr(space, name), "__module__", None)
        assert home is None or home.startswith(
            ("chainrule", "numpy", "builtins", "ml_dtypes", "typing")
        )
    assert not {"np", "math", "Any", "annotations", "sys", "Iterable"} & set(names)


@pytest.mark.parametrize(
    "x",
    [cr.Tensor, cr.ones((2, 2), cr.complex64), nn.Linear(3, 2)],
    ids=["class", "tensor", "layer"],
)
def test_classes_and_objects_show_what_users_may_call(x: Any):
    names = dir(x)
    assert not [n for n in names if n.startswith("_") and not n.startswith("__")]
    for name in names:
        if name not in ("__abstractmethods__",):
            getattr(x, name)
    assert ("sys" not in names and "backward" in names) or "forward" in names
