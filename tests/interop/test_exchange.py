"""DLPack, the buffer protocol, pickling, safetensors: tensors out and in, and assignment."""

from __future__ import annotations

import array as buffers
import copy
import pickle
from collections import namedtuple
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import chainrule as cr
from chainrule.engine.graph import placeholder
from chainrule.engine.op import Spec

X = np.array([[0.5, -1.25, 2.0], [3.5, 4.75, -6.0]])

# --- DLPack --------------------------------------------------------------------------------------


def test_a_tensor_goes_to_numpy_without_a_copy_and_read_only():
    t = cr.tensor(X)
    out = np.from_dlpack(t)
    np.testing.assert_array_equal(out, X)
    assert np.shares_memory(out, t.numpy())
    assert not out.flags.writeable


def test_a_reader_of_an_older_version_gets_a_copy():
    class Old:
        def __init__(self, t: Any) -> None:
            self.t = t

        def __dlpack__(self, **_: Any) -> Any:
            return self.t.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.t.__dlpack_device__()

    t = cr.tensor(X)
    out = np.from_dlpack(Old(t))
    np.testing.assert_array_equal(out, X)
    assert not np.shares_memory(out, t.numpy())
    with pytest.raises(BufferError, match="needs a copy"):
        t.__dlpack__(copy=False)


@pytest.mark.parametrize(
    "dtype", [cr.float32, cr.float64, cr.int64, cr.uint8, cr.bool, cr.complex64]
)
def test_pytorch_and_back(dtype: Any):
    t = cr.asarray(X, dtype=dtype)
    there = torch.from_dlpack(np.array(t))
    back = cr.from_dlpack(there)
    assert back.dtype == dtype and back.shape == t.shape
    np.testing.assert_array_equal(back.numpy(), t.numpy())


def test_what_comes_in_is_copied():
    a = X.copy()
    t = cr.from_dlpack(a)
    a[0, 0] = 9.0
    assert t[0, 0].item() == 0.5
    with pytest.raises(BufferError, match="copy=False"):
        cr.from_dlpack(a, copy=False)


def test_where_dlpack_stops():
    t = cr.tensor(X, requires_grad=True)
    with pytest.raises(cr.GradientError, match="detach"):
        t.__dlpack__()
    with pytest.raises(BufferError, match="CPU"):
        cr.tensor(X).__dlpack__(dl_device=(2, 0))
    with pytest.raises(cr.ConfigError, match="stream"):
        cr.tensor(X).__dlpack__(stream=1)
    with pytest.raises(cr.ConfigError, match="asarray"):
        cr.from_dlpack([1.0])
    with pytest.raises(cr.ConfigError, match="device"):
        cr.from_dlpack(X, device="gpu")
    assert cr.tensor(X).__dlpack_device__() == (1, 0)


# --- Buffers, copies, pickles --------------------------------------------------------------------


def test_buffers_keep_their_dtype():
    assert cr.asarray(buffers.array("d", [1.5, 2.5])).dtype == cr.float64
    assert cr.asarray(memoryview(X)).dtype == cr.float64
    assert cr.asarray(torch.tensor([1.5], dtype=torch.float64)).dtype == cr.float64
    assert cr.asarray([1.5]).dtype == cr.float32
    assert cr.asarray([1.5j]).dtype == cr.complex64


# --- Lists of tensors ----------------------------------------------------------------------------


def test_a_list_of_tensors_keeps_their_graphs():
    t, u = [cr.tensor(v, requires_grad=True) for v in (0.5, -2.5)]
    y = cr.asarray([[t, 3.0, u], (1, 2 * t, t * u)])
    assert y.tolist() == [[0.5, 3.0, -2.5], [1.0, 1.0, -1.25]] and y.dtype == cr.float32
    (y * np.array([[1.0, 7.0, 10.0], [7.0, 100.0, 1000.0]], np.float32)).sum().backward()
    assert t.grad is not None and t.grad.item() == 1 + 2 * 100 + 1000 * -2.5
    assert u.grad is not None and u.grad.item() == 10 + 1000 * 0.5


