"""A method is its function: the table, what it gives, and what it leaves out."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.methods.making import function_of
from chainrule.names.methods import CAST, FORMS, IN_PLACE, METHODS, PROPERTIES
from chainrule.scalar.value import row_methods

ROOT = Path(__file__).parents[2]
X = np.array([[0.5, 0.25, 0.75], [0.125, 0.625, 0.375], [0.3, 0.9, 0.2]])
Y = np.array([[0.2, 0.7, 0.4], [0.6, 0.35, 0.15], [0.8, 0.1, 0.55]])
INTS = np.array([[3, 1, 2], [5, 4, 0], [7, 6, 9]])
MASK = np.array([[True, False, True], [False, True, False], [True, True, False]])
DEFINITE = Y @ Y.T + np.eye(3)


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


_INDICES = (1, np.array([0, 2, 1]))
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        words(
            "add atan2 arctan2 clamp_max clamp_min copysign dist div divide eq floor_divide fmax "
            "fmin fmod ge greater greater_equal gt heaviside hypot inner isclose allclose le less "
            "less_equal logaddexp logaddexp2 lt matmul bmm mm mv maximum minimum mul multiply ne "
            "nextafter not_equal pow remainder sub subtract true_divide vdot xlogy igamma igammac "
            "kron dot view_as reshape_as expand_as type_as"
        ),
        (Y,),
    ),
    **dict.fromkeys(
        words(
            "all any amax amin argmax argmin argsort count_nonzero cumprod cumsum mean nanmean "
            "nansum max min prod softmax log_softmax logcumsumexp logsumexp std var sum cummax "
            "cummin mode unbind unsqueeze"
        ),
        (1,),
    ),
    **dict.fromkeys(
        words(
            "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor "
            "logical_and logical_or logical_xor ldexp"
        ),
        (INTS % 3,),
    ),
    **dict.fromkeys(["outer", "ger"], (Y[0],)),
    **dict.fromkeys(["index_add", "index_copy"], (*_INDICES, Y)),
    **dict.fromkeys(["scatter", "scatter_add"], (1, INTS % 3, Y)),
    **dict.fromkeys(["swapaxes", "swapdims", "moveaxis", "movedim"], (0, 1)),
    **dict.fromkeys(["clip", "clamp"], (0.2, 0.6)),
    **dict.fromkeys(["permute", "permute_dims"], (1, 0)),
    **dict.fromkeys(["reshape", "view", "new_zeros", "new_ones", "new_empty"], (9, 1)),
    **dict.fromkeys(["split", "chunk", "tensor_split"], (2,)),
    **dict.fromkeys(["broadcast_to", "expand", "tile"], (2, 3, 3)),
    **dict.fromkeys(["kthvalue", "topk", "matrix_power", "mvlgamma", "polygamma"], (2,)),
    **dict.fromkeys(["addmm", "addcmul", "addcdiv"], (Y, X)),
    "astype": ("float32",), "cholesky_solve": (np.tril(Y),), "fill": (1.5,),
    "copy_": (Y,), "gather": (1, INTS % 3), "index_fill": (*_INDICES, 1.5),
    "index_put": ((np.array([0, 2]), np.array([1, 1])), 1.5), "index_select": _INDICES,
    "index_reduce": (*_INDICES, Y, "prod"), "lerp": (Y, 0.25), "masked_fill": (MASK, 1.5),
    "masked_scatter": (MASK, Y), "masked_select": (MASK,), "narrow": (1, 0, 2), "prelu": (Y[0],),
    "nanquantile": (0.5,), "quantile": (0.5,), "renorm": (2.0, 0, 0.5), "repeat_interleave": (2,),
    "roll": (1, 0), "scatter_reduce": (1, INTS % 3, Y, "prod"), "searchsorted": (Y[0],),
    "select": (1, 0), "select_scatter": (Y[0], 1, 0), "slice_scatter": (Y,), "stft": (4,),
    "split_with_sizes": ([1, 2],), "take": (np.array([0, 4]),), "unflatten": (1, (3, 1)),
    "where": (MASK, Y), "unfold": (1, 2, 1), "to": ("float32",), "new_full": ((2,), 1.5),
    "new_tensor": ([1, 2],), "diagonal_scatter": (Y[0],), "histogram": (3,),
}  # fmt: skip
"""What each method is called with, besides a matrix; nothing where it stands not here."""
GIVEN: dict[str, Any] = {
    **dict.fromkeys(["bincount"], INTS.ravel()),
    **dict.fromkeys(["prelu", "outer", "ger", "searchsorted", "stft"], np.sort(X.ravel())[:8]),
    **dict.fromkeys(["prelu"], X),
    **dict.fromkeys(
        words(
            "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
            "bitwise_xor"
        ),
        INTS,
    ),
    **dict.fromkeys(["acosh", "arccosh", "mvlgamma"], X + 1.5),
    **dict.fromkeys(["cholesky"], DEFINITE),
    **dict.fromkeys(["imag", "real", "H", "mH"], X + 1j * Y),
    "istft": np.fft.rfft(np.ones((4, 3)), axis=0),
    "outer": X[1], "ger": X[1],
}  # fmt: skip
"""Of methods that need another tensor."""
ARGUMENTS["istft"] = (4,)
RANDOM = {"normal_", "uniform_"}
CALLED = sorted(set(METHODS) - RANDOM)


def numbers(y: Any) -> list[Any]:
    """The arrays of a result."""
    if isinstance(y, tuple | list):
        return [a for each in cast("list[Any]", y) for a in numbers(each)]
    return [y.detach().numpy() if isinstance(y, cr.Tensor) else np.asarray(y)]


def method(name: str) -> Callable[[Any], Any]:
    if name in PROPERTIES:
        return lambda x: getattr(x, name)
    return lambda x: getattr(x, name)(*ARGUMENTS.get(name, ()))


def function(name: str) -> Callable[[Any], Any]:
    """The same by the function that users call."""
    home, word = METHODS[name]
    if home == CAST:
        return lambda x: cr.astype(x, getattr(cr, word))
    f = function_of(name) if home == FORMS else getattr(import_module(home), word)
    return lambda x: f(x, *ARGUMENTS.get(name, ()))


def given(name: str) -> Any:
    return GIVEN.get(name, X)


def alike(a: Any, b: Any) -> bool:
    pairs = list(zip(numbers(a), numbers(b), strict=True))
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in pairs)


def total(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function as one number, which weights the elements of what it gives."""

    def loss(x: Any) -> Any:
        y = f(x)
        parts = cast("list[Any]", y) if isinstance(y, tuple | list) else [y]
        floats = [p for p in parts if isinstance(p, cr.Tensor) and p.dtype.kind in "fc"]
        if not floats:
            return cr.sum(x) * 0
        return sum(cr.sum(cr.abs(p) * cr.arange(1, p.size + 1).reshape(p.shape)) for p in floats)

    return loss


