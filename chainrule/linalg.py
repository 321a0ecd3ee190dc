"""Linear algebra: the Array API standard's `linalg` extension, and functions of PyTorch and SciPy.

Matrices are the last two axes; all leading axes are a batch. Real and complex, float32 and float64;
integers count as float64.
"""

from chainrule.engine.border import with_border as _with_border
from chainrule.names.numpy_names import linalg_advice as _linalg_advice
from chainrule.names.spellings import missing_name_getter as _missing_name_getter
from chainrule.ops.contraction import matmul, outer, tensordot, vecdot
from chainrule.ops.linalg.band_matrices import solve_banded
from chainrule.ops.linalg.base import MatrixError, diagonal
from chainrule.ops.linalg.determinant import det, slogdet
from chainrule.ops.linalg.elimination import lu, lu_factor, lu_solve
from chainrule.ops.linalg.equations import (
    cholesky_inverse,
    cholesky_solve,
    cond,
    householder_product,
    lstsq,
    multi_dot,
    norm,
    tensorinv,
    tensorsolve,
)
from chainrule.ops.linalg.exponential import matrix_exp
from chainrule.ops.linalg.factoring import qr
from chainrule.ops.linalg.functions import (
    cross,
    kron,
    matrix_norm,
    matrix_power,
    matrix_rank,
    trace,
    vector_norm,
)
from chainrule.ops.linalg.general import eig, eigvals
from chainrule.ops.linalg.singular import eigh, eigvalsh, pinv, svd, svdvals
from chainrule.ops.linalg.solving import cholesky, inv, solve, solve_triangular
from chainrule.ops.linalg.sylvester import solve_sylvester, sqrtm
from chainrule.ops.shapes.arranging import vander
from chainrule.ops.shapes.shaping import matrix_transpose

__all__ = [
    "MatrixError",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "kron",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vander",
    "vecdot",
    "vector_norm",
]

_with_border(globals())
__getattr__ = _missing_name_getter(__name__, _linalg_advice)
