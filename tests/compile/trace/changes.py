"""Programs in which something that a function reads, and that is no tensor, changes between calls.

`program(wrap)` makes the function, `wrap` being `cr.jit` or nothing; it gives what to call, and
what to do between calls.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import enum
import functools
import itertools
import os
import random
import sys
import threading
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import Value, nn

Wrap = Callable[[Any], Any]
Program = Callable[[Wrap], tuple[Callable[..., Any], Callable[[int], None]]]
PROGRAMS: dict[str, Program] = {}
SETTINGS: dict[str, Any] = {}
"""What one program reads and another writes would be the same names: each clears it first."""
SCALE: Any = 1.0
ARRAY: Any = np.zeros(3)
_MODULE = types.ModuleType("settings")


def program(f: Program) -> Program:
    """Count f among the programs."""
    PROGRAMS[f.__name__] = f
    return f


def nothing(i: int) -> None:
    """Between calls, nothing happens."""


@program
def attribute_of_a_class(wrap: Wrap) -> Any:
    class S:
        k = 2.0

    def change(i: int) -> None:
        S.k = float(i)

    return wrap(lambda x: x * S.k), change


@program
def attribute_of_an_object(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(k=1, deep=types.SimpleNamespace(k=[1, 2]))

    def change(i: int) -> None:
        s.deep.k[0] = i

    return wrap(lambda x: x * s.k + s.deep.k[0]), change


@program
def attribute_in_slots(wrap: Wrap) -> Any:
    class S:
        __slots__ = ("k",)

    s = S()
    s.k = 1.0

    def change(i: int) -> None:
        s.k = i * 0.5

    return wrap(lambda x: x * s.k), change


@program
def attribute_that_begins_to_hide_the_classs(wrap: Wrap) -> Any:
    class S:
        k = 2.0

    s = S()

    def change(i: int) -> None:
        if i == 2:
            s.k = 7.0

    return wrap(lambda x: x * s.k), change


@program
def property_of_an_attribute(wrap: Wrap) -> Any:
    class S:
        def __init__(self) -> None:
            self.inner = 1.0

        @property
        def k(self) -> float:
            return self.inner * 2

    s = S()

    def change(i: int) -> None:
        s.inner = float(i)

    return wrap(lambda x: x * s.k), change


@program
def global_name(wrap: Wrap) -> Any:
    def change(i: int) -> None:
        global SCALE
        SCALE = i + 0.5

    change(0)
    return wrap(lambda x: x * SCALE), change


@program
def global_number_of_another_type(wrap: Wrap) -> Any:
    def change(i: int) -> None:
        global SCALE
        SCALE = (1, 1.0, True, 2)[i % 4]

    change(0)
    return wrap(lambda x: cr.sum(x * 2) if type(SCALE) is int else x), change


@program
def attribute_of_a_module(wrap: Wrap) -> Any:
    def change(i: int) -> None:
        _MODULE.k = i

    change(0)
    return wrap(lambda x: x + _MODULE.k), change


@program
def variable_of_an_enclosing_function(wrap: Wrap) -> Any:
    k = 1.0

    def change(i: int) -> None:
        nonlocal k
        k = float(i)

    return wrap(lambda x: x * k), change


@program
def variable_two_functions_out(wrap: Wrap) -> Any:
    k = 1.0

    def f(x: Any) -> Any:
        inner = lambda v: v * k
        return cr.grad(lambda v: cr.sum(inner(v) * v))(x)

    def change(i: int) -> None:
        nonlocal k
        k = float(i)

    return wrap(f), change


@program
def variable_of_a_helper(wrap: Wrap) -> Any:
    k = 1.0

    def helper(x: Any) -> Any:
        return x * k

    def change(i: int) -> None:
        nonlocal k
        k = float(i)

    return wrap(functools.partial(lambda h, x: h(x) + 1, helper)), change


@program
def entry_of_a_dictionary(wrap: Wrap) -> Any:
    SETTINGS.clear()

    def change(i: int) -> None:
        SETTINGS["k"] = i

    change(1)
    return wrap(lambda x: x * SETTINGS["k"]), change


@program
def entry_that_may_be_missing(wrap: Wrap) -> Any:
    SETTINGS.clear()

    def change(i: int) -> None:
        if i % 2:
            SETTINGS["bias"] = i
        else:
            SETTINGS.pop("bias", None)

    return wrap(lambda x: x + SETTINGS.get("bias", 10) + ("bias" in SETTINGS)), change


@program
def entries_one_after_the_other(wrap: Wrap) -> Any:
    d = {"a": 1.0}

    def f(x: Any) -> Any:
        for name, value in d.items():
            x = x * value + len(name)
        return x

    def change(i: int) -> None:
        d["b" * i] = 2.0

    return wrap(f), change


@program
def items_of_a_list(wrap: Wrap) -> Any:
    ks = [1.0, 2.0]

    def f(x: Any) -> Any:
        for k in ks:
            x = x * k
        return x + ks[-1]

    def change(i: int) -> None:
        ks[i % 2] = i + 1.0

    return wrap(f), change


@program
def length_of_a_list(wrap: Wrap) -> Any:
    ks: list[float] = []

    def change(i: int) -> None:
        ks.append(0.0)

    return wrap(lambda x: x * (1 + len(ks))), change


@program
def members_of_a_set(wrap: Wrap) -> Any:
    members = {1}

    def change(i: int) -> None:
        members.add(i + 5)

    return wrap(lambda x: x * sum(members)), change


@program
def what_a_deque_holds(wrap: Wrap) -> Any:
    last = collections.deque([1.0, 2.0], maxlen=2)

    def change(i: int) -> None:
        last.append(float(i))

    return wrap(lambda x: x * last[0] + sum(last)), change


@program
def default_of_an_argument(wrap: Wrap) -> Any:
    def f(x: Any, ks: Any = [1.0]) -> Any:  # noqa: B006 - what is tested
        return x * ks[0]

    def change(i: int) -> None:
        f.__defaults__[0][0] = float(i)

    return wrap(f), change


@program
def defaults_of_a_helper(wrap: Wrap) -> Any:
    def helper(x: Any, k: float = 1.0) -> Any:
        return x * k

    def change(i: int) -> None:
        helper.__defaults__ = (float(i),)

    return wrap(lambda x: helper(x)), change


@program
def defaults_that_are_given_by_name(wrap: Wrap) -> Any:
    def helper(x: Any, *, k: float = 1.0) -> Any:
        return x * k

    def change(i: int) -> None:
        helper.__kwdefaults__ = {"k": float(i)}

    return wrap(lambda x: helper(x)), change


@program
def a_default_that_is_given_by_name(wrap: Wrap) -> Any:
    def helper(x: Any, *, k: float = 1.0) -> Any:
        return x * k

    def change(i: int) -> None:
        helper.__kwdefaults__["k"] = float(i)

    return wrap(lambda x: helper(x)), change


@program
def helper_that_is_replaced(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(act=cr.tanh)

    def change(i: int) -> None:
        s.act = (cr.tanh, cr.sin, cr.exp)[i % 3]

    return wrap(lambda x: s.act(x)), change


@program
def method_that_is_replaced(wrap: Wrap) -> Any:
    class S:
        def f(self, x: Any) -> Any:
            return x * 2

    s = S()

    def change(i: int) -> None:
        S.f = lambda self, x: x * i

    return wrap(lambda x: s.f(x)), change


@program
def array_that_is_written_to(wrap: Wrap) -> Any:
    a = np.ones(3)

    def change(i: int) -> None:
        a[i % 3] = i

    return wrap(lambda x: x * a), change


@program
def array_that_numpy_reads(wrap: Wrap) -> Any:
    a = np.ones(4)

    def change(i: int) -> None:
        a[i % 4] = i + 2

    return wrap(lambda x: x * a[1:] + float(a.sum())), change


@program
def array_under_a_name(wrap: Wrap) -> Any:
    def change(i: int) -> None:
        global ARRAY
        ARRAY = np.arange(3.0) + i if i < 3 else np.ones(1)

    change(0)
    return wrap(lambda x: cr.sum(x * ARRAY)), change


@program
def arrays_in_a_list(wrap: Wrap) -> Any:
    batches = [np.ones(3), np.arange(3.0)]

    def change(i: int) -> None:
        batches[0] = np.full(3, float(i))
        batches[1][0] = i

    return wrap(lambda x: cr.stack([x * b for b in batches])), change


@program
def array_made_a_tensor(wrap: Wrap) -> Any:
    a = np.ones(3, np.float32)

    def change(i: int) -> None:
        a[:] = i

    return wrap(lambda x: x * cr.tensor(a) + cr.asarray(a) * 2), change


@program
def mask_that_selects(wrap: Wrap) -> Any:
    mask = np.array([True, False, True])

    def change(i: int) -> None:
        mask[1] = not mask[1]

    return wrap(lambda x: cr.sum(cr.where(mask, x, 0)) + x[np.flatnonzero(mask)].sum()), change


@program
def tensor_under_a_name(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(w=cr.tensor([1.0, 2.0, 3.0]))
    old = [s.w]

    def change(i: int) -> None:
        s.w = s.w * 2
        old.append(s.w)  # all stay alive

    return wrap(lambda x: x * s.w), change


@program
def layer_that_is_exchanged(wrap: Wrap) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.act: Any = nn.GELU()
            self.norm = nn.LayerNorm(3)

        def forward(self, x: Any) -> Any:
            return self.norm(self.act(x))

    net = Net()

    def change(i: int) -> None:
        if i == 2:
            net.act = nn.ReLU()
        net.norm.eps = 10.0**-i

    return wrap(net), change


@program
def fields_of_a_dataclass(wrap: Wrap) -> Any:
    @dataclass
    class Config:
        rate: float = 1.0
        sizes: list[int] = field(default_factory=lambda: [1])

    c = Config()

    def change(i: int) -> None:
        c.rate, c.sizes = c.rate + 1, [i]

    return wrap(lambda x: x * c.rate + sum(c.sizes)), change


@program
def member_of_an_enumeration(wrap: Wrap) -> Any:
    class Mode(enum.Enum):
        A = 1
        B = 2

    s = types.SimpleNamespace(mode=Mode.A)

    def change(i: int) -> None:
        s.mode = Mode.B if i % 2 else Mode.A

    return wrap(lambda x: x * s.mode.value if s.mode is Mode.A else -x), change


@program
def variable_of_the_environment(wrap: Wrap) -> Any:
    os.environ["CHAINRULE_TEST_SCALE"] = "1"

    def change(i: int) -> None:
        os.environ["CHAINRULE_TEST_SCALE"] = str(i)

    return wrap(lambda x: x * float(os.environ["CHAINRULE_TEST_SCALE"])), change


@program
def variable_of_a_context(wrap: Wrap) -> Any:
    scale: Any = contextvars.ContextVar("scale", default=1.0)

    def change(i: int) -> None:
        scale.set(float(i))

    return wrap(lambda x: x * scale.get()), change


@program
def variable_of_a_thread(wrap: Wrap) -> Any:
    local = threading.local()
    local.k = 1.0

    def change(i: int) -> None:
        local.k = float(i)

    return wrap(lambda x: x * local.k), change


@program
def attribute_by_getattr(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(a=1.0, b=5.0)

    def change(i: int) -> None:
        s.a += 1
        if i == 2:
            del s.b

    return wrap(lambda x: x * getattr(s, "a") + getattr(s, "b", 0.0)), change  # noqa: B009


@program
def attributes_by_vars(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(a=1.0)

    def change(i: int) -> None:
        s.__dict__[f"b{i}"] = 2.0

    return wrap(lambda x: x * sum(vars(s).values())), change


@program
def static_object_that_changes(wrap: Wrap) -> Any:
    class Config:
        k = 1.0

    c = Config()
    f = wrap(lambda x, c: x * c.k)

    def change(i: int) -> None:
        c.k = float(i)

    return lambda x: f(x, c), change


@program
def counter_in_the_function(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(n=0)

    def f(x: Any) -> Any:
        s.n += 1
        return x * s.n

    return wrap(f), nothing


@program
def counter_in_a_variable(wrap: Wrap) -> Any:
    n = 0

    def f(x: Any) -> Any:
        nonlocal n
        n += 1
        return x * n

    return wrap(f), nothing


@program
def list_that_grows(wrap: Wrap) -> Any:
    seen: list[int] = []

    def f(x: Any) -> Any:
        seen.append(1)
        return x * len(seen)

    return wrap(f), nothing


@program
def write_that_is_undone(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(note="")

    def f(x: Any) -> Any:
        s.note = "ran"
        return x

    g = wrap(f)

    def call(x: Any) -> Any:
        return g(x) * len(s.note)

    def change(i: int) -> None:
        s.note = ""

    return call, change


@program
def memo_that_the_function_fills(wrap: Wrap) -> Any:
    memo: dict[int, float] = {}

    def f(x: Any) -> Any:
        if 3 not in memo:
            memo[3] = 2.0
        return x * memo[3]

    def change(i: int) -> None:
        if i == 3:
            memo[3] = 5.0

    return wrap(f), change


@program
def values_and_a_number(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(k=1.0)
    f = wrap(lambda v: v * s.k + v)

    def change(i: int) -> None:
        s.k = float(i)

    return lambda x: f(Value(float(x.sum().item()))).data, change


@program
def numbers_in_a_comprehension(wrap: Wrap) -> Any:
    ks = [1.0, 2.0, 3.0]

    def f(x: Any) -> Any:
        return cr.sum(cr.stack([x * k for k in ks if k > 1])) + sum(k * k for k in ks)

    def change(i: int) -> None:
        ks[0] += 1

    return wrap(f), change


@program
def shapes_from_a_setting(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(n=1)

    def change(i: int) -> None:
        s.n = i

    return wrap(lambda x: cr.tile(x, (s.n,)) + cr.ones(3 * s.n)), change


@program
def text_that_chooses(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(kind="relu")

    def f(x: Any) -> Any:
        match s.kind:
            case "relu":
                return cr.relu(x)
            case "tanh":
                return cr.tanh(x)
            case _:
                return x

    def change(i: int) -> None:
        s.kind = ("relu", "tanh", "none")[i % 3]

    return wrap(f), change


@program
def item_at_a_computed_place(wrap: Wrap) -> Any:
    layers = [types.SimpleNamespace(k=1.0), types.SimpleNamespace(k=2.0)]

    def f(x: Any) -> Any:
        for i in range(2):
            x = x * layers[(i + 1) % 2].k
        return x

    def change(i: int) -> None:
        layers[i % 2].k = float(i)

    return wrap(f), change


@program
def object_out_of_a_call(wrap: Wrap) -> Any:
    settings = {"a": types.SimpleNamespace(k=1.0), "b": types.SimpleNamespace(k=[1.0])}

    def f(x: Any) -> Any:
        return x * settings.get("a").k + max(settings.items())[1].k[0:1][0]

    def change(i: int) -> None:
        settings["a"].k = 0.5 * i
        settings["b"].k[0] = float(i)

    return wrap(f), change


@program
def names_of_a_module_as_a_dictionary(wrap: Wrap) -> Any:
    def change(i: int) -> None:
        global SCALE
        SCALE = _MODULE.k = float(i)

    change(0)
    return wrap(lambda x: x * globals()["SCALE"] + vars(_MODULE)["k"]), change


@program
def object_in_a_partial(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(k=1.0)
    scale = functools.partial(lambda s, x: x * s.k, s)

    def change(i: int) -> None:
        s.k = float(i)

    return wrap(lambda x: scale(x) + 1), change


@program
def attribute_that_may_be_missing(wrap: Wrap) -> Any:
    s = types.SimpleNamespace()

    def change(i: int) -> None:
        if i == 3:
            s.k = 2.0

    return wrap(lambda x: x * s.k if hasattr(s, "k") else x), change


@program
def attribute_missing_by_an_exception(wrap: Wrap) -> Any:
    s = types.SimpleNamespace()

    def f(x: Any) -> Any:
        try:
            return x * s.k
        except AttributeError:
            return x + SETTINGS.get("none", 0)

    def change(i: int) -> None:
        if i == 3:
            s.k = 2.0

    return wrap(f), change


@program
def parameters_of_a_layer(wrap: Wrap) -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.a = cr.tensor([1.0], requires_grad=True)

        def forward(self, x: Any) -> Any:
            return x

    net = Net()
    old: list[Any] = []

    def change(i: int) -> None:
        old.append(net.a)
        net.a = cr.tensor([float(i)], requires_grad=True)
        if i == 3:
            net.b = cr.tensor([2.0], requires_grad=True)

    return wrap(lambda x: x * sum([p.sum() for p in net.parameters()])), change


@program
def tensors_in_a_dataclass(wrap: Wrap) -> Any:
    @dataclass
    class Weights:
        w: Any

    weights = Weights(cr.tensor([1.0, 2.0, 3.0]))
    old: list[Any] = []

    def change(i: int) -> None:
        old.append(weights.w)
        weights.w = weights.w + 1

    return wrap(lambda x: cr.grad(lambda p: cr.sum(p.w * p.w * x))(weights).w), change


@program
def format_of_a_setting(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(name="a")
    table = {"k_a": 1.0, "k_b": 2.0, "k_c": 3.0}

    def change(i: int) -> None:
        s.name = "abc"[i % 3]

    return wrap(lambda x: x * table[f"k_{s.name}"]), change


@program
def star_arguments(wrap: Wrap) -> Any:
    settings, more = {"k": 1.0}, [2.0]

    def helper(x: Any, b: float, *, k: float) -> Any:
        return x * k + b

    def change(i: int) -> None:
        settings["k"] = float(i)
        more[0] = 2.0 * i

    return wrap(lambda x: helper(x, *more, **settings)), change


@program
def subclass_that_asks_its_base(wrap: Wrap) -> Any:
    class Base:
        k = 1.0

        def scale(self, x: Any) -> Any:
            return x * self.k

    class S(Base):
        def scale(self, x: Any) -> Any:
            return super().scale(x) + super().k

    s = S()

    def change(i: int) -> None:
        Base.k = float(i)

    return wrap(lambda x: s.scale(x)), change


@program
def attribute_of_super_alone(wrap: Wrap) -> Any:
    class Base:
        k = 1.0

    class S(Base):
        k = 3.0

        def scale(self, x: Any) -> Any:
            return x * super().k + super(S, self).k  # noqa: UP008 - tested

    s = S()

    def change(i: int) -> None:
        Base.k = float(i)

    return wrap(lambda x: s.scale(x)), change


@dataclass
class Outputs:
    """Gives the same object in each way in which Python calls a method."""

    inner: Any

    @property
    def settings(self) -> Any:
        return self.inner

    @functools.cached_property
    def kept(self) -> Any:
        return self.inner

    def method(self) -> Any:
        return self.inner

    @classmethod
    def made(cls, x: Any) -> Any:
        return x.inner

    @staticmethod
    def given(x: Any) -> Any:
        return x.inner

    def __call__(self) -> Any:
        return self.inner

    def __getitem__(self, i: int) -> Any:
        return self.inner

    def __add__(self, other: Any) -> Any:
        return self.inner

    def __neg__(self) -> Any:
        return self.inner

    def __enter__(self) -> Any:
        return self.inner

    def __exit__(self, *exc: object) -> None:
        pass

    def __iter__(self) -> Any:
        yield self.inner

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return self.inner


def _entered(s: Any) -> Any:
    with s as inner:
        return inner


WAYS: dict[str, Callable[[Any], Any]] = {
    "property": lambda s: s.settings.k,
    "property_by_getattr": lambda s: getattr(s, "settings").k,  # noqa: B009 - tested
    "cached_property": lambda s: s.kept.k,
    "missing_attribute": lambda s: s.no_such_name.k,
    "method": lambda s: s.method().k,
    "class_method": lambda s: s.made(s).k,
    "static_method": lambda s: s.given(s).k,
    "call": lambda s: s().k,
    "item": lambda s: s[0].k,
    "operator": lambda s: (s + 1).k,
    "sign": lambda s: (-s).k,
    "context": lambda s: _entered(s).k,
    "iteration": lambda s: next(x.k for x in s),
    "unpacking": lambda s: [*s][0].k,  # noqa: RUF015 - tested
    "map": lambda s: next(map(lambda i: s.inner, [1])).k,  # noqa: C417 - tested
    "spread_call": lambda s: (lambda *a, **k: s.inner)(*[1], **dict(k=2)).k,  # noqa: C408 - tested
}
"""How an object comes out of code that the user wrote, and an attribute of it is read."""


def _object_out_of(way: Callable[[Any], Any]) -> Program:
    def make(wrap: Wrap) -> Any:
        s = Outputs(types.SimpleNamespace(k=1.0))

        def change(i: int) -> None:
            s.inner.k = float(i)

        return wrap(lambda x: x * way(s)), change

    return make


PROGRAMS |= {f"object_out_of_{name}": _object_out_of(way) for name, way in WAYS.items()}


@program
def object_in_an_object_that_the_function_makes(wrap: Wrap) -> Any:
    class Holder:
        def __init__(self, settings: Any) -> None:
            self.settings = settings

    s = types.SimpleNamespace(k=1.0)

    def change(i: int) -> None:
        s.k = float(i)

    return wrap(lambda x: x * Holder(s).settings.k), change


@program
def item_that_a_comparison_chooses(wrap: Wrap) -> Any:
    ks, n = [1.0, 2.0, 3.0, 4.0], 3

    def change(i: int) -> None:
        ks[0] = float(i)

    return wrap(lambda x: x * ks[(n == 2) * n]), change


@program
def item_that_a_sort_key_chooses(wrap: Wrap) -> Any:
    ks = [1.0, 2.0, 3.0]

    def change(i: int) -> None:
        ks[0] = float(i)

    return wrap(lambda x: x * ks[max(range(3), key=lambda i: -i)]), change


@program
def slices_of_lists(wrap: Wrap) -> Any:
    ks = [types.SimpleNamespace(k=1.0), types.SimpleNamespace(k=2.0)]

    def change(i: int) -> None:
        ks[1].k = float(i)

    return wrap(lambda x: x * ks[1:][0].k), change


@program
def names_in_a_class_body(wrap: Wrap) -> Any:
    k = 1.0

    def f(x: Any) -> Any:
        class Local:
            a = k
            b = SCALE

        return x * Local.a + Local.b

    def change(i: int) -> None:
        nonlocal k
        global SCALE
        k, SCALE = float(i), 2.0 * i

    change(0)
    return wrap(f), change


@program
def imports_in_the_function(wrap: Wrap) -> Any:
    sys.modules["settings_to_import"] = _MODULE

    def f(x: Any) -> Any:
        import settings_to_import as settings
        from settings_to_import import k2

        return x * settings.k1 + k2

    def change(i: int) -> None:
        _MODULE.k1, _MODULE.k2 = float(i), 2.0 * i

    change(0)
    return wrap(f), change


@program
def patterns_of_classes(wrap: Wrap) -> Any:
    s = types.SimpleNamespace(k=1, more={"b": [2.0]})

    def f(x: Any) -> Any:
        match s:
            case types.SimpleNamespace(k=1, more={"b": [b, *_]}):
                return x * b
            case types.SimpleNamespace(k=k):
                return x + k

    def change(i: int) -> None:
        s.k = i if i != 4 else 1

    return wrap(f), change


@program
def statements_of_many_kinds(wrap: Wrap) -> Any:
    """After each the stack must be known again: the last item read is an outer object's."""
    s = types.SimpleNamespace(k=1.0, name="abc", sizes=[[1, 2], [3]], table={"abc": 2.0})

    def pairs() -> Any:
        yield from enumerate(s.sizes)

    def f(x: Any) -> Any:
        total = [n + m for n in [1, 2] for m in (3, 4) if n < m]
        names = {f"{s.name!r:>5}{i}": v for i, v in enumerate(total)}
        while (n := len(names)) > 3:
            names.popitem()
        for i, size in pairs():
            if 0 < i < 5 and size is not None:
                continue
            with contextlib.suppress(KeyError):
                x = x + s.table["none"]
        else:
            x = x + sum(v * 0 for v in total)
        try:
            first, *rest = (*total, n)
            del first
        finally:
            x = x * (len(rest) or 1)
        assert x is not None, "never"
        return x * (s.k if s.name else 0.0) + max(1, *[2, 3]) - s.table[s.name]

    def change(i: int) -> None:
        s.k, s.table["abc"] = float(i), 3.0 * i

    return wrap(f), change


