"""Gradients that a script computes by hand, without autograd: compared with its loss.

`optimizer_steps.py` looks at steps whose gradients an optimizer of PyTorch's gets, `loop_steps.py`
at loops that change their parameters themselves (`loops.py` reports their iterations, `updates.py`
reads their updates, `slots.py` takes what these hand over). Both run a step again, in a copy of the
process, as a function of its parameters: `step_text.py` and `loop_gradients.py` make it,
`script_state.py` puts back what it changed, `loss.py` finds the number of which it leaves the
gradients, and `step.py` is the subject.
"""
