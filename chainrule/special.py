"""Special functions, by SciPy's and PyTorch's names."""
# ruff: noqa: I001  (one list of names for each module; `name as name` is what makes them public)

from chainrule.engine.border import with_border as _with_border
from chainrule.names.numpy_names import special_advice as _special_advice
from chainrule.names.spellings import missing_name_getter as _missing_name_getter
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
from chainrule.ops.reductions.norms import logsumexp as logsumexp
from chainrule.ops.special.bessel import (
    airy_ai as airy_ai,
    i0 as i0,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
    iv as iv,
    ive as ive,
    j0 as j0,
    j1 as j1,
    jv as jv,
    k0 as k0,
    k0e as k0e,
    k1 as k1,
    k1e as k1e,
    kv as kv,
    kve as kve,
    spherical_jn as spherical_jn,
    y0 as y0,
    y1 as y1,
    yv as yv,
)
from chainrule.ops.special.incomplete import (
    betainc as betainc,
    betaincc as betaincc,
    gammainc as gammainc,
    gammaincc as gammaincc,
    zeta as zeta,
)
from chainrule.ops.special.polynomials import (
    chebyshev_polynomial_t as chebyshev_polynomial_t,
    chebyshev_polynomial_u as chebyshev_polynomial_u,
    chebyshev_polynomial_v as chebyshev_polynomial_v,
    chebyshev_polynomial_w as chebyshev_polynomial_w,
    hermite_polynomial_h as hermite_polynomial_h,
    hermite_polynomial_he as hermite_polynomial_he,
    laguerre_polynomial_l as laguerre_polynomial_l,
    legendre_polynomial_p as legendre_polynomial_p,
    shifted_chebyshev_polynomial_t as shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u as shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v as shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w as shifted_chebyshev_polynomial_w,
)
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
    bessel_j0 as bessel_j0,
    bessel_j1 as bessel_j1,
    bessel_y0 as bessel_y0,
    bessel_y1 as bessel_y1,
    expit as expit,
    gammaln as gammaln,
    modified_bessel_i0 as modified_bessel_i0,
    modified_bessel_i1 as modified_bessel_i1,
    modified_bessel_k0 as modified_bessel_k0,
    modified_bessel_k1 as modified_bessel_k1,
    psi as psi,
    scaled_modified_bessel_k0 as scaled_modified_bessel_k0,
    scaled_modified_bessel_k1 as scaled_modified_bessel_k1,
    spherical_bessel_j0 as spherical_bessel_j0,
)

_with_border(globals())
__getattr__ = _missing_name_getter(__name__, _special_advice)
