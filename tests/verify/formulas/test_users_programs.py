"""Programs of users give what their rows state; with a mistake in them, something else."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from chainrule.verify.formulas.table import FORMULAS
from tests.verify.formulas.comparing import is_one_of
from tests.verify.formulas.samples import variants
from tests.verify.formulas.users_programs import NEAR, ROWS, Program

pytest.importorskip("torch")
MISTAKES = [(p, *m) for p in ROWS for m in p.mistakes]


def run(text: str) -> dict[str, Any]:
    """What a program's names are in the end."""
    names: dict[str, Any] = {"__name__": "program"}
    with np.errstate(all="ignore"):
        exec(compile(text, "program.py", "exec"), names)
    return names


def is_of_row(program: Program) -> bool:
    """Whether a program's results are a value of its row, of its own arguments, at three points; a
    factor is the same at all."""
    texts = [program.text, *[_with_seed(program.text, seed) for seed in (1, 2)]]
    names = [run(text) for text in texts]
    args = [[_plain(x) for x in eval(f"[{program.args}]", n)] for n in names]
    results = [_plain_result(n["result"]) for n in names]
    rows = [f for f in FORMULAS if f.name == program.row]
    assert rows
    return any(is_one_of([_values(f, x) for x in args], results, _signed(f.up_to), rtol=1e-4)
               for f in rows)  # fmt: skip


def _with_seed(text: str, seed: int) -> str:
    for name in ("manual_seed", "default_rng", "random.seed"):
        text = text.replace(f"{name}(0)", f"{name}({seed})")
    return text


def _signed(up_to: str) -> Literal["", "scale", "shift and scale"]:
    """Losses of these programs have their sign."""
    return "scale" if up_to in ("scale", "factor") else ""


def _plain_result(x: Any) -> Any:
    return tuple(map(_plain, x)) if isinstance(x, tuple) else _plain(x)


def _plain(x: Any) -> Any:
    x = np.asarray(x, float)
    return x if x.ndim else float(x)


def _values(row: Any, args: list[Any]) -> list[Any]:
    try:
        with np.errstate(all="ignore"):
            return list(variants(row, args))
    except (ValueError, IndexError, AttributeError, TypeError):  # of another row of this name
        return []


@pytest.mark.parametrize("program", ROWS, ids=[p.name for p in ROWS])
def test_programs_give_what_their_rows_state(program: Program):
    assert is_of_row(program)


@pytest.mark.parametrize(
    ("program", "right", "wrong"), MISTAKES, ids=[f"{p.name}-{w}" for p, _, w in MISTAKES]
)
def test_mistakes_give_something_else(program: Program, right: str, wrong: str):
    assert program.text.count(right) == 1
    before, after = (np.concatenate([np.ravel(np.asarray(x, float)) for x in _results(t)])
                     for t in (program.text, program.text.replace(right, wrong)))  # fmt: skip
    assert before.shape != after.shape or not np.allclose(before, after, rtol=1e-3)


def _results(text: str) -> tuple[Any, ...]:
    result = run(text)["result"]
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("program", NEAR, ids=[p.name for p in NEAR])
def test_neighbours_run(program: Program):
    for x in _results(program.text):
        assert np.isfinite(np.asarray(x, float)).all()
