"""JAX's names that do not exist here, and what to write: errors and docs/jax_names.md say it.

`x`, `y`, `w` are arrays, `f`, `g` and `body` functions, `p` is a condition, `i` and `n` are
integers. Names of NumPy's, which `jax.numpy` has too, stand in `spellings`.
"""

from __future__ import annotations

from chainrule.names.not_offered import Family

TREES: dict[str, str] = {
    "map": "cr.tree_map(f, tree)", "leaves": "cr.tree.flatten(tree)[0]",
    "structure": "cr.tree.flatten(tree)[1]", "flatten": "cr.tree.flatten(tree)",
    "unflatten": "structure.unflatten(leaves)", "all": "all(cr.tree.flatten(tree)[0])",
    "reduce": "functools.reduce(f, cr.tree.flatten(tree)[0])",
}  # fmt: skip
"""Of `jax.tree`, and with `tree_` before it of `jax.tree_util`: expressions, a test runs each."""

FUNCTIONS: dict[str, str] = {
    **{f"tree_{name}": written for name, written in TREES.items()},
    "jacrev": 'cr.jacobian(f, mode="reverse")', "jacfwd": 'cr.jacobian(f, mode="forward")',
    "stop_gradient": "cr.asarray(x).detach()", "linear_transpose": "cr.vjp(f, x)[1]",
    "linearize": "cr.jvp(f, (x,), (y,))", "fwd_and_bwd": "cr.vjp(f, x)",
    "remat": "cr.checkpoint(f)(x)", "softmax_custom_jvp": "cr.softmax(x)",
    "device_get": "x.detach().numpy()", "device_put": "cr.asarray(x)",
    "fori_loop": "cr.scan(lambda x, i: (body(i, x), None), x, cr.arange(low, high))[0]",
    "map": "cr.vmap(f)(x)", "transpose": "cr.permute_dims(x, axes)",
    "bessel_i0e": "cr.i0e(x)", "bessel_i1e": "cr.i1e(x)", "erf_inv": "cr.erfinv(x)",
    "is_finite": "cr.isfinite(x)", "logistic": "cr.sigmoid(x)", "integer_pow": "x**n",
    "rem": "cr.fmod(x, y)", "cumlogsumexp": "cr.logcumsumexp(x, axis)",
    "broadcast": "cr.broadcast_to(x, shape)", "broadcast_in_dim": "cr.broadcast_to(x, shape)",
    "broadcast_like": "cr.broadcast_to(x, y.shape)", "broadcast_to_rank": "cr.atleast(x, n)",
    "iota": "cr.arange(n)", "broadcasted_iota": "cr.broadcast_to(cr.arange(n), (n, n))",
    "collapse": "x.reshape(shape)", "rev": "cr.flip(x, axis=axis)",
    "convert_element_type": "x.astype(dtype)",
    "bitcast_convert_type": "x.detach().numpy().view(dtype)",
    "reduce_precision": "x.astype(dtype).astype(x.dtype)",
    "dot_general": "cr.tensordot(x, w, axes=1)", "batch_matmul": "x @ w", "ragged_dot": "x @ w",
    "ragged_dot_general": "x @ w", "scaled_dot": "x @ w",
    "dynamic_slice": "x[i : i + n]", "dynamic_slice_in_dim": "x[i : i + n]",
    "slice": "x[low:high]", "slice_in_dim": "x[low:high]", "ds": "x[i : i + n]",
    "dynamic_index_in_dim": "x[i]", "index_in_dim": "x[i]",
    "dynamic_update_slice": "x[i : i + 1] = y", "dynamic_update_slice_in_dim": "x[i : i + 1] = y",
    "dynamic_update_index_in_dim": "x[i] = y", "index_take": "cr.take(x, indices, axis=axis)",
    "reduce_sum": "x.sum(axis)", "reduce_prod": "x.prod(axis)", "reduce_max": "x.max(axis)",
    "reduce_min": "x.min(axis)", "reduce_and": "x.all(axis)", "reduce_or": "x.any(axis)",
    "reduce_xor": "np.bitwise_xor.reduce(i.numpy(), axis)",
    "select_n": "cr.where(p, y, x)", "top_k": "cr.topk(x, k)", "approx_max_k": "cr.topk(x, k)",
    "approx_min_k": "cr.topk(x, k, largest=False)",
    "sort_key_val": "cr.sort(x), cr.take_along_axis(y, cr.argsort(x), -1)",
    "shift_left": "i << n", "shift_right_arithmetic": "i >> n",
    "shift_right_logical": "i.astype(cr.uint64) >> n",
    "population_count": "np.bitwise_count(i.numpy())",
    "rng_uniform": "cr.Generator(seed).uniform(shape, low=low, high=high)",
    "rng_bit_generator": "cr.Generator(seed).integers(low, high, shape)",
}  # fmt: skip
"""Of `jax`, `jax.lax` and `jax.tree_util`: expressions, of which a test runs each."""

