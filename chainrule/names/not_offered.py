"""Names of PyTorch's that do not exist here, and what to write.

They are what errors say, and a column of docs/pytorch_names.md. What no model on one CPU needs is
stated once for each family of names.
"""

from __future__ import annotations

from typing import NamedTuple

NOWHERE = "leave it out: everything is on the CPU"
_SIZES = "layers are made with their sizes"
_ONE_MACHINE = "leave it out: a model runs on the processors of one machine"
_IN_PLACE = "nothing is changed in place: write the function without _"
_SCHEDULER = "write optim.Scheduler(optimizer, {})"

PACKAGES: dict[str, str] = {
    "autograd": "write loss.backward(), cr.grad(f) or cr.vjp(f, *xs); a Variable is a cr.tensor, "
    "and Function is cr.Function",
    "utils": "write from chainrule.data import DataLoader, TensorDataset; checkpoint is "
    "cr.checkpoint, and cr.track(loader, writer=...) logs for TensorBoard",
    "distributions": "draw with a cr.Generator (normal, uniform, multinomial, ...), and write the "
    "logarithm of the density, as cr.log_softmax(logits)[i] for a choice i",
    "func": "write cr.grad, cr.vjp, cr.jvp, cr.vmap, cr.jacobian or cr.hessian",
    "multiprocessing": "write Python's multiprocessing; chainrule.parallel trains in processes",
    "distributed": "write chainrule.parallel, which trains in several processes",
    "onnx": "write step.to_c(path, ...) or step.to_wasm(path, ...) of a cr.jit function",
    "profiler": "write print(step.explain()) of a cr.jit function",
    "hub": "write cr.load_file(path)",
    "backends": "leave it out: there is no such setting",
    "accelerator": NOWHERE,
    "overrides": "write cr.Function for an op of your own",
    "fx": "write cr.record(f)",
    "sparse": "arrays are dense: write the function of dense arrays",
}
"""Of `torch`: its modules."""

LAYERS: dict[str, str] = {
    "parameter": "write cr.tensor(data, requires_grad=True)",
    "modules": "write from chainrule.nn import ..., which has every layer",
    "parallel": "leave it out; chainrule.parallel trains in several processes",
    "RNNBase": "write nn.RNN, nn.LSTM or nn.GRU",
    "RNNCellBase": "write nn.RNN, nn.LSTM or nn.GRU",
    "DataParallel": _ONE_MACHINE, "SyncBatchNorm": "write nn.BatchNorm2d",
    "Container": "write nn.Sequential or a list", "Buffer": "write a tensor without requires_grad",
    "UninitializedBuffer": _SIZES, "UninitializedParameter": _SIZES,
    "NLLLoss2d": "write nn.NLLLoss",
    "LinearCrossEntropyLoss": "write nn.Linear and nn.CrossEntropyLoss",
    "LinearCrossEntropyOptions": "write nn.Linear and nn.CrossEntropyLoss",
    "CrossMapLRN2d": "write nn.LocalResponseNorm",
    **{
        f"Lazy{kind}{n}d": f"write nn.{kind}{n}d with x.shape[1] for {first}: {_SIZES}"
        for kind, first in (
            ("Conv", "in_channels"), ("ConvTranspose", "in_channels"),
            ("BatchNorm", "num_features"), ("InstanceNorm", "num_features"),
        )
        for n in (1, 2, 3)
    },
    "LazyLinear": f"write nn.Linear with x.shape[-1] for in_features: {_SIZES}",
}  # fmt: skip
"""Of `torch.nn`."""

_DRAWN = "write DataLoader(Subset(dataset, order)), with order drawn by cr.Generator(seed).{}"
DATA: dict[str, str] = {
    "IterableDataset": "write a generator of batches, and go through it without DataLoader",
    "ChainDataset": "write itertools.chain(first, second)",
    "Sampler": "write DataLoader(Subset(dataset, order)): order has the numbers of the examples",
    "BatchSampler": "write DataLoader(Subset(dataset, order), batch_size=...)",
    "SequentialSampler": "write DataLoader(dataset)",
    "RandomSampler": "write DataLoader(dataset, shuffle=True), or with replacement "
    + _DRAWN.format("integers(0, len(dataset), (n,))").removeprefix("write "),
    "SubsetRandomSampler": "write DataLoader(Subset(dataset, order), shuffle=True)",
    "WeightedRandomSampler": _DRAWN.format("multinomial(weights, n, replacement=True)"),
    "DistributedSampler": "write chainrule.parallel, which divides batches",
    "default_collate": "write data.collate",
    "StackDataset": "write data.TensorDataset",
    "get_worker_info": "leave it out: seeds of workers follow from seed=",
}
"""Of `torch.utils.data`."""

