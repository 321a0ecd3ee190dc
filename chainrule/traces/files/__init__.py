"""Traces as JSON: written whole or not at all, read with every part checked.

    {"format": "chainrule trace", "version": 1, "name": …, "lines": {…},
     "arrays": [{"dtype": …, "shape": […], "data": base64}, …],
     "nodes": [{"kind": …, "op": …, "inputs": […], "value": array number | summary | null, …}, …],
     "sweeps": [{"result": …, "seed": …, "messages": […], "gradients": {node: …},
                 "more": {node: seed}}, …]}

Equal arrays are written once. Numbers are little-endian; bool, float16 and bfloat16 are widened to
uint8 and float32, complex numbers to pairs of float64.
"""

from chainrule.traces.files.reading import from_json as from_json
from chainrule.traces.files.reading import read_trace as read_trace
from chainrule.traces.files.writing import to_dict as to_dict
from chainrule.traces.files.writing import to_json as to_json
