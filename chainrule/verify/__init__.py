"""Verify gradients: which backward is wrong, where, what the mistake is called, its correction."""

from typing import TYPE_CHECKING, Any

from chainrule.verify.faces.calls import assert_gradients as assert_gradients
from chainrule.verify.faces.calls import check as check
from chainrule.verify.faces.calls import function as function
from chainrule.verify.faces.calls import model as model
from chainrule.verify.faces.calls import pair as pair

if TYPE_CHECKING:
    from chainrule.verify.reporting.report import Report as Report
    from chainrule.verify.training.watching import watching as watching

__all__ = ["Report", "assert_gradients", "check", "function", "model", "pair", "watching"]


def load_ipython_extension(shell: Any) -> None:
    """Let a notebook know `%%verify`, after `%load_ext chainrule.verify`."""
    from chainrule.verify.faces.notebook import load

    load(shell)


def __getattr__(name: str) -> Any:
    if name == "Report":  # loaded when somebody asks for it: it can draw
        from chainrule.verify.reporting.report import Report

        return Report
    if name == "watching":
        from chainrule.verify.training.watching import watching

        return watching
    raise AttributeError(f"module 'chainrule.verify' has no attribute {name!r}")