@pytest.mark.parametrize("name", CALLED)
def test_a_method_gives_what_its_function_gives(name: str):
    x = cr.tensor(given(name))
    assert alike(method(name)(x), function(name)(x))


@pytest.mark.parametrize("name", CALLED)
def test_gradients_are_those_of_the_function(name: str):
    x = given(name)
    if x.dtype.kind != "f" or name in NO_GRADIENT:
        return
    assert alike(cr.grad(total(method(name)))(x), cr.grad(total(function(name)))(x))


NO_GRADIENT = {"igamma", "igammac"}
"""By their first argument."""
OWN = [n for n in CALLED if METHODS[n][0] in (FORMS, CAST) or n in ("log1p", "cumsum", "igamma")]
"""Methods with code of their own, and one of each kind of function; in compiled functions and over
batches a function is tested where it stands."""


@pytest.mark.parametrize("name", OWN)
def test_within_a_compiled_function(name: str):
    x = given(name)

    def f(x: Any) -> Any:
        return cr.asarray(method(name)(x)) + 0

    got, eager = cr.jit(f)(x), f(cr.tensor(x))
    np.testing.assert_allclose(numbers(got)[0], numbers(eager)[0], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", OWN)
def test_over_a_batch(name: str):
    x = given(name)
    eager = numbers(method(name)(cr.tensor(x)))[0]
    got = cr.vmap(method(name))(cr.tensor(np.stack([x, x])))
    if isinstance(got, cr.Tensor):
        np.testing.assert_allclose(numbers(got[1])[0], eager, rtol=1e-12, atol=1e-12)


# --- What a method is ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLED)
def test_a_method_is_documented_and_listed(name: str):
    assert name in dir(cr.Tensor) and name in dir(cr.ones(2))
    home, word = METHODS[name]
    if home not in (CAST, FORMS) and name not in PROPERTIES:
        f = getattr(import_module(home), word)
        bound, free = getattr(cr.Tensor, name), f
        assert inspect.getdoc(bound) == inspect.getdoc(free)
        assert inspect.signature(bound) == inspect.signature(free)
    else:
        assert inspect.getdoc(getattr(cr.Tensor, name))


def test_functions_themselves_are_methods():
    assert cr.Tensor.cumsum is cr.cumsum and cr.Tensor.det is cr.linalg.det  # type: ignore[comparison-overlap]
    assert cr.Tensor.unsqueeze is cr.expand_dims  # type: ignore[comparison-overlap]


def test_nothing_that_a_tensor_is_is_hidden():
    own = {n for n in vars(cr.Tensor) if inspect.isdatadescriptor(vars(cr.Tensor)[n])}
    assert not (set(METHODS) - PROPERTIES) & own
    for name in ("data", "grad", "shape", "backward", "detach", "item", "requires_grad_"):
        assert name not in METHODS and f"{name}_" not in METHODS


@pytest.mark.parametrize("name", words("cumsum add reshape softmax float masked_fill"))
def test_wrong_arguments_are_what_the_function_says(name: str):
    x = cr.tensor(X)
    with pytest.raises(cr.DtypeError, match=f"{name} has no argument 'nonsense'"):
        getattr(x, name)(nonsense=1)


def test_an_op_of_one_array_says_its_name():
    """Python answers the call: to look for more arguments would take longer than some ops do."""
    x = cr.tensor(X)
    for wrong in (lambda: x.exp(1), lambda: x.exp(out=x)):  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"Tensor.exp\(\)"):
            wrong()


