"""NumPy's and SciPy's names that do not exist here, and what to write: most are taken as they are.

`x` and `y` are arrays, `n` is a number. Names that PyTorch has too stand in `spellings`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from chainrule.names.public_names import imports_of
from chainrule.optional import is_installed

_LOG_BETA = "cr.lgamma(x) + cr.lgamma(y) - cr.lgamma(x + y)"
SPECIAL: dict[str, str] = {
    "loggamma": "cr.lgamma(x)", "gamma": "cr.exp(cr.lgamma(x))",
    "factorial": "cr.exp(cr.lgamma(x + 1))", "poch": "cr.exp(cr.lgamma(x + y) - cr.lgamma(x))",
    "comb": "cr.exp(cr.lgamma(x + 1) - cr.lgamma(y + 1) - cr.lgamma(x - y + 1))",
    "betaln": _LOG_BETA, "beta": f"cr.exp({_LOG_BETA})", "rel_entr": "cr.xlogy(x, x / y)",
    "kl_div": "cr.xlogy(x, x / y) - x + y", "boxcox": "cr.expm1(y * cr.log(x)) / y",
    "boxcox1p": "cr.expm1(y * cr.log1p(x)) / y",
}  # fmt: skip
"""Of `scipy.special`, for positive arguments: expressions, of which a test runs each."""
LINALG: dict[str, str] = {
    "expm": "cr.linalg.matrix_exp(x)", "cho_factor": "cr.linalg.cholesky(x)",
    "cho_solve": "cr.linalg.cholesky_solve(y, cr.linalg.cholesky(x))",
    "block_diag": "cr.block_diag(x, y)",
}  # fmt: skip
"""Of `scipy.linalg`: expressions, of which a test runs each."""
INITIALIZERS: dict[str, str] = {
    "glorot_normal": "xavier_normal_(x)", "glorot_uniform": "xavier_uniform_(x)",
    "he_normal": "kaiming_normal_(x)", "he_uniform": "kaiming_uniform_(x)",
    "lecun_normal": 'kaiming_normal_(x, nonlinearity="linear")',
    "lecun_uniform": 'kaiming_uniform_(x, nonlinearity="linear")',
    "variance_scaling": "kaiming_normal_(x)", "truncated_normal": "trunc_normal_(x)",
    "delta_orthogonal": "orthogonal_(x)",
}  # fmt: skip
"""Of `jax.nn.initializers`, whose functions fill no array: expressions of `nn.init`."""


def numpy_advice(name: str) -> str | None:
    """What to do about a name of NumPy's that nothing here answers; None if it is none."""
    if name in SPECIAL or name in LINALG:
        return f"write {SPECIAL.get(name) or LINALG[name]}"
    found: Any = vars(import_module("numpy")).get(name) if is_installed("numpy") else None
    if found is None:
        return None
    if isinstance(found, type) or not callable(found):
        return f"write np.{name}"
    if import_module("chainrule.interop.numpy").takes_tensors(found):
        return f"write np.{name}, which takes tensors"
    return f"write np.{name}, outside the graph: it has no gradient"


def special_advice(name: str) -> str | None:
    """What to do about a name of SciPy's (or JAX's) `special`; None if it is none."""
    return _scipy_advice("special", name, SPECIAL)


def linalg_advice(name: str) -> str | None:
    """What to do about a name of SciPy's (or JAX's) `linalg`; None if it is none."""
    return _scipy_advice("linalg", name, LINALG)


def _scipy_advice(part: str, name: str, written: dict[str, str]) -> str | None:
    if name in written:
        return f"write {written[name]}"
    if name in imports_of("chainrule"):
        return f"write cr.{name}"
    if is_installed("scipy") and name in import_module(f"scipy.{part}").__all__:
        return f"write scipy.{part}.{name}, outside the graph: it has no gradient"
    return None


def initializer_advice(name: str) -> str | None:
    """What to do about a name of `jax.nn.initializers`, or a PyTorch name without its `_`."""
    if name in INITIALIZERS:
        return f"write nn.init.{INITIALIZERS[name]}"
    there = f"{name.removesuffix('_')}_" in import_module("chainrule.nn.init").__all__
    return f"it fills its argument: write nn.init.{name}_(x)" if there else None
