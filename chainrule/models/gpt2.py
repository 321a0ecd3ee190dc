"""GPT-2's published weights: safetensors with the names that the hub gives them, read and written.

There a linear map's weight is (inputs, outputs), here (outputs, inputs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.engine.arrays import operand
from chainrule.errors import ConfigError
from chainrule.files.regular_files import read_regular
from chainrule.files.strict_json import loads
from chainrule.interop.safetensors import load_file, save_file
from chainrule.models.config import GPTConfig
from chainrule.models.gpt import GPT

_OUTER = {"wte.weight": "wte.weight", "wpe.weight": "wpe.weight", "ln_f": "final_norm"}
_INNER = {
    "ln_1": "norm_1", "ln_2": "norm_2", "attn.c_attn": "attn.qkv", "attn.c_proj": "attn.proj",
    "mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2",
}  # fmt: skip
_TURNED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


def names(n_layer: int) -> Iterator[tuple[str, str]]:
    """The hub's names and ours.

    >>> from chainrule.models.gpt2 import names
    >>> next(names(1))
    ('wte.weight', 'wte.weight')
    """
    for theirs, mine in _OUTER.items():
        ends = [""] if theirs.endswith("weight") else [".weight", ".bias"]
        yield from [(theirs + end, mine + end) for end in ends]
    for i in range(n_layer):
        for theirs, mine in _INNER.items():
            for end in (".weight", ".bias"):
                yield f"h.{i}.{theirs}{end}", f"blocks.{i}.{mine}{end}"


def load_gpt2(path: str | Path, *, n_head: int | None = None, dtype: Any = np.float32) -> GPT:
    """The model whose weights are in a safetensors file, or in `model.safetensors` of a folder.

    Sizes are those of the weights. The number of heads, which weights do not tell, is `n_head`, or
    that of `config.json` beside the file, or the width over 64. What the file has besides (masks,
    a head that is the embedding again) is not looked at. Raises `ConfigError` that names what is
    missing or has another shape.

    >>> import tempfile
    >>> from chainrule.models.gpt import GPT, GPTConfig, generator_draw
    >>> from chainrule.models.gpt2 import load_gpt2, save_gpt2
    >>> config = GPTConfig.gpt2(50, 8, n_layer=1, n_head=1, n_embd=64)
    >>> model = GPT(config, draw=generator_draw(cr.Generator(0)))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     save_gpt2(model, f"{place}/model.safetensors")
    ...     print(load_gpt2(f"{place}/model.safetensors").config.n_embd)
    64
    """
    path = Path(path)
    path = path / "model.safetensors" if path.is_dir() else path
    tensors = {k.removeprefix("transformer."): t for k, t in load_file(path).items()}
    for name in ("wte.weight", "wpe.weight"):
        if name not in tensors or tensors[name].ndim != 2:
            raise ConfigError(f"{path} holds no GPT-2: it has no matrix {name}")
    settings = _settings(path.parent / "config.json")
    width = int(tensors["wte.weight"].shape[1])
    layers = {k.split(".")[1] for k in tensors if k.startswith("h.")}
    heads = n_head or settings.get("n_head") or max(width // 64, 1)
    config = GPTConfig.gpt2(
        int(tensors["wte.weight"].shape[0]), int(tensors["wpe.weight"].shape[0]),
        n_layer=len(layers), n_head=heads, n_embd=width,
        norm_eps=settings.get("layer_norm_epsilon", 1e-5),
    )  # fmt: skip
    missing = [theirs for theirs, _ in names(len(layers)) if theirs not in tensors]
    if missing:
        raise ConfigError(f"{path} lacks {len(missing)} weights of a GPT-2, {missing[0]} say")
    model = GPT(config, draw=lambda shape, std: np.zeros(shape), dtype=dtype)
    state = {mine: _array(tensors[theirs], theirs) for theirs, mine in names(len(layers))}
    model.load_state_dict(state)
    return model


def save_gpt2(model: GPT, path: str | Path) -> None:
    """Write the weights of a model with GPT-2's parts, so that others read them by the hub's names.

    `load_gpt2` reads them too. Raises `ConfigError` for a model of another style.

    >>> import tempfile
    >>> from chainrule.models.gpt import GPT, GPTConfig, generator_draw
    >>> from chainrule.models.gpt2 import save_gpt2
    >>> config = GPTConfig.gpt2(50, 8, n_layer=1, n_head=1, n_embd=8)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     model = GPT(config, draw=generator_draw(cr.Generator(0)))
    ...     save_gpt2(model, f"{place}/model.safetensors")
    """
    config, state = model.config, model.state_dict()
    style = GPTConfig.gpt2(config.vocab_size).to_dict()
    other = [
        name
        for name in ("norm", "norm_affine", "embedding_norm", "final_norm", "bias", "tied")
        if config.to_dict()[name] != style[name]
    ]
    if other or config.activation != "gelu":
        raise ConfigError(
            f"save_gpt2: this is no GPT-2: {', '.join(other or ['activation'])} differ; make the "
            "model with GPTConfig.gpt2"
        )
    tensors = {theirs: _array(state[mine], theirs) for theirs, mine in names(config.n_layer)}
    save_file(tensors, Path(path), {"format": "pt"})


def _array(t: Any, name: str) -> Any:
    array = np.asarray(operand(t.value))
    return np.ascontiguousarray(array.T) if name.endswith(_TURNED) else array


def _settings(path: Path) -> Mapping[str, Any]:
    """What `config.json` says, if there is one."""
    if not path.exists():
        return {}
    try:
        found = loads(read_regular(path, 1 << 20))
    except (OSError, ValueError) as cause:
        raise ConfigError(f"{path} cannot be used: {cause}") from cause
    if not isinstance(found, dict):
        raise ConfigError(f"{path} is no object of settings")
    return found  # pyright: ignore[reportUnknownVariableType]
