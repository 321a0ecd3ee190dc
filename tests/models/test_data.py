"""Data: names, text files, the tokenizer, batches, digits."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.data import (
    IGNORE,
    CharTokenizer,
    Corpus,
    load_digits,
    load_names,
    read_documents,
)
from chainrule.errors import ConfigError, MissingPackageError

DOCS = ["anna", "bo", "carl", "dee", "ed", "fay", "gus"]


def corpus(holdout: float = 0.0, seed: int = 1) -> Corpus:
    return Corpus.of(DOCS, random.Random(seed), holdout=holdout)


# --- names and files


def test_names_are_the_census_list():
    names = load_names()
    assert len(names) == len(set(names)) == 5163
    assert names[:3] == ["james", "john", "robert"] and names[-1] == "zonia"
    assert set("".join(names)) == set("abcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize(
    "raw",
    [b"ann\nbob", b"ann\r\nbob\r\n", b"\xef\xbb\xbfann\n\n  bob  \n", b"\nann\n\t\nbob\n"],
    ids=["plain", "windows", "byte order mark and space", "empty lines"],
)
def test_documents_are_the_stripped_lines(tmp_path: Path, raw: bytes):
    (tmp_path / "x.txt").write_bytes(raw)
    assert read_documents(tmp_path / "x.txt") == ["ann", "bob"]


def test_any_language_reads(tmp_path: Path):
    (tmp_path / "x.txt").write_text("žofie\n太郎\n", encoding="utf-8")
    assert read_documents(tmp_path / "x.txt") == ["žofie", "太郎"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"ann\nb\0b\n", "byte 5 is 0"),
        (b"ann\nb\xffb\n", "byte 5 is 0xff"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, raw: bytes, says: str):
    (tmp_path / "x.txt").write_bytes(raw)
    with pytest.raises(ConfigError, match=says):
        read_documents(tmp_path / "x.txt")


def test_a_path_that_is_no_file_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no file"):
        read_documents(tmp_path / "none.txt")
    with pytest.raises(ConfigError, match="is a folder"):
        read_documents(tmp_path)
    with pytest.raises(ConfigError, match="not a regular file"):
        read_documents("/dev/zero")


# --- the tokenizer


@given(st.lists(st.text(min_size=1), min_size=1))
def test_tokenizer_round_trip(docs: list[str]):
    t = CharTokenizer.of(docs)
    assert CharTokenizer.from_dict(t.to_dict()) == t
    for d in docs:
        tokens = t.document(d)
        assert tokens[0] == tokens[-1] == t.bos == t.vocab_size - 1
        assert max(tokens) == t.bos and t.decode(tokens) == d


def test_tokens_follow_the_sorted_characters():
    t = CharTokenizer.of(["cab", "bad"])
    assert t.characters == "abcd" and t.encode("dcba") == [3, 2, 1, 0] and t.bos == 4


def test_an_unknown_character_is_named():
    with pytest.raises(ConfigError, match=r"'é' in 'zoé' is unknown .* 'eoz'"):
        CharTokenizer.of(["zoe"]).encode("zoé")


@pytest.mark.parametrize(
    "saved", [None, 3, {}, {"kind": "bpe"}, {"kind": "characters", "characters": 5}]
)
def test_what_is_no_tokenizer_is_refused(saved: object):
    with pytest.raises(ConfigError, match="no tokenizer"):
        CharTokenizer.from_dict(saved)


@pytest.mark.parametrize("characters", ["", "ba", "aa"])
def test_a_tokenizer_has_sorted_distinct_characters(characters: str):
    with pytest.raises(ConfigError, match="sorted"):
        CharTokenizer(characters)


# --- the corpus


def test_the_shuffle_is_the_one_of_the_generator():
    docs = list(DOCS)
    random.Random(1).shuffle(docs)
    assert corpus().training == tuple(docs)


def test_holding_out_takes_from_the_end_and_draws_nothing_more():
    whole, part = corpus(), corpus(0.3)
    assert part.training + part.held_out == whole.training
    assert len(part.held_out) == 2 and whole.held_out == ()
    rngs = [random.Random(5), random.Random(5)]
    Corpus.of(DOCS, rngs[0])
    Corpus.of(DOCS, rngs[1], holdout=0.5)
    assert rngs[0].getstate() == rngs[1].getstate()


@pytest.mark.parametrize(("holdout", "held"), [(1e-9, 1), (0.999, 6)])
def test_both_parts_keep_a_document(holdout: float, held: int):
    assert len(corpus(holdout).held_out) == held


@pytest.mark.parametrize("holdout", [-0.1, 1.0, float("nan")])
def test_a_fraction_that_is_none_is_refused(holdout: float):
    with pytest.raises(ConfigError, match="fraction"):
        corpus(holdout)


def test_one_document_is_too_few():
    with pytest.raises(ConfigError, match="at least two documents"):
        Corpus.of(["ann"], random.Random(1))


def test_fingerprint_sees_content_and_order():
    prints = {
        Corpus.of(docs, random.Random(1)).fingerprint
        for docs in (DOCS, DOCS[::-1], [*DOCS[:-1], "gu"], ["annabo", *DOCS[2:]])
    }
    assert len(prints) == 4
    assert corpus(0.3, seed=7).fingerprint in prints


# --- batches


def test_a_batch_pads_reads_and_targets():
    c = Corpus.of(["ab", "b"], random.Random(3))
    b = c.batch(0, 2, block_size=8)
    assert b.positions == 5
    rows = {d: (list(t), list(y)) for d, t, y in zip(b.documents, b.tokens, b.targets, strict=True)}
    assert rows == {
        (2, 0, 1, 2): ([2, 0, 1], [0, 1, 2]),
        (2, 1, 2): ([2, 1, 0], [1, 2, IGNORE]),
    }
    assert b.tokens.dtype == b.targets.dtype == np.int64


def test_batches_walk_through_all_documents_and_begin_again():
    c = corpus()
    seen = [d for s in range(7) for d in c.batch(s, 3, 8).documents]
    once = [tuple(c.tokenizer.document(d)) for d in c.training]
    assert seen == once * 3


def test_long_documents_are_cut_to_the_block():
    b = corpus().batch(0, 7, block_size=2)
    assert b.tokens.shape == (7, 2) and b.positions == 14
    assert all(len(d) == 3 for d in b.documents)


def test_held_out_batches_hold_each_document_once():
    c = corpus(0.6)
    batches = c.held_out_batches(3, 8)
    assert [len(b.documents) for b in batches] == [2, 2]
    texts = sorted(c.tokenizer.decode(d) for b in batches for d in b.documents)
    assert texts == sorted(c.held_out)
    assert sum(len(b.documents) for b in c.held_out_batches(3, 8, limit=2)) == 2


def test_held_out_batches_have_one_number_of_rows():
    c = corpus(0.6)
    first, last = c.held_out_batches(2, 8, limit=3)
    assert len(first.documents) == 2 and len(last.documents) == 1
    assert last.positions == len(last.documents[0]) - 1
    assert len(first.tokens) == len(last.tokens) == len(last.targets) == 2
    assert (last.targets[1] == IGNORE).all()


# --- digits


def test_digits():
    d = load_digits()
    assert d.images.shape == (1438, 64) and d.test_images.shape == (359, 64)
    assert d.images.dtype == np.float32 and d.labels.dtype == np.int64
    assert d.images.min() == 0 and d.images.max() == 1
    assert set(d.labels) == set(d.test_labels) == set(range(10))
    again, other = load_digits(), load_digits(seed=1)
    assert (again.labels == d.labels).all() and not (other.labels == d.labels).all()


def test_digits_without_scikit_learn_say_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingPackageError, match="pip install scikit-learn"):
        load_digits()


@pytest.mark.parametrize("test", [0.0, 1.0, -1.0])
def test_digits_need_both_parts(test: float):
    with pytest.raises(ConfigError, match="fraction"):
        load_digits(test=test)