def test_rows_in_a_list():
    row = cr.tensor(X[0], requires_grad=True)
    y = cr.asarray([row, X[1], [1, 2, 3]])
    np.testing.assert_array_equal(y.detach().numpy(), [*X, [1, 2, 3]])
    (y * y).sum().backward()
    np.testing.assert_array_equal(row.grad.numpy(), 2 * X[0])  # pyright: ignore


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([cr.tensor(1.0, cr.float64), 2.5], cr.float64),
        ([cr.tensor(1.0, cr.float16), 2.5], cr.float16),
        ([cr.tensor(1.0), cr.tensor(2.0, cr.float64)], cr.float64),
        ([cr.tensor(1), 2], cr.int64),
        ([[cr.tensor(1.0)], [2j]], cr.complex64),
    ],
)
def test_the_dtype_of_a_list_is_that_of_an_op_on_its_tensors(values: Any, dtype: Any):
    assert cr.asarray(values).dtype == cr.tensor(values).dtype == dtype
    assert cr.asarray(values, cr.complex128).dtype == cr.complex128


def test_a_list_of_what_is_not_known_yet():
    x = placeholder((3,), np.float32)
    y = cr.asarray([x, [1.0, 2.0, 3.0]])
    assert (y.shape, y.dtype, type(y.value)) == ((2, 3), cr.float32, Spec)


def test_a_copy_of_a_list_where_nothing_is_recorded():
    t = cr.tensor(X, requires_grad=True)
    with cr.no_grad():
        assert not cr.tensor([t, t]).requires_grad
    np.testing.assert_array_equal(cr.tensor([t.detach(), t.detach()]).numpy(), [X, X])


@pytest.mark.parametrize("through", [lambda t: pickle.loads(pickle.dumps(t)), copy.deepcopy])
def test_a_leaf_is_still_a_leaf(through: Any):
    t = cr.tensor(X, requires_grad=True)
    back = through(t)
    assert back is not t and back.requires_grad and back.is_leaf and back.dtype == t.dtype
    np.testing.assert_array_equal(back.detach().numpy(), X)


def test_the_package_is_typed():
    assert resources.files("chainrule").joinpath("py.typed").is_file()


# --- safetensors ---------------------------------------------------------------------------------

Pair = namedtuple("Pair", "scale shift")


def tree() -> dict[str, Any]:
    return {
        "layers": [{"w": cr.tensor(X), "b": cr.tensor([1.5, 2.5])}, {"w": cr.arange(4)}],
        "norm": Pair(cr.tensor(3.25), X.T),
    }


def test_a_tree_of_tensors_comes_back(tmp_path: Path):
    file = tmp_path / "weights.safetensors"
    cr.save_file(tree(), file, metadata={"made by": "a test"})
    flat = cr.load_file(file)
    assert set(flat) == {"layers.0.w", "layers.0.b", "layers.1.w", "norm.scale", "norm.shift"}
    back = cr.load_file(file, like=tree())
    assert isinstance(back["norm"], Pair)
    leaves, expected = [
        [t["layers"][0]["w"], t["layers"][0]["b"], t["layers"][1]["w"], *t["norm"]]
        for t in (back, tree())
    ]
    for x, e in zip(leaves, expected, strict=True):
        assert isinstance(x, cr.Tensor) and x.dtype == e.dtype
        np.testing.assert_array_equal(x.numpy(), np.asarray(e))
    assert [p.name for p in tmp_path.iterdir()] == ["weights.safetensors"]


