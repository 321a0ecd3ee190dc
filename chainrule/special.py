"""Special functions, by SciPy's and PyTorch's names."""
# ruff: noqa: I001  (one list of names for each module; `name as name` is what makes them public)

from chainrule.border import with_border as _with_border
from chainrule.interop.standard import round as round
from chainrule.ops.networks.composite import (
    log_softmax as log_softmax,
    softmax as softmax,
)
from chainrule.ops.elementwise import (
    erf as erf,
    erfc as erfc,
    exp2 as exp2,
    expm1 as expm1,
    log1p as log1p,
)
from chainrule.ops.reductions.reduction import logsumexp as logsumexp
from chainrule.ops.special.table import (
    deg2rad as deg2rad,
    digamma as digamma,
    entr as entr,
    erfcx as erfcx,
    erfinv as erfinv,
    fmax as fmax,
    fmin as fmin,
    fmod as fmod,
    frac as frac,
    i0 as i0,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
    ldexp as ldexp,
    lerp as lerp,
    lgamma as lgamma,
    log_ndtr as log_ndtr,
    logaddexp2 as logaddexp2,
    logit as logit,
    multigammaln as multigammaln,
    nan_to_num as nan_to_num,
    ndtr as ndtr,
    ndtri as ndtri,
    polygamma as polygamma,
    rad2deg as rad2deg,
    rsqrt as rsqrt,
    sinc as sinc,
    xlog1py as xlog1py,
    xlogy as xlogy,
)
from chainrule.ops.special.names import (
    expit as expit,
    gammaln as gammaln,
    modified_bessel_i0 as modified_bessel_i0,
    modified_bessel_i1 as modified_bessel_i1,
    psi as psi,
    spherical_bessel_j0 as spherical_bessel_j0,
)

_with_border(globals())