LAYERS: dict[str, str] = {
    "swish": "nn.functional.silu(x)", "hard_silu": "nn.functional.hardswish(x)",
    "identity": "nn.Identity()", "log1mexp": "cr.log1p(-cr.exp(-cr.abs(x)))",
    "logsumexp": "cr.logsumexp(x, axis)",
    "logmeanexp": "cr.logsumexp(x, axis) - cr.log(x.shape[axis])",
    "standardize": "nn.functional.layer_norm(x)", "squareplus": "(x + cr.sqrt(x**2 + 4)) / 2",
    "sparse_plus": "cr.where(x < 1, cr.relu(x + 1) ** 2 / 4, x)",
    "sparse_sigmoid": "cr.clip((x + 1) / 2, 0, 1)", "initializers": "nn.init",
    "dot_product_attention":
        "nn.functional.scaled_dot_product_attention(q, k, v), with the axes (B, heads, T, C)",
    "scaled_matmul": "x @ w", "scaled_dot_general": "x @ w",
    "get_scaled_dot_general_config": "x @ w",
}  # fmt: skip
"""Of `jax.nn`, besides functions that differ in underscores: expressions; a test runs each."""

ARRAYS: dict[str, str] = {
    "at": "x[i] = y", "argpartition": "cr.argsort(x)", "ptp": "x.max(axis) - x.min(axis)",
    "flat": "x.flatten()", "compress": "x[mask]", "fill": "x.fill_(value)",
    "partition": "cr.sort(x)", "tofile": "x.detach().numpy().tofile(path)",
    "dump": "cr.save_file(state, path)", "dumps": "x.detach().numpy().dumps()",
    **{n: f"x.detach().numpy().{n}" for n in ("base", "flags", "strides", "ctypes")},
    **{n: f"x.detach().numpy().{n}" for n in ("getfield", "setfield", "setflags")},
    "choose": "cr.take_along_axis(cr.stack(xs), x[None], 0)[0]",
    "tobytes": "x.detach().numpy().tobytes()", "byteswap": "x.detach().numpy().byteswap()",
    "unsafe_buffer_pointer": "x.detach().numpy().ctypes.data",
    "on_device_size_in_bytes": "x.nbytes", "weak_type": "x.dtype", "aval": "x.shape, x.dtype",
}  # fmt: skip
"""Of JAX's (and NumPy's) arrays: expressions, of which a test runs each."""

_SHOW = "write f.loops(x) for the program, f.explain(x) for its kernels, after a call or with x"
COMPILED: dict[str, str] = {
    "lower": _SHOW, "trace": _SHOW, "eval_shape": "write f(x).shape, or cr.record(f, x)",
    "clear_cache": "write cr.jit(f) again: a new one knows of no call",
}  # fmt: skip
"""Of functions that `jax.jit` compiled: what to do."""

