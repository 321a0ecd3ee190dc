"""Words of a program: of which formulas its own names speak."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from chainrule.verify.formulas.formula import Formula

_ROLES = (
    "prediction pred preds predicted output outputs out outs yhat hat p estimate forecast score",
    "target targets tgt label labels y truth true gt actual ground t ys",
    "box boxes pred preds prediction predicted p out a",
    "other target targets truth gt t true b",
    "noise eps epsilon e n z noises",
    "data x0 x clean start image images sample",
    "sigma sigmas std s sd scale stddev",
    "mean mu loc m mus means",
    "variance var v",
    "reward rewards r rew rews rs",
    "value values v vals val baseline critic vs",
    "done dones d terminal terminals ended mask masks terminated over",
    "discount gamma g",
    "lam lambda lmbda lamda gae trace",
    "advantage advantages adv advs a",
    "quantile quantiles q tau taus level",
    "temperature temp tau t",
    "last bootstrap next final boot",
    "student s", "teacher t", "anchor a", "positive pos p", "negative neg n",
    "query q queries", "key k keys",
    "weight weights w", "logits logit scores", "probability prob probs p",
    "signal alpha a", "prior", "posterior q", "chosen win w preferred", "rejected lose l",
    "policy pi", "reference ref", "old behaviour behavior prev previous", "new current",
)  # fmt: skip
ROLES: dict[str, set[int]] = {}
"""What part a word may have in a formula: words with a number in common may stand for another."""
for _number, _words in enumerate(_ROLES):
    for _word in _words.split():
        ROLES.setdefault(_word, set()).add(_number)
_PREFIX = 3
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def words_of(name: str) -> list[str]:
    """`log_prob`, `logProb` and `LogProb` as log and prob."""
    return [w.lower() for w in _WORD.findall(name)]


def _parts(name: str) -> list[str]:
    """The same; `logvar` as log and var, too."""
    found = list[str]()
    for word in words_of(name):
        rest = word.removeprefix("log")
        found += ["log", rest] if rest and rest != word and rest in ROLES else [word]
    return found


def words_in(tree: ast.AST) -> set[str]:
    """Words of all identifiers of a file, and these identifiers as one word each."""
    found = set[str]()
    for name in _identifiers(tree):
        parts = words_of(name)
        found.update(parts)
        found.add("".join(parts))
        found.update(a + b for a, b in pairwise(parts))
    return found


def _identifiers(tree: ast.AST) -> Iterator[str]:
    for n in ast.walk(tree):
        match n:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if text.isidentifier():
                yield text  # a key of what is configured
            case _:
                pass


def speaks_of(formula: Formula, words: Iterable[str]) -> bool:
    """Whether one of a formula's words is among a program's."""
    known = set(words)
    for word in formula.words:
        plain = "".join(words_of(word))
        if word.endswith("*"):
            if any(w.startswith(plain) for w in known):
                return True
        elif plain in known:
            return True
    return False


def unlikeness(one: str, other: str) -> float:
    """How little two names say the same, from 0 to 1: the first one is a formula's."""
    ours, theirs = _parts(one), _parts(other)
    if ours == theirs:
        return 0.0
    rows = [min([_unlike(a, b) for b in theirs], default=1.0) for a in ours]
    more = any(w == "log" for w in theirs) and "log" not in ours
    return min(1.0, sum(rows) / max(len(rows), 1) + 0.5 * more) if rows else 1.0


def _unlike(a: str, b: str) -> float:
    if a == b and not a.isdigit():
        return 0.2
    if ROLES.get(a, set()) & ROLES.get(b, set()):
        return 0.3
    return 0.3 if min(len(a), len(b)) >= _PREFIX and a[:_PREFIX] == b[:_PREFIX] else 1.0
