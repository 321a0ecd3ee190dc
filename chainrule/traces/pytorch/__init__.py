"""Records PyTorch's programs: nodes are those of its autograd graph, as chainrule's are of ours.

`calls` sees which call of PyTorch's made a node, with its operands; `graph` numbers nodes, values
and constants; `sweeps` watches backward passes; `locals` finds local derivatives; `recorder` puts
them together.
"""

from chainrule.traces.pytorch.recorder import TorchRecorder as TorchRecorder