# --- Programs that are refused ------------------------------------------------------------------

REFUSED: dict[str, Callable[[], Callable[[Any], Any]]] = {}


def refused(f: Callable[[], Callable[[Any], Any]]) -> Any:
    """Count what f makes among the functions that cannot be compiled."""
    REFUSED[f.__name__] = f
    return f


@refused
def generator_of_numpy() -> Any:
    rng = np.random.default_rng(0)
    return lambda x: x + rng.normal()


@refused
def generator_of_numpy_in_an_object() -> Any:
    s = types.SimpleNamespace(rng=np.random.default_rng(0))
    return lambda x: x + s.rng.permutation(3)


@refused
def generator_of_python() -> Any:
    rng = random.Random(0)
    return lambda x: x * rng.random()


@refused
def global_generators() -> Any:
    return lambda x: x * random.random() * np.random.rand()


@refused
def generator_without_a_seed() -> Any:
    return lambda x: x + np.random.default_rng().normal()


@refused
def generator_handed_on() -> Any:
    rng = np.random.default_rng(0)

    def draw(how: Any) -> float:
        return float(how.normal())

    return lambda x: x + draw(rng)


@refused
def clock() -> Any:
    return lambda x: x * time.time()


@refused
def calendar() -> Any:
    return lambda x: x * datetime.now().second


@refused
def iterator() -> Any:
    it = iter([1.0, 2.0, 3.0, 4.0])
    return lambda x: x * next(it)


@refused
def counter_of_itertools() -> Any:
    s = types.SimpleNamespace(count=itertools.count())
    return lambda x: x * next(s.count)


@refused
def loop_over_a_generator() -> Any:
    batches = zip([1.0, 2.0], [3.0, 4.0], strict=True)

    def f(x: Any) -> Any:
        for a, b in batches:
            return x * a * b
        return x

    return f


@refused
def large_array_that_numpy_reads() -> Any:
    a = np.ones(100_000)
    return lambda x: x * a[::2].sum()


@refused
def trace_function() -> Any:
    def f(x: Any) -> Any:
        sys.settrace(None)
        return x

    return f
