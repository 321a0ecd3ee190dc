"""Traces: a backward pass as data, message by message.

A trace holds the graph of a program that ran, the value of each node, and for each backward sweep
its messages in order: whose rule ran, for which input, the local derivative, the contribution. A
page plays it, a file keeps it, a checker adds it up again.

`trace` says what it consists of; `record` makes one of a program, by `tensors` and `scalars`;
`local_derivatives` finds them; `check` adds up; `files` reads and writes.
"""