OPTIMIZERS: dict[str, str] = {
    "swap_in_optimizer_params_and_state": "write optimizer.load_state_dict(state)",
    "ASGD": "write optim.SGD, and optim.AveragedModel(model) for the average of weights",
    "SparseAdam": "write optim.Adam: gradients are dense",
    "StepLR": _SCHEDULER.format("optim.Step(steps, gamma)"),
    "MultiStepLR": _SCHEDULER.format("optim.MultiStep(milestones, gamma)"),
    "ExponentialLR": _SCHEDULER.format("optim.Exponential(gamma)"),
    "OneCycleLR": _SCHEDULER.format("optim.OneCycle(steps)"),
    "CosineAnnealingLR": _SCHEDULER.format("optim.Cosine(steps)"),
    "CosineAnnealingWarmRestarts": _SCHEDULER.format("optim.CosineRestarts(steps)"),
    "LinearLR": _SCHEDULER.format("optim.Linear(steps, start, end)"),
    "ConstantLR": _SCHEDULER.format("optim.Constant(factor).then(optim.Constant(), after=n)"),
    "LambdaLR": _SCHEDULER.format("a Schedule, whose __call__ gives the factor"),
    "MultiplicativeLR": _SCHEDULER.format("a Schedule, whose __call__ gives the factor"),
    "PolynomialLR": _SCHEDULER.format("a Schedule; optim.Linear(steps) for power 1"),
    "CyclicLR": _SCHEDULER.format("optim.OneCycle(steps) or optim.CosineRestarts(steps)"),
    "SequentialLR": _SCHEDULER.format("first.then(second, after=n)"),
    "ChainedScheduler": _SCHEDULER.format("a * b"),
    "LRScheduler": "write optim.Scheduler, or a subclass of optim.Schedule",
}
"""Of `torch.optim` and `torch.optim.lr_scheduler`."""

FUNCTIONS: dict[str, str] = {
    **{
        f"{kind}max_pool{n}d_with_indices":
        f"write {kind}max_pool{n}d(x, {size}, return_indices=True)"
        for kind, size in (("", "kernel"), ("adaptive_", "size"), ("fractional_", "kernel"))
        for n in (1, 2, 3)
    },
    **{
        f"{name}_": _IN_PLACE
        for name in ("celu", "elu", "hardtanh", "leaky_relu", "relu", "rrelu", "selu", "threshold")
    },
    "conv_tbc": "write conv1d, with the axes (N, C, W)",
    "linear_cross_entropy": "write cross_entropy(linear(x, weight), target)",
    "multi_head_attention_forward": "write nn.MultiheadAttention",
    "upsample": "write interpolate", "upsample_bilinear": "write interpolate",
    "upsample_nearest": "write interpolate", "native_channel_shuffle": "write channel_shuffle",
    "grouped_mm": "write cr.matmul", "scaled_mm": "write cr.matmul",
    "scaled_grouped_mm": "write cr.matmul",
}  # fmt: skip
"""Of `torch.nn.functional`."""

