"""Backpropagation you can see, trust and run at full speed.

An op states its derivative once; everything else is derived from that statement.
"""
# ruff: noqa: I001  (one list of names for each module; `name as name` is what makes them public)

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from chainrule.names import import_hints as _import_hints, public_names as _public_names
from chainrule.names.spellings import no_function as _no_function

if TYPE_CHECKING:  # the table of public names: each is imported when it is first asked for
    from chainrule import (
        amp as amp,
        data as data,
        fft as fft,
        linalg as linalg,
        models as models,
        nn as nn,
        optim as optim,
        parallel as parallel,
        show as show,
        special as special,
    )
    from chainrule.amp import (
        GradScaler as GradScaler,
        autocast as autocast,
    )
    from chainrule.transforms.capturing import capture as capture
    from chainrule.transforms.checkpointing import (
        checkpoint as checkpoint,
        keep_products as keep_products,
    )
    from chainrule.compile.jit import jit as jit
    from chainrule.compile.runtime.threads import (
        get_num_threads as get_num_threads,
        set_num_threads as set_num_threads,
    )
    from chainrule.engine.dtypes import bfloat16 as bfloat16
    from chainrule.explain import (
        first_bad as first_bad,
        leaks as leaks,
        saved_bytes as saved_bytes,
        strict as strict,
        trap_nan as trap_nan,
        who_keeps as who_keeps,
        why as why,
    )
    from chainrule.ops.reductions.finite_differences import gradient as gradient
    from chainrule.ops.reductions.distances import (
        cdist as cdist,
        cosine_similarity as cosine_similarity,
        dist as dist,
        normalize as normalize,
        pairwise_distance as pairwise_distance,
        pdist as pdist,
        renorm as renorm,
    )
    from chainrule.ops.shapes.arranging import (
        addmm as addmm,
        atleast as atleast,
        block_diag as block_diag,
        cartesian_prod as cartesian_prod,
        chunk as chunk,
        column_stack as column_stack,
        corrcoef as corrcoef,
        cov as cov,
        cumulative_trapezoid as cumulative_trapezoid,
        diag as diag,
        dstack as dstack,
        hstack as hstack,
        inner as inner,
        nanmean as nanmean,
        nansum as nansum,
        narrow as narrow,
        rot90 as rot90,
        select as select,
        tensor_split as tensor_split,
        trapezoid as trapezoid,
        unflatten as unflatten,
        vander as vander,
        vstack as vstack,
    )
    from chainrule.ops.indexing.scattering import (
        diag_embed as diag_embed,
        index_add as index_add,
        index_copy as index_copy,
        index_put as index_put,
        index_select as index_select,
        masked_fill as masked_fill,
        masked_select as masked_select,
        put as put,
        scatter as scatter,
    )
    from chainrule.ops.indexing.scatter_reductions import scatter_reduce as scatter_reduce
    from chainrule.ops.closeness import (
        allclose as allclose,
        heaviside as heaviside,
        isclose as isclose,
    )
    from chainrule.ops.indexing.counting import (
        bincount as bincount,
        bucketize as bucketize,
        histc as histc,
        histogram as histogram,
    )
    from chainrule.ops.indexing.index_lists import (
        combinations as combinations,
        tril_indices as tril_indices,
        triu_indices as triu_indices,
        unravel_index as unravel_index,
    )
    from chainrule.ops.indexing.order_statistics import (
        mode as mode,
        nanmedian as nanmedian,
        nanquantile as nanquantile,
    )
    from chainrule.ops.indexing.replacing import (
        diagonal_scatter as diagonal_scatter,
        index_fill as index_fill,
        index_reduce as index_reduce,
        masked_scatter as masked_scatter,
        select_scatter as select_scatter,
        slice_scatter as slice_scatter,
    )
    from chainrule.ops.special.bessel import (
        i0 as i0,
        i0e as i0e,
        i1 as i1,
        i1e as i1e,
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
    from chainrule.ops.signal.convolve import convolve as convolve
    from chainrule.ops.signal.spectrograms import (
        istft as istft,
        stft as stft,
    )
    from chainrule.ops.signal.window_functions import (
        bartlett_window as bartlett_window,
        blackman_window as blackman_window,
        hamming_window as hamming_window,
        hann_window as hann_window,
        kaiser_window as kaiser_window,
    )
    from chainrule.scalar import Value as Value
    from chainrule.transforms.scan import scan as scan
    from chainrule.transforms.while_loop import while_loop as while_loop
    from chainrule.engine.creation import (
        arange as arange,
        empty as empty,
        empty_like as empty_like,
        eye as eye,
        full as full,
        full_like as full_like,
        linspace as linspace,
        logspace as logspace,
        ones as ones,
        ones_like as ones_like,
        zeros as zeros,
        zeros_like as zeros_like,
    )
    from chainrule.engine.dtypes import (
        bool as bool,
        can_cast as can_cast,
        complex64 as complex64,
        complex128 as complex128,
        finfo as finfo,
        float16 as float16,
        float32 as float32,
        float64 as float64,
        iinfo as iinfo,
        int8 as int8,
        int16 as int16,
        int32 as int32,
        int64 as int64,
        isdtype as isdtype,
        result_type as result_type,
        uint8 as uint8,
        uint16 as uint16,
        uint32 as uint32,
        uint64 as uint64,
    )
    from chainrule.errors import (
        ChainruleError as ChainruleError,
        ConfigError as ConfigError,
        DtypeError as DtypeError,
        GradientError as GradientError,
        IndexingError as IndexingError,
        MissingPackageError as MissingPackageError,
        ShapeError as ShapeError,
        TraceError as TraceError,
    )
    from chainrule.engine.function import Function as Function
    from chainrule.transforms.functional import (
        enable_grad as enable_grad,
        grad as grad,
        hvp as hvp,
        jvp as jvp,
        no_grad as no_grad,
        op_by_op as op_by_op,
        value_and_grad as value_and_grad,
        vjp as vjp,
    )
    from chainrule.transforms.jacobians import hessian as hessian, jacobian as jacobian
    from chainrule.interop.dlpack import from_dlpack as from_dlpack
    from chainrule.interop.safetensors import (
        load_file as load_file,
        save_file as save_file,
    )
    from chainrule.interop.standard import (
        __array_api_version__ as __array_api_version__,
        __array_namespace_info__ as __array_namespace_info__,
        astype as astype,
        broadcast_shapes as broadcast_shapes,
        divide as divide,
        e as e,
        inf as inf,
        meshgrid as meshgrid,
        multiply as multiply,
        nan as nan,
        negative as negative,
        pi as pi,
        repeat as repeat,
        round as round,
        subtract as subtract,
    )
    from chainrule.ops.complex import (
        angle as angle,
        complex as complex,
        conj as conj,
        imag as imag,
        polar as polar,
        real as real,
        sign as sign,
        view_as_complex as view_as_complex,
        view_as_real as view_as_real,
    )
    from chainrule.ops.losses.common_losses import (
        binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
        cross_entropy as cross_entropy,
        mse_loss as mse_loss,
    )
    from chainrule.ops.networks.composite import (
        dropout as dropout,
        elu as elu,
        embedding as embedding,
        gelu as gelu,
        layer_norm as layer_norm,
        leaky_relu as leaky_relu,
        log_softmax as log_softmax,
        rms_norm as rms_norm,
        scaled_dot_product_attention as scaled_dot_product_attention,
        silu as silu,
        softmax as softmax,
    )
    from chainrule.ops.networks.linear import linear as linear
    from chainrule.ops.contraction import (
        einsum as einsum,
        matmul as matmul,
        outer as outer,
        tensordot as tensordot,
        vecdot as vecdot,
    )
    from chainrule.ops.elementwise import (
        abs as abs,
        acos as acos,
        acosh as acosh,
        add as add,
        asin as asin,
        asinh as asinh,
        at_least as at_least,
        at_most as at_most,
        atan as atan,
        atan2 as atan2,
        atanh as atanh,
        bitwise_and as bitwise_and,
        bitwise_invert as bitwise_invert,
        bitwise_left_shift as bitwise_left_shift,
        bitwise_or as bitwise_or,
        bitwise_right_shift as bitwise_right_shift,
        bitwise_xor as bitwise_xor,
        cbrt as cbrt,
        ceil as ceil,
        copysign as copysign,
        cos as cos,
        cosh as cosh,
        div as div,
        equal as equal,
        erf as erf,
        erfc as erfc,
        exp as exp,
        exp2 as exp2,
        expm1 as expm1,
        floor as floor,
        floor_divide as floor_divide,
        gelu_erf as gelu_erf,
        gelu_tanh as gelu_tanh,
        greater as greater,
        greater_equal as greater_equal,
        hypot as hypot,
        isfinite as isfinite,
        isinf as isinf,
        isnan as isnan,
        less as less,
        less_equal as less_equal,
        log as log,
        log1p as log1p,
        log2 as log2,
        log10 as log10,
        logaddexp as logaddexp,
        logical_and as logical_and,
        logical_not as logical_not,
        logical_or as logical_or,
        logical_xor as logical_xor,
        maximum as maximum,
        minimum as minimum,
        mul as mul,
        neg as neg,
        nextafter as nextafter,
        not_equal as not_equal,
        positive as positive,
        pow as pow,
        reciprocal as reciprocal,
        relu as relu,
        remainder as remainder,
        sigmoid as sigmoid,
        signbit as signbit,
        sin as sin,
        sinh as sinh,
        softplus as softplus,
        sqrt as sqrt,
        square as square,
        sub as sub,
        tan as tan,
        tanh as tanh,
        trunc as trunc,
    )
    from chainrule.ops.shapes.padding import pad as pad
    from chainrule.ops.reductions.reduction import (
        all as all,
        any as any,
        argmax as argmax,
        argmin as argmin,
        count_nonzero as count_nonzero,
        max as max,
        mean as mean,
        min as min,
        prod as prod,
        sum as sum,
    )
    from chainrule.ops.reductions.variances import std as std, var as var
    from chainrule.ops.reductions.norms import logsumexp as logsumexp, norm as norm
    from chainrule.ops.reductions.scan import (
        cummax as cummax,
        cummin as cummin,
        cumprod as cumprod,
        cumsum as cumsum,
        cumulative_prod as cumulative_prod,
        cumulative_sum as cumulative_sum,
        logcumsumexp as logcumsumexp,
    )
    from chainrule.ops.indexing.scattering import (
        diff as diff,
        tril as tril,
        triu as triu,
    )
    from chainrule.ops.indexing.selection import (
        clip as clip,
        gather as gather,
        one_hot as one_hot,
        scatter_add as scatter_add,
        take as take,
        take_along_axis as take_along_axis,
        where as where,
    )
    from chainrule.ops.indexing.index_arrays import nonzero as nonzero
    from chainrule.ops.indexing.sets import (
        isin as isin,
        unique_all as unique_all,
        unique_consecutive as unique_consecutive,
        unique_counts as unique_counts,
        unique_inverse as unique_inverse,
        unique_values as unique_values,
    )
    from chainrule.ops.shapes.shaping import (
        broadcast_arrays as broadcast_arrays,
        broadcast_to as broadcast_to,
        expand_dims as expand_dims,
        flatten as flatten,
        matrix_transpose as matrix_transpose,
        moveaxis as moveaxis,
        permute_dims as permute_dims,
        reshape as reshape,
        squeeze as squeeze,
        swapaxes as swapaxes,
    )
    from chainrule.ops.shapes.joining import roll as roll
    from chainrule.ops.shapes.slices import flip as flip
    from chainrule.ops.shapes.joining import (
        concat as concat,
        split as split,
        stack as stack,
        tile as tile,
        unstack as unstack,
    )
    from chainrule.ops.indexing.sorting import (
        argsort as argsort,
        kthvalue as kthvalue,
        median as median,
        quantile as quantile,
        searchsorted as searchsorted,
        sort as sort,
        topk as topk,
    )
    from chainrule.progress.tracking import Track as Track, track as track
    from chainrule.random import (
        Generator as Generator,
        manual_seed as manual_seed,
    )
    from chainrule.engine.tensors import (
        Tensor as Tensor,
        asarray as asarray,
        tensor as tensor,
    )
    from chainrule.traces.record import record as record
    from chainrule.traces.trace import Trace as Trace
    from chainrule.tree import tree_map as tree_map
    from chainrule.version import __version__ as __version__
    from chainrule.transforms.vectorize import vmap as vmap

_import_hints.answer_imports()

newaxis = None
"""The standard's name for None in an index: a new axis."""


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _public_names.star(__name__)
    if name in _public_names.imports_of(__name__):
        found = globals()[name] = _public_names.load(__name__, name)
        return found
    if _public_names.is_module(__name__, name):
        return _import_module(f"{__name__}.{name}")
    raise _no_function(name)


def __dir__() -> list[str]:
    return [*_public_names.names(__name__)]
