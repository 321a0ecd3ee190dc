"""What is verified, as the verifier sees it: a forward and a backward on plain arrays.

Whatever the user has (an op, a function, a `Function` of ours or of PyTorch's, a hand-written NumPy
pair, a module), an adapter makes it a `Subject`. All that follows (measuring, naming, correcting,
reporting) knows subjects only, so that every face of the verifier finds the same mistakes by the
same code.

Notation: xs are the inputs, ys the outputs, gs cotangents of the outputs, x_bars what the backward
gives for the inputs: x_bar[k] = sum over outputs of J[k]^T g.
"""

from __future__ import annotations

import abc
import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from chainrule.verify.place import Place

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Input:
    """One input of a subject, at the point where it is verified.

    `value` is an array for everything that can be perturbed or cast (float or complex arrays,
    integer and bool arrays too), and any Python object otherwise (an axis, a mode).
    """

    name: str
    value: Any
    wanted: bool
    """Whether a gradient is expected: a float or complex array that may need one."""


@dataclass(frozen=True, eq=False)
class Source:
    """The code of a subject's backward, and how to run it changed."""

    file: str
    first_line: int
    text: str
    """The source of the function, as it stands in the file, with its indentation."""
    function: Callable[..., Any]
    """The function object: its globals and closure are what changed code runs in."""
    replaced: Callable[[Callable[..., Any]], Subject]
    """The same subject with another function as its backward (same signature)."""
    forward: Source | None = None
    """The forward's code in the same way, if it can be changed: what it saves may be wrong."""
    computed: Callable[[Callable[..., Any]], Subject] | None = None
    """Of a forward that is its own backward, and is changed as that: the same subject with another
    function as its forward."""
    computing: Source | None = None
    """The code that computes, if that which saves is another method's (`setup_context`)."""
    rewritten: Callable[[ast.AST], ast.AST] | None = None
    """What becomes of its tree before it is compiled, changed or not, and is not shown."""
    handing_on: Callable[[ast.AST], list[ast.stmt]] | None = None
    """Statements of its tree that use gradients and compute none: nothing is changed in them."""
    of_value: bool = False
    """Of a function that one calls which computes value and gradients: whether this makes the value
    as well."""

    @property
    def forward_text(self) -> str:
        """All that the forward's code says; empty if there is none."""
        some = [code.text for code in (self.forward, self.computing) if code is not None]
        return "\n".join(some)

    @property
    def separate_forward(self) -> Source | None:
        """The forward's code, if that is another function than the backward."""
        other = self.forward is not None and self.forward.function is not self.function
        return self.forward if other else None

    @property
    def makes_both(self) -> bool:
        """Whether the function computes the value as well as gradients."""
        return self.of_value or (self.forward is not None and self.separate_forward is None)


