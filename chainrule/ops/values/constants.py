"""Numbers that values and derivatives of the elementwise table share."""

import math

GATE_SCALE = 2 * math.sqrt(2 / math.pi)
GATE_SCALE_REST = -9.96930880911092e-17
"""What is missing in `GATE_SCALE`."""
TANH_CUBIC = 0.044715  # Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2
GATE_END = 30.0
"""Beyond it the gate of GELU's tanh form is 0 or 1, and its slope 0, in every dtype."""
GATE_UP_BITS = 17
GATE_UP = 2.0**GATE_UP_BITS
"""What the density of that gate is multiplied by: it is subnormal where multiples of it are not."""
MISH_END = 1e3
"""Beyond it the slope of mish is 0 or 1 in every dtype."""
