"""One training step of microgpt for the studio: the loss, logits, and what each head looks at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

import chainrule as cr
from chainrule import optim
from chainrule.compile.wasm.loader import script
from chainrule.data import Corpus, load_names
from chainrule.models.gpt import GPT, GPTConfig, python_draw

POSITIONS: Final = 16
TOKENS: Final = 27
"""The letters a to z, and the token at both ends of a name."""
SEED: Final = 42
BETAS: Final = (0.85, 0.99)


def shuffled_names() -> tuple[Corpus, Random]:
    """The names in the order in which they are trained on, and the generator after the shuffle,
    from which the weights are drawn next."""
    rng = Random(SEED)
    return Corpus.of(load_names(), rng), rng


def training_data() -> dict[str, Any]:
    """What the training pages need beside modules, fit for JSON: the names in the order of
    training, and the loader of modules for their workers."""
    return {"names": "\n".join(shuffled_names()[0].training), "loader": script()}


def gpt_step(rng: Random, dtype: Any = np.float64) -> tuple[Callable[..., Any], Any]:
    """The step, and its optimizer, whose rate is read at every call."""
    model = GPT(GPTConfig.microgpt(TOKENS, POSITIONS), draw=python_draw(rng), dtype=dtype)
    adam = optim.Adam(model.parameters(), lr=0.01, betas=BETAS)

    def step(tokens: Any, targets: Any) -> Any:
        # tokens and targets (1, T)
        weights: list[Any] = []
        hooks = [
            block.attn.register_forward_pre_hook(lambda m, args: weights.append(m.weights(args[0])))
            for block in model.blocks
        ]
        logits = model(tokens)
        for hook in hooks:
            hook.remove()
        attention = cr.stack(weights)  # (layers, 1, heads, T, T)
        loss = cr.cross_entropy(logits, targets)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss, logits, attention

    return step, adam


def gpt_module(folder: Path) -> Path:
    """Write the module. It starts with the weights that the seed gives."""
    corpus, rng = shuffled_names()
    step, _ = gpt_step(rng)
    batch = corpus.batch(0, 1, POSITIONS)
    compiled = cr.jit(step, dynamic={"tokens": (None, "T"), "targets": (None, "T")})
    return compiled.to_wasm(
        folder / "gpt.wasm", batch.tokens, batch.targets, largest={"T": POSITIONS}
    )
