"""S8: programs for micrograd and microgpt give the same numbers on Value: values to the bit."""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule as cr
from chainrule.scalar import Value
from tests.sampling import sampled

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.scalars.scalar_peers import Closures, GPTStep, MLPStep, Tuples, small

PEERS = [Closures, Tuples]

# --- Random programs -----------------------------------------------------------------------------

STEPS: dict[str, Callable[[Any, Any, float], Any]] = {
    "add": lambda a, b, c: a + b,
    "mul": lambda a, b, c: a * b,
    "sub": lambda a, b, c: a - b,
    "dot": lambda a, b, c: sum([a * b, b * b, a * a]),
    "from": lambda a, b, c: sum([a * b, a], b),
    "scale": lambda a, b, c: a * c + b / 2,
    "turned": lambda a, b, c: c - a,
    "tanh": lambda a, b, c: a.tanh(),
    "relu": lambda a, b, c: a.relu(),
    "root": lambda a, b, c: (a * a + 1) ** -0.5,
    "ratio": lambda a, b, c: a / (b * b + 1),
    "under": lambda a, b, c: c / (a * a + 1),
    "log": lambda a, b, c: (a * a + 0.5).log(),
    "exp": lambda a, b, c: (-(a * a)).exp(),
}
Program = Sequence[tuple[str, int, int, float]]

numbers = st.floats(-2, 2, allow_subnormal=False)
programs = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 30), st.integers(0, 30), numbers),
    min_size=1,
    max_size=25,
)
inputs = st.lists(numbers, min_size=3, max_size=3)


def run(number: Callable[[float], Any], program: Program, xs: Sequence[float]) -> list[Any]:
    """Every number of the program, the leaves first; the last one is differentiated."""
    made = [number(x) for x in xs]
    for name, i, j, c in program:
        y = STEPS[name](made[i % len(made)], made[j % len(made)], c)
        made.append(y if tame(y) else y.tanh())
    made[-1].backward()
    return made


def tame(y: Any) -> bool:
    data = y.item() if isinstance(y, cr.Tensor) else y.data
    return abs(data) < 8


def bits(x: float) -> bytes:
    return struct.pack("<d", x + 0.0)  # the peers' relu gives 0 where another gives 0.0 or -0.0


def close(got: Sequence[float], expected: Sequence[float], tolerance: float = 1e-12) -> bool:
    scale = max(map(abs, expected), default=0)
    return all(
        abs(g - e) <= tolerance * max(abs(e), scale) for g, e in zip(got, expected, strict=True)
    )


@pytest.mark.parametrize("peer", PEERS)
@given(program=programs, xs=inputs)
def test_values_to_the_bit_and_all_gradients(peer: Any, program: Program, xs: list[float]):
    ours, theirs = run(Value, program, xs), run(peer, program, xs)
    assert [bits(v.data) for v in ours] == [bits(v.data) for v in theirs]
    assert close([v.grad for v in ours], [v.grad for v in theirs])


@given(program=programs, xs=inputs)
def test_value_and_tensor_agree(program: Program, xs: list[float]):
    def leaf(x: float) -> Any:
        return Number(cr.tensor(x, dtype="float64", requires_grad=True))

    ours, theirs = run(Value, program, xs), run(leaf, program, xs)
    assert close([v.data for v in ours], [v.data for v in theirs], 1e-11)
    assert close([v.grad for v in ours[:3]], [v.grad for v in theirs[:3]], 1e-9)


class Number:
    """A tensor of one number with the methods of a Value."""

    def __init__(self, t: cr.Tensor) -> None:
        self.t = t

    @property
    def data(self) -> float:
        return self.t.item()

    @property
    def grad(self) -> float:
        return 0.0 if self.t.grad is None else self.t.grad.item()

    def backward(self) -> None:
        self.t.backward()

    def __neg__(self) -> Number:
        return Number(-self.t)


def _lift(name: str) -> None:
    def method(self: Number, *others: Any) -> Number:
        plain = [o.t if isinstance(o, Number) else o for o in others]
        return Number(getattr(self.t, name)(*plain))

    setattr(Number, name, method)


for _name in ("add", "sub", "mul", "truediv", "pow", "radd", "rsub", "rmul", "rtruediv"):
    _lift(f"__{_name}__")
for _name in ("tanh", "log", "exp", "relu"):
    _lift(_name)


@given(program=programs, xs=inputs)
def test_a_second_backward_doubles_every_leaf(program: Program, xs: list[float]):
    made = run(Value, program, xs)
    once = [v.grad for v in made]
    if made[-1] in made[:3]:
        return
    made[-1].backward()
    assert [v.grad for v in made[:3]] == [g + g for g in once[:3]]
    assert [v.grad for v in made[3:]] == once[3:]


# --- Whole programs ------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def deep_recursion():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)  # the peers sort recursively
    yield
    sys.setrecursionlimit(before)


@sampled(one_in=2)
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("program", [GPTStep, lambda number: MLPStep(number, points=20)])
def test_training_steps(program: Any, peer: Any):
    ours, theirs = program(Value), program(peer)
    assert bits(ours.loss().data) == bits(theirs.loss().data)
    for _ in range(2):
        for step in (ours, theirs):
            step.loss().backward()
        assert close([p.grad for p in ours.flat], [p.grad for p in theirs.flat])
        for p in ours.flat + theirs.flat:
            p.grad = 0
        assert ours() == pytest.approx(theirs(), rel=1e-12)


@pytest.mark.parametrize("peer", PEERS)
def test_a_small_program(peer: Any):
    assert small(Value) == small(peer)


def data_folder() -> Path | None:
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "data").is_dir():
            return folder / "shared" / "data"
    return None


def test_the_published_losses_of_microgpt():
    folder = data_folder()
    if folder is None:
        pytest.skip(
            "no shared/data beside the repository: the names and the reference run are there"
        )
    reference = json.loads((folder / "microgpt_reference.json").read_text(encoding="utf-8"))
    names = [
        n.strip()
        for n in (folder / "names.txt").read_text(encoding="utf-8").splitlines()
        if n.strip()
    ]
    draw = random.Random(42)
    draw.shuffle(names)
    model = published(draw)
    for step, loss in enumerate(reference["losses"][:8]):
        tokens = [26, *[ord(c) - ord("a") for c in names[step]], 26]
        assert model(tokens, rate=0.01 * (1 - step / 1000)) == pytest.approx(loss, abs=1e-4)


def published(draw: random.Random) -> GPTStep:
    """The model with its weights drawn in the order of the published run."""
    model = GPTStep(Value)
    order = ("tokens", "places", "out", "q", "k", "v", "mix", "up", "down")
    for p in (p for name in order for row in model.w[name] for p in row):
        p.data = draw.gauss(0, 0.08)
    return model
