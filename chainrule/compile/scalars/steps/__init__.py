"""Whole steps of training: functions that call `backward` and then change the numbers.

`numbers` are floats that write down what is done to them; `state` finds the numbers that a function
can change; `record` runs a step on such floats; `update` is what it does after the backward pass,
`step` the compiled whole.
"""
