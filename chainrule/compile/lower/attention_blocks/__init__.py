"""Kernels that go over the same rows, run for a block of rows at a time: a pass over loops.

    for h < 12:                                  for h < 12:
      s[h] = q[h] @ k[h].T                         for c < 8:
    for h < 12: for i < 1024:          becomes       s = q[h, rows of c] @ k[h].T
      p[h, i] = softmax(s[h, i])                     for i < 128: p[i] = softmax(s[i])
    for h < 12:                                      o[h, rows of c] = p @ v[h]
      o[h] = p[h] @ v[h]

What lies between the products, (T, T) for each head of attention, is memory for one block then. A
band is one kernel of rows, the calls of BLAS that make what it reads, and those that read what it
writes. They give rows, or sums over rows, which add up over the blocks.

Notation: `leads` the counters of the loops around all, `row` the counter of the rows.
"""
