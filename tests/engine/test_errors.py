"""What a user can do wrong, one by one: the class of the error, and that its sentence helps."""

# ruff: noqa: E501 (tables: one mistake, one line)

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.engine.graph import placeholder
from chainrule.names.spellings import ARGUMENTS

X = np.array([[0.7, -1.3, 0.4]], np.float32)


def leaf(x: Any = X) -> cr.Tensor:
    return cr.tensor(x, requires_grad=True)


def held() -> cr.Tensor:
    return placeholder((2, 3), np.float32, needs=True)


def ints(*values: Any) -> cr.Tensor:
    return cr.tensor(np.array(values))


Mistake = tuple[Callable[[], Any], type[Exception], list[str]]

# fmt: off
SHAPES: dict[str, Mistake] = {
    "add": (lambda: leaf() + cr.ones((2, 2)), cr.ShapeError, ["add", "float32 (1, 3)", "float32 (2, 2)", "do not broadcast"]),
    "matmul": (lambda: leaf() @ cr.ones((2, 2)), cr.ShapeError, ["matmul", "(1, 3)", "(2, 2)"]),
    "matmul of a number": (lambda: cr.matmul(leaf(), cr.tensor(2.0)), cr.ShapeError, ["matmul", "use *"]),
    "where": (lambda: cr.where(leaf() > 1, leaf(), cr.ones((4,))), cr.ShapeError, ["where", "(4,)", "do not broadcast"]),
    "reshape": (lambda: cr.reshape(leaf(), (2, -1)), cr.ShapeError, ["cannot reshape (1, 3)", "3 elements", "(2, -1)"]),
    "reshape with two unknowns": (lambda: cr.reshape(leaf(), (-1, -1)), cr.ShapeError, ["cannot reshape"]),
    "permute": (lambda: cr.permute_dims(leaf(), (0, 0)), cr.ShapeError, ["twice"]),
    "permute too few": (lambda: cr.permute_dims(leaf(), (0,)), cr.ShapeError, ["do not name all 2 axes"]),
    "matrix_transpose": (lambda: cr.matrix_transpose(cr.ones(3)), cr.ShapeError, ["at least 2 axes"]),
    "moveaxis": (lambda: cr.moveaxis(leaf(), (0, 1), 0), cr.ShapeError, ["2 axes cannot go to 1 places"]),
    "squeeze": (lambda: cr.squeeze(leaf(), 1), cr.ShapeError, ["axis 1 of (1, 3)", "size 1"]),
    "axis": (lambda: cr.sum(leaf(), axis=2), cr.ShapeError, ["axis 2 does not exist", "2 axes"]),
    "axis twice": (lambda: cr.sum(leaf(), axis=(0, -2)), cr.ShapeError, ["twice"]),
    "axis that is no integer": (lambda: cr.sum(leaf(), axis=1.5), cr.DtypeError, ["sum: axis must be an integer", "1.5"]),  # type: ignore[arg-type]
    "concat": (lambda: cr.concat([leaf(), cr.ones((2, 2))]), cr.ShapeError, ["concat", "(2, 2)"]),
    "concat of nothing": (lambda: cr.concat([]), cr.ShapeError, ["at least one"]),
    "stack": (lambda: cr.stack([leaf(), cr.ones(3)]), cr.ShapeError, ["equal shapes"]),
    "stack of nothing": (lambda: cr.stack([]), cr.ShapeError, ["at least one"]),
    "split": (lambda: cr.split(leaf(), [1, 1], axis=1), cr.ShapeError, ["[1, 1]", "add up to 3"]),
    "split by 0": (lambda: cr.split(leaf(), 0), cr.ShapeError, ["must be positive"]),
    "repeat": (lambda: cr.repeat(leaf(), -1), cr.ShapeError, ["negative"]),
    "pad": (lambda: cr.pad(leaf(), [(1, 1)]), cr.ShapeError, ["2 pairs"]),
    "pad of nothing": (lambda: cr.pad(cr.ones((0, 2)), [(1, 0), (0, 0)], mode="edge"), cr.ShapeError, ["axis 0 of (0, 2)"]),
    "pad by pairs as PyTorch's": (lambda: cr.nn.functional.pad(leaf(), [(1, 1), (0, 0)]), cr.ShapeError, ["of the last axis", "cr.pad takes a pair"]),
    "pad that takes too much": (lambda: cr.nn.functional.pad(leaf(), (-2, -2)), cr.ShapeError, ["(1, 3)", "take away"]),
    "weights of classes": (lambda: cr.cross_entropy(leaf(), ints(1), weight=cr.ones(2)), cr.ShapeError, ["weights of shape (3,), not (2,)"]),
    "roll": (lambda: cr.roll(leaf(), (1, 2), axis=0), cr.ShapeError, ["2 shifts", "1 axes"]),
    "broadcast_to": (lambda: cr.broadcast_to(leaf(), (2, 2)), cr.ShapeError, ["broadcast_to", "(1, 3)"]),
    "broadcast_arrays": (lambda: cr.broadcast_arrays(leaf(), cr.ones(2)), cr.ShapeError, ["do not broadcast"]),
    "max of nothing": (lambda: cr.max(cr.ones((0, 3)), axis=0), cr.ShapeError, ["max", "(0, 3)"]),
    "einsum sizes": (lambda: cr.einsum("ij,jk->ik", leaf(), cr.ones((2, 2))), cr.ShapeError, ["einsum"]),
    "einsum count": (lambda: cr.einsum("ij,jk->ik", leaf()), cr.ShapeError, ["2 arrays, not 1"]),
    "einsum axes": (lambda: cr.einsum("ijk->i", leaf()), cr.ShapeError, ["'ijk' names 3 axes", "(1, 3)"]),
    "einsum output": (lambda: cr.einsum("ij->k", leaf()), cr.ShapeError, ["'k' must name letters of inputs"]),
    "einsum diagonal": (lambda: cr.einsum("ii", leaf()), cr.ShapeError, ["'i' is 1 and 3"]),
    "einsum dots": (lambda: cr.einsum("ij...k->i", leaf()), cr.ShapeError, ["more axes than"]),
    "tensordot": (lambda: cr.tensordot(leaf(), leaf(), axes=1), cr.ShapeError, ["do not fit"]),
    "tensordot axes": (lambda: cr.tensordot(leaf(), leaf(), axes=3), cr.ShapeError, ["do not both have 3 axes"]),
    "outer": (lambda: cr.outer(leaf(), leaf()), cr.ShapeError, ["two vectors"]),
    "vecdot": (lambda: cr.vecdot(leaf(), cr.ones((2, 2))), cr.ShapeError, ["differ along axis 1"]),
    "take_along_axis": (lambda: cr.take_along_axis(leaf(), ints(0)), cr.ShapeError, ["take_along_axis"]),
    "scatter_add": (lambda: cr.scatter_add(leaf(), 1, ints(0), leaf()), cr.ShapeError, ["same number of axes"]),
    "cross_entropy": (lambda: cr.cross_entropy(leaf(), ints([1])), cr.ShapeError, ["need class indices of shape (1,)", "(1, 1)"]),
    "cross_entropy of probabilities": (lambda: cr.cross_entropy(leaf(), cr.ones(3)), cr.ShapeError, ["shape of the logits", "(3,)"]),
    "mse_loss": (lambda: cr.mse_loss(leaf(), cr.ones(3)), cr.ShapeError, ["the shapes (1, 3) (made at", "(3,) differ"]),
    "bce": (lambda: cr.binary_cross_entropy_with_logits(leaf(), cr.ones(3)), cr.ShapeError, ["differ"]),
    "embedding": (lambda: cr.embedding(cr.ones(3), ints(0)), cr.ShapeError, ["(rows, width)"]),
    "attention": (lambda: cr.scaled_dot_product_attention(leaf(), cr.ones(3), leaf()), cr.ShapeError, ["attention", "(.., T, d)"]),
    "zeros": (lambda: cr.zeros((2, -1)), cr.ShapeError, ["must not be negative"]),
    "zeros of a float": (lambda: cr.zeros(2.5), cr.ShapeError, ["2.5"]),  # type: ignore[arg-type]
    "arange": (lambda: cr.arange(0, 5, 0), cr.ShapeError, ["step must not be 0"]),
    "linspace": (lambda: cr.linspace(0, 1, -1), cr.ShapeError, ["num must not be negative"]),
    "ragged": (lambda: cr.tensor([[1, 2], [3]]), cr.ShapeError, ["cannot make a tensor of list"]),
    "item": (lambda: cr.ones(3).item(), cr.ShapeError, ["one element", "(3,)"]),
    "bool": (lambda: bool(leaf() > 1), cr.ShapeError, ["any() or all()"]),
    "data": (lambda: setattr(leaf(), "data", cr.ones(2)), cr.ShapeError, ["(1, 3) cannot become (2,)"]),
    "grad": (lambda: setattr(leaf(), "grad", cr.ones(2)), cr.ShapeError, ["cannot have shape (2,)"]),
}
DTYPES: dict[str, Mistake] = {
    "None": (lambda: leaf() + None, cr.DtypeError, ["add", "NoneType None"]),
    "a word": (lambda: leaf() * "a", cr.DtypeError, ["mul", "str 'a'"]),
    "bits of floats": (lambda: leaf() & 1, cr.DtypeError, ["bitwise_and", "float32 (1, 3)", "int 1"]),
    "a tensor of words": (lambda: cr.tensor("abc"), cr.DtypeError, ["tensor: data must be", "str 'abc'"]),
    "a tensor of anything": (lambda: cr.tensor(object()), cr.DtypeError, ["tensor: data must be", "an array or a number"]),
    "an integer parameter": (lambda: leaf([1, 2]), cr.DtypeError, ["only floating-point", "int64 (2,)"]),
    "astype": (lambda: leaf().astype("blah"), cr.DtypeError, ["astype", "'blah'"]),
    "a mode where a value belongs": (lambda: cr.pad(leaf(), [(0, 0), (1, 1)], "edge"), cr.DtypeError, ["write mode='edge'"]),  # type: ignore[arg-type]
    "float indices": (lambda: cr.take(leaf(), cr.ones(2)), cr.DtypeError, ["take", "must be integers", "float32"]),
    "one_hot of -1": (lambda: cr.one_hot([2], -1), cr.ConfigError, ["one_hot", "-1", "max"]),
    "one_hot": (lambda: cr.one_hot(cr.ones(3), 3), cr.DtypeError, ["one_hot", "integers"]),
    "a float as a key": (lambda: leaf()[1.5], cr.DtypeError, ["integers or bools"]),
    "a word as a key": (lambda: leaf()["a"], cr.DtypeError, ["integers or bools"]),
    "bool target": (lambda: cr.cross_entropy(leaf(), leaf()[:, 0] > 0), cr.DtypeError, ["integers or floats, not bool"]),
    "len": (lambda: len(cr.tensor(1.0)), cr.DtypeError, ["without axes"]),
    "iter": (lambda: list(cr.tensor(1.0)), cr.DtypeError, ["without axes"]),
    "an index that is a float": (lambda: [1, 2][cr.tensor(1.0)], cr.DtypeError, ["must be an integer"]),
    "a number in a list of tensors": (lambda: cr.stack([leaf(), 1.0]), cr.DtypeError, ["stack takes tensors", "float 1.0"]),
    "asarray without a copy": (lambda: cr.asarray([1.0], copy=False), cr.DtypeError, ["without a copy"]),
    "trees": (lambda: cr.tree_map(lambda a, b: a, {"a": 1}, [1]), cr.DtypeError, ["the trees differ", "dict(a: *)"]),
}
INDICES: dict[str, Mistake] = {
    "int": (lambda: leaf()[3], cr.IndexingError, ["getitem", "float32 (1, 3)", "index 3 is out of bounds"]),
    "too many": (lambda: leaf()[0, 0, 0], cr.IndexingError, ["too many indices"]),
    "array": (lambda: leaf()[[4]], cr.IndexingError, ["index 4 is out of bounds"]),
    "bools": (lambda: leaf()[np.array([True, False])], cr.IndexingError, ["boolean index did not match"]),
    "take": (lambda: cr.take(leaf(), [7], axis=1), cr.IndexingError, ["take", "7"]),
    "embedding": (lambda: cr.embedding(leaf(), ints(5)), cr.IndexingError, ["5"]),
    "scatter_add": (lambda: cr.scatter_add(leaf(), 1, ints([5]), cr.ones((1, 1))), cr.IndexingError, ["5"]),
    "class too large": (lambda: cr.cross_entropy(leaf(), ints(3)), cr.IndexingError, ["class 3 is not among 0..2"]),
    "class negative": (lambda: cr.cross_entropy(leaf(), ints(-1)), cr.IndexingError, ["class -1", "ignore_index"]),
}
DERIVATIVES: dict[str, Mistake] = {
    "backward of many": (lambda: (leaf() * 2).backward(), cr.ShapeError, ["(1, 3)", "sum it", "gradient"]),
    "backward with a wrong gradient": (lambda: leaf().backward(cr.ones(2)), cr.ShapeError, ["(2,)", "(1, 3)"]),
    "no graph": (lambda: cr.tensor(1.0).backward(), cr.GradientError, ["does not depend", "requires_grad=True", "detach()"]),
    "no graph after no_grad": (lambda: cr.no_grad()(lambda: leaf().sum())().backward(), cr.GradientError, ["no_grad()"]),
    "numpy": (lambda: leaf().numpy(), cr.GradientError, ["detach().numpy()"]),
    "np.asarray": (lambda: np.asarray(leaf()), cr.GradientError, ["detach().numpy()"]),
    "a list of tensors": (lambda: cr.tensor([leaf(), leaf()]), cr.GradientError, ["cr.stack", "cr.asarray", "detach()"]),
    "a list in a list of tensors": (lambda: cr.tensor([[1.0], [leaf()[0, 0]]]), cr.GradientError, ["cr.stack"]),
    "hook": (lambda: cr.ones(3).register_hook(print), cr.GradientError, ["register_hook", "requires a gradient"]),
    "retain_grad": (lambda: cr.ones(3).retain_grad(), cr.GradientError, ["retain_grad"]),
    "a grad that is not wanted": (lambda: setattr(cr.ones(3), "grad", cr.ones(3)), cr.GradientError, ["does not require"]),
    "requires_grad_ in a graph": (lambda: (leaf() * 2).requires_grad_(False), cr.GradientError, ["detach()"]),
    "grad of many": (lambda: cr.grad(lambda x: x)(X), cr.ShapeError, ["(1, 3)", "jacobian or vjp"]),
    "grad of nothing": (lambda: cr.grad(lambda x: None)(X), cr.ShapeError, ["one number"]),
    "grad of an integer": (lambda: cr.grad(cr.argmax)(X), cr.DtypeError, ["real floating-point"]),
    "grad by an integer": (lambda: cr.grad(lambda x: x * x)(2), cr.DtypeError, ["int64 ()", "2.0"]),
    "jvp by an integer": (lambda: cr.jvp(cr.sin, (ints(2),), (ints(2),)), cr.DtypeError, ["only floating-point"]),
    "argnums": (lambda: cr.grad(lambda x: x, argnums=1)(1.0), cr.ShapeError, ["argnums 1", "1 arguments"]),
    "tangent's shape": (lambda: cr.jvp(cr.sin, (X,), (cr.ones(2),)), cr.ShapeError, ["tangent", "(2,)", "(1, 3)"]),
    "tangents' number": (lambda: cr.jvp(cr.sin, (X,), ()), cr.ShapeError, ["tangent", "structure"]),
    "cotangent's structure": (lambda: cr.vjp(lambda x: (x, x), X)[1](X), cr.ShapeError, ["cotangent", "tuple(*, *)"]),
    "jacobian's mode": (lambda: cr.jacobian(cr.sin, mode="x"), cr.GradientError, ["'auto', 'forward' or 'reverse'", "'x'"]),
}
SETTINGS: dict[str, Mistake] = {
    "gelu": (lambda: cr.gelu(leaf(), approximate="erf"), cr.ConfigError, ["'none' or 'tanh'", "'erf'"]),
    "pad": (lambda: cr.pad(leaf(), [(0, 0), (1, 1)], mode="mirror"), cr.ConfigError, ["constant, edge, wrap, symmetric, reflect", "'mirror'"]),
    "dropout": (lambda: cr.dropout(leaf(), 1.5), cr.ConfigError, ["probability", "1.5"]),
    "reduction": (lambda: cr.mse_loss(leaf(), leaf(), reduction="avg"), cr.ConfigError, ["'mean', 'sum' or 'none'", "'avg'"]),
    "label_smoothing": (lambda: cr.cross_entropy(leaf(), ints(1), label_smoothing=2.0), cr.ConfigError, ["between 0 and 1"]),
    "seed": (lambda: cr.Generator(-1), cr.ConfigError, ["seed must not be negative", "-1"]),
    "manual_seed": (lambda: cr.Generator(1).manual_seed(-1), cr.ConfigError, ["seed must not be negative"]),
}
TRACED: dict[str, Mistake] = {
    "if": (lambda: bool(cr.sum(held()) > 0), cr.TraceError, ["bool()", "not known yet", __file__, "where(condition, a, b)"]),
    "float": (lambda: float(cr.sum(held())), cr.TraceError, ["float()"]),
    "int": (lambda: int(cr.sum(held())), cr.TraceError, ["int()"]),
    "item": (lambda: cr.sum(held()).item(), cr.TraceError, ["item()", "as results"]),
    "numpy": (lambda: held().detach().numpy(), cr.TraceError, ["numpy()"]),
    "tolist": (lambda: held().tolist(), cr.TraceError, ["tolist()"]),
    "copied": (lambda: cr.tensor(held()), cr.TraceError, ["cannot be copied", "asarray and stack"]),
    "mask": (lambda: held()[held() > 0], cr.DtypeError, ["depends on values", "use where(mask, x, 0)"]),
    "shapes": (lambda: held() + cr.ones(2), cr.ShapeError, ["add", "(2, 3)", "(2,)"]),
    "matmul": (lambda: held() @ held(), cr.ShapeError, ["inner sizes", "(2, 3)"]),
    "max of nothing": (lambda: cr.max(held()[:0]), cr.ShapeError, ["without elements"]),
    "concat": (lambda: cr.concat([held(), cr.ones((2, 2))]), cr.ShapeError, ["differ outside axis 0"]),
    "take_along_axis": (lambda: cr.take_along_axis(held(), ints(0)), cr.ShapeError, ["differ in axes"]),
}
# fmt: on
GROUPS = [SHAPES, DTYPES, INDICES, DERIVATIVES, SETTINGS, TRACED]
ALL = [pytest.param(*m, id=name) for group in GROUPS for name, m in group.items()]
BUILTIN = {
    cr.ShapeError: ValueError,
    cr.DtypeError: TypeError,
    cr.IndexingError: IndexError,
    cr.GradientError: RuntimeError,
    cr.TraceError: RuntimeError,
    cr.ConfigError: ValueError,
}


