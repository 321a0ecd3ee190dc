"""Ints among the arguments, as symbols while a function of `Value`s is recorded.

`symbolic` stands for an int and writes down what is done to it; `subscripts` lets a subscript see
the symbol; `gather` makes what is chosen by one a node of the graph.
"""
