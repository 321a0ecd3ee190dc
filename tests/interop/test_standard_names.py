"""Names and signatures of the Array API standard, version 2025.12: we have and take them all."""

from __future__ import annotations

import inspect
import re
from inspect import Parameter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr

FUNCTIONS = """
arange | start, /, stop=None, step=1, *, dtype=None, device=None
asarray | obj, /, *, dtype=None, device=None, copy=None
empty ones zeros | shape, *, dtype=None, device=None
empty_like ones_like zeros_like | x, /, *, dtype=None, device=None
eye | n_rows, n_cols=None, /, *, k=0, dtype=None, device=None
from_dlpack | x, /, *, device=None, copy=None
full | shape, fill_value, *, dtype=None, device=None
full_like | x, /, fill_value, *, dtype=None, device=None
linspace | start, stop, /, num, *, dtype=None, device=None, endpoint=True
meshgrid | *arrays, indexing='xy'
tril triu | x, /, *, k=0
astype | x, dtype, /, *, copy=True, device=None
can_cast | from_, to, /
finfo iinfo | type, /
isdtype | dtype, kind
result_type | *arrays_and_dtypes
abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor | x, /
imag isfinite isinf isnan log log1p log2 log10 logical_not negative positive real | x, /
reciprocal round sign signbit sin sinh square sqrt tan tanh trunc matrix_transpose | x, /
nonzero unique_all unique_counts unique_inverse unique_values | x, /
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift | x1, x2, /
bitwise_xor copysign divide equal floor_divide greater greater_equal hypot less | x1, x2, /
less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply | x1, x2, /
nextafter not_equal pow remainder subtract matmul | x1, x2, /
clip | x, /, min=None, max=None
take | x, indices, /, *, axis=None
take_along_axis | x, indices, /, *, axis=-1
tensordot | x1, x2, /, *, axes=2
vecdot | x1, x2, /, *, axis=-1
broadcast_arrays | *arrays
broadcast_shapes | *shapes
isin | x1, x2, /, *, invert=False
broadcast_to | x, /, shape
concat stack | arrays, /, *, axis=0
expand_dims squeeze | x, /, axis
flip | x, /, *, axis=None
moveaxis | x, source, destination, /
permute_dims | x, /, axes
repeat | x, repeats, /, *, axis=None
reshape | x, /, shape, *, copy=None
roll | x, /, shift, *, axis=None
tile | x, repetitions, /
unstack | x, /, *, axis=0
argmax argmin count_nonzero max mean min all any | x, /, *, axis=None, keepdims=False
searchsorted | x1, x2, /, *, side='left', sorter=None
where | condition, x1, x2, /
argsort sort | x, /, *, axis=-1, descending=False, stable=True
cumulative_prod cumulative_sum | x, /, *, axis=None, dtype=None, include_initial=False
prod sum | x, /, *, axis=None, dtype=None, keepdims=False
std var | x, /, *, axis=None, correction=0.0, keepdims=False
diff | x, /, *, axis=-1, n=1, prepend=None, append=None
"""
LINALG = """
cholesky | x, /, *, upper=False
cross vecdot | x1, x2, /, *, axis=-1
det eig eigvals eigh eigvalsh inv matrix_transpose slogdet svdvals | x, /
diagonal | x, /, *, offset=0
matmul outer solve | x1, x2, /
matrix_norm | x, /, *, keepdims=False, ord='fro'
matrix_power | x, n, /
matrix_rank pinv | x, /, *, rtol=None
qr | x, /, *, mode='reduced'
svd | x, /, *, full_matrices=True
tensordot | x1, x2, /, *, axes=2
trace | x, /, *, offset=0, dtype=None
vector_norm | x, /, *, axis=None, keepdims=False, ord=2
"""
FFT = """
fft ifft rfft irfft hfft ihfft | x, /, *, n=None, axis=-1, norm='backward'
fftn ifftn rfftn irfftn | x, /, *, s=None, axes=None, norm='backward'
fftfreq rfftfreq | n, /, *, d=1.0, dtype=None, device=None
fftshift ifftshift | x, /, *, axes=None
"""
METHODS = """
__abs__ __bool__ __complex__ __dlpack_device__ __float__ __index__ __int__ | self, /
__invert__ __neg__ __pos__ | self, /
__add__ __and__ __eq__ __floordiv__ __ge__ __gt__ __le__ __lshift__ __lt__ | self, other, /
__matmul__ __mod__ __mul__ __ne__ __or__ __pow__ __rshift__ __sub__ | self, other, /
__truediv__ __xor__ | self, other, /
__array_namespace__ | self, /, *, api_version=None
__dlpack__ | self, /, *, stream=None, max_version=None, dl_device=None, copy=None
__getitem__ | self, key, /
__setitem__ | self, key, value, /
to_device | self, device, /, *, stream=None
"""
"""Each line: names, then the parameters that all of them have in the standard."""

