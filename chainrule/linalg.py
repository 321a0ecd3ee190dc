"""Linear algebra: the Array API standard's `linalg` extension, with `kron` and `solve_triangular`.

Matrices are the last two axes; all leading axes are a batch. Real and complex, float32 and float64;
integers count as float64.
"""

from chainrule.border import with_border as _with_border
from chainrule.ops.contraction import matmul, outer, tensordot, vecdot
from chainrule.ops.linalg.base import MatrixError, diagonal
from chainrule.ops.linalg.determinant import det, slogdet
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
from chainrule.ops.shaping import matrix_transpose

__all__ = [
    "MatrixError",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "kron",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

_with_border(globals())
