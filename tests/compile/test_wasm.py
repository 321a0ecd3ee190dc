"""A compiled step as a WebAssembly module: it trains to the same bits, and says what it cannot."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim
from chainrule.compile.calling.inputs import inputs
from chainrule.compile.export.given import program_of
from chainrule.compile.llvm.machine import host
from chainrule.compile.running.program import Native
from chainrule.compile.wasm.target import like_wasm
from chainrule.errors import ConfigError, TraceError
from chainrule.models.gpt import GPT, GPTConfig, python_draw
from tests.compile.node import left, needs_node, ran
from tests.compile.test_c import corpus

STEPS = 200


class Training:
    """A compiled training step of microgpt, one name at a time, with a rate that falls."""

    def __init__(self, dtype: Any) -> None:
        config = GPTConfig.microgpt(27, 16)
        model = GPT(config, draw=python_draw(random.Random(42)), dtype=dtype)
        self.adam = adam = optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99))

        def step(tokens: Any, targets: Any) -> Any:
            loss = model.loss(tokens, targets)
            adam.zero_grad()
            loss.backward()
            adam.step()
            return loss

        self.step = cr.jit(step, dynamic={"tokens": (None, "T"), "targets": (None, "T")})
        names = corpus()
        self.batches = [(b.tokens, b.targets) for b in (names.batch(n, 1, 16) for n in range(STEPS))]

    def rate(self, n: int) -> float:
        return 0.01 * (1 - n / STEPS)

    def told(self) -> list[dict[str, Any]]:
        """What each call is given, for JavaScript."""
        return [
            {"T": x.shape[1], "tokens": [str(v) for v in np.asarray(x).ravel()],
             "targets": [str(v) for v in np.asarray(y).ravel()], "lr": self.rate(n)}
            for n, (x, y) in enumerate(self.batches)
        ]  # fmt: skip

    def narrow(self) -> list[float]:
        """The losses of the same program on a processor used like WebAssembly's."""
        self.adam.param_groups[0]["lr"] = self.rate(0)
        variant, first = self.step._variant(self.batches[0], {})
        native, places = program_of(variant)
        twin, losses = Native(native.program, native.checks, like_wasm(host())), list[float]()
        count = len(variant.args)
        state = first.arrays[count : count + len(variant.held) + len(variant.grads)]
        for n, batch in enumerate(self.batches):
            self.adam.param_groups[0]["lr"] = self.rate(n)
            given = inputs(variant, batch)
            assert given is not None
            arrays = [*given.arrays[:count], *state, *given.arrays[count + len(state) :]]
            losses.append(float(twin(arrays, {s: arrays[i].shape[a] for s, i, a in places})[0]))
        return losses


TRAIN = """
const losses = [];
for (const call of calls) {
  step.resize({[step.about.sizes[0].name]: call.T});
  step.inputs.tokens.set(call.tokens.map(BigInt));
  step.inputs.targets.set(call.targets.map(BigInt));
  step.inputs[rate][0] = call.lr;
  losses.push(step.call().loss[0]);
}
console.log(JSON.stringify(losses));
"""


@needs_node
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gpt_trains_to_the_same_bits(dtype: Any, tmp_path: Path):
    t = Training(dtype)
    module = t.step.to_wasm(tmp_path, *t.batches[0], largest={"T": 16})
    assert len(gzip.compress(module.read_bytes())) < 60_000
    losses = json.loads(ran(module, TRAIN, calls=t.told(), rate="lr"))
    assert losses == t.narrow()
    assert np.mean(losses[-20:]) < np.mean(losses[:20]) - 0.3
