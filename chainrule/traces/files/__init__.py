"""Traces as JSON: written whole or not at all, read with every part checked.

    {"format": "chainrule trace", "version": 1, "name": …, "lines": {…},
     "arrays": [{"dtype": …, "shape": […], "data": base64}, …], "numbers": base64,
     "nodes": [{"kind": …, "op": …, "inputs": […], "value": kept, …}, …],
     "sweeps": [{"result": …, "seed": kept, "messages": […], "gradients": {node: kept},
                 "more": {node: kept}, "certificates": {node: …}}, …]}

What is kept of an array is its number in the table, a summary, or null. Equal arrays are written
once. Single numbers of float64 are in a table of their own, as one array: -1 is the first, -2 the
second. Empty texts are left out, and what is false. Numbers are little-endian; bool, float16 and
bfloat16 are widened to uint8 and float32, complex numbers to pairs of float64.
"""

from chainrule.traces.files.reading import from_json as from_json
from chainrule.traces.files.reading import read_trace as read_trace
from chainrule.traces.files.writing import to_dict as to_dict
from chainrule.traces.files.writing import to_json as to_json
