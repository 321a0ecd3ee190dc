"""Traces in files: what is written reads back, what is damaged is refused in one sentence."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.traces.files import from_json, read_trace, to_json
from chainrule.traces.trace import Node, Trace
from tests.traces.programs import Net, check_file

DTYPES = ["float64", "float32", "float16", "bfloat16", "complex128", "complex64", "bool", "int64"]
DTYPES += ["int8", "uint8", "int32", "uint64"]


def recorded() -> Trace:
    net = Net()
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    return cr.record(lambda x: cr.sum(cr.softmax(net(x), axis=-1)[:, 0] * cr.exp(x[:, 1])), x)


def array(dtype: str, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(0)
    kind: Any = cr.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x = rng.normal(size=shape) * 100
    if np.dtype(kind).kind in "iu":
        top = np.iinfo(kind)
        x = rng.integers(top.min, top.max, shape, dtype=kind, endpoint=True)
    elif np.dtype(kind).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    out = x.astype(kind)
    if np.dtype(kind).kind in "fcV" and out.size > 3:
        out.ravel()[:4] = np.array([np.nan, np.inf, -np.inf, -0.0]).astype(kind)
    return out


@pytest.mark.parametrize("shape", [(), (7,), (2, 0, 3), (3, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back(dtype: str, shape: tuple[int, ...]):
    x = array(dtype, shape)
    trace = Trace("t", (Node("input", "input", (), str(x.dtype), x.shape, x),), (), {})
    (node,) = from_json(to_json(trace)).nodes
    back: Any = node.value
    assert back.dtype == x.dtype and back.shape == x.shape and not back.flags.writeable
    nan = np.isnan(x.astype(complex))
    assert np.array_equal(np.isnan(back.astype(complex)), nan)
    assert back[~nan].tobytes() == x[~nan].tobytes()


def test_a_trace_comes_back(tmp_path: Path):
    trace = recorded()
    check_file(trace)
    trace.save(tmp_path / "t.json")
    assert to_json(read_trace(tmp_path / "t.json")) == to_json(trace)


def test_two_writings_are_the_same_bytes():
    assert to_json(recorded()) == to_json(recorded())


def parts(x: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all parts of a JSON value."""
    inner = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from parts(value, (*path, key))


WRONG: list[Any] = [None, True, -1, 10**30, 1.5, 1e308, "", "x", [], {}, [[]], "\u0000", -0.5, 7]


def damaged(text: str, count: int) -> Iterator[bytes]:
    """Texts with one thing wrong."""
    rng, raw = random.Random(5), text.encode()
    whole = json.loads(text)
    places = list(parts(whole))
    for _ in range(count):
        yield raw[: rng.randrange(len(raw))]
        flipped = bytearray(raw)
        flipped[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        yield bytes(flipped)
        copy: Any = json.loads(text)
        *above, key = rng.choice(places)
        at = copy
        for step in above:
            at = at[step]
        if rng.random() < 0.3:
            del at[key]
        else:
            at[key] = rng.choice(WRONG)
        yield json.dumps(copy).encode()


def test_damaged_files_are_refused():
    refused = 0
    for raw in damaged(to_json(recorded()), 400):
        try:
            trace = from_json(raw)
        except cr.ConfigError as error:
            assert str(error).startswith("this text is") and "\n" not in str(error)
            assert len(str(error)) < 400
            refused += 1
        else:
            repr(trace)  # what is not refused can be shown
    assert refused > 700


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "is not JSON"),
        (b"[]", "does not say format"),
        (b'{"format": "chainrule trace", "version": 2}', "version 2"),
        (b'{"format": "chainrule trace", "version": 1}', "lacks 'arrays'"),
        (b"[" * 100_000, "nested"),
    ],
)
def test_what_is_no_trace(raw: bytes, said: str):
    with pytest.raises(cr.ConfigError, match=said):
        from_json(raw)


def test_a_shape_allocates_nothing():
    found = json.loads(to_json(recorded()))
    found["arrays"][0]["shape"] = [1 << 40, 1 << 20]
    with pytest.raises(cr.ConfigError, match="damaged"):
        from_json(json.dumps(found))


def test_files_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(cr.ConfigError, match="cannot be read"):
        read_trace(tmp_path / "none.json")
    with pytest.raises(cr.ConfigError, match="cannot be read"):
        read_trace(tmp_path)


def test_where_a_trace_can_be_saved(tmp_path: Path):
    trace = recorded()
    with pytest.raises(cr.ConfigError, match=r"\.json"):
        trace.save(tmp_path / "t.jpeg")
    with pytest.raises(cr.ConfigError, match="no folder"):
        trace.save(tmp_path / "none" / "t.json")
    assert list(tmp_path.iterdir()) == []
    for suffix in (".svg", ".dot", ".txt"):
        trace.save(tmp_path / f"t{suffix}")
        assert (tmp_path / f"t{suffix}").stat().st_size > 100