METHODS: dict[str, str] = {
    "addmv": "x + y @ w",
    "addr": "x + cr.outer(y, w)", "addbmm": "x + cr.sum(y @ w, axis=0)",
    "baddbmm": "cr.addmm(x, y, w)", "aminmax": "x.min(axis), x.max(axis)",
    "argwhere": "cr.stack(cr.nonzero(x), axis=1)",
    "bernoulli": "cr.Generator(seed).uniform(x.shape) < x",
    "multinomial": "cr.Generator(seed).multinomial(x, count)",
    "random_": "x.data = cr.Generator(seed).integers(low, high, x.shape)",
    "chalf": "x.astype(cr.complex64)", "diagflat": "cr.diag(x.flatten())",
    "fliplr": "cr.flip(x, axis=1)", "flipud": "cr.flip(x, axis=0)",
    "float_power": "x.astype(cr.float64) ** y", "hsplit": "cr.tensor_split(x, n, axis=1)",
    "vsplit": "cr.tensor_split(x, n, axis=0)", "dsplit": "cr.tensor_split(x, n, axis=2)",
    "is_nonzero": "bool(x)", "is_same_size": "x.shape == y.shape",
    "is_signed": "x.dtype.kind != 'u'", "isneginf": "x == -cr.inf", "isposinf": "x == cr.inf",
    "isreal": "cr.imag(x) == 0", "logdet": "cr.linalg.slogdet(x)[1]", "msort": "cr.sort(x, axis=0)",
    "new": "cr.empty(shape, x.dtype)", "unsafe_split_with_sizes": "cr.split(x, sizes)",
    "unsafe_split": "cr.split(x, n)", "unsafe_chunk": "cr.chunk(x, n)",
    "sum_to_size": "cr.sum(x, axis, keepdims=True)", "symeig": "cr.linalg.eigh(x)",
    "take_along_dim": "cr.take_along_axis(x, indices, axis)", "gcd": "np.gcd(x.numpy(), y.numpy())",
    "lcm": "np.lcm(x.numpy(), y.numpy())", "frexp": "np.frexp(x.numpy())",
    "geqrf": "cr.linalg.qr(x)", "orgqr": "cr.linalg.householder_product(x, tau)",
    "ormqr": "cr.linalg.householder_product(x, tau) @ y",
    "triangular_solve": "cr.linalg.solve(w, x)", "resolve_conj": "x", "resolve_neg": "x",
    "svd": "cr.linalg.svd(x)", "lu": "cr.linalg.lu_factor(x)", "cross": "cr.linalg.cross(x, y)",
    "lu_solve": "cr.linalg.lu_solve(*cr.linalg.lu_factor(w), x)",
    "put": "cr.put(x, indices, value)", "median": "cr.median(x, axis)",
    "nanmedian": "cr.nanmedian(x, axis)",
}  # fmt: skip
"""Of `torch.Tensor` (with `spellings.METHODS`): expressions, of which a test runs each."""

PACKAGE_FUNCTIONS: dict[str, str] = {
    "ravel": "x.flatten()", "dot": "x @ y", "detach": "x.detach()",
    "fill": "cr.full_like(x, value)", "broadcast_tensors": "cr.broadcast_arrays(x, y)",
    "atleast_1d": "cr.atleast(x, 1)", "atleast_2d": "cr.atleast(x, 2)",
    "atleast_3d": "cr.atleast(x, 3)", "scalar_tensor": "cr.tensor(value)",
    "std_mean": "cr.std(x, axis, correction=1), cr.mean(x, axis)",
    "var_mean": "cr.var(x, axis, correction=1), cr.mean(x, axis)",
    "trapz": "cr.trapezoid(x)", "range": "cr.arange(low, high + 1)", "row_stack": "cr.vstack(xs)",
    "rsub": "y - x", "chain_matmul": "cr.linalg.multi_dot(xs)", "frobenius_norm": "cr.norm(x)",
    "nuclear_norm": "cr.linalg.norm(x, ord='nuc')", "lobpcg": "cr.linalg.eigh(x)",
    "lu_unpack": "cr.linalg.lu(x)", "svd_lowrank": "cr.linalg.svd(x)",
    "pca_lowrank": "cr.linalg.svd(x - x.mean(0))",
    "rand_like": "cr.Generator(seed).uniform(x.shape)",
    "randn_like": "cr.Generator(seed).normal(x.shape)",
    "randint_like": "cr.Generator(seed).integers(low, high, x.shape)",
    "normal": "cr.Generator(seed).normal(shape, mean=low, std=high)",
    "promote_types": "cr.result_type(x, y)", "constant_pad_nd": "cr.nn.functional.pad(x, widths)",
}  # fmt: skip
"""Of `torch` (with `spellings.FUNCTIONS`): expressions, of which a test runs each."""


class Family(NamedTuple):
    """Names that one sentence answers: those listed, and all with a prefix or a suffix."""

    title: str
    advice: str
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def holds(self, name: str) -> bool:
        """Whether the name is one of these."""
        return name in self.names or name.startswith(self.prefixes) or name.endswith(self.suffixes)


def _family(title: str, advice: str, rule: str, names: str = "") -> Family:
    """A family by words: `ab*` is a prefix, `*ab` a suffix."""
    words = rule.split()
    return Family(
        title,
        advice,
        tuple([w[:-1] for w in words if w.endswith("*")]),
        tuple([w[1:] for w in words if w.startswith("*")]),
        tuple(names.split()),
    )


