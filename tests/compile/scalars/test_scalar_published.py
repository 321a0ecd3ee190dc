"""microgpt's published run with its steps compiled: all losses, and the names that it makes up."""

# The functions that are compiled have no annotations, as a user writes them.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chainrule as cr
from tests.cli.test_train import shared
from tests.compile.c.ccompiler import losses, needs_compiler
from tests.compile.scalars.scalar_programs import GPT, softmax


def documents(draw: random.Random) -> tuple[list[list[int]], int]:
    """The tokens of all names, in a drawn order, and the one between two of them."""
    lines = shared("names.txt").read_text(encoding="utf-8").splitlines()
    docs = [line.strip() for line in lines if line.strip()]
    draw.shuffle(docs)
    letters = sorted(set("".join(docs)))
    bos = len(letters)
    return [[bos, *map(letters.index, doc), bos][:17] for doc in docs], bos


def trained(steps: int) -> tuple[Iterator[tuple[float, float]], Any, random.Random, Any]:
    """Losses of so many steps beside the published ones; the model, the random numbers, the
    compiled step."""
    reference = json.loads(shared("microgpt_reference.json").read_text(encoding="utf-8"))
    draw = random.Random(42)
    docs, bos = documents(draw)
    model: Any = GPT(n_embd=16, heads=4, block=16, vocab=bos + 1, draw=draw)
    params = model.parameters()
    m = [0.0] * len(params)
    v = [0.0] * len(params)

    @cr.jit
    def train(step, tokens):
        loss = model.loss(tokens)
        loss.backward()
        rate = 0.01 * (1 - step / 1000)
        for i, p in enumerate(params):
            m[i] = 0.85 * m[i] + (1 - 0.85) * p.grad
            v[i] = 0.99 * v[i] + (1 - 0.99) * p.grad**2
            m_hat = m[i] / (1 - 0.85 ** (step + 1))
            v_hat = v[i] / (1 - 0.99 ** (step + 1))
            p.data -= rate * m_hat / (v_hat**0.5 + 1e-8)
            p.grad = 0
        return loss

    def pairs() -> Iterator[tuple[float, float]]:
        for step in range(steps):
            yield train(step, docs[step % len(docs)]).data, reference["losses"][step]

    return pairs(), model, draw, train


def name(model: Any, draw: random.Random) -> str:
    """A name at temperature 0.5, by the model as it is."""
    keys, values = [[]], [[]]
    token = bos = 26
    out: list[str] = []
    for pos in range(16):
        chances = softmax([x / 0.5 for x in model.step(token, pos, keys, values)])
        token = draw.choices(range(27), weights=[p.data for p in chances])[0]
        if token == bos:
            break
        out.append(chr(ord("a") + token))
    return "".join(out)


def test_the_first_losses() -> None:
    found, _, _, train = trained(12)
    for step, (ours, published) in enumerate(found):
        assert ours == pytest.approx(published, abs=5.001e-5), step
    assert train.traces <= 5


@pytest.mark.sweep
def test_all_losses_and_the_names() -> None:
    found, model, draw, train = trained(1000)
    for step, (ours, published) in enumerate(found):
        assert ours == pytest.approx(published, abs=5.001e-5), step
    assert train.traces < 14, "once for each length"
    reference = json.loads(shared("microgpt_reference.json").read_text(encoding="utf-8"))
    assert [name(model, draw) for _ in range(20)] == reference["samples"]


@needs_compiler
@pytest.mark.sweep
def test_all_losses_of_one_program_in_c(tmp_path: Path) -> None:
    """The names have twelve lengths; the program is one, and its data has all steps."""
    _, _, _, train = trained(0)
    docs, _ = documents(random.Random(42))
    files = train.to_c(tmp_path, batches=[(k, docs[k]) for k in range(1000)])
    reference = json.loads(shared("microgpt_reference.json").read_text(encoding="utf-8"))
    assert losses(files.source, 1000) == pytest.approx(reference["losses"], abs=5.001e-5)