class Subject(abc.ABC):
    """One differentiable thing at one point. Adapters derive from it; nothing else does."""

    name: str
    """As the user calls it: "Attention", "model.blocks[0].norm"."""
    kind: str
    """What it is, to read: "torch.autograd.Function", "NumPy pair", "op"."""
    inputs: tuple[Input, ...]
    """The point: the values that really flowed, of the dtypes that they had."""
    place: Place | None = None
    """Where the forward is defined, or called if that is not known."""
    backward_place: Place | None = None
    """Where the backward is defined, if the user wrote it."""

    @property
    def takes_cotangent(self) -> bool:
        """Whether the backward's code gets the cotangent; if not, what it gives is that for 1, and
        is multiplied by the cotangent afterwards."""
        return True

    @abc.abstractmethod
    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """Outputs at xs (one value for each input), computed in the dtype of xs.

        Random streams start where they started at the point, and are put back: the same xs give
        the same outputs if that is possible at all. xs are never written to: the subject gets
        copies, unless `forward` is watched for just that (see `changes`). Whatever the user's code
        raises comes out as it is.
        """

    @abc.abstractmethod
    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """x_bars of the subject's own backward, after its own forward at xs.

        gs reach the backward with the strides that they have. What comes back is as the backward
        returned it: None, a wrong shape and a wrong dtype included.
        """

    def interrupted(
        self, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
    ) -> tuple[Array | None, ...] | None:
        """As `pull`, but before the backward for xs another call runs at `others`, forward and
        backward, in the order of a sweep: what calls keep they must not share, but may stack. None
        if the adapter cannot do so, or has but one call."""
        return None

    def repeated(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """As `pull`, but for the second of two equal calls, forward and backward, with nothing set
        back in between. None if the adapter cannot do so, or if the forward gives other outputs
        then."""
        return None

    def resumed(
        self, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
    ) -> tuple[Array | None, ...] | None:
        """As `pull`, but of what has run a call at `others` before, forward and backward; but for
        gradients that are meant to add up, nothing is set back in between. None if the adapter
        cannot do so, or if the forward gives other outputs then than without that call."""
        return None

    def changes(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[str, ...]:
        """Names of arrays that a forward or backward wrote into though they are not its own:
        inputs, cotangents, parameters. Empty if none, or if the adapter cannot see it."""
        return ()

    def summed(self, xs: Sequence[Any], gs: Sequence[Array]) -> dict[int, tuple[int, ...]]:
        """Inputs whose gradient the backward returned in the shape they were broadcast to, and that
        shape, where the engine sums it by itself: `pull` gives what it made of it."""
        return {}

    def derived(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """What a library derives from the forward's own code, whatever the user cut or claimed on
        the way; None, or whatever is raised on the way, if none can."""
        return None

    def cuts(self, xs: Sequence[Any]) -> tuple[Place, ...]:
        """The user's lines that take values off the graph; empty if the adapter cannot see it."""
        return ()

    @property
    def source(self) -> Source | None:
        """The backward's code, or None if there is none or it cannot be read."""
        return None

    @property
    def functions(self) -> list[Callable[..., object]]:
        """The functions that the user has written for it, as far as their code is known."""
        source = self.source
        codes = [] if source is None else [source, source.forward, source.computing]
        return [code.function for code in codes if code is not None]

    @property
    def fixed(self) -> str:
        """Why inputs cannot get other shapes ("its parameters have sizes of their own"); empty if
        they can be tried."""
        return ""

    @property
    def only_here(self) -> str:
        """Why inputs cannot get other values ("far from here it rounds"); empty if they can be
        tried."""
        return ""

    @property
    def settings(self) -> Mapping[str, float]:
        """Numbers that it keeps and that say how: a slope, a rate."""
        return {}

    def at_setting(self, name: str, value: float) -> Subject:
        """The same with another number for a setting."""
        raise KeyError(name)

    @property
    def own_sizes(self) -> Mapping[int, str]:
        """Lengths that it keeps of its own, and how it does; axes of these keep them, the others
        can be tried."""
        return {}


def extent(value: Any) -> tuple[int, ...]:
    """The shape of an input: of an array, a number, or sequences of one length; () of any other
    object, a tree of sequences of several lengths say."""
    try:
        return np.shape(value)
    except ValueError:
        return ()


def wanted(subject: Subject) -> tuple[int, ...]:
    """Indices of the inputs for which a gradient is expected."""
    return tuple([i for i, x in enumerate(subject.inputs) if x.wanted])


def values(subject: Subject, dtype: np.dtype[Any] | type | None = None) -> tuple[Any, ...]:
    """The inputs' values, float arrays as `dtype` (complex ones as its complex partner)."""
    return tuple([_as(x.value, dtype) for x in subject.inputs])


def _as(value: Any, dtype: np.dtype[Any] | type | None) -> Any:
    if dtype is None or not isinstance(value, np.ndarray):
        return value
    array = cast("Array", value)
    kind = np.dtype(dtype)
    if array.dtype.kind == "c":
        return array.astype(np.result_type(kind, np.complex64))
    floating = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    return array.astype(kind) if floating else array


Inputs: TypeAlias = tuple[Input, ...]


def needed_inputs(
    inputs: Inputs, asked: Sequence[bool], pull: Callable[[Inputs], Sequence[Any]]
) -> Inputs:
    """The inputs, wanted where the call asked for a gradient, and where the backward gives one as
    well.

    Wanted now: those that can have a gradient. `pull`: what the backward gives where some are
    wanted, None where it gives nothing.
    """

    def wanting(wants: Sequence[bool]) -> Inputs:
        return tuple([replace(x, wanted=bool(w)) for x, w in zip(inputs, wants, strict=True)])

    required = [x.wanted and bool(a) for x, a in zip(inputs, asked, strict=True)]
    if not any(required) or required == [x.wanted for x in inputs]:
        return inputs
    try:
        given, alone = pull(inputs), pull(wanting(required))
    except Exception:  # as the user's code raises it, where no gradient was ever asked for
        return wanting(required)
    if any(r and a is None for r, a in zip(required, alone, strict=True)):
        return wanting(required)  # as it is run, it gives none: `needs_input_grad` was misread
    return wanting([r or g is not None for r, g in zip(required, given, strict=True)])