FAMILIES: tuple[Family, ...] = (
    _family(
        "quantized arrays", "leave it out: arrays are not quantized",
        "quantize_* quantized_* fake_quantize_* fused_moving_avg* q_* fbgemm_* choose_qparams*",
        "dequantize empty_quantized int_repr is_quantized qscheme q_scale q_zero_point "
        "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points",
    ),
    _family(
        "sparse arrays", "arrays are dense: write the function of dense arrays",
        "sparse_* to_sparse*",
        "dsmm hsmm hspmm saddmm smm spmm sspaddmm coalesce dense_dim is_coalesced is_sparse "
        "is_sparse_csr sparse_dim sparse_mask to_dense to_sparse to_sparse_bsc to_sparse_bsr "
        "to_sparse_coo to_sparse_csc to_sparse_csr crow_indices col_indices "
        "row_indices ccol_indices sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_",
    ),
    _family(
        "PyTorch's implementations", "write the function of nn.functional, or the layer of nn",
        "cudnn_* miopen_* mkldnn_* native_* batch_norm_* grid_sampler*",
        "affine_grid_generator conv_tbc convolution feature_dropout gru gru_cell lstm lstm_cell "
        "rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell max_pool1d_with_indices norm_except_dim "
        "segment_reduce embedding_renorm_ dropout_ alpha_dropout_ feature_alpha_dropout_ "
        "feature_dropout_ celu_ selu_ rrelu_ threshold_ to_mkldnn to_padded_tensor",
    ),
    _family(
        "symbolic sizes", "sizes are Python's integers: write Python's functions of them", "sym_*"
    ),
    _family(
        "functions that copy", "write the function without _copy: no two results share memory",
        "*_copy", "narrow_copy",
    ),
    _family(
        "mixed precision", "write with cr.autocast():",
        "autocast_* get_autocast_* set_autocast_* is_autocast_* clear_autocast_*",
    ),
    _family(
        "compiling", "write cr.jit(f)", "import_ir_module* parse_*",
        "fork wait merge_type_from_type_comment unify_type_list",
    ),
    _family(
        "random numbers",
        "draw them with a cr.Generator, whose state can be kept and set: normal, uniform, "
        "integers, permutation, bernoulli, multinomial, or with NumPy's",
        "", "seed initial_seed get_rng_state set_rng_state thread_safe_generator poisson binomial "
        "cauchy_ exponential_ geometric_ log_normal_",
    ),
    _family(
        "settings of the process", "leave it out: there is no such setting",
        "are_deterministic* get_d* get_float32* get_num_interop* set_anomaly* set_d* set_f* "
        "set_num_interop* set_warn* is_anomaly* is_deterministic* is_warn* "
        "use_deterministic* is_inference* init_num* profiler_* compiled_with* prepare_multi*",
        "get_file_path is_vulkan_available set_printoptions",
    ),
    _family(
        "memory and devices",
        "leave it out: no result depends on how an array lies in memory, and all are on the CPU",
        "as_strided*",
        "as_strided as_strided_ as_strided_scatter as_subclass empty_strided "
        "empty_permuted const_data_ptr data_ptr dim_order "
        "ipu is_conj is_cpu is_distributed is_inference is_ipu is_maia is_meta is_mkldnn is_mps "
        "is_mtia is_neg is_nested is_pinned is_set_to is_shared is_storage is_vulkan is_xla is_xpu "
        "layout module_load mtia name new_empty_strided output_nr record_stream reinforce resize "
        "resize_ resize_as resize_as_ retains_grad set_ share_memory_ slice_inverse storage "
        "storage_offset storage_type stride untyped_storage volatile grad_dtype",
    ),
    _family(
        "data of other libraries", "write cr.asarray(x), which reads arrays, buffers and DLPack",
        "", "from_file frombuffer to_dlpack",
    ),
    _family(
        "what NumPy does", "write it with NumPy, outside the graph", "",
        "apply_ map_ map2_ hash_tensor histogramdd nonzero_static index classproperty "
        "fill_diagonal_",
    ),
)  # fmt: skip
"""Of `torch` and `torch.Tensor`: what one sentence answers."""


def family_of(name: str) -> Family | None:
    """The first family that holds the name."""
    return next((f for f in FAMILIES if f.holds(name)), None)


def family_advice(name: str) -> str | None:
    """What to write for a name of a family, None where it is in none."""
    family = family_of(name)
    return None if family is None else family.advice
