"""GPT-2's weights by the hub's names: read, computed with, written."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.models.config import GPTConfig
from chainrule.models.gpt import GPT, generator_draw
from chainrule.models.gpt2 import load_gpt2, save_gpt2

V, T, C, H, L = 11, 6, 8, 2, 2


def published(prefix: str = "") -> dict[str, Any]:
    """Random weights with the hub's names and shapes."""
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (V, C), "wpe.weight": (T, C)}
    shapes |= {"ln_f.weight": (C,), "ln_f.bias": (C,)}
    for i in range(L):
        parts = {"attn.c_attn": (C, 3 * C), "attn.c_proj": (C, C), "mlp.c_fc": (C, 4 * C)}
        for name, (n, m) in {**parts, "mlp.c_proj": (4 * C, C)}.items():
            shapes |= {f"h.{i}.{name}.weight": (n, m), f"h.{i}.{name}.bias": (m,)}
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{i}.{name}.weight": (C,), f"h.{i}.{name}.bias": (C,)}
    return {prefix + k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}


def logits(w: dict[str, Any], tokens: list[int]) -> Any:
    """GPT-2 written out in NumPy, of one sequence."""

    def norm(x: Any, name: str) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: Any, name: str) -> Any:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    n = len(tokens)
    x = w["wte.weight"][tokens] + w["wpe.weight"][:n]
    for i in range(L):
        q, k, v = np.split(linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, axis=-1)
        heads = []
        for h in range(H):
            part = slice(h * C // H, (h + 1) * C // H)
            scores = q[:, part] @ k[:, part].T / math.sqrt(C // H)
            scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
        x = x + linear(np.concatenate(heads, -1), f"h.{i}.attn.c_proj")
        a = linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        a = 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))
        x = x + linear(a, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_published_weights_compute_what_they_should(prefix: str, tmp_path: Path):
    weights = published(prefix)
    masks = {f"{prefix}h.0.attn.bias": np.ones((1, 1, T, T), np.float32)}
    cr.save_file({**weights, **masks}, tmp_path / "model.safetensors")
    settings = json.dumps({"n_head": H, "layer_norm_epsilon": 1e-5})
    (tmp_path / "config.json").write_text(settings, encoding="utf-8")
    model = load_gpt2(tmp_path, dtype=np.float64)
    tokens = [3, 1, 4, 1, 5]
    plain = {k.removeprefix(prefix): np.asarray(t, np.float64) for k, t in weights.items()}
    with cr.no_grad():
        got = model(np.array(tokens)).numpy()
    np.testing.assert_allclose(got, logits(plain, tokens), rtol=1e-9)


def test_weights_are_written_as_they_were_read(tmp_path: Path):
    weights = published()
    cr.save_file(weights, tmp_path / "a.safetensors")
    model = load_gpt2(tmp_path / "a.safetensors", n_head=H)
    save_gpt2(model, tmp_path / "b.safetensors")
    found = cr.load_file(tmp_path / "b.safetensors")
    assert sorted(found) == sorted(weights)
    for name, t in found.items():
        np.testing.assert_array_equal(t.numpy(), weights[name], err_msg=name)


def test_what_is_no_gpt2(tmp_path: Path):
    path = tmp_path / "a.safetensors"
    cr.save_file({"x": np.zeros(3)}, path)
    with pytest.raises(cr.ConfigError, match=r"no matrix wte\.weight"):
        load_gpt2(path)
    weights = published()
    del weights["h.1.mlp.c_fc.bias"]
    cr.save_file(weights, path)
    with pytest.raises(cr.ConfigError, match=r"lacks 1 weights of a GPT-2, h.1.mlp.c_fc.bias say"):
        load_gpt2(path, n_head=H)
    cr.save_file({**published(), "h.0.ln_1.bias": np.zeros(5, np.float32)}, path)
    with pytest.raises(cr.ConfigError, match=r"blocks.0.norm_1.bias has shape \(5,\)"):
        load_gpt2(path, n_head=H)
    other = GPT(GPTConfig.microgpt(V), draw=generator_draw(cr.Generator(0)))
    with pytest.raises(cr.ConfigError, match="this is no GPT-2"):
        save_gpt2(other, path)
