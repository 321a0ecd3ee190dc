"""Incomplete gamma and beta functions and Hurwitz's zeta function: rows of the op table, on SciPy's
values.

Formulas: NIST Digital Library of Mathematical Functions (dlmf.nist.gov), chapters 8 (incomplete
gamma and beta functions) and 25 (zeta). They are differentiated by x and q alone, at any order.
"""

# The rows' lambdas have no annotations: that is the table's form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from chainrule.ops.elementwise import log, log1p
from chainrule.ops.families import elementwise as op
from chainrule.ops.rows import NotOffered
from chainrule.ops.special.table import digamma
from chainrule.ops.values import beta as beta_values
from chainrule.ops.values import gamma as values
from chainrule.ops.values.special_functions import scipy_value

# fmt: off
# the shares of a gamma distribution below x and above it, of shape a: DLMF 8.2.4, 8.8.13
gammainc  = op(scipy_value("gammainc"), NotOffered("gammainc(a, x) by the shape a"), lambda a, b: gamma_density(a, b), name="gammainc", singular=True)
gammaincc = op(scipy_value("gammaincc"), NotOffered("gammaincc(a, x) by the shape a"), lambda a, b: -gamma_density(a, b), name="gammaincc", singular=True)
gamma_density = op(values.gamma_density, lambda y, a, b: y * (log(b) - digamma(a)), lambda a, b: gamma_density(a, b) * ((a - 1 - b) / b), name="gamma_density", singular=True)

# the shares of a beta distribution below x and above it, of shapes a and b: DLMF 8.17.2, 8.17.4
betainc   = op(scipy_value("betainc"), NotOffered("betainc(a, b, x) by the shape a"), NotOffered("betainc(a, b, x) by the shape b"), lambda a, b, c: beta_density(a, b, c), name="betainc", singular=True)
betaincc  = op(scipy_value("betaincc"), NotOffered("betaincc(a, b, x) by the shape a"), NotOffered("betaincc(a, b, x) by the shape b"), lambda a, b, c: -beta_density(a, b, c), name="betaincc", singular=True)
beta_density = op(beta_values.beta_density, lambda y, a, b, c: y * (log(c) - digamma(a) + digamma(a + b)), lambda y, a, b, c: y * (log1p(-c) - digamma(b) + digamma(a + b)), lambda a, b, c: beta_density(a, b, c) * ((a - 1) / c - (b - 1) / (1 - c)), name="beta_density", singular=True)

# DLMF 25.11.17: the derivative by q
zeta = op(scipy_value("zeta"), NotOffered("zeta(s, q) by the exponent s"), lambda a, b: -a * zeta(a + 1, b), name="zeta", singular=True)
# fmt: on
