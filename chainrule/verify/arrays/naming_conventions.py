"""What people call things in backward passes: cotangents, what was saved, gradients of parameters.

Hand-written code has no declared interface; its names are the best evidence of what it means.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from types import CodeType
from typing import Any

from chainrule.engine.source_text import definition_text
from chainrule.verify.trees import tree_of
from chainrule.verify.user_code import function_of

_COTANGENT = re.compile(
    r"""^(
      g | gs | gy | go | ct | cts | cotangents? | upstream\w* | delta\w* | adjoint | seed | v
    | d_?(y|ys|out|outs|o|z|h|c|a|s|t|l|loss|output|outputs|value|values|next|act|logits|scores)\w*
    | d[A-Z]\w* | d_?L_?\w* | dl_?d\w+
    | (g|gr|grad|grads|gradient|gradients)_?(y|ys|z|h|o|a|in|out|outs|output|outputs|next|upstream
      |wrt_y|wrt_out\w*|value|loss|of_\w+)?
    | (out|output|outputs|top|y|upstream|next|incoming|err|error)_?(g|gr|grad|grads|gradients?|diff
      |bar|delta|errors?)
    | ybar | y_bar | err | error | errors | eg
    )$""",
    re.VERBOSE,
)
_SAVED = re.compile(r"^_?(cache|caches|cached|ctx|saved|save|memo|tape|residuals?|state|stash)\w*$")
_OUTPUT = re.compile(r"^(y|ys|out|outs|output|outputs|result|value|probs|activations?)$")
_RATE = re.compile(r"^(lr|learning_rate|learn_rate|eta|alpha|step_size|rate)$")
_PREFIX = re.compile(r"^_?(dL_?d|d_?L_?d?_?|grad_?(of_|wrt_)?|gradient_?|delta_?|d_|d|g_|g)")
_SUFFIX = re.compile(r"_?(grads?|gradient|bar|g|diff|delta)$")


def is_cotangent(name: str) -> bool:
    """Whether a backward's parameter of this name is what comes in from above."""
    return _COTANGENT.match(re.sub(r"_?\d+$", "", name)) is not None


def is_saved(name: str) -> bool:
    """Whether a parameter of this name is what the forward kept for the backward."""
    return _SAVED.match(name) is not None


def is_output(name: str) -> bool:
    """Whether a parameter of this name is the forward's result."""
    return _OUTPUT.match(name) is not None


def is_rate(name: str) -> bool:
    """Whether a parameter of this name is a learning rate: the backward updates parameters."""
    return _RATE.match(name) is not None


def gradient_of(name: str, inputs: list[str]) -> str | None:
    """Which of `inputs` a gradient of this name belongs to: dW, grad_w, W_grad, x_bar, w; or None.

    The exact spelling first, then without regard to case.
    """
    tail = re.sub(r"\W+", "_", name).strip("_")
    stripped = {tail, _PREFIX.sub("", tail), _SUFFIX.sub("", tail)}
    stripped |= {_SUFFIX.sub("", _PREFIX.sub("", tail))}
    for fold in (str, str.lower):
        found = [x for x in inputs if fold(x) in {fold(s) for s in stripped if s}]
        if len(found) == 1:
            return found[0]
    return None


def is_spelled(gradient: Any, name: Any) -> bool:
    """Whether a gradient's name has a parameter's with its capitals: `dBz` that of `Bz`, where
    there may be a `bz` as well."""
    return gradient == name or gradient_of(str(gradient), [str(name), str(name).swapcase()]) == name


def returned_names(f: Any) -> tuple[str | None, ...]:
    """The names in the last `return` of the function `f`: ("dx", "dw") for `return dx, dw`.

    None stands for what is an expression. Empty if there is no source, or nothing is returned.
    """
    found = function_of(f)
    if found is None or found.__name__ == "<lambda>":
        return ()
    return _names_returned(found.__code__)


def last_names(count: int, f: Any) -> tuple[str | None, ...]:
    """The names of the last `count` results in the `return` of `f`, None for each if it has others:
    a loss may stand before the gradients."""
    names = returned_names(f)[-count:]
    return names if len(names) == count else (None,) * count


@lru_cache(maxsize=256)  # Asked after each call of a backward.
def _names_returned(code: CodeType) -> tuple[str | None, ...]:
    tree = tree_of(definition_text(code))
    returns = [n for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None]
    if not returns:
        return ()
    value = max(returns, key=lambda n: n.lineno).value
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return tuple([_name(p) for p in parts])


def _name(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None