CONSTANTS = {"e": np.e, "inf": np.inf, "pi": np.pi, "newaxis": None}
DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
]
ATTRIBUTES = ["dtype", "device", "mT", "ndim", "shape", "size", "T"]


def signatures(table: str) -> list[tuple[str, inspect.Signature]]:
    """The pairs of a name and a signature that the lines of a table stand for."""
    out: list[tuple[str, inspect.Signature]] = []
    for line in table.strip().splitlines():
        names, _, parameters = line.partition(" | ")
        signature = inspect.signature(eval(f"lambda {_lambda(parameters)}: None"))
        out += [(name, signature) for name in names.split()]
    return out


def _lambda(parameters: str) -> str:
    """Without `self`, which a bound method does not show."""
    return re.sub(r"^self, (/(, )?)?", "", parameters)


def misfits(ours: inspect.Signature, standard: inspect.Signature) -> list[str]:
    """What the standard allows in a call and `ours` does not take, or takes differently."""
    wrong: list[str] = []
    have = list(ours.parameters.values())
    for i, p in enumerate(standard.parameters.values()):
        if p.kind is Parameter.VAR_POSITIONAL:
            wrong += [] if have[i].kind is Parameter.VAR_POSITIONAL else [f"{p} is not *"]
            continue
        placed = p.kind is not Parameter.KEYWORD_ONLY
        if placed and (i >= len(have) or have[i].kind is Parameter.KEYWORD_ONLY):
            wrong.append(f"{p} cannot be given by position")
            continue
        if p.kind is not Parameter.POSITIONAL_ONLY:
            mine = ours.parameters.get(p.name)
            if mine is None or mine.kind is Parameter.POSITIONAL_ONLY:
                wrong.append(f"{p} cannot be given by name")
                continue
            if p.default is not Parameter.empty and mine.default != p.default:
                wrong.append(f"{p} has the default {mine.default}")
    needed = [
        p.name
        for p in have
        if p.default is Parameter.empty
        and p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]
    allowed = [p for p in standard.parameters.values() if p.default is Parameter.empty]
    wrong += [f"needs {needed}"] if len(needed) > len(allowed) else []
    return wrong


CASES = [
    *[(cr, name, s) for name, s in signatures(FUNCTIONS)],
    *[(cr.linalg, name, s) for name, s in signatures(LINALG)],
    *[(cr.fft, name, s) for name, s in signatures(FFT)],
    *[(cr.ones(()), name, s) for name, s in signatures(METHODS)],
]


@pytest.mark.parametrize(
    ("where", "name", "standard"), CASES, ids=lambda x: x if type(x) is str else ""
)
def test_signature(where: Any, name: str, standard: inspect.Signature):
    wrong = misfits(inspect.signature(getattr(where, name)), standard)
    assert not wrong, f"{name}{inspect.signature(getattr(where, name))}: {wrong}"


def test_a_wrong_signature_is_noticed():
    ((_, standard),) = signatures("f | x, /, shape, *, axis=None")
    assert not misfits(inspect.signature(lambda x, shape, *, axis=None, more=1: 0), standard)
    assert misfits(inspect.signature(lambda x, *, shape, axis=None: 0), standard)
    assert misfits(inspect.signature(lambda x, shape: 0), standard)
    assert misfits(inspect.signature(lambda x, shape, *, axis=-1: 0), standard)
    assert misfits(inspect.signature(lambda x, shape, more, *, axis=None: 0), standard)


def test_constants_and_dtypes():
    for name, value in CONSTANTS.items():
        assert getattr(cr, name) == value
    assert np.isnan(cr.nan)
    for name in DTYPES:
        assert getattr(cr, name) == np.dtype(name)
        assert cr.zeros(2, dtype=getattr(cr, name)).dtype == getattr(cr, name)
    for name in ATTRIBUTES:
        assert hasattr(cr.ones((2, 3)), name)


def test_the_namespace():
    t = cr.ones(2)
    assert cr.__array_api_version__ == "2025.12"
    assert t.__array_namespace__() is cr
    assert t.__array_namespace__(api_version="2023.12") is cr
    with pytest.raises(cr.ConfigError, match=r"2025\.12"):
        t.__array_namespace__(api_version="1999.01")


def test_inspection():
    info = cr.__array_namespace_info__()
    assert info.devices() == ("cpu",) == (info.default_device(),)
    assert list(info.dtypes()) == DTYPES
    assert list(info.dtypes(kind="real floating")) == ["float32", "float64"]
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {
        "bool",
        "complex64",
        "complex128",
    }
    defaults = info.default_dtypes()
    assert defaults["real floating"] == cr.asarray(1.5).dtype == cr.ones(1).dtype
    assert defaults["complex floating"] == cr.asarray(1.5j).dtype
    assert defaults["integral"] == cr.asarray(1).dtype == cr.arange(2).dtype
    assert defaults["indexing"] == cr.argmax(cr.ones(2)).dtype
    assert info.capabilities()["boolean indexing"] is True


