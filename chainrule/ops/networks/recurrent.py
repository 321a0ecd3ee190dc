"""What a step of a recurrent layer does once the products with its weights are made.

Notation: B sequences, H size of the state; gates lie beside each other, (B, gates, H).
"""

from __future__ import annotations

from typing import Any

from chainrule.ops import elementwise as ew
from chainrule.ops.fusing import fused
from chainrule.ops.shapes.joining import unstack


@fused("lstm", x="N4H", share="N4H", c="NH", to=("NH", "NH"))
def lstm_gates(x: Any, share: Any, c: Any) -> tuple[Any, Any]:
    """The next (h, c): i, f, o = sigmoid and g = tanh of four gates of x + share;
    c' = f c + i g; h' = o tanh(c').

    Shapes: (B, 4, H), (B, 4, H), (B, H) -> (B, H), (B, H).
    Hochreiter & Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735.
    """
    i, f, g, o = unstack(x + share, axis=-2)
    c = ew.sigmoid(f) * c + ew.sigmoid(i) * ew.tanh(g)
    return ew.sigmoid(o) * ew.tanh(c), c


@fused("gru", x="N3H", share="N3H", h="NH", to="NH")
def gru_gates(x: Any, share: Any, h: Any) -> Any:
    """The next h: r, z = sigmoid of two gates of x + share; n = tanh(x + r share) of the third;
    h' = (1 - z) n + z h.

    Shapes: (B, 3, H), (B, 3, H), (B, H) -> (B, H).
    Cho et al. 2014, arXiv:1406.1078.
    """
    r, z, n = unstack(x, axis=-2)
    hr, hz, hn = unstack(share, axis=-2)
    n = ew.tanh(n + ew.sigmoid(r + hr) * hn)
    z = ew.sigmoid(z + hz)
    return n + z * (h - n)
