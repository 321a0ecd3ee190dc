"""Functions of `Value`s as programs that can be written down.

`program` puts one together: what ints decide (`conditions`), the graph's loops or its tape
(`graphs`, `straight_line`), the update of a step (`steps`), and the copies between these, most of
which drop out (`segments`).
"""
