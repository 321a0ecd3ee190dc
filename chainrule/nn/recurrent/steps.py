"""One step of a recurrence, as a function of the shares of the input and of the state.

Both shares are (B, gates H): a product with the weights of each gate, one beside the other.

Notation: B sequences, H size of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chainrule.errors import ConfigError
from chainrule.ops import elementwise as ew
from chainrule.ops.networks.recurrent import gru_gates, lstm_gates
from chainrule.ops.shapes.shaping import reshape

States = tuple[Any, ...]
"""The parts of a state: (h,), or (h, c) of an LSTM."""
Step = Callable[[Any, Any, States], States]


def elman(name: str, nonlinearity: str) -> Step:
    """h' = tanh(x + share), or relu. Elman 1990, doi:10.1207/s15516709cog1402_1."""
    if nonlinearity not in ("tanh", "relu"):
        raise ConfigError(f"{name}: nonlinearity is 'tanh' or 'relu', not {nonlinearity!r}")
    f = ew.tanh if nonlinearity == "tanh" else ew.relu
    return lambda x, share, state: (f(x + share),)


def lstm(x: Any, share: Any, state: States) -> States:
    """`lstm_gates` of four gates."""
    return lstm_gates(_gates(x, 4), _gates(share, 4), state[1])


def gru(x: Any, share: Any, state: States) -> States:
    """`gru_gates` of three gates."""
    return (gru_gates(_gates(x, 3), _gates(share, 3), state[0]),)


def _gates(x: Any, count: int) -> Any:
    """(B, gates H) -> (B, gates, H)."""
    return reshape(x, (x.shape[0], count, x.shape[1] // count))
