"""`GPT.generate`: what it is asked, cut into pieces of work for the loop of `generation_loop.py`.

Compiled code is made for sizes. So that it is made once, memory has one of few sizes, `ROOMS`, and
more documents than fit are done one piece after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from numbers import Integral, Real
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, cast, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ConfigError, DtypeError, IndexingError, NonFiniteError, describe
from chainrule.models.generation_loop import Generated, Sizes, Work, loop
from chainrule.models.uniforms import Uniforms, uniforms
from chainrule.random import Generator

if TYPE_CHECKING:
    from chainrule.models.gpt import GPT

LANES = 16
"""How many documents are worked on at a time, at most: more need more memory, near the core."""
ROOMS = 512, 16_384
"""Tokens of memory: the first size if all documents fit, else the second, unless one is longer."""
POSITIONS = 64
"""The fewest positions for which there is room, unless the model has fewer."""
LONGEST = 1 << 24
"""Tokens of one document."""
CACHE = 1 << 28
"""Bytes of keys and values of all lanes, unless one has more."""
PREFILL = 100_000_000
"""Products of numbers from which on a prompt is read in one pass, which is compiled by itself."""
NOT_FINITE = (
    "the model's logits are not finite numbers: look for NaN and infinities in its weights, which "
    "come of a training that has diverged"
)
"""What to say of logits that nothing can be drawn from."""


@final
class CompiledLoops:
    """The compiled loops of a model, by their sizes. A copy of the model has none yet."""

    def __init__(self) -> None:
        self._made: dict[Sizes, tuple[GPT, Callable[..., Generated]]] = {}

    def __deepcopy__(self, memo: Any) -> CompiledLoops:
        return CompiledLoops()

    def __reduce__(self) -> Any:
        return CompiledLoops, ()

    def get(self, model: GPT, sizes: Sizes) -> Callable[..., Generated]:
        """The loop of `model`, traced when it is first called."""
        from chainrule.compile.jit import jit

        made = self._made.get(sizes)
        if made is None or made[0] is not model:
            self._made[sizes] = made = model, jit(loop(model, sizes))
        return made[1]


class Request(NamedTuple):
    """What `generate` was asked, checked."""

    prompts: list[list[int]]
    new: int
    stop: int | None
    temperature: float
    one_by_one: bool


def generate(
    model: GPT,
    loops: CompiledLoops | None,
    request: Request,
    generator: Generator | Random | None,
) -> list[list[int]]:
    """What is drawn after each prompt, compiled if there are `loops`."""
    warm = request.temperature > 0
    stream = uniforms(generator, len(request.prompts) * request.new * warm)
    if not request.new or not request.prompts:
        return [[] for _ in request.prompts]
    # each prompt takes as many numbers as it may, unless only those that were used are to be taken
    as_used = request.one_by_one and request.stop is not None and warm
    prompt, block_size = max(map(len, request.prompts)), model.config.block_size
    longest = prompt + request.new
    sizes = _choose_sizes(model, 1 if as_used else len(request.prompts), prompt, longest)
    run = loop(model, sizes) if loops is None else loops.get(model, sizes)
    room = _room(len(request.prompts), longest)
    count = room // longest - 1
    if sizes.prefill:  # of which a lane can do one
        count = min(count, sizes.lanes)
    out: list[list[int]] = []
    try:
        for i in range(0, len(request.prompts), count):
            piece = request._replace(prompts=request.prompts[i : i + count])
            out += _run_piece(run, block_size, room, piece, stream, as_used)
    finally:
        stream.end()
    return out


def _run_piece(
    run: Callable[..., Generated], block_size: int, room: int, request: Request, stream: Uniforms,
    as_used: bool,
) -> list[list[int]]:  # fmt: skip
    """As many documents as there is room for."""
    prompts, new = request.prompts, request.new
    lengths = np.array([*map(len, prompts)])
    count, width = len(prompts), int(lengths.max()) + new
    rows = room // 2 + 1
    tokens, numbers = np.zeros(room, np.int64), np.zeros(room)
    ends = np.cumsum(lengths)
    first = np.repeat(np.arange(count) * width - (ends - lengths), lengths)
    tokens[first + np.arange(ends[-1])] = list(chain.from_iterable(prompts))
    if request.temperature > 0:
        numbers[: count * new] = stream.take(count * new)
    work = Work(
        tokens, _pad(lengths, rows, 1), _pad(np.maximum(lengths - block_size, 0), rows, 0),
        _pad(lengths + new, rows, 0), numbers, np.array(count), np.array(width),
        np.array(0 if as_used else new), np.array(-1 if request.stop is None else request.stop),
        np.array(request.temperature, np.float64),
    )  # fmt: skip
    done = run(*work)
    if as_used:
        stream.give_back(int(done.used.numpy()[0]))
    if not done.finite.item():
        raise NonFiniteError(NOT_FINITE)
    drawn = done.tokens.numpy()[: count * width].tolist()
    stops = done.lengths.numpy()[:count].tolist()
    starts = range(0, count * width, width)
    return [drawn[i + n : i + m] for i, n, m in zip(starts, lengths.tolist(), stops, strict=True)]


def _pad(values: Array, size: int, rest: int) -> Array:
    out = np.full(size, rest, np.int64)
    out[: len(values)] = values
    return out


def _power(n: int) -> int:
    """The power of two that is n or more."""
    return 1 << (n - 1).bit_length()


def _room(prompts: int, longest: int) -> int:
    """Tokens of memory for the documents, and a row for lanes without work."""
    few, many = ROOMS
    fits = (prompts + 1) * longest <= few
    return few if fits else max(many, _power(2 * longest))


def _choose_sizes(model: GPT, prompts: int, prompt: int, longest: int) -> Sizes:
    """For so many prompts of at most `prompt` tokens, which become at most `longest`."""
    c = model.config
    positions = min(c.block_size, max(POSITIONS, _power(longest)))
    one = 2 * c.n_layer * positions * c.n_embd * model.wte.weight.dtype.itemsize
    lanes = min(LANES, _power(prompts))
    while lanes > 1 and lanes * one > CACHE:
        lanes //= 2
    products = c.n_layer * (4 + 2 * c.mlp_ratio) * c.n_embd**2 * prompt
    pays = prompt > 1 and products >= PREFILL
    return Sizes(lanes, positions, min(c.block_size, _power(prompt)) if pays else 0)


# --- what is asked -------------------------------------------------------------------------------


def check_request(
    vocabulary: int,
    prompts: Any,
    max_new_tokens: Any,
    stop: Any,
    temperature: Any,
    one_by_one: bool,
) -> tuple[Request, bool]:
    """The request, and whether it is for one prompt; errors name the argument."""
    rows, single = _check_prompts(prompts, vocabulary)
    new = _check_whole("max_new_tokens", max_new_tokens)
    if new < 0 or new + max(map(len, rows), default=0) > LONGEST:
        raise ConfigError(
            f"generate: max_new_tokens={new}: say 0 or more, and with the prompt at most "
            f"{LONGEST:,} tokens"
        )
    if stop is not None and not 0 <= _check_whole("stop", stop) < vocabulary:
        raise IndexingError(
            f"generate: stop={stop} is none of the model's tokens, which are 0 to {vocabulary - 1}"
        )
    if not _is_a(Real, temperature.__class__):
        raise DtypeError(f"generate: temperature is a number, not {describe(temperature)}")
    if not 0 <= temperature < math.inf:
        raise ConfigError(
            f"generate: temperature={temperature}: say 0 for the most probable token, or a number "
            "above 0"
        )
    stop = None if stop is None else _check_whole("stop", stop)
    return Request(rows, new, stop, float(temperature), one_by_one), single


def _is_a(number: type, kind: type) -> bool:
    """Whether a class is one of such numbers; bools are none here."""
    return issubclass(kind, number) and not issubclass(kind, bool)


def _check_whole(name: str, value: Any) -> int:
    if not _is_a(Integral, value.__class__):
        raise DtypeError(f"generate: {name} is a whole number, not {describe(value)}")
    return int(value)


def _check_prompts(prompts: Any, vocabulary: int) -> tuple[list[list[int]], bool]:
    """Prompts as lists, and whether it was one."""
    given = _as_list(prompts)
    if not given and not getattr(prompts, "ndim", 1) == 2:
        raise ConfigError(
            "generate: prompts is empty: a prompt has at least one token, such as that which "
            "begins a document"
        )
    plain = {*map(type, given)} == {list}
    single = bool(given) and not plain and not any(map(_is_sequence, given))
    rows: list[list[Any]] = [given] if single else given if plain else [*map(_as_list, given)]
    if not all(rows):
        raise ConfigError(
            f"generate: prompt {rows.index([])} is empty: a prompt has at least one token, such as "
            "that which begins a document"
        )
    tokens = list(chain.from_iterable(rows))
    kinds: set[type] = {*map(type, tokens)}
    strange: list[type] = [k for k in kinds if not _is_a(Integral, k)]
    if strange:
        wrong = next(x for x in tokens if type(x) in strange)
        raise DtypeError(f"generate: tokens are whole numbers, not {describe(wrong)}")
    if tokens and not (min(tokens) >= 0 and max(tokens) < vocabulary):
        i, wrong = next(
            (i, x) for i, row in enumerate(rows) for x in row if not 0 <= x < vocabulary
        )
        raise IndexingError(
            f"generate: token {wrong} of prompt {i} is none of the model's, which are 0 to "
            f"{vocabulary - 1}"
        )
    return rows, single


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) or getattr(x, "ndim", 0) > 0


def _as_list(x: Any) -> list[Any]:
    """A list of what a list, tuple, array or tensor holds."""
    if hasattr(x, "tolist") and getattr(x, "ndim", 0):
        return list(x.tolist())
    if isinstance(x, Sequence) and not isinstance(x, str | bytes):
        return list(cast("Sequence[Any]", x))
    raise DtypeError(
        f"generate: a prompt is a list of tokens, whole numbers, not {describe(x)}: encode text "
        "with the model's tokenizer"
    )