def test_the_line_of_an_error_is_the_users():
    x = cr.tensor([0.0, 1.0], requires_grad=True)
    y = x.log().cumsum(0)
    assert __file__ in str(y.node.where) if y.node else False


def test_every_method_of_numpy_and_pytorch_is_there_or_answered():
    torch = pytest.importorskip("torch")
    x = cr.tensor(X)
    for theirs in (np.ndarray, torch.Tensor):
        for name in [n for n in dir(theirs) if not n.startswith("_")]:
            try:
                getattr(cr.Tensor, name)
            except AttributeError as error:
                assert "': " in str(error), name
                assert not hasattr(x, name)


def test_functions_that_pytorch_has_as_methods_are_methods():
    """But for those of another meaning, which the table of differences or NumPy says."""
    torch = pytest.importorskip("torch")
    both = {n for n in dir(cr) if callable(getattr(torch.Tensor, n, None))}
    missing = both - set(METHODS) - {"bfloat16", "bool", "data", "grad"}
    assert missing == {"equal", "median", "nanmedian", "nonzero", "put", "repeat", "sort"}


def test_type_checkers_know_every_method():
    script = runpy.run_path(str(ROOT / "scripts" / "method_signatures.py"))
    page = (ROOT / "chainrule" / "engine" / "methods" / "signatures.py").read_text("utf-8")
    assert page == script["text"](), "run python scripts/method_signatures.py"
    page = (ROOT / "chainrule" / "scalar" / "signatures.py").read_text("utf-8")
    assert page == script["scalar_text"](), "run python scripts/method_signatures.py"


SCALAR = dict(row_methods())


@pytest.mark.parametrize("name", sorted(SCALAR))
def test_a_value_has_the_methods_of_rows(name: str):
    row = SCALAR[name]
    xs = [1.25, 0.75, 0.5][: row.takes]
    a, b = [[cr.Value(x) for x in xs] for _ in "ab"]
    y, z = getattr(a[0], name)(*a[1:]), row(*b)
    y.backward()
    z.backward()
    assert str([y, *a]) == str([z, *b])
    assert getattr(cr.Value, name).__doc__


def test_a_value_keeps_its_own():
    v = cr.Value(2.0)
    assert v.add(1).data == 3.0 and v.maximum(cr.Value(5.0)).data == 5.0 and v.pow(2).data == 4.0
    assert not hasattr(v, "reshape") and not hasattr(v, "isnan") and not hasattr(v, "softmax")


# --- In place ------------------------------------------------------------------------------------

SHAPED = sorted(n for n in IN_PLACE if n not in ("zero", "fill", "copy"))


@pytest.mark.parametrize("name", SHAPED)
def test_a_method_in_place_assigns_what_the_method_gives(name: str):
    x = cr.tensor(given(name), requires_grad=given(name).dtype.kind == "f")
    want, y = method(name)(x), x.copy()
    z = y * 1
    assert getattr(y, f"{name}_")(*ARGUMENTS.get(name, ())) is y
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(numbers(y)[0], numbers(want)[0].astype(x.dtype))
    np.testing.assert_array_equal(numbers(z)[0], given(name))


