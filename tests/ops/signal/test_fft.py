"""Fourier transforms against PyTorch: all of the family, lengths, axes, norms, both parities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import fft
from chainrule.engine.graph import placeholder
from chainrule.engine.op import Spec
from chainrule.ops.complex import conj, real
from tests.ops import check
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")
COMPLEX_ONLY = ("irfft", "hfft", "irfftn")
NORMS = ("backward", "ortho", "forward")


def argument(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return generic(*shape, complex_=name in COMPLEX_ONLY or name in ("fft", "ifftn"))


def one(name: str, shape: tuple[int, ...], norm: str = "backward", **how: int) -> Pair:
    ours, theirs = getattr(fft, name), getattr(torch.fft, name)
    back = {"n": how.get("n"), "dim": how.get("axis", -1)}
    label = f"{name} {how} {norm}"
    return Pair(
        label,
        lambda x: ours(x, norm=norm, **how),
        lambda x: theirs(x, norm=norm, **back),
        (argument(name, shape),),
    )


def several(name: str, shape: tuple[int, ...], norm: str = "backward", **how: Any) -> Pair:
    ours, theirs = getattr(fft, name), getattr(torch.fft, name)
    back = {"s": how.get("s"), "dim": how.get("axes")}
    label = f"{name} {how} {norm}"
    return Pair(
        label,
        lambda x: ours(x, norm=norm, **how),
        lambda x: theirs(x, norm=norm, **back),
        (argument(name, shape),),
    )


PAIRS = [
    *[one(name, (2, 5), norm) for name in ONE for norm in NORMS],
    *[one(name, (2, 4), n=n) for name in ONE for n in (1, 2, 3, 6, 7)],
    *[one(name, (4, 2), "ortho", axis=0, n=5) for name in ONE],
    *[several(name, (2, 3, 4), norm) for name in SEVERAL for norm in NORMS],
    *[several(name, (2, 3, 4), axes=(0, 1)) for name in SEVERAL],
    *[several(name, (2, 3, 4), s=(4, 5)) for name in SEVERAL],
    *[several(name, (2, 3, 4), "forward", s=(3, 2), axes=(-1, 0)) for name in SEVERAL],
    Pair("fftshift", fft.fftshift, torch.fft.fftshift, (generic(3, 4),)),
    Pair("fftshift axis", lambda x: fft.fftshift(x, axes=1),
         lambda x: torch.fft.fftshift(x, 1), (generic(3, 5, complex_=True),)),
    Pair("ifftshift", lambda x: fft.ifftshift(x, axes=(0, 1)),
         lambda x: torch.fft.ifftshift(x, (0, 1)), (generic(3, 5),)),
    Pair("convolution", lambda a, b: fft.irfft(fft.rfft(a, n=9) * fft.rfft(b, n=9), n=9),
         lambda a, b: torch.fft.irfft(torch.fft.rfft(a, n=9) * torch.fft.rfft(b, n=9), n=9),
         (generic(5), generic(2, 5, salt=1))),
    Pair("power", lambda x: fft.fft(x) * conj(fft.fft(x)),
         lambda x: torch.fft.fft(x) * torch.fft.fft(x).conj(), (generic(6),)),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_value_and_gradient_are_those_of_torch(pair: Pair) -> None:
    value_and_vjp(pair)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_jvp_is_that_of_torch(pair: Pair) -> None:
    forward(pair)


@pytest.mark.parametrize("pair", PAIRS[-2:], ids=str)
def test_second_derivative_is_that_of_torch(pair: Pair) -> None:
    second_order(pair)


@pytest.mark.parametrize("name", ["fft", "rfft", "ihfft", "fftn", "rfftn"])
@pytest.mark.parametrize("n", [4, 5])
def test_squares_of_real_transforms_against_differences(name: str, n: int) -> None:
    def squares(x: Any) -> Any:
        y = getattr(fft, name)(x)
        return real(y * conj(y))

    check.second_order(squares, [generic(3, n)])


@pytest.mark.parametrize("n", [1, 2, 5, 6])
@pytest.mark.parametrize("norm", NORMS)
def test_inverses_undo(n: int, norm: str) -> None:
    x, z = generic(2, n), generic(2, n, complex_=True)
    tensor = cr.tensor
    how = {"norm": norm}
    check.close(fft.ifft(fft.fft(tensor(z), **how), **how), z, 1e-13)
    check.close(fft.irfft(fft.rfft(tensor(x), **how), n=n, **how), x, 1e-13)
    check.close(fft.hfft(fft.ihfft(tensor(x), **how), n=n, **how), x, 1e-13)
    check.close(fft.ifftn(fft.fftn(tensor(z), **how), **how), z, 1e-13)
    check.close(fft.irfftn(fft.rfftn(tensor(x), **how), s=(2, n), **how), x, 1e-13)
    check.close(fft.ifftshift(fft.fftshift(tensor(x))), x, 1e-15)


@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies_are_those_of_numpy(n: int) -> None:
    for name in ("fftfreq", "rfftfreq"):
        got = getattr(fft, name)(n, d=0.25, dtype=np.float64)
        check.close(got, getattr(np.fft, name)(n, 0.25), 1e-15)
        assert getattr(fft, name)(n, device="cpu").dtype == np.float32


CALLS: dict[str, Callable[..., Any]] = {
    "fft": lambda x: fft.fft(x, n=5),
    "ifftn": fft.ifftn,
    "rfft": lambda x: fft.rfft(x, axis=0),
    "irfft": lambda x: fft.irfft(x, n=5),
    "hfft": fft.hfft,
    "ihfft": fft.ihfft,
    "irfftn": fft.irfftn,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_dtypes_and_specs(name: str, kind: str) -> None:
    x = generic(3, 4).astype(kind)
    want, y = CALLS[name](cr.tensor(x)), CALLS[name](placeholder(x.shape, x.dtype, needs=True))
    assert type(y.value) is Spec
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    assert want.dtype.itemsize == x.dtype.itemsize * (2 if want.dtype.kind == "c" else 1)
    _, pull = cr.vjp(CALLS[name], cr.tensor(x))
    assert pull(cr.ones(y.shape, y.dtype))[0].dtype == kind


def test_integers_count_as_float64_and_recording_changes_nothing() -> None:
    assert fft.fft(cr.tensor([1, 2, 3])).dtype == np.complex128
    assert fft.rfft(cr.tensor([1, 2, 3])).dtype == np.complex128
    x = cr.tensor(generic(4), requires_grad=True)
    assert np.array_equal(fft.fft(x).detach().numpy(), fft.fft(x.detach()).numpy())
    assert isinstance(fft.fft(generic(4)), np.ndarray)


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (
            lambda: fft.fft(cr.ones(3), norm="no"),
            cr.ConfigError,
            "backward, ortho, forward, not 'no'",
        ),
        (lambda: fft.fft(cr.ones(3), n=0), cr.ShapeError, "at least 1, not 0"),
        (lambda: fft.irfft(cr.ones(1)), cr.ShapeError, "at least 1, not 0"),
        (lambda: fft.rfft(cr.tensor([1j])), cr.DtypeError, "rfft transforms real numbers.*see fft"),
        (lambda: fft.fftn(cr.ones((2, 3)), s=(2,), axes=(0, 1)), cr.ShapeError, "1 lengths for 2"),
        (lambda: fft.fft(cr.ones(3), axis=1), cr.ShapeError, "axis 1 does not exist"),
        (lambda: fft.fftfreq(0), cr.ShapeError, "at least 1"),
        (lambda: fft.fftfreq(3, device="gpu"), cr.ConfigError, "not 'gpu'"),
    ],
)
def test_errors_say_what_was_asked(f: Callable[[], Any], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        f()


def test_the_names_of_the_standard_and_no_others_but_pytorchs() -> None:
    standard = {*ONE, *SEVERAL, "fftfreq", "rfftfreq", "fftshift", "ifftshift"}
    assert set(fft.__all__) >= standard
    assert not [name for name in fft.__all__ if not hasattr(torch.fft, name)]
