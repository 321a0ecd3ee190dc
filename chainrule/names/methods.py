"""The methods of a tensor that are functions: `x.cumsum(0)` is `cr.cumsum(x, 0)`.

A method is its function, said once: the same arguments after the first, docstring and errors. Here
stand the methods of PyTorch's tensors and NumPy's arrays that mean what a public function of ours
means, in the form `method` or `method=function`, by the module that has the function.
`engine/methods/making.py` makes them. What means something else here, or in NumPy than in PyTorch,
is no method but an error that says what to write (`spellings`).
"""

from __future__ import annotations

FORMS = "chainrule.engine.methods.forms"
"""Methods whose arguments are written otherwise than those of a function."""
CAST = "astype"
"""In the place of a module: the method converts to the dtype that stands for the function."""

_NAMES = {
    "chainrule": """
abs absolute=abs acos arccos=acos acosh arccosh=acosh add addmm all allclose amax=max amin=min
angle any argmax argmin argsort asin arcsin=asin asinh arcsinh=asinh astype atan arctan=atan
atan2 arctan2=atan2 atanh arctanh=atanh bincount bitwise_and bitwise_left_shift
bitwise_not=bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil chunk clip clamp=clip
clamp_max=at_most clamp_min=at_least conj conj_physical=conj conjugate=conj copysign corrcoef cos
cosh count_nonzero cov cummax cummin cumprod cumsum deg2rad diag diag_embed diagonal_scatter diff
digamma dist div divide eq=equal erf erfc erfinv exp exp2 expm1 fix=trunc flatten floor
floor_divide fmax fmin fmod frac gather ge=greater_equal ger=outer greater greater_equal gt=greater
heaviside histc histogram hypot i0 index_add index_copy index_fill index_put index_reduce
index_select inner isclose isfinite isinf isnan istft kthvalue ldexp le=less_equal lerp less
less_equal lgamma log log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logical_and
logical_not logical_or logical_xor logit logsumexp lt=less masked_fill masked_scatter masked_select
matmul bmm=matmul mm=matmul mv=matmul max maximum mean min minimum mode moveaxis movedim=moveaxis
mul multiply mvlgamma=multigammaln nan_to_num nanmean nanquantile nansum narrow ne=not_equal neg
negative nextafter norm not_equal outer positive pow prod quantile rad2deg ravel=flatten reciprocal
relu remainder renorm repeat_interleave=repeat roll rot90 round rsqrt scatter scatter_add
scatter_reduce searchsorted select select_scatter sgn=sign sigmoid sign signbit sin sinc sinh
slice_scatter softmax split split_with_sizes=split sqrt square std stft sub subtract sum swapaxes
swapdims=swapaxes take tan tanh tensor_split topk tril triu true_divide=divide trunc
unbind=unstack unflatten unique=unique_values unique_consecutive unsqueeze=expand_dims var
vdot=vecdot xlogy real imag
""",
    "chainrule.linalg": """
cholesky cholesky_inverse cholesky_solve det inverse=inv kron matrix_exp matrix_power pinverse=pinv
qr slogdet
""",
    "chainrule.special": "igamma=gammainc igammac=gammaincc",
    "chainrule.nn.functional": "hardshrink prelu",
    "chainrule.nn.init": "normal_ uniform_",
    FORMS: """
H mH adjoint addcdiv addcmul copy clone=copy transpose t dot squeeze diagonal trace where polygamma
reshape view=reshape permute_dims permute=permute_dims flip tile broadcast_to expand
view_as=reshape_as reshape_as expand_as unfold
to type_as cpu contiguous numel nelement=numel dim ndimension=dim itemsize element_size
is_floating_point is_complex new_zeros new_ones new_empty new_full new_tensor
""",
    CAST: """
float=float32 double=float64 half=float16 bfloat16 int=int32 long=int64 short=int16 char=int8
byte=uint8 bool cfloat=complex64 cdouble=complex128
""",
}

PROPERTIES = frozenset({"real", "imag", "H", "mH", "itemsize"})
"""What is asked for without a call."""


def _read(table: dict[str, str]) -> dict[str, tuple[str, str]]:
    rows: dict[str, tuple[str, str]] = {}
    for home, words in table.items():
        for word in words.split():
            name, _, function = word.partition("=")
            rows[name] = home, function or name
    return rows


METHODS = _read(_NAMES)
"""By method, the module that has its function, and the function's name."""

_IN_PLACE = """
abs absolute acos acosh add addcdiv addcmul addmm arccos arccosh arcsin arcsinh arctan arctan2
arctanh asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min clip conj_physical copy copysign cos
cosh cumprod cumsum deg2rad digamma div divide eq erf erfc erfinv exp exp2 expm1 fill fix floor
floor_divide fmod frac ge greater greater_equal gt heaviside hypot i0 igamma igammac index_add
index_copy index_fill index_put index_reduce ldexp le lerp less less_equal lgamma log log10 log1p
log2 logical_and logical_not logical_or logical_xor logit lt masked_fill masked_scatter mul multiply
mvlgamma nan_to_num ne neg negative nextafter not_equal polygamma pow rad2deg reciprocal relu
remainder renorm round rsqrt scatter scatter_add scatter_reduce sgn sigmoid sign sin sinc sinh sqrt
square sub subtract tan tanh tril triu true_divide trunc xlogy zero
"""
IN_PLACE = frozenset(_IN_PLACE.split())
"""Methods `name_` that assign what `name` gives: `x.add_(y)` is `x[...] = x.add(y)`, and x."""