ARGUMENTS: dict[str, tuple[str, str]] = {
    "fun": ("f", "f="), "init": ("carry", "carry="), "init_val": ("state", "state="),
    "cond_fun": ("cond", "cond="), "body_fun": ("body", "body="), "a": ("x", "x="),
    "a_min": ("min", "min="), "a_max": ("max", "max="), "pad_width": ("widths", "widths="),
}  # fmt: skip
"""For an argument of JAX's (or NumPy's) functions: which it is here, and what to write."""
_LEAVE = "leave it out"
_AUX = "write cr.value_and_grad(f, has_aux=True) or cr.jacobian(f, has_aux=True)"
LACKING: dict[str, str] = {
    **dict.fromkeys(
        ["inline", "keep_unused", "backend", "compiler_options", "unroll", "reduce_axes", "policy",
         "prevent_cse", "use_reentrant", "preserve_rng_state", "precision", "unique_indices",
         "indices_are_sorted", "fullgraph", "chunk_size", "promote_integers", "concrete"], _LEAVE),
    **dict.fromkeys(
        ["donate_argnums", "donate_argnames"], f"{_LEAVE}: tensors of a step change in place"),
    **dict.fromkeys(
        ["in_shardings", "out_shardings", "spmd_axis_name"], f"{_LEAVE}: there is one device"),
    **dict.fromkeys(
        ["axis_name", "axis_size"], f"{_LEAVE}: sums over the examples are sums of the result"),
    "abstracted_axes": "write dynamic=", "allow_int": "write x.astype(float)", "has_aux": _AUX,
    "reverse": "flip xs before, and ys after: cr.flip(xs, axis=0)",
    "static_argnums": "close over it: write lambda x: f(x, n)",
    "is_leaf": "write it as a function that calls itself for lists and dictionaries",
    "copy": f"{_LEAVE}: a tensor is a copy, and cr.asarray takes an array as it is",
    "where": "put what changes nothing in the other places: cr.where(mask, x, 0)",
    "initial": "add it to the result, or multiply, or take cr.maximum of both",
    "preferred_element_type": "use astype(dtype)", "order": "permute the axes before",
    "randomness": f"{_LEAVE}: what f draws is the same for every example",
}  # fmt: skip
"""What to do about an argument of JAX's (or NumPy's) that has no counterpart."""

_ONE_DEVICE = "leave it out: everything is on the CPU"
_READY = "leave it out: a call returns when it is done"
_OF_DEVICES = (
    "addressable_data", "addressable_shards", "committed", "device_buffer", "device_buffers",
    "devices", "global_shards", "is_fully_addressable", "is_fully_replicated", "platform",
    "sharding",
)  # fmt: skip
LEFT_OUT: dict[str, str] = {
    "block_until_ready": _READY, "copy_to_host_async": _READY, "is_ready": _READY,
    "delete": "write del x", "is_deleted": "leave it out: an array lives as long as a name of it",
    "traceback": "write x.node.where",
    **dict.fromkeys(_OF_DEVICES, _ONE_DEVICE),
}  # fmt: skip
"""Of JAX's arrays, and of `jax`: what to do where nothing is to be written."""

DRAWS: dict[str, str] = {
    "key": "g = cr.Generator(seed)", "PRNGKey": "g = cr.Generator(seed)",
    "default_rng": "g = cr.Generator(seed)", "seed": "cr.manual_seed(seed)",
    "key_data": "cr.Generator(seed).state", "normal": "cr.Generator(seed).normal(shape)",
    "randn": "cr.Generator(seed).normal(shape)", "rand": "cr.Generator(seed).uniform(shape)",
    "uniform": "cr.Generator(seed).uniform(shape)", "random": "cr.Generator(seed).uniform(shape)",
    "randint": "cr.Generator(seed).integers(low, high, shape)",
    "bernoulli": "cr.Generator(seed).bernoulli(0.5, shape)",
    "permutation": "cr.Generator(seed).permutation(n)",
    "shuffle": "x[cr.Generator(seed).permutation(len(x))]",
    "choice": "x[cr.Generator(seed).permutation(len(x))[:n]]",
    "categorical": "cr.Generator(seed).multinomial(cr.softmax(x), 1)",
    "rademacher": "2 * cr.Generator(seed).integers(0, 2, shape) - 1",
    "exponential": "-cr.log1p(-cr.Generator(seed).uniform(shape))",
    "gumbel": "-cr.log(-cr.log(cr.Generator(seed).uniform(shape)))",
}  # fmt: skip
"""Of `jax.random` and `numpy.random`: statements, of which a test runs each."""

