"""Loaders that continue anywhere, readers that refuse what is damaged, toy sets, byte pairs."""

from __future__ import annotations

import gzip
import json
import multiprocessing as mp
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import data
from chainrule.data import worker_processes
from chainrule.errors import ConfigError
from tests.sampling import sampled

X = np.arange(22.0).reshape(11, 2)


class Squares:
    """Examples that are dicts."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, i: int) -> Any:
        return {"n": i, "square": np.array([i * i, 1.0])}


def taken(loader: data.DataLoader) -> list[Any]:
    return [cr.tree_map(lambda t: t.tolist(), batch) for batch in loader]


@sampled("workers", "dataset")
@pytest.mark.parametrize("workers", [{}, {"workers": 3}, {"num_workers": 2}], ids=str)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("dataset", [data.TensorDataset(X, np.arange(11)), Squares(), list(X)])
def test_a_loader_continues_in_the_middle_of_an_epoch(
    dataset: Any, shuffle: bool, workers: dict[str, int]
):
    def make() -> data.DataLoader:
        return data.DataLoader(dataset, 3, shuffle, seed=5, **workers)

    whole = make()
    batches = [*taken(whole), *taken(whole)]
    assert whole.epoch == 2 and whole.position == 0
    for stop in (1, 3, len(whole) + 2):
        first, seen = make(), []
        while len(seen) < stop:
            for batch in first:
                seen.append(cr.tree_map(lambda t: t.tolist(), batch))
                if len(seen) == stop:
                    break
        other = make()
        other.load_state_dict(json.loads(json.dumps(first.state_dict())))
        rest = taken(other)
        while len(seen) + len(rest) < len(batches):
            rest += taken(other)
        assert seen + rest == batches


def test_an_epoch_has_every_example_once_in_an_order_of_its_own():
    loader = data.DataLoader(data.TensorDataset(np.arange(100)), 8, True)
    epochs = [[n for (batch,) in taken(loader) for n in batch] for _ in range(2)]
    assert [sorted(e) for e in epochs] == [list(range(100))] * 2
    assert epochs[0] != epochs[1] and epochs[0] != list(range(100))
    assert len(data.DataLoader(list(range(10)), 4, drop_last=True)) == 2


# --- Processes -----------------------------------------------------------------------------------


class Noisy:
    """Examples with random numbers of all three generators, and the process that made them."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        mine = cr.dropout(cr.ones(64), 0.5).sum().item()
        drawn = [random.random(), np.random.random(), mine]
        return {"drawn": np.array(drawn), "process": os.getpid()}


def test_random_numbers_depend_on_seed_epoch_and_batch_alone():
    def drawn(count: int, start: int = 0) -> list[Any]:
        loader = data.DataLoader(Noisy(), 2, seed=3, num_workers=count)
        loader.position = start
        batches = list(loader)
        assert os.getpid() not in [p for b in batches for p in b["process"].tolist()]
        return [b["drawn"].tolist() for b in batches]

    assert drawn(1) == drawn(3) and drawn(2, start=4) == drawn(1)[4:]
    first, second = drawn(2)[:2]
    assert first != second


class Broken:
    """Example 5 fails, in one way or another."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> Any:
        if i == 5 and self.way == "raises":
            raise KeyError("no such file")
        if i == 5 and self.way == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        return np.ones(3 if i == 5 and self.way == "other shape" else 2)


BROKEN = {
    "raises": r"worker 0 failed on example 5 at .*test_datasets\.py:\d+: KeyError: 'no such file'\n"
    r"    raise KeyError",
    "other shape": r"worker 0 failed on the batch of examples \[4, 5\].*ConfigError: collate",
    "dies": r"worker 0 ended with exit code -9 before it made batch 2, of examples \[4, 5\]",
}


@pytest.mark.parametrize("way", BROKEN)
def test_what_fails_in_a_process_is_named(way: str):
    seen: list[Any] = []
    with pytest.raises(data.WorkerError, match=BROKEN[way]):
        for batch in data.DataLoader(Broken(way), 2, num_workers=2):
            seen.append(batch.shape)
    assert seen == [(2, 2), (2, 2)] and not mp.active_children()


def test_a_loop_that_is_left_leaves_no_process():
    for _ in data.DataLoader(Squares(), 1, num_workers=3):
        assert len(mp.active_children()) == 3
        break
    assert not mp.active_children()


def test_what_cannot_be_sent_to_a_process_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Where processes are not forked, as on other systems."""
    spawned = mp.get_context("spawn")
    monkeypatch.setattr(worker_processes.mp, "Process", spawned.Process)
    with pytest.raises(cr.ConfigError, match=r"cannot be sent to a process .*workers="):
        list(data.DataLoader([lambda: 0] * 4, 2, num_workers=1))
    assert not mp.active_children()


