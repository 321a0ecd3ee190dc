"""Engines of a script's own that hand gradients on before they are complete, and some that wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=3),
]

VALUE = """
import math

class Value:
    def __init__(self, data, parts=()):
        self.data, self.grad, self.parts, self.rule = data, 0.0, parts, lambda: None
    def __add__(self, other):
        out = Value(self.data + other.data, (self, other))
        def rule():
            self.grad += out.grad
            other.grad += out.grad
        out.rule = rule
        return out
    def __mul__(self, other):
        out = Value(self.data * other.data, (self, other))
        def rule():
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad
        out.rule = rule
        return out
    def backward(self):
{back}

w = [Value(0.3), Value(-0.2)]
for step in range(4):
    h = w[0] * Value(0.5) + w[1]
    loss = h * h + h
    for p in w:
        p.grad = 0.0
    loss.backward()
    for p in w:
        p.data -= 0.1 * p.grad
    print(loss.data)
"""
ARRAYS = """
import numpy as np

class Node:
    def __init__(self, x, made_of=(), pull=None):
        self.x, self.made_of, self.pull = np.asarray(x, float), made_of, pull
        self.bar = np.zeros_like(self.x)
    def plus(self, o):
        return Node(self.x + o.x, (self, o), lambda g: (g, g))
    def mul(self, o):
        return Node(self.x * o.x, (self, o), lambda g: (g * o.x, g * self.x))
    def tanh(self):
        y = np.tanh(self.x)
        return Node(y, (self,), lambda g: (g * (1 - y * y),))

def run_back(top):
{back}
"""
RECURSIVE = """
        self.grad = 1.0
        def go(v):
            v.rule()
            for p in v.parts:
                go(p)
        go(self)
"""
PREORDER = """
        self.grad, seen = 1.0, set()
        def go(v):
            if id(v) not in seen:
                seen.add(id(v))
                v.rule()
                for p in v.parts:
                    go(p)
        go(self)
"""
SORTED = """
        order, seen = [], set()
        def visit(v):
            if v not in seen:
                seen.add(v)
                for p in v.parts:
                    visit(p)
                order.append(v)
        visit(self)
        self.grad = 1.0
        for v in reversed(order):
            v.rule()
"""
QUEUE = """
    top.bar = np.ones_like(top.x)
    queue = [top]
    while queue:
        n = queue.pop()
        if n.pull is not None:
            for p, g in zip(n.made_of, n.pull(n.bar)):
                p.bar = p.bar + g
                queue.append(p)
"""
COUNTED = """
    waits, stack, seen = {}, [top], {id(top)}
    while stack:
        for p in stack.pop().made_of:
            waits[id(p)] = waits.get(id(p), 0) + 1
            if id(p) not in seen:
                seen.add(id(p))
                stack.append(p)
    top.bar, ready = np.ones_like(top.x), [top]
    while ready:
        n = ready.pop()
        for p, g in zip(n.made_of, n.pull(n.bar) if n.pull else ()):
            p.bar = p.bar + g
            waits[id(p)] -= 1
            if not waits[id(p)]:
                ready.append(p)
"""


@pytest.mark.parametrize(
    ("text", "back", "wrong"),
    [
        (VALUE, RECURSIVE, True),
        (VALUE, PREORDER, True),
        (VALUE, SORTED, False),
        (ARRAYS, QUEUE, True),
        (ARRAYS, COUNTED, False),
    ],
    ids=["recursive", "preorder", "sorted", "queue", "counted"],
)
def test_a_gradient_waits_until_it_is_complete(
    tmp_path: Path, text: str, back: str, wrong: bool
) -> None:
    found, _, _ = observed(tmp_path, text.format(back=back.strip("\n")))
    assert [f.name.code for f in found] == ["unordered"] * wrong
    for f in found:
        assert f.correction is not None and f.correction.rechecked
        assert "reversed(order)" in f.correction.after