def _quoted_line(sentence: str) -> list[str]:
    """The lines of this file that the sentence names, as they are quoted below it."""
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    numbers = re.findall(rf"{re.escape(__file__)}:(\d+)", sentence)
    return [f"{__file__}:{n}:  {text[int(n) - 1].strip()}" for n in numbers]


@pytest.mark.parametrize(("make", "kind", "says"), ALL)
def test_mistake(make: Callable[[], Any], kind: type[Exception], says: list[str]):
    with pytest.raises(kind) as caught:
        make()
    message = str(caught.value)
    missing = [part for part in says if part not in message]
    assert not missing, f"{missing} is not in: {message}"
    assert len(message) < 700
    sentence, *below = message.split("\n")
    assert not below or below == [f"    {place}" for place in _quoted_line(sentence)], message
    assert isinstance(caught.value, cr.ChainruleError) and isinstance(caught.value, BUILTIN[kind])  # type: ignore[index]


def test_every_class_of_error_is_provoked():
    assert {m.values[1] for m in ALL} == set(BUILTIN)


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_second_backward_names_tensor_op_and_both_lines():
    x = leaf()
    loss, made = cr.exp(x).sum(), line()
    loss.backward()
    freed = line() - 1
    with pytest.raises(cr.GradientError) as caught:
        loss.backward()
    message = str(caught.value)
    assert "'sum' float32 ()" in message and "retain_graph=True" in message
    assert f"{__file__}:{made})" in message and f"{__file__}:{freed}." in message


