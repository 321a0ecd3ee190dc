"""Whole steps of training: functions that call `backward` and then change the numbers.

`numbers` are floats that write down what is done to them; `state` finds the numbers that a function
can change; `record` runs a step on such floats, `outcome` is what that tells; `update` is what
follows the backward pass, `step` the compiled whole.
"""