def test_gradients_flow_through_assignments_in_place():
    def f(x: Any) -> Any:
        y = x * 2
        z = y * y
        y.mul_(x).exp_().add_(z)
        return y.sum()

    def g(x: Any) -> Any:
        return (cr.exp(2 * x * x) + 4 * x * x).sum()

    np.testing.assert_allclose(numbers(cr.grad(f)(X))[0], numbers(cr.grad(g)(X))[0], rtol=1e-12)
    np.testing.assert_allclose(
        numbers(cr.jit(cr.grad(f))(X))[0], numbers(cr.grad(g)(X))[0], rtol=1e-12
    )


def test_a_step_in_place():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    with pytest.raises(cr.GradientError, match="within no_grad"):
        w.sub_(1.0)
    assert w.grad is not None
    with cr.no_grad():
        w.sub_(0.5 * w.grad)
        w.grad.zero_()
    assert w.tolist() == [0.0, 0.0] and w.grad.tolist() == [0.0, 0.0] and w.requires_grad


def test_zeros_values_and_copies():
    x = cr.tensor(X)
    assert x.zero_() is x and not x.any()
    assert (x.fill_(2.5) == 2.5).all()
    assert (x.copy_(Y[0]) == Y[0]).all()
    assert x.uniform_(3.0, 4.0) is x and ((x >= 3) & (x < 4)).all()


def test_an_assignment_that_would_be_lost():
    x = cr.tensor(X)
    lost: list[Callable[[], Any]] = []

    def of_data():
        x.data.add_(1)

    def of_a_part():
        x[0].zero_()

    lost += [of_data, of_a_part]
    for f in lost:
        for _ in range(20):  # also when Python has specialized the code
            with pytest.raises(cr.ConfigError, match="would be lost"):
                f()
    for _ in range(20):
        y = x.data.add_(1)
        x.clone().add_(1).sum()
        assert alike(y, X + 1)
        assert cr.zeros((3, 3)).scatter_(1, cr.tensor(INTS % 3), 1.0).sum() > 0
    assert alike(x, X)


def test_what_does_not_fit_is_refused():
    x, i = cr.tensor(X), cr.tensor(INTS)
    with pytest.raises(cr.DtypeError, match="cannot stand in elements of int64"):
        i.mul_(0.5)
    with pytest.raises(cr.ShapeError):
        x.add_(np.ones((4, 3, 3)))
    with pytest.raises(cr.DtypeError, match="needs its argument 'value'"):
        x.fill_()  # type: ignore[call-arg]


# --- Methods with arguments of their own ---------------------------------------------------------


def test_axes_and_shapes_are_written_out_or_not():
    x = cr.ones((2, 3, 4))
    for shape in ((6, 4), (-1, 4)):
        assert x.view(*shape).shape == x.reshape(shape).shape == (6, 4)
    assert x.permute(2, 0, 1).shape == x.permute((2, 0, 1)).shape == (4, 2, 3)
    assert x.transpose(1, 2).shape == x.transpose(-1, -2).shape == (2, 4, 3)
    assert x.transpose(2, 0, 1).shape == (4, 2, 3)
    assert x.tile(2).shape == (2, 3, 8) and x.flip(0, 1).shape == x.flip().shape == (2, 3, 4)
    assert cr.ones((3, 1)).expand(2, -1, 4).shape == (2, 3, 4)


def test_diagonals_are_those_of_the_first_axes():
    x = np.arange(24.0).reshape(2, 3, 4)
    t = cr.tensor(x)
    for args in ((), (1,), (-1, 2, 0)):
        assert alike(t.diagonal(*args), x.diagonal(*args))
        assert alike(t.trace(*args), np.trace(x, *args))  # type: ignore[call-overload]


def test_conversions():
    x = cr.tensor([1.5, -2.0])
    assert x.to("cpu") is x and x.cpu() is x and x.to(cr.float32) is x
    assert x.to(cr.float64).dtype == x.to("float64").dtype == x.to(cr.zeros(1, "f8")).dtype == "f8"
    assert x.to("cpu", cr.float64).dtype == x.to(device="cpu", dtype="f8").dtype == "f8"
    with pytest.raises(cr.ConfigError, match="one device, 'cpu'"):
        x.to("cuda")
    assert x.long().tolist() == [1, -2] and x.bool().tolist() == [True, True]
    assert x.numel() == 2 and x.dim() == 1 and x.element_size() == 4
    assert x.is_floating_point() and not x.is_complex()
    assert x.new_zeros(2, 3).dtype == np.float32 and x.new_full((2,), 3).tolist() == [3.0, 3.0]