_KEYS = "leave it out: a cr.Generator goes on by itself, and its state can be kept and set"
_CONTROL = "cr.where(p, f(x), g(x)), or Python's if outside of cr.jit"
_OWN_OP = "write a subclass of cr.Function, with backward, jvp or both"
_CONVOLUTION = "write cr.nn.functional.conv1d, conv2d, conv3d, or conv_transpose1d and so on"
_IMPLEMENTATION = "leave it out: it belongs to JAX's implementation"


def _family(title: str, advice: str, names: str) -> Family:
    """A family by words: `*ab` is a suffix."""
    words = names.split()
    suffixes = tuple([w[1:] for w in words if w.startswith("*")])
    return Family(title, advice, (), suffixes, tuple([w for w in words if w[0] != "*"]))


FAMILIES: tuple[Family, ...] = (
    _family("control flow", f"write {_CONTROL}", "cond switch"),
    _family("running results", "write cr.cumsum, cr.cumprod, cr.cummax or cr.scan",
            "associative_scan"),
    _family("derivatives of one's own", _OWN_OP,
            "custom_vjp custom_jvp custom_gradient custom_root custom_linear_solve pure_callback "
            "ffi closure_convert custom_derivatives"),
    _family("parts of the package",
            "its functions are in the package itself: write cr.scan, cr.while_loop, cr.where, "
            "cr.sum, cr.exp, or NumPy's functions, which take tensors",
            "lax numpy"),
    _family("SciPy", "write cr.special, cr.linalg, cr.fft", "scipy"),
    _family("images", "write cr.nn.functional.interpolate", "image"),
    _family("trees", "write cr.tree_map(f, tree) or cr.tree.flatten(tree)",
            "tree_util flatten_util tree_broadcast tree_transpose tree_reduce_associative "
            "all_leaves keystr "
            "flatten_one_level flatten_one_level_with_keys tree_flatten_with_path "
            "tree_leaves_with_path tree_map_with_path treedef_children treedef_is_leaf "
            "treedef_tuple is_tree_node tree_static"),
    _family("nodes of trees", "write a dataclass: its fields are what is below it in a tree",
            "register_dataclass register_pytree_node register_pytree_node_class "
            "register_pytree_with_keys register_pytree_with_keys_class register_static Partial "
            "PyTreeDef DictKey FlattenedIndexKey GetAttrKey KeyEntry KeyPath SequenceKey "
            "default_registry"),
    _family("convolutions", _CONVOLUTION,
            "conv conv_general_dilated conv_general_dilated_local conv_with_general_padding "
            "conv_transpose conv_general_permutations conv_general_shape_tuple conv_shape_tuple "
            "conv_dimension_numbers conv_transpose_shape_tuple padtype_to_pads "
            "ConvDimensionNumbers ConvGeneralDilatedDimensionNumbers"),
    _family("windows", "write cr.nn.functional.max_pool2d, avg_pool2d, unfold, or x.unfold",
            "reduce_window reduce_window_shape_tuple conv_general_dilated_patches"),
    _family("scatters", "write cr.scatter_reduce, cr.index_add, or x[i] = y",
            "scatter_apply scatter_max scatter_min scatter_mul scatter_sub GatherScatterMode "
            "GatherDimensionNumbers ScatterDimensionNumbers"),
    _family("reductions", "write x.sum(axis), x.max(axis), x.prod(axis) or cr.scan", "reduce"),
    _family("integers of NumPy's", "write it with NumPy, outside the graph", "clz mulhi"),
    _family("derivatives by parameters", "there is no such derivative here",
            "igamma_grad_a random_gamma_grad"),
    _family("several devices",
            "leave it out: a model runs on the processors of one machine; cr.vmap(f) maps over "
            "examples, and cr.parallel trains in several processes",
            "pmap shard_map smap NamedSharding P Shard make_mesh set_mesh reshard "
            "make_array_from_callback make_array_from_process_local_data "
            "make_array_from_single_device_arrays with_sharding_constraint distributed "
            "process_count process_index process_indices host_count host_id host_ids "
            "all_gather all_to_all axis_index axis_size pbroadcast pcast auto_pcast pmax pmean "
            "pmin ppermute precv psend pshuffle psum psum_scatter pswapaxes ragged_all_to_all "
            "remove_size_one_mesh_axis_from_type"),
    _family("devices", _ONE_DEVICE,
            "Device default_backend default_device device_count local_device_count local_devices "
            "live_arrays memory transfer_guard transfer_guard_device_to_device "
            "transfer_guard_device_to_host transfer_guard_host_to_device platform_dependent "
            "dlpack"),
    _family("checks of derivatives", "write chainrule.verify.assert_gradients",
            "test_util check_grads"),
    _family("looking for mistakes", "write with cr.trap_nan():, or print",
            "debug debug_nans debug_infs check_tracer_leaks checking_leaks enable_checks"),
    _family("looking at programs", "write cr.record(f, x), which shows each op",
            "make_jaxpr eval_shape typeof ShapeDtypeStruct export profiler disable_jit "
            "log_compiles explain_cache_misses ensure_compile_time_eval clear_caches"),
    _family("precision", "leave it out: float64 needs no flag, and sums are as exact as NumPy's",
            "enable_x64 default_matmul_precision Precision PrecisionLike DotAlgorithm "
            "DotAlgorithmPreset AccuracyMode Tolerance RoundingMethod DotDimensionNumbers "
            "RaggedDotDimensionNumbers FftType RandomAlgorithm numpy_dtype_promotion "
            "numpy_rank_promotion allow_f16_reductions"),
    _family("recomputation", "write cr.checkpoint(f, policy=cr.keep_products)",
            "checkpoint_policies ad_checkpoint checkpoint_name print_saved_residuals"),
    _family("keys", _KEYS,
            "default_prng_impl legacy_prng_key enable_custom_prng debug_key_reuse "
            "threefry_partitionable"),
    _family("JAX's classes", "write cr.Tensor", "Array Ref"),
    _family("what orders or names steps", "leave it out: a step runs where it is written",
            "named_call named_scope effects_barrier optimization_barrier create_token after_all "
            "no_execution no_tracing thread_guard composite dce_sink stage"),
    _family("references", "write x[i] = y: a tensor can be assigned to",
            "new_ref empty_ref free_ref freeze ref"),
    _family("primitives", "write the function without _p", "*_p"),
    _family("JAX's implementation", _IMPLEMENTATION,
            "ad api_util array_garbage_collection_guard config core custom_batching dtypes "
            "experimental float0 interpreters jax2tf_associative_scan_reductions lib "
            "make_user_context monitoring print_environment_info stages typing shape_as_value "
            "cloud_tpu_init collect_profile example_libraries extend tools"),
)  # fmt: skip
"""Of `jax`, `jax.lax` and `jax.tree_util`: what one sentence answers."""

