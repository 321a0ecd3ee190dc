"""Small changes of statements, and words that say what a value is for."""

from __future__ import annotations

import ast

import pytest

from chainrule.verify.formulas.edits import edits
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.kinds import Kind, Reach
from chainrule.verify.formulas.words import speaks_of, unlikeness, words_in

FLOATS, SHARES = Kind("array", (5,)), Kind("array", (5,), "float", 0.1, 0.9)
REACH = Reach({"a": FLOATS, "b": FLOATS, "q": SHARES, "n": Kind("number", (), "int")}, {}, "np")


def changed(text: str) -> set[str]:
    (statement,) = ast.parse(text).body
    made = {ast.unparse(e.statement) for e in edits(statement, REACH)}
    assert ast.unparse(statement) == ast.unparse(ast.parse(text))  # it is left as it is
    for each in made:
        compile(each, "changed", "exec")
    return made


@pytest.mark.parametrize(("text", "meant"), [
    ("y = a + b", "y = a - b"), ("y = a - b", "y = b - a"), ("y = a * b", "y = a / b"),
    ("y = -a", "y = a"), ("y = q * a", "y = (1 - q) * a"), ("y = a", "y = np.maximum(a, 0)"),
    ("y = f(a, b)", "y = f(b, a)"), ("y = a.sum(axis=0)", "y = a.sum(axis=-1)"),
    ("y = np.minimum(a, b)", "y = np.maximum(a, b)"), ("y = a.mean()", "y = a.sum()"),
    ("y = a[1:]", "y = a[:-1]"), ("y = a[::-1]", "y = a"), ("y = a[n]", "y = a[n + 1]"),
    ("x.append(a)", "x.insert(0, a)"), ("x.insert(0, a)", "x.append(a)"),
    ("y = a * q - b * n", "y = b * q - a * n"), ("y = a ** 2", "y = a"), ("y += a", "y -= a"),
    ("y = np.sqrt(q)", "y = q"), ("y = a < b", "y = a > b"), ("y = a * b",
     "y = np.maximum(a, 0) * np.maximum(b, 0)"), ("y = 0.5 * a", "y = a"),
])  # fmt: skip
def test_what_was_meant_is_among_the_changes(text: str, meant: str) -> None:
    assert ast.unparse(ast.parse(meant)) in changed(text)


def test_words_of_identifiers() -> None:
    def value(x: float) -> float:
        return x

    row = Formula("pinball loss", ("pinball*", "quantile*"), "x[]", value, "here")
    for text in ("def pinballLoss(x): ...", "quantiles = 1", "self.pinball_loss(x)"):
        assert speaks_of(row, words_in(ast.parse(text)))
    assert not speaks_of(row, words_in(ast.parse("loss = 'no pinball'")))


@pytest.mark.parametrize(("name", "like", "unlike"), [
    ("prediction", "pred", "target"), ("target", "y", "yhat"), ("noise", "eps", "x0"),
    ("log_variance", "logvar", "log_std"), ("gamma", "discount", "lam"), ("done", "dones", "r"),
])  # fmt: skip
def test_names_say_what_a_value_is_for(name: str, like: str, unlike: str) -> None:
    assert unlikeness(name, like) < 0.5 <= unlikeness(name, unlike)
