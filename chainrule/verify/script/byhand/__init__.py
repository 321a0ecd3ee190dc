"""Gradients that a script computes by hand, without autograd: held against its loss.

`optimized.py` looks at steps whose gradients an optimizer of PyTorch's gets, `unoptimized.py` at
loops that change their parameters themselves (`loops.py` tells of their turns, `updates.py` reads
their updates, `slots.py` takes what these hand over). Both run a step again, in a copy of the
process, as a function of its parameters: `text.py` and `turn.py` make it, `held.py` puts back what
it changed, `loss.py` tells of which number it leaves the gradients, and `step.py` is the subject.
"""