_DRAW_FAMILIES = (
    _family("keys", _KEYS,
            "split fold_in clone key_impl key_dtype wrap_key_data get_state set_state spawn"),
    _family("other distributions", "draw it with np.random.default_rng(seed), outside the graph",
            "ball beta binomial bits cauchy chisquare dirichlet double_sided_maxwell f gamma "
            "generalized_normal geometric hypergeometric laplace logistic loggamma lognormal "
            "logseries maxwell multinomial multivariate_normal negative_binomial orthogonal pareto "
            "poisson power random_gamma_p rayleigh standard_normal t triangular truncated_normal "
            "vonmises wald weibull weibull_min zipf"),
)  # fmt: skip
"""Of `jax.random` and `numpy.random`: what one sentence answers."""


def function_advice(name: str) -> str | None:
    """What to do about a name of `jax`, `jax.lax` or `jax.tree_util`; None if it is none."""
    return _advice(name, FUNCTIONS, FAMILIES)


def layer_advice(name: str) -> str | None:
    """What to do about a name of `jax.nn`; None if it is none."""
    return _advice(name, LAYERS, ())


def tree_advice(name: str) -> str | None:
    """What to do about a name of `jax.tree` or `jax.tree_util`; None if it is none."""
    return function_advice(f"tree_{name}") or function_advice(name)


def draw_advice(name: str) -> str | None:
    """What to do about a name of `jax.random` or `numpy.random`; None if it is none."""
    return _advice(name, DRAWS, _DRAW_FAMILIES)


def _advice(name: str, written: dict[str, str], families: tuple[Family, ...]) -> str | None:
    if name in written:
        return f"write {written[name]}"
    return next((f.advice for f in families if f.holds(name)), None)
