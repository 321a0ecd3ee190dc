"""Between two compiled steps anything may look at what they train, or change it: random programs
of both, against the same programs of eager steps.

The compiled run is repeated with leaves that are never emptied. Both have to be equal to the bit.
Against the eager run a step's numbers are equal to rounding.
"""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

import copy
import gc
import math
import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest

import chainrule as cr
from chainrule.compile.scalars import runs
from chainrule.compile.scalars.reroll import families
from chainrule.compile.scalars.steps import hollow, update
from chainrule.compile.scalars.steps.float_list import FloatList
from chainrule.compile.scalars.steps.hollow import HollowLeaf, Leaves
from chainrule.compile.scalars.steps.hollow_list import HollowList
from chainrule.scalar import Value
from tests.compile.scalars.test_scalar_steps import adam
from tests.sampling import sampled

SIZE = 5


class World:
    """A small model, its optimizer's lists, two steps that share its leaves, one other function."""

    def __init__(self, seed: int, wrap: Callable[[Any], Any]) -> None:
        r = random.Random(seed)
        self.w = [[Value(r.gauss(0, 0.5)) for _ in range(SIZE)] for _ in range(SIZE)]
        self.u = [Value(r.gauss(0, 0.5)) for _ in range(SIZE)]
        self.params = [*[v for row in self.w for v in row], *self.u]
        self.first = [0.0] * len(self.params)
        self.second = [0.0] * len(self.params)
        w, u, params, first, second = self.w, self.u, self.params, self.first, self.second

        def loss(x: list[float]) -> Any:
            h: Any = [sum(a * b for a, b in zip(row, x, strict=True)) for row in w]
            h = [v.tanh() for v in h]
            return sum(a * b for a, b in zip(h, u, strict=True)) ** 2

        def train(step: int, x: list[float]) -> Any:
            y = loss(x)
            y.backward()
            adam(params, first, second, step, 0.01)
            return y

        def descend(x: list[float], rate: float) -> Any:
            y = loss(x)
            y.backward()
            for p in params[:20]:
                p.data -= rate * p.grad
                p.grad *= 0.5
            first[3] = y.data
            return y

        self.loss = loss
        self.train = wrap(train)
        self.descend = wrap(descend)
        self.evaluate = wrap(lambda x: loss(x))

    def numbers(self) -> list[Any]:
        return [*[(p.data, p.grad) for p in self.params], *self.first, *self.second]


Look = Callable[[World, random.Random, list[float]], Any]


def pickled(world, r, x):
    p = pickle.loads(pickle.dumps(r.choice(world.params)))
    return type(p) is Value, p.data, p.grad


def copied(world, r, x):
    p, row = copy.copy(r.choice(world.params)), copy.deepcopy(world.w[1])
    return p.data, p.grad, type(p) is Value, [(v.data, v.grad) for v in row]


def eager_loss(world, r, x):
    y = world.loss(x)
    y.backward()
    return y.data


def built_from_two(world, r, x):
    """Each class that an operator or the engine may ask for."""
    a, b = r.sample(world.params, 2)
    y = 2.0 * a + b * a - a / (b * b + 1) + cr.sin(b) + (a < b)
    y.backward()
    return y.data, a.grad, b.__class__ is Value, isinstance(a, Value), a in world.params


def set_data(world, r, x):
    r.choice(world.params).data = r.choice([0.25, 1, -0.0, 1e-300])


def set_gradient(world, r, x):
    r.choice(world.params).grad = r.choice([0, 0.5, -1])


def zero_gradients(world, r, x):
    for p in world.params:
        p.grad = 0


def set_items(world, r, x):
    world.first[r.randrange(30)] = r.choice([0.5, 1, 0.0])
    for _ in range(3):  # a new float may lie where the one before it was
        world.second[7] = r.random()


def held_floats(world, r, x):
    kept = [world.first[2], world.second[7], world.params[0].data, world.params[9].grad]
    before = [repr(v) for v in kept]
    world.train(3, x)
    return before == [repr(v) for v in kept], before


def replaced_list_memory(world, r, x):
    world.first += [0.0] * 100
    del world.first[30:]
    world.second.reverse()


def printed(world, r, x):
    return repr(r.choice(world.params)), str(world.first[4]), f"{world.u[0].data:.17g}"


def backward_of_a_result(world, r, x):
    y = world.train(1, x)
    y.backward()
    return y.data


def backward_of_an_older_result(world, r, x):
    y = world.train(1, x)
    world.train(2, [1 - a for a in x])
    y.backward()
    return y.data


def deleted_results(world, r, x):
    world.train(2, x)
    gc.collect()


def labelled(world, r, x):
    p = r.choice(world.params)
    p.label = "w"
    return p.label


def steps(n: int) -> Look:
    def run(world: World, r: random.Random, x: list[float]) -> Any:
        return [world.train(k, x).data for k in range(n)]

    return run


LOOKS: list[Look] = [
    pickled, copied, eager_loss, built_from_two, set_data, set_gradient, zero_gradients, set_items,
    held_floats, replaced_list_memory, printed, backward_of_a_result,
    backward_of_an_older_result, deleted_results,
    labelled,
    lambda world, r, x: world.descend(x, 0.05).data,
    lambda world, r, x: world.evaluate(x).data,
    lambda world, r, x: world.numbers(),
    steps(1), steps(2), steps(5),
]  # fmt: skip


