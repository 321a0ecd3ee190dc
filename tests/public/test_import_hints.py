"""Imports of names that do not exist here say what to write, as attributes do."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import pytest

import chainrule as cr
from chainrule import data, nn, optim
from chainrule.names import not_offered, spellings

PARTS = {
    "chainrule": (cr, {**spellings.FUNCTIONS, **spellings.PACKAGE}),
    "chainrule.nn": (nn, spellings.LAYERS),
    "chainrule.optim": (optim, not_offered.OPTIMIZERS),
    "chainrule.data": (data, not_offered.DATA),
}


def hint_of(space: Any, name: str) -> str | None:
    try:
        getattr(space, name)
    except AttributeError as error:
        return str(error).partition(f"'{name}': ")[2]
    return None


@pytest.mark.parametrize(("part", "name"), [(p, n) for p in PARTS for n in PARTS[p][1]])
def test_an_import_says_what_an_attribute_says(part: str, name: str) -> None:
    hint = hint_of(PARTS[part][0], name)
    if hint is None:
        pytest.skip("it is offered here")
    for statement in (f"from {part} import {name}", f"import {part}.{name}"):
        with pytest.raises(ImportError) as caught:
            exec(statement, {})
        assert str(caught.value) == f"cannot import '{name}' from '{part}': {hint}"
        assert hint


@pytest.mark.parametrize(
    ("statement", "written"),
    [
        ("from chainrule.utils.data import DataLoader", "from chainrule.data import DataLoader"),
        ("from chainrule.autograd import Variable", "cr.tensor"),
        ("from chainrule.nn.utils.rnn import pack_padded_sequence", "lengths="),
        ("from chainrule.optim.lr_scheduler import StepLR", "optim.Scheduler"),
        ("import chainrule.backends.cudnn as cudnn", "leave it out"),
        ("from chainrule.nn.parameter import Parameter", "requires_grad=True"),
        ("from chainrule.distributions import Categorical", "cr.log_softmax"),
    ],
)
def test_first_lines_of_programs(statement: str, written: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert written in str(caught.value)


def test_what_nobody_knows_is_python_s_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'chainrule.quux'$"):
        importlib.import_module("chainrule.quux")
    with pytest.raises(ImportError, match="cannot import name 'quux' from 'chainrule'"):
        exec("from chainrule import quux", {})


def test_modules_of_other_packages_and_of_ours_are_not_touched() -> None:
    """A module whose parent is not loaded yet, one that is there, one of another package."""
    program = (
        "import importlib.util as u; assert u.find_spec('chainrule.nn.functional');"
        "assert u.find_spec('json.cat') is None;"
        "import sys; n = [type(f).__name__ for f in sys.meta_path].count('ImportHints');"
        "assert n == 1, n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
