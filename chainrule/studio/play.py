"""The studio's page, and a page of one trace, as whole documents.

| document | has |
|---|---|
| `studio_page` | all tabs: expressions, training, slips, lessons, a trace of yours |
| `trace_page` | the player of one trace |
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

from chainrule.studio.modules import page_modules
from chainrule.studio.op_table import table_data
from chainrule.studio.page import page
from chainrule.studio.slips import slip_trace
from chainrule.studio.training_gpt import training_data
from chainrule.traces.files import to_dict
from chainrule.traces.trace import Trace
from chainrule.verify.mistakes import MISTAKES


def studio_page(trace: Trace | None = None, first: str = "expr") -> str:
    """The whole studio; `first` is the tab that is open, `trace` what "Your program" plays."""
    data: dict[str, Any] = {
        "first": first,
        "table": table_data(),
        "slips": to_dict(slip_trace()),
        "training": training_data(),
        "mistakes": {m.code: [m.title, m.means] for m in MISTAKES.values()},
    }
    if trace is not None:
        data["trace"] = to_dict(trace)
    styles = ("studio.css", "training.css")
    return page("chainrule", "shell.mjs", data=data, binaries=page_modules(), styles=styles)


def trace_page(trace: Trace) -> str:
    """A page that plays one trace."""
    title = f"{trace.name} – chainrule"
    return page(title, "trace_document.mjs", data={"trace": to_dict(trace)})


def address(state: Mapping[str, str]) -> str:
    """What stands behind the # of a page that opens in this state."""
    return urlencode(state)


def embedded(document: str, height: int = 640) -> str:
    """A document as an element of another page: a frame that may run its own scripts only."""
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{escape(document)}" '
        f'style="width:100%;height:{height}px;border:0" title="a trace, played"></iframe>'
    )
