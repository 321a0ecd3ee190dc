"""Every public function of arrays says its shapes, and what it says is what comes in and goes out.

The samples of all ops run once while a profiler looks on: whatever public function they call, by
itself or from inside another, each call is compared with the statement in its docstring.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import fft, linalg, nn, special
from chainrule.engine import graph
from chainrule.engine.graph import apply
from chainrule.nn import functional
from chainrule.ops.families import Elementwise
from tests.ops.sample import apart
from tests.public import samples_shapes
from tests.public.shapes import (
    Call,
    Case,
    Item,
    MisfitError,
    UnreadableError,
    check,
    read,
    statement,
)

NAMESPACES = (cr, linalg, fft, special, functional)
"""Where the public functions are."""
HOMES = ("chainrule.ops.", "chainrule.nn.")
"""Where functions of arrays are written."""


def names(space: Any) -> list[str]:
    """The public names of a module."""
    return getattr(space, "__all__", None) or [n for n in vars(space) if not n.startswith("_")]


def _public() -> Iterator[Callable[..., Any]]:
    for space in NAMESPACES:
        for name in names(space):
            f = inspect.unwrap(getattr(space, name))
            if inspect.isfunction(f) and f.__module__.startswith(HOMES):
                yield f


FUNCTIONS = {f.__code__: f for f in _public()}
"""Rows of the table share one statement."""
NAMES = {
    code: f"{f.__module__.removeprefix('chainrule.ops.')}.{f.__name__}"
    for code, f in FUNCTIONS.items()
}

LINE, PLANE, SPACE = apart(2, 4, 6), apart(2, 4, 6, 7), apart(1, 4, 6, 7, 5)
SIZED = (LINE, PLANE, SPACE)


def _sized(name: str, *settings: Any, **more: Any) -> list[tuple[nn.Module, tuple[Any, ...]]]:
    """A layer of one, two and three dimensions."""
    return [
        (getattr(nn, f"{name}{n}d")(*settings, **more), (x,)) for n, x in enumerate(SIZED, start=1)
    ]


X23, POSITIVE = apart(2, 3), apart(2, 3, low=0.1, high=0.9)
CLASSES, SIGNS = np.array([2, 0]), np.array([[1, -1, 1], [-1, 1, 1]])
CALLS: list[tuple[nn.Module, tuple[Any, ...]]] = [
    (nn.Linear(4, 5), (apart(2, 3, 4),)),
    (nn.Linear(4, 5, bias=False), (apart(4),)),
    (nn.Bilinear(4, 3, 5), (apart(2, 4), apart(2, 3))),
    (nn.Embedding(6, 5), (np.array([[2, 0, 3]]),)),
    (nn.EmbeddingBag(6, 5), (np.array([[2, 0, 3]]),)),
    (nn.LayerNorm(4), (apart(2, 3, 4),)),
    (nn.RMSNorm((3, 4)), (apart(2, 3, 4),)),
    (nn.Dropout(0.3), (X23,)),
    (nn.CausalSelfAttention(6, 2), (apart(2, 5, 6),)),
    (nn.FeedForward(6, 7, nn.ReLU()), (apart(2, 5, 6),)),
    (nn.Block(6, 3), (apart(2, 5, 6),)),
    *_sized("Conv", 4, 3, 2),
    *_sized("ConvTranspose", 4, 3, 2, 2),
    *_sized("MaxPool", 2),
    *_sized("LPPool", 2.0, 2),
    (nn.AdaptiveLogSoftmaxWithLoss(4, 7, [2, 4], 2.0), (apart(3, 4), np.array([6, 0, 3]))),
    (nn.FractionalMaxPool2d(2, 3), (PLANE,)),
    (nn.FractionalMaxPool2d(2, output_ratio=0.5), (PLANE[0],)),
    (nn.FractionalMaxPool3d(2, (3, 2, 4)), (SPACE,)),
    *[
        (getattr(nn, f"MaxUnpool{n}d")(2), getattr(nn, f"MaxPool{n}d")(2, return_indices=True)(x))
        for n, x in enumerate([cr.ones((2, 3, *(4, 6, 8)[:n])) for n in (1, 2, 3)], start=1)
    ],
    (nn.RNNCell(3, 5), (X23,)),
    (nn.LSTMCell(3, 5), (X23,)),
    (nn.GRUCell(3, 5), (apart(3),)),
    (nn.TransformerDecoderLayer(6, 2, 5), (apart(2, 4, 6), apart(3, 4, 6))),
    (
        nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, 5), 2),
        (apart(2, 4, 6), apart(3, 4, 6)),
    ),
    (nn.Transformer(6, 2, 1, 1, 5), (apart(2, 4, 6), apart(3, 4, 6))),
    (nn.AlphaDropout(0.3), (X23,)),
    (nn.FeatureAlphaDropout(0.3), (X23,)),
    (nn.RReLU(), (X23,)),
    (nn.MultiLabelMarginLoss(), (X23, SIGNS)),
    (nn.TripletMarginWithDistanceLoss(), (X23, POSITIVE, -X23)),
    (
        nn.CTCLoss(),
        (apart(5, 2, 3), np.array([[1, 2], [2, 1]]), np.array([5, 4]), np.array([2, 1])),
    ),
    *_sized("AvgPool", 2),
    *_sized("AdaptiveAvgPool", 3),
    *_sized("AdaptiveMaxPool", 3),
    *_sized("BatchNorm", 4),
    *_sized("InstanceNorm", 4),
    *_sized("Dropout", 0.3),
    *[
        c
        for kind in ("Zero", "Reflection", "Replication", "Circular")
        for c in _sized(f"{kind}Pad", 1)
    ],
    *_sized("ConstantPad", 1, 0.5),
    (nn.GroupNorm(2, 4), (PLANE,)),
    (nn.LocalResponseNorm(3), (PLANE,)),
    *[(layer(6, 5), (apart(3, 2, 6),)) for layer in (nn.RNN, nn.GRU, nn.LSTM)],
    (nn.MultiheadAttention(6, 2), (apart(5, 2, 6), apart(4, 2, 6), apart(4, 2, 6))),
    (nn.TransformerEncoderLayer(6, 2, 7), (apart(5, 2, 6),)),
    (nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 7), 2), (apart(5, 2, 6),)),
    (nn.RotaryEmbedding(6), (apart(2, 5, 6),)),
    (nn.PReLU(3), (X23,)),
    (nn.Threshold(0.1, 0.2), (X23,)),
    (nn.GLU(), (apart(2, 6),)),
    (nn.Softmax2d(), (PLANE,)),
    *[
        (getattr(nn, name)(), (X23,))
        for name in nn.activations.ROWS
        if name not in ("Threshold", "GLU", "Softmax2d")
    ],
    *[(getattr(nn, name)(), (LINE,)) for name in ("Identity", "Flatten")],
    (nn.Unflatten(1, (2, 2)), (LINE,)),
    (nn.PixelShuffle(2), (PLANE,)),
    (nn.PixelUnshuffle(2), (apart(2, 3, 4, 6),)),
    (nn.ChannelShuffle(2), (PLANE,)),
    (nn.Upsample(scale_factor=2), (LINE,)),
    (nn.UpsamplingNearest2d(3), (PLANE,)),
    (nn.UpsamplingBilinear2d(3), (PLANE,)),
    (nn.Unfold(2), (PLANE,)),
    (nn.Fold((3, 4), 2), (apart(2, 8, 6),)),
    *[
        (getattr(nn, f"{name}Loss")(), (X23, apart(2, 3, salt=1)))
        for name in ("MSE", "L1", "SmoothL1", "Huber", "PoissonNLL")
    ],
    *[
        (getattr(nn, f"{name}Loss")(), (X23, CLASSES))
        for name in ("CrossEntropy", "NLL", "MultiMargin")
    ],
    *[
        (getattr(nn, f"{name}Loss")(), (POSITIVE, apart(2, 3, low=0.1, high=0.9, salt=1)))
        for name in ("BCE", "BCEWithLogits", "KLDiv", "MultiLabelSoftMargin")
    ],
    *[(getattr(nn, f"{name}Loss")(), (X23, SIGNS)) for name in ("HingeEmbedding", "SoftMargin")],
    (nn.GaussianNLLLoss(), (X23, apart(2, 3, salt=1), POSITIVE)),
    (nn.MarginRankingLoss(), (X23, apart(2, 3, salt=1), SIGNS)),
    (nn.CosineEmbeddingLoss(), (X23, apart(2, 3, salt=1), np.array([1, -1]))),
    (nn.TripletMarginLoss(), (X23, apart(2, 3, salt=1), apart(2, 3, salt=2))),
    *[
        (getattr(nn, name)(), (X23, apart(2, 3, salt=1)))
        for name in ("CosineSimilarity", "PairwiseDistance")
    ],
]
"""A call of each module."""
OF_OTHERS = {"Sequential", "Checkpoint", "Module"} | {
    f"{kind}{form}" for kind in ("Module", "Parameter") for form in ("List", "Dict")
}
"""Modules with the shapes of those that they hold."""


@dataclass
class Watch:
    """Calls by the code that they ran."""

    wanted: set[CodeType]
    calls: dict[CodeType, list[Call]] = field(default_factory=dict[CodeType, list[Call]])
    _open: dict[FrameType, dict[str, Any]] = field(default_factory=dict[FrameType, dict[str, Any]])

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        """What `sys.setprofile` calls: arguments are those at the entry, before any is replaced."""
        if frame.f_code not in self.wanted or graph.tracers:
            return  # what is traced, as where a kernel is made, has no values to keep
        if event == "call":
            self._open[frame] = dict(frame.f_locals)
        elif event == "return" and (found := self._open.pop(frame, None)) and result is not None:
            self._keep(frame.f_code, found, result)

    def _keep(self, code: CodeType, found: dict[str, Any], result: Any) -> None:
        me = found.pop("self", None)
        if code is apply.__code__ and not isinstance(found.pop("op"), Elementwise):
            return
        self.calls.setdefault(code, []).append(Call(found, vars(me) if me else {}, result))

    def run(self, calls: list[Callable[[], Any]]) -> None:
        """Run them all."""
        before = sys.getprofile()
        sys.setprofile(self)
        try:
            for call in calls:
                call()
        finally:
            sys.setprofile(before)


def _samples() -> list[Callable[[], Any]]:
    tables = ("arrays", "elementwise", "extra", "network", "replacing")
    samples = [s for t in tables for s in importlib.import_module(f"tests.ops.samples_{t}").SAMPLES]
    return [lambda s=s: s.f(*[cr.tensor(x) for x in s.args]) for s in samples]


@pytest.fixture(scope="module")
def calls() -> dict[CodeType, list[Call]]:
    watch = Watch({*FUNCTIONS, apply.__code__})
    watch.run([*_samples(), *samples_shapes.CALLS])
    return watch.calls


of_functions = pytest.mark.parametrize("code", FUNCTIONS, ids=NAMES.__getitem__)


def stated(f: Any) -> tuple[Case, ...]:
    """What `f` says."""
    text = statement(f.__doc__)
    assert text, f"{f.__qualname__} takes arrays: add `Shapes: ... -> ....` to its docstring"
    return read(text)


@of_functions
def test_what_a_function_says_is_so(code: CodeType, calls: dict[CodeType, list[Call]]):
    cases = stated(FUNCTIONS[code])
    assert code in calls, "add a sample of it"
    decided = {check(cases, call).text for call in calls[code]}
    assert decided == {case.text for case in cases}, "add samples of the other cases"


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
def test_what_functions_say_is_so_of_pytorchs_samples():
    pytest.importorskip("expecttest", reason="PyTorch's op table imports it")
    table = pytest.importorskip("tests.interop.opdb.test_opdb", reason="the samples are PyTorch's")
    unlike = importlib.import_module("tests.interop.opdb.translate").Unlike
    entries = [(row, table.ENTRIES[row.entry]) for row in table.ROWS]
    watch = Watch({*FUNCTIONS, apply.__code__})
    for row, op in entries:
        watch.run([lambda c=c: _run_unless(unlike, c) for c in table.cases(row, op, most=40)])
    wrong: list[str] = []
    for code, made in watch.calls.items():
        f = FUNCTIONS.get(code, Elementwise)
        cases = stated(f)
        wrong += [f"{f.__qualname__}: {why}" for call in made if (why := misfit(cases, call))]
    assert not wrong, "\n".join(wrong)
    assert len(watch.calls) > 150


def _run_unless(unlike: type[Exception], case: Any) -> None:
    """Our function of a sample, unless it asks for what we do not have."""
    with contextlib.suppress(unlike):
        case.ours(*[cr.tensor(x) for x in case.xs])


def misfit(cases: tuple[Case, ...], call: Call) -> str:
    """What is wrong with a call, nothing if it is as stated."""
    try:
        check(cases, call)
    except MisfitError as reason:
        return str(reason)
    return ""


# --- The checker is shown to fail ----------------------------------------------------------------


@of_functions
@pytest.mark.parametrize("change", ["an axis more", "another size"])
def test_a_wrong_statement_is_noticed(
    code: CodeType, change: str, calls: dict[CodeType, list[Call]]
):
    cases = stated(FUNCTIONS[code])
    for case in cases:
        decided = [call for call in calls[code] if check(cases, call) is case]
        wrong = more_axes(case) if change == "an axis more" else other_sizes(case, decided[0])
        if wrong != case:
            assert any(misfit((wrong,), call) for call in decided), wrong


def more_axes(case: Case) -> Case:
    """The same with one more axis in front of each result."""
    more = [replace(r, items=(Item("size", "1"), *r.items)) for r in case.results]
    return replace(case, results=tuple(more))


def other_sizes(case: Case, call: Call) -> Case:
    """The same with an impossible size for each that follows from the arguments."""

    def other(item: Item) -> Item:
        if item.inner is not None:
            return replace(item, inner=other(item.inner))
        known = item.text in call.arguments or item.text in case.text.split("->")[0]
        free = item.text.isidentifier() and not known
        return item if item.kind != "size" or free else Item("size", "-1")

    return replace(
        case, results=tuple(replace(r, items=tuple(map(other, r.items))) for r in case.results)
    )


A, B = apart(2, 3, 4), apart(4, 5)
PRODUCT = Call({"a": A, "b": B, "axis": -1, "k": None}, {}, A @ B)
WRONG = [
    "(..., m, k), (..., k, n) -> (..., n, m)",
    "(..., m, k), (..., n, k) -> (..., m, n)",
    "(m, k), (k, n) -> (m, n)",
    "(..., m, k), (..., k, n) -> (..., m, k)",
    "(..., m, k), (..., k, n) -> (..., m, n + 1)",
    "(..., m, k), (..., k, n) -> (...)",
    "(..., m, k), (..., k, n) -> (m, n)",
    "(..., m, k), (..., k, n) -> (..., m, n), (..., m, n)",
    "(..., m, k), (..., k, n) -> [(..., m, n)]",
    "(..., m, k), (..., k, n) -> (..., m, n) if axis > 0",
    "(..., m, k), (..., k, n) -> (..., m, n) with m == n",
    "(*s, axis: k), b (*t, axis: k) -> (*s, axis: n)",
    "(*s, axis: k), b (k, n) -> (*s, axis: k)",
    "(*s, axis: k) -> (*s)",
    "(*s, k), (k, n) -> (*[2 * m for m in s], n)",
    "[(k_i)], (k, n) -> (*k_i, n)",
]
RIGHT = [
    "(..., m, k), (..., k, n) -> (..., m, n)",
    "(*s, axis: k), b (k, axis: n) -> (*s, axis: n)",
    "(*s, k), (k, n) -> (*s, k + 1)",
    "(k) -> (); (..., m, k), (..., k, n) -> (..., m, n) if axis < 0 with len(result.shape) == 3",
    "[(m, k_i)], (k, n) -> (len(a), m, n) with k_i == [4, 4]",
]


@pytest.mark.parametrize("text", WRONG)
def test_wrong_statements_about_a_product(text: str):
    with pytest.raises(MisfitError):
        check(read(text), replace(PRODUCT, arguments={**PRODUCT.arguments, "a": _a(text)}))


@pytest.mark.parametrize("text", RIGHT)
def test_right_statements_about_a_product(text: str):
    check(read(text), replace(PRODUCT, arguments={**PRODUCT.arguments, "a": _a(text)}))


def _a(text: str) -> Any:
    """The first argument as one array or as a list of matrices."""
    return list(A) if text.startswith("[") else A


UNREADABLE = [
    "(m, k)",
    "(m, k) -> (m",
    "(m) -> m",
    "(..., *s) -> (*s)",
    "(m) -> (q + 1)",
    "c (m) -> ()",
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_the_grammar_does_not_have(text: str):
    with pytest.raises(UnreadableError):
        check(read(text), Call({"x": apart(3)}, {}, apart(3)))


def test_silence_is_noticed():
    with pytest.raises(AssertionError, match="takes arrays: add"):
        stated(lambda x: x)


def test_where_a_statement_stands():
    assert (
        statement("What it is.\n\n    Shapes: (m, k) ->\n      (m).\n    More.") == "(m, k) -> (m)"
    )
    assert statement("What it is: (m, k) -> (m).") is None
    assert statement(None) is None


# --- Rows and modules ----------------------------------------------------------------------------


def test_rows_of_the_table(calls: dict[CodeType, list[Call]]):
    cases = stated(Elementwise)
    for call in calls[apply.__code__]:
        check(cases, call)
    assert len(calls[apply.__code__]) > 100
    for wrong in ("[(...)] -> (..., 1)", "[(*s)] -> (*s)"):
        assert any(misfit(read(wrong), call) for call in calls[apply.__code__])


@pytest.mark.parametrize(("module", "xs"), CALLS, ids=lambda m: type(m).__name__)
def test_modules(module: nn.Module, xs: tuple[Any, ...]):
    code = type(module).forward.__code__
    watch = Watch({code})
    single = [x.astype(np.float32) if x.dtype.kind == "f" else x for x in xs]
    watch.run([lambda: module(*[cr.tensor(x) for x in single])])
    cases = stated(type(module).forward)
    call = watch.calls[code][-1]
    assert check(cases, call) == cases[0]
    assert misfit((more_axes(cases[0]),), call) or "free" in free(cases[0])


def free(case: Case) -> str:
    """Whether the results are of any shape."""
    given = case.text.split("->")[0]
    runs = [i.text for r in case.results for i in r.items if i.kind == "run"]
    return "free" if any(f"*{run.strip('*')}" not in given for run in runs) else "bound"


def test_every_module_is_there():
    layers = {c for c in vars(nn).values() if inspect.isclass(c) and issubclass(c, nn.Module)}
    assert {c.__name__ for c in layers - {type(m) for m, _ in CALLS}} == OF_OTHERS


ELSEWHERE = {
    "chainrule.transforms.functional": "takes functions, and gives what they give",
    "chainrule.transforms.scan": "takes functions, and gives what they give",
    "chainrule.engine.creation": "makes arrays: `shape`, or that of its argument",
    "chainrule.engine.tensors": "numbers enter with the shape that they have",
    "chainrule.explain.read_only_arrays": "tells who keeps an array, whatever its shape",
    "chainrule.interop.standard": "the standard's own signatures of ops that stand above",
    "chainrule.interop.dlpack": "an array of another library, as it is",
    "chainrule.interop.safetensors": "trees of arrays, as they are",
}
"""Homes of public functions of arrays that need not say their shapes, and why."""


def test_no_function_of_arrays_is_elsewhere():
    given = {"x", "a", "b", "xs", "x1", "x2", "arrays", "data", "like", "tensors"}
    values = [getattr(space, name) for space in NAMESPACES for name in names(space)]
    functions = [inspect.unwrap(v) for v in values if inspect.isfunction(v)]
    takes = {f.__module__ for f in functions if given & inspect.signature(f).parameters.keys()}
    assert {home for home in takes if not home.startswith("chainrule.ops.")} == set(ELSEWHERE)
