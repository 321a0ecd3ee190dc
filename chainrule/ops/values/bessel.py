"""Values of Bessel and Airy functions where SciPy's function is not the value of a row.

I1, the derivative of I0, has up to 8 the digits that SciPy's lacks: there SciPy's is off by 15
units, and 0 of very small numbers.
"""

# NumPy says little of what comes out of expressions of arrays of any dtype.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.engine.dtypes import check_real, float64
from chainrule.ops.values.double_digits import polynomial
from chainrule.ops.values.floating import floating
from chainrule.ops.values.special_coefficients import I1_NEAR
from chainrule.ops.values.special_functions import special_function

_NEAR = 8.0


@floating
def i1(x: Any) -> Any:
    """x / 2 (1 + z p(z)), z = x^2 / 4: DLMF 10.25.2; SciPy's beyond 8. Computed in float64."""
    wide = x.astype(float64)
    far = special_function("i1", "i1")(wide)
    near = np.clip(wide, -_NEAR, _NEAR)
    z = 0.25 * near * near
    y = np.where(np.abs(wide) < _NEAR, 0.5 * near * (1 + z * polynomial(z, I1_NEAR)), far)
    return (y + 0.0).astype(x.dtype)  # 0 at -0, as in SciPy


def airy(x: Any, which: int) -> Any:
    """Ai, or its derivative; SciPy computes both at once, and Bi with them."""
    check_real("airy_ai", x)
    dtype = np.result_type(x)
    label = ("airy_ai", "airy_ai_slope")[which]
    y = special_function("airy", label)(np.asarray(x, float64))[which]
    return y.astype(dtype if dtype.kind == "f" else float64)