def test_a_second_derivative_of_a_freed_graph_says_the_same():
    x = leaf()
    y = cr.exp(x)
    y.sum().backward()
    with pytest.raises(cr.GradientError, match="second time"):
        cr.grad(lambda v: cr.sum(y * v * v))(X)
        (y * 2.0).sum().backward()


def test_the_cause_is_chained():
    with pytest.raises(cr.ShapeError) as caught:
        leaf() + cr.ones((2, 2))
    assert isinstance(caught.value.__cause__, ValueError)
    assert "operands could not be broadcast" in str(caught.value.__cause__)


def test_an_error_inside_a_users_function_passes_through():
    def f(x: Any) -> Any:
        raise KeyError("mine")

    for operator in (cr.grad, cr.jacobian, cr.value_and_grad):
        with pytest.raises(KeyError, match="mine"):
            operator(f)(X)


def test_a_hook_of_the_wrong_shape():
    x = leaf()
    x.register_hook(lambda g: np.zeros(7))
    with pytest.raises(cr.ShapeError, match=r"hook.*\(7,\).*\(1, 3\)"):
        (x * 2.0).sum().backward()


def test_an_error_leaves_nothing_switched():
    """After a failure inside a derivative, recording and NumPy's warnings are as before."""
    x = leaf()
    with pytest.raises(cr.ShapeError), cr.no_grad():
        x + cr.ones(7)
    assert (x * 2).requires_grad
    before = np.geterr()
    with pytest.raises(cr.ShapeError):
        cr.grad(lambda v: cr.sum(v + cr.ones(7)))(X)
    assert np.geterr() == before and (x * 2).requires_grad