ALONE = """
import os, signal, sys, time
import numpy as np
from chainrule import data

class Slow:
    def __len__(self):
        return 64
    def __getitem__(self, i):
        os.write(1, b"made by %d\\n" % os.getpid())
        time.sleep(0.05)
        return np.ones(2)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests may ignore it
    for n, _ in enumerate(data.DataLoader(Slow(), 2, num_workers=2)):
        if n == 3:
            os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_no_process_outlives_its_parent(how: str, tmp_path: Path):
    """Neither Ctrl-C nor a parent that is killed leaves an orphan."""
    script = tmp_path / "alone.py"
    script.write_text(ALONE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), how], capture_output=True, text=True, timeout=60
    )
    made = {int(line.split()[-1]) for line in done.stdout.splitlines()}
    assert len(made) == 2 and done.returncode != 0
    assert how == "SIGKILL" or done.stderr.count("KeyboardInterrupt") == 1
    patience = time.monotonic() + 10
    while any(Path(f"/proc/{p}").exists() for p in made) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not [p for p in made if Path(f"/proc/{p}").exists()]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: data.DataLoader([1], num_workers=-1), "num_workers is an integer >= 0, not -1"),
        (lambda: data.DataLoader([1], workers=1, num_workers=2), "not both"),
        (lambda: data.TensorDataset(X, X[:3]), "one number of rows"),
        (lambda: data.DataLoader(3), "int is no dataset"),
        (lambda: data.DataLoader([1], 0), "batch_size is an integer >= 1, not 0"),
        (lambda: data.DataLoader([], 2), "0 examples make no batch of 2"),
        (lambda: data.DataLoader([1], 2, drop_last=True), "no batch of 2 with drop_last"),
        (lambda: next(iter(data.DataLoader([np.ones(2), np.ones(3)], 2))), r"\(2,\), \(3,\): pad"),
        (lambda: data.DataLoader([1]).load_state_dict({"seed": 1}), "DataLoader needs"),
        (
            lambda: data.DataLoader([1]).load_state_dict(data.DataLoader([1, 2]).state_dict()),
            "examples 2, not 1",
        ),
        (lambda: data.two_moons(1), "two_moons: n is at least 2"),
        (lambda: data.spirals(arms=0), "spirals: arms"),
    ],
)
def test_mistakes(make: Any, words: str):
    with pytest.raises(cr.ConfigError, match=words):
        make()


# --- Readers -------------------------------------------------------------------------------------


def idx(array: Any, code: int) -> bytes:
    sizes = b"".join([n.to_bytes(4, "big") for n in array.shape])
    return bytes([0, 0, code, array.ndim]) + sizes + array.tobytes()


@pytest.mark.parametrize(("code", "dtype"), [(8, ">u1"), (9, ">i1"), (11, ">i2"), (12, ">i4"),
                                             (13, ">f4"), (14, ">f8")])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_idx_files(code: int, dtype: str, packed: bool, tmp_path: Path):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    raw = idx(array, code)
    (tmp_path / "a").write_bytes(gzip.compress(raw) if packed else raw)
    found = data.read_idx(tmp_path / "a")
    assert found.dtype == np.dtype(dtype).newbyteorder("=") and (found == array).all()


def test_every_damaged_idx_file_is_refused(tmp_path: Path):
    raw = idx(np.arange(6, dtype=np.uint8).reshape(2, 3), 8)
    packed = gzip.compress(raw)
    huge = bytes([0, 0, 8, 3]) + b"\xff" * 12
    bad = [raw[:n] for n in range(len(raw))] + [raw + b"0", huge, b"\x89PNG", packed[:-9]]
    bad += [bytes([*raw[:3], 0, *raw[4:]]), bytes([*packed[:12], 255, *packed[13:]])]
    for content in bad:
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(cr.ConfigError, match=str(tmp_path / "a")):
            data.read_idx(tmp_path / "a")
    with pytest.raises(cr.ConfigError, match="cannot be read"):
        data.read_idx(tmp_path / "nothing")


def test_csv_files(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text('x,"y, z"\n1,2.5\n\n-3,\n', encoding="utf-8")
    values, names = data.read_csv(path)
    np.testing.assert_array_equal(values, [[1, 2.5], [-3, np.nan]])
    assert names == ["x", "y, z"]
    path.write_text("1;2\n3;4\n", encoding="utf-8")
    values, names = data.read_csv(path, delimiter=";", dtype=np.float32)
    assert values.tolist() == [[1, 2], [3, 4]] and names == ["0", "1"]
    for text, words in (
        ("", "no rows"), ("a,b\n1\n", "row 2 has 1 fields"), ("a\nq\n", "row 2, column a: 'q'"),
    ):  # fmt: skip
        path.write_text(text, encoding="utf-8")
        with pytest.raises(cr.ConfigError, match=words):
            data.read_csv(path)
    path.write_bytes(b"\xff\xfe1")
    with pytest.raises(cr.ConfigError, match="UTF-8"):
        data.read_csv(path)


def test_npz_files(tmp_path: Path):
    path = tmp_path / "a.npz"
    np.savez(path, x=X, n=np.arange(3))
    found = data.read_npz(path)
    assert sorted(found) == ["n", "x"] and (found["x"] == X).all()
    raw = path.read_bytes()
    for content in (b"", raw[:40], raw[:-30], b"PK" + b"0" * 40):
        path.write_bytes(content)
        with pytest.raises(cr.ConfigError, match="NPZ"):
            data.read_npz(path)
    np.savez(path, o=np.array([{}], object))
    with pytest.raises(cr.ConfigError, match="NPZ"):
        data.read_npz(path)


@pytest.mark.parametrize("make", [data.two_moons, data.spirals])
def test_toy_sets_are_the_same_for_a_seed(make: Any):
    x, y = make(60, seed=3)
    assert x.shape == (60, 2) and x.dtype == np.float32 and y.dtype == np.int64
    assert (make(60, seed=3)[0] == x).all() and (make(60, seed=4)[0] != x).any()
    assert set(np.bincount(y)) == {60 // len(set(y.tolist()))}


# --- Byte pairs ----------------------------------------------------------------------------------

MERGES = ["l o", "lo w", "e r", "Ġ lo", "Ġlo w", "Ġ t", "Ġt h", "Ġth e", "Ã ©"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    tokens = [*data.bpe.LETTERS.values(), *[m.replace(" ", "") for m in MERGES], "<|endoftext|>"]
    vocab = json.dumps({t: i for i, t in enumerate(tokens)})
    (tmp_path / "vocab.json").write_text(vocab, encoding="utf-8")
    merges = "\n".join(["#version: 0.2", *MERGES, ""])
    (tmp_path / "merges.txt").write_text(merges, encoding="utf-8")
    return tmp_path


def test_pairs_are_merged_in_their_order(files: Path):
    tokenizer = data.BPETokenizer.load(files)
    spoken = [tokenizer.decode([t]) for t in tokenizer.encode("lower the low  lolo é")]
    assert spoken == ["low", "er", " the", " ", "low", " ", " lo", "lo", " ", "é"]
    assert tokenizer.vocab_size == 256 + len(MERGES) + 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "it's we'll I'd",
        "a\n\n b\t c  ",
        "x²Ⅷ½ 3٣",
        "日本語 naïve 🙂‍↔️",
        "\u00a0\u3000x",
        "\0\x7f",
    ],
)
def test_text_comes_back(files: Path, text: str):
    tokenizer = data.BPETokenizer.load(files)
    assert "".join(data.bpe.pieces(text)) == text
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_damaged_files_of_pairs(files: Path):
    for name, content, words in (
        ("merges.txt", "l o w", "line 1 is no pair"), ("merges.txt", "q q", "no number, 'qq'"),
        ("vocab.json", "{", "is not JSON"), ("vocab.json", "[1]", "no object of tokens"),
        ("vocab.json", '{"a": 1, "b": 1}', "two tokens have one number"),
    ):  # fmt: skip
        before = (files / name).read_text(encoding="utf-8")
        (files / name).write_text(content, encoding="utf-8")
        with pytest.raises(cr.ConfigError, match=words):
            data.BPETokenizer.load(files)
        (files / name).write_text(before, encoding="utf-8")
    with pytest.raises(cr.ConfigError, match="no token has the number 9999"):
        data.BPETokenizer.load(files).decode([9999])


# --- As in PyTorch -------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [{}, {"workers": 2}, {"num_workers": 2}], ids=str)
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_loop_that_is_left_is_not_continued_by_the_next(shuffle: bool, workers: dict[str, int]):
    loader = data.DataLoader(data.TensorDataset(np.arange(11)), 3, shuffle, seed=4, **workers)
    first = next(iter(loader))[0].tolist()
    second = [n for (batch,) in loader for n in batch.tolist()]
    assert sorted(second) == list(range(11))
    assert (first == second[:3]) != shuffle
    for _ in loader:
        break
    assert [len(b) for (b,) in loader] == [3, 3, 3, 2]


def test_loops_over_one_loader_may_be_nested():
    loader = data.DataLoader(data.TensorDataset(np.arange(7)), 2, shuffle=True)
    outer: list[int] = []
    for (batch,) in loader:
        outer += batch.tolist()
        inner = [n for (part,) in loader for n in part.tolist()]
        assert sorted(inner) == list(range(7))
    assert sorted(outer) == list(range(7)) and loader.position == 0


def test_texts_of_a_batch_are_a_list():
    names = [("Bo", 3), ("Ann", 1), ("Eve", 1)]
    batches = list(data.DataLoader(names, 2))
    assert [words for words, _ in batches] == [["Bo", "Ann"], ["Eve"]]
    assert [n.tolist() for _, n in batches] == [[3, 1], [1]]
    torch_data = pytest.importorskip("torch.utils.data")
    theirs = torch_data.default_collate(names)
    assert list(theirs[0]) == data.collate(names)[0]
    assert data.collate([{"key": b"a"}, {"key": b"b"}]) == {"key": [b"a", b"b"]}


def test_parts_of_datasets():
    parts = data.random_split(list(range(10)), [0.75, 0.25], cr.Generator(0))
    torch_data = pytest.importorskip("torch.utils.data")
    theirs = torch_data.random_split(range(10), [0.75, 0.25])
    assert [len(p) for p in parts] == [len(p) for p in theirs] == [8, 2]
    assert sorted([i for p in parts for i in p]) == list(range(10))
    assert [i for p in parts for i in p] != list(range(10))
    both = data.ConcatDataset([data.Subset(list("abcd"), [3, 0]), ["x"]])
    assert [both[i] for i in range(-3, 3)] == ["d", "a", "x", "d", "a", "x"]
    assert list(data.DataLoader(both, 2)) == [["d", "a"], ["x"]]
    (rows,) = next(iter(data.DataLoader(data.Subset(data.TensorDataset(X), [4, 1]), 2)))
    assert rows.tolist() == X[[4, 1]].tolist()


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda: data.Subset([1, 2], [0, 2]), "there is no example 2 among 2"),
        (lambda: data.ConcatDataset([]), "no dataset"),
        (lambda: data.ConcatDataset([[1]])[1], "there is no example 1 among 1"),
        (lambda: data.random_split([1, 2, 3], [1, 1]), r"add up to the 3 examples.*not \[1, 1\]"),
        (lambda: data.random_split([1, 2], [0.5, 0.6]), r"fractions that add up to 1"),
    ],
)
def test_parts_that_there_are_not(wrong: Any, match: str):
    with pytest.raises((ConfigError, IndexError), match=match):
        wrong()