def run(seed: int, wrap: Callable[[Any], Any]) -> list[Any]:
    """What a program of looks and steps sees, and leaves."""
    world, r = World(seed, wrap), random.Random(seed + 1)
    seen: list[Any] = [steps(3)(world, r, [0.1 * i for i in range(SIZE)])]
    for _ in range(12):
        x = [r.gauss(0, 1) for _ in range(SIZE)]
        seen.append(r.choice(LOOKS)(world, r, x))
        if r.random() < 0.7:
            seen.append(steps(2)(world, r, x))
    return [seen, world.numbers()]


def flat(x: Any) -> list[Any]:
    return [z for y in x for z in flat(y)] if isinstance(x, list | tuple) else [x]


EAGER: list[tuple[Any, str, int]] = [
    (runs, "CALLS", 1), (runs, "PART", 0), (runs, "LEAST", 0), (families, "EACH", 0),
    (update, "CALLS", 1), (update, "LEAST", 0), (hollow, "WORTH", 0),
]  # fmt: skip


@pytest.fixture(autouse=True)
def eager_rolling(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that can be rolled up is, and leaves are emptied as soon as they can be."""
    for module, name, least in EAGER:
        monkeypatch.setattr(module, name, least)


@sampled(one_in=100)
@pytest.mark.parametrize("seed", range(500))
def test_random_programs_of_steps_and_looks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(seed, cr.jit)
    monkeypatch.setattr(hollow.Leaves, "_empty", lambda self: None)
    assert repr(run(seed, cr.jit)) == repr(found)
    for want, got in zip(flat(run(seed, lambda f: f)), flat(found), strict=True):
        assert type(got) is type(want)
        if isinstance(want, float):  # of text there are all digits
            assert math.isclose(got, want, rel_tol=1e-6, abs_tol=1e-8)
        elif not isinstance(want, str):
            assert got == want


@pytest.fixture(scope="module")
def pair() -> tuple[World, World]:
    """Two that are alike and compiled."""
    with pytest.MonkeyPatch.context() as m:
        for module, name, least in EAGER:
            m.setattr(module, name, least)
        worlds = World(1, cr.jit), World(1, cr.jit)
        for world in worlds:
            settle(world)
    return worlds


X = [0.3, 0.2, -0.1, 0.5, -0.4]


def settle(world: World) -> None:
    """Let its leaves be hollow."""
    for step in range(4):
        world.train(step, [0.1, 0.2, 0.3, 0.4, 0.5])
    assert all(type(p) is HollowLeaf for p in world.params)
    assert type(world.first) is type(world.second) is HollowList


@pytest.mark.parametrize("look", LOOKS)
def test_one_look(look: Look, pair: tuple[World, World]) -> None:
    """Each by itself, with hollow leaves and with full ones."""
    for world in pair:
        settle(world)
    full = pair[1]
    full.numbers()
    assert all(type(p) is Value for p in full.params)
    found = [look(world, random.Random(5), X) for world in pair]
    assert repr(found[0]) == repr(found[1])
    assert repr(pair[0].numbers()) == repr(full.numbers())


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("call", range(4))
def test_interrupted_while_they_are_emptied(
    call: int, done: bool, pair: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever that happens, all leaves are whole afterwards, and the step is done."""
    world, other = pair
    for each in pair:
        settle(each)
        each.numbers()
    with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
        m.setattr(hollow, "_each", interrupted(call, done))
        world.train(5, X)
    other.train(5, X)
    assert repr(world.numbers()) == repr(other.numbers())


@pytest.mark.parametrize("call", range(4))
def test_interrupted_while_they_are_filled(
    call: int, pair: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, other = pair
    for each in pair:
        settle(each)
    with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
        m.setattr(hollow, "_each", interrupted(call, True))
        world.numbers()
    assert repr(world.numbers()) == repr(other.numbers())


def interrupted(call: int, done: bool) -> Any:
    """What does something to many leaves, interrupted at a call, before it or after it."""
    counter, each = iter(range(100)), hollow._each

    def run(*xs: Any) -> None:
        now = next(counter) == call
        if done or not now:
            each(*xs)
        if now:
            raise KeyboardInterrupt

    return run


def test_looks_at_every_step_leave_them_as_they_are(
    pair: tuple[World, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To empty and to fill them costs as much as several steps."""
    world = pair[0]
    settle(world)
    monkeypatch.setattr(hollow, "WORTH", 16)
    emptied = 0
    for step in range(100):
        world.train(step, X)
        emptied += type(world.params[0]) is HollowLeaf
        repr(world.params[0])
    assert 1 <= emptied <= 8


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 64, 70])
def test_a_list_that_differs_anywhere_is_read_again(n: int) -> None:
    """One object in the place of an equal one, at each place; another length."""
    holder = [i + 0.5 for i in range(n)]
    numbers = FloatList(holder, Leaves([]))
    numbers.load()
    for i in range(n):
        numbers.numbers[:] = -1.0
        numbers.load()
        assert set(numbers.numbers.tolist()) <= {-1.0}, "it was as it is"
        holder[i] = float(f"{i}.25")
        numbers.load()
        assert numbers.numbers.tolist() == holder


def test_a_float_that_lies_where_one_before_it_did() -> None:
    """No address tells that an item is the same: it may be that of a new float."""
    holder = [i + 0.5 for i in range(40)]
    numbers = FloatList(holder, Leaves([]))
    numbers.load()
    for i in range(200):
        holder[3] = i + 0.125
        holder[3] = i + 0.25
        numbers.load()
        assert numbers.numbers[3] == i + 0.25


def test_what_a_dead_program_trained_is_collected() -> None:
    world = World(1, cr.jit)
    settle(world)
    gc.collect()
    before = sum(type(x) is HollowLeaf for x in gc.get_objects())
    assert before >= 30
    del world
    gc.collect()
    assert sum(type(x) is HollowLeaf for x in gc.get_objects()) <= before - 30
