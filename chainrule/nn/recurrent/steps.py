"""One step of a recurrence, as a function of the shares of the input and of the state.

Both shares are (B, gates H): a product with the weights of each gate, one beside the other.

Notation: B sequences, H size of the state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chainrule.errors import ConfigError
from chainrule.ops import elementwise as ew
from chainrule.ops.shapes.shaping import split

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
    """i, f, o = sigmoid and g = tanh of four gates of x + share; c' = f c + i g; h' = o tanh(c').

    Hochreiter & Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735.
    """
    c = state[1]
    i, f, g, o = split(x + share, [c.shape[-1]] * 4, axis=-1)
    c = ew.sigmoid(f) * c + ew.sigmoid(i) * ew.tanh(g)
    return ew.sigmoid(o) * ew.tanh(c), c


def gru(x: Any, share: Any, state: States) -> States:
    """r, z = sigmoid of two gates of x + share; n = tanh(x + r share) of the third;
    h' = (1 - z) n + z h."""
    (h,) = state
    sizes = [h.shape[-1]] * 3
    r, z, n = split(x, sizes, axis=-1)
    hr, hz, hn = split(share, sizes, axis=-1)
    n = ew.tanh(n + ew.sigmoid(r + hr) * hn)
    z = ew.sigmoid(z + hz)
    return (n + z * (h - n),)
