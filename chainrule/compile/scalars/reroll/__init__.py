"""Re-rolling: a tape of single numbers as loops over families of them.

`units` reads sums off the tape, `colours` finds what is alike, `coordinates` loops that count it,
`index_maps` where operands lie; `families` puts that together to what `family` describes, as one
of the `guides` prescribes it; `sizes` finds what lists of several lengths have in common.
`forward` and `backward` write the loops, `program` runs them; `containers` says in which matrix a
`Value` stands.
"""