def test_there_is_one_device():
    t = cr.ones(2)
    assert t.device == "cpu" and t.to_device("cpu") is t
    for refused in (
        lambda: t.to_device("gpu"),
        lambda: t.to_device("cpu", stream=1),
        lambda: cr.zeros(2, device="cuda:0"),
        lambda: cr.asarray([1.0], device="gpu"),
    ):
        with pytest.raises(cr.ConfigError):
            refused()


def test_what_dtypes_can_do():
    assert cr.finfo(cr.complex64) == cr.finfo(cr.float32)
    assert cr.finfo(cr.ones(1)).max == float(np.finfo(np.float32).max)
    assert (cr.iinfo(cr.int16).min, cr.iinfo("uint8").max) == (-(2**15), 255)
    assert cr.isdtype(cr.int8, ("bool", "integral")) and not cr.isdtype(cr.int8, cr.int16)
    assert cr.can_cast(cr.ones(1), cr.float64) and not cr.can_cast(cr.float64, cr.int64)
    assert cr.result_type(cr.ones(1), cr.int8, 2.5) == cr.float32
    for refused in (
        lambda: cr.finfo(cr.int8),
        lambda: cr.iinfo(cr.float32),
        lambda: cr.isdtype(cr.int8, "small"),
        lambda: cr.result_type(1, 2.0),
        lambda: cr.can_cast("no dtype", cr.int8),
    ):
        with pytest.raises(cr.DtypeError):
            refused()


def test_what_2025_12_adds():
    x = cr.asarray([[3.0, 1.0], [float("nan"), 2.0]])
    assert cr.isin(x, cr.asarray([2, 3, 7])).tolist() == [[True, False], [False, True]]
    assert cr.isin(x, 1.0, invert=True).tolist() == [[True, False], [True, True]]
    assert cr.isin(2, cr.asarray([1, 2])).item() is True
    assert cr.jit(cr.isin)(x, cr.asarray([2.0, 9.0])).sum().item() == 1
    assert not cr.isin(x, cr.zeros(0)).any() and cr.isin(x, cr.zeros(0), invert=True).all()
    many, few = np.random.default_rng(0).integers(0, 50, (7, 9)), np.arange(0, 90, 3)
    assert (cr.isin(many, few) == np.isin(many, few)).all()
    assert cr.broadcast_shapes((2, 1), (3,), ()) == (2, 3) and cr.broadcast_shapes() == ()
    with pytest.raises(cr.ShapeError, match="broadcast_shapes"):
        cr.broadcast_shapes((2,), (3,))
    assert isinstance(cr.broadcast_arrays(x, x[0]), tuple)
    assert cr.expand_dims(x, (0, -1)).shape == (1, 2, 2, 1)
    assert cr.permute_dims(x, (-1, 0)).shape == (2, 2)
    assert cr.searchsorted(cr.asarray([1.0, 2.0, 4.0]), 3.0).item() == 2
    assert np.isinf(cr.imag(cr.sqrt(cr.asarray(complex(-np.inf, np.nan)))).item())


PAGE = Path(__file__).parents[2] / "docs" / "arrays.md"
ROWS = [
    [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").partition("## The Array API")[2].splitlines()
    if line.startswith("| ") and not line.startswith("| what")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_of_the_page(row: list[str]):
    _, code, says = row
    x = cr.asarray([[1.0, 2.0], [3.0, 4.0]])
    names = {"cr": cr, "x": x}
    if says.startswith(("'", "True")):
        assert repr(eval(code, names)) == says
        return
    with pytest.raises(cr.ChainruleError) as caught:
        eval(code, names)
    assert says in str(caught.value)


def test_the_page_was_read():
    assert len(ROWS) >= 8


def test_functions_that_differ_from_their_op():
    t = cr.tensor([0.5, 1.5, -2.5])
    assert cr.round(t).tolist() == [0.0, 2.0, -2.0]
    assert cr.round(cr.arange(3)).dtype == cr.int64
    same = cr.astype(t, cr.float32)
    same[0] = 9.0
    assert t[0].item() == 0.5
    assert cr.astype(t, cr.float32, copy=False) is t
    assert cr.repeat(t, cr.asarray([2, 0, 1])).tolist() == [0.5, 0.5, -2.5]
    assert cr.repeat(t, 2).shape == (6,)
    grids = cr.meshgrid(cr.arange(2), cr.arange(3))
    assert isinstance(grids, tuple) and [g.shape for g in grids] == [(3, 2), (3, 2)]
    weights = cr.asarray([2, 0, 1])
    assert cr.grad(lambda x: cr.repeat(x, weights).sum())(t).tolist() == [2.0, 0.0, 1.0]