def test_a_long_argument_is_shortened():
    with pytest.raises(cr.DtypeError) as caught:
        leaf() + ("x" * 500)
    assert "..." in str(caught.value) and len(str(caught.value)) < 400


def test_a_list_where_an_array_belongs_is_named():
    with pytest.raises(cr.DtypeError, match=r"sum takes tensors and arrays, not list \[1.0\]"):
        cr.sum([1.0])
    with pytest.raises(cr.DtypeError, match=r"stack takes tensors and arrays, not float 2.0"):
        cr.stack([cr.ones(()), 2.0])


def shown() -> Iterator[Any]:
    """The functions of arrays that the package and its parts show."""
    for module in (cr, nn.functional, cr.linalg, cr.fft, cr.special):
        for name in dir(module):
            f = getattr(module, name)
            if hasattr(f, "__wrapped__") and f.__module__ == module.__name__ and name[0] != "_":
                yield pytest.param(f, id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("f", list(shown()))
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_array_is_an_error_of_ours(f: Any):
    x = cr.tensor([[2.0, 0.5], [0.5, 1.0]])
    parameters = inspect.signature(f).parameters.values()
    count = max(1, sum(p.default is p.empty and p.kind is not p.KEYWORD_ONLY for p in parameters))
    for place in range(count):
        for wrong in ([[1.0, 2.0], [3.0, 4.0]], None, object()):
            args = [wrong if i == place else x for i in range(count)]
            with suppress(cr.ChainruleError):
                f(*args)


@pytest.mark.parametrize("spelling", ARGUMENTS)
def test_an_argument_in_pytorchs_spelling_is_told_ours(spelling: str):
    ours, hint = ARGUMENTS[spelling]
    takers = [f for p in shown() if ours in inspect.signature(f := p.values[0]).parameters]
    assert takers
    x = cr.ones((1, 1, 4, 4))
    for f in takers:
        names = inspect.signature(f).parameters
        if spelling not in names and "kwargs" not in names:
            with pytest.raises(cr.DtypeError, match=re.escape(f"'{spelling}': write {hint}")):
                f(x, **{spelling: 1})


def test_an_argument_that_nobody_has_is_answered_with_those_that_there_are():
    with pytest.raises(cr.DtypeError, match="softmax has no argument 'colour': it takes x, axis"):
        cr.softmax(X, colour=1)  # pyright: ignore[reportCallIssue]


AXIS_BY_PLACE: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "sum": lambda x: (cr.sum(x, 1), np.sum(x.numpy(), 1)),
    "softmax": lambda x: (nn.functional.softmax(x, 0), cr.softmax(x, axis=0).numpy()),
    "concat": lambda x: (cr.concat([x, x], 1), np.concatenate([x.numpy()] * 2, 1)),
    "stack": lambda x: (cr.stack([x, x], 1), np.stack([x.numpy()] * 2, 1)),
    "argmax": lambda x: (cr.argmax(x, 1), np.argmax(x.numpy(), 1)),
    "sort": lambda x: (cr.sort(x, 0), np.sort(x.numpy(), 0)),
    "roll": lambda x: (cr.roll(x, 1, 0), np.roll(x.numpy(), 1, 0)),
    "flip": lambda x: (cr.flip(x, 0), np.flip(x.numpy(), 0)),
    "take": lambda x: (cr.take(x, cr.tensor([1]), 1), np.take(x.numpy(), [1], 1)),
    "normalize": lambda x: (
        nn.functional.normalize(x, 2, 0), x.numpy() / np.linalg.norm(x.numpy(), 2, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AXIS_BY_PLACE)
def test_the_axis_may_be_given_by_place_as_numpy_and_pytorch_do(name: str):
    x = cr.tensor(np.random.default_rng(0).normal(size=(3, 4)))
    got, want = AXIS_BY_PLACE[name](x)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_what_is_given_by_name_only_is_said():
    with pytest.raises(
        cr.DtypeError, match=r"norm takes only x by place; give .* axis=, keepdims="
    ):
        cr.norm(X, 2)  # pyright: ignore[reportCallIssue]
    with pytest.raises(cr.DtypeError, match=r"mean takes only x, axis by place; .* keepdims="):
        cr.tensor([1.0]).mean(-1, True)  # pyright: ignore[reportCallIssue]


def test_a_function_with_the_border_is_found_by_pickle():
    for f in (cr.softmax, nn.functional.gelu, cr.linalg.inv, cr.fft.rfft, cr.special.logit, cr.eye):
        assert pickle.loads(pickle.dumps(f)) is f


def test_an_error_of_the_users_own_code_stays_as_it_is():
    class Odd:
        ndim = 2

        def __getattr__(self, name: str) -> Any:
            raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        cr.softmax(Odd())


@pytest.mark.parametrize("wrong", [[1.0], None, object(), "a", [[1.0], [1.0, 2.0]]])
def test_a_traced_op_refuses_what_the_eager_one_refuses(wrong: Any):
    def f(x: Any) -> Any:
        return x * wrong

    x = cr.ones((2, 3))
    try:
        want = f(x)
    except cr.ChainruleError as error:
        with pytest.raises(type(error), match=r"^mul: cannot be applied to float32"):
            cr.jit(f)(x)
    else:
        np.testing.assert_array_equal(cr.jit(f)(x), want)


def test_weights_of_another_shape_are_refused():
    for f in (nn.functional.layer_norm, nn.functional.rms_norm):
        with pytest.raises(
            cr.ShapeError, match=r"elements, so weight has shape \(3,\), not \(1,\)"
        ):
            f(leaf(), cr.ones(1))
        with pytest.raises(cr.DtypeError, match=r"of shape \(3,\), not the tuple \(3,\)"):
            f(leaf(), (3,))


@pytest.mark.parametrize(
    "shapes", [((3,), (4,)), ((3,), (4, 2)), ((2, 3), (4,)), ((3,), (5, 4, 2))]
)
def test_a_product_with_a_vector_names_the_shapes_that_were_given(shapes: Any):
    a, b = cr.ones(shapes[0]), cr.ones(shapes[1])
    said = f"float32 {a.shape}, float32 {b.shape}: the inner sizes differ: 3, 4"
    for product in (cr.matmul, cr.jit(cr.matmul), np.matmul):
        with pytest.raises(cr.ShapeError, match=re.escape(said)):
            product(a, b)
    if b.ndim == 2 and a.ndim == 1:
        said = "linear: cannot be applied to float32 (3,), float32 (2, 4): the inner sizes differ"
        with pytest.raises(cr.ShapeError, match=re.escape(said)):
            nn.Linear(4, 2)(a)