def test_pytorch_reads_and_writes_the_same_files(tmp_path: Path):
    theirs = pytest.importorskip("safetensors.torch")
    cr.save_file({"w": cr.tensor(X)}, tmp_path / "ours")
    np.testing.assert_array_equal(theirs.load_file(tmp_path / "ours")["w"].numpy(), X)
    theirs.save_file({"w": torch.from_numpy(X.copy())}, tmp_path / "theirs")
    np.testing.assert_array_equal(cr.load_file(tmp_path / "theirs")["w"].numpy(), X)


def test_files_that_do_not_fit(tmp_path: Path):
    file = tmp_path / "f"
    cr.save_file({"a": cr.tensor([1.0, 2.0])}, file)
    with pytest.raises(cr.ConfigError, match=r"lacks: \['b'\]; that it adds: \['a'\]"):
        cr.load_file(file, like={"b": cr.tensor([1.0, 2.0])})
    with pytest.raises(cr.ShapeError, match=r"'a' has \(2,\) in the file, not \(3,\)"):
        cr.load_file(file, like={"a": cr.zeros(3)})
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(cr.ConfigError, match="no safetensors file"):
        cr.load_file(file)
    with pytest.raises(cr.ConfigError, match="'n' is int 3"):
        cr.save_file({"n": 3}, file)
    with pytest.raises(cr.ConfigError, match="same path"):
        cr.save_file({"a.b": cr.zeros(1), "a": {"b": cr.ones(1)}}, file)


# --- Assignment ----------------------------------------------------------------------------------

KEYS = [
    0,
    (slice(None), 1),
    (Ellipsis, slice(None, None, -2)),
    X > 0,
    (np.array([0, 1, 1]), np.array([2, 0, 0])),
    (slice(None), [0, 2]),
    (),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_assignment_is_numpys(key: Any):
    expected, t = X.copy(), cr.tensor(X)
    values = np.arange(1.0, 1 + X[key].size).reshape(X[key].shape)
    expected[key] = values
    t[key] = values
    np.testing.assert_array_equal(t.numpy(), expected)
    t[key] = 0.5
    expected[key] = 0.5
    np.testing.assert_array_equal(t.numpy(), expected)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_assignment_is_differentiable(key: Any):
    def f(x: Any, v: Any) -> Any:
        y = x.copy()
        y[key] = v
        return (y * np.arange(1.0, 7.0).reshape(2, 3)).sum()

    v = np.arange(1.0, 1 + X[key].size).reshape(X[key].shape)
    dx, dv = cr.grad(f, argnums=(0, 1))(X, v)
    weights = np.arange(1.0, 7.0).reshape(2, 3)
    source = np.full(X.shape, -1)
    source[key] = np.arange(v.size).reshape(v.shape)
    np.testing.assert_array_equal(dx.numpy(), np.where(source >= 0, 0, weights))
    expected = np.zeros(v.size)
    expected[source[source >= 0]] = weights[source >= 0]
    np.testing.assert_array_equal(dv.numpy().ravel(), expected)


def test_what_was_computed_before_keeps_the_old_values():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    z = y * y
    y[0] = 100.0
    z.sum().backward()
    assert x.grad.tolist() == [18.0, 36.0]
    assert y.tolist() == [100.0, 6.0]
    other = y[:1]
    other[0] = 7.0  # a part is a tensor of its own, not a view
    assert y.tolist() == [100.0, 6.0]


def test_assignments_that_are_refused():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(cr.GradientError, match=r"x\.copy\(\)"):
        x[0] = 3.0
    with cr.no_grad():
        x[0] = 3.0
    assert x.requires_grad and x.is_leaf and x.tolist() == [3.0, 2.0]
    with pytest.raises(cr.DtypeError, match=r"float 2\.5 cannot stand in elements of int64"):
        cr.arange(3)[0] = 2.5
    with pytest.raises(cr.ShapeError, match=r"\(3,\)"):
        cr.zeros(4)[:2] = cr.ones(3)
    with pytest.raises(cr.IndexingError):
        cr.zeros(4)[7] = 1.0
