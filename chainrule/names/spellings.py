"""PyTorch's, NumPy's and JAX's spellings that do not exist here: what to write instead.

The hints are answers of errors: of a tensor, a module, the package and its parts that lack a name,
and (in `border`) of a function that lacks an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from chainrule.names import jax_names, methods, not_offered
from chainrule.names.numpy_names import numpy_advice
from chainrule.names.public_names import imports_of
from chainrule.optional import is_installed

_NOWHERE = not_offered.NOWHERE
# fmt: off
METHODS: dict[str, str] = {
    "repeat": "x.tile(counts)", "type": "x.astype(dtype)", "grad_fn": "x.node",
    "detach_": "x = x.detach()", "equal": "bool(cr.all(x == y))",
    "sort": "cr.sort(x), cr.argsort(x)", "nonzero": "cr.stack(cr.nonzero(x), axis=1)",
    **not_offered.METHODS, **jax_names.ARRAYS,
}
"""What to write for a method of PyTorch's tensors, NumPy's or JAX's arrays that is none here, or
means something else; a test runs each."""
MORE: dict[str, str] = {"repeat": ", or for NumPy's repeat x.repeat_interleave(counts)"}
"""What follows the hint for a method that means something else in another library."""
FUNCTIONS: dict[str, str] = {
    "cat": "cr.concat(xs, axis=axis)", "concatenate": "cr.concat(xs, axis=axis)",
    "array": "cr.tensor(data)", "as_tensor": "cr.asarray(data)", "from_numpy": "cr.asarray(data)",
    "transpose": "cr.swapaxes(x, axis1, axis2)",
    "rand": "cr.Generator(seed).uniform(shape)", "randn": "cr.Generator(seed).normal(shape)",
    "randint": "cr.Generator(seed).integers(low, high, shape)",
    "randperm": "cr.Generator(seed).permutation(n)",
    "float": "cr.float32", "double": "cr.float64", "half": "cr.float16", "int": "cr.int32",
    "long": "cr.int64", "power": "cr.pow(x, y)",
    **not_offered.PACKAGE_FUNCTIONS,
}
"""What to write for a function of PyTorch's or NumPy's, besides those above; a test runs each."""
LEFT_OUT: dict[str, str] = {
    "cuda": _NOWHERE, "mps": _NOWHERE, "xpu": _NOWHERE, "pin_memory": _NOWHERE,
    "is_cuda": "x.device is always 'cpu'", "get_device": "x.device is always 'cpu'",
    "is_contiguous": "leave it out: no result depends on how an array lies in memory",
    "values": "leave it out: max, min, sort and median give values alone",
    "indices": "max, min and sort give values alone: write cr.argmax, cr.argmin or cr.argsort",
    **jax_names.LEFT_OUT,
}
"""What to do about those for which nothing is to be written."""
PACKAGE: dict[str, str] = {
    "device": _NOWHERE, "cpu": _NOWHERE,
    "set_grad_enabled": "write with cr.no_grad(): or with cr.enable_grad():",
    "inference_mode": "write with cr.no_grad():", "is_grad_enabled": "there is no such question",
    "save": "write cr.save_file(state, path)", "load": "write cr.load_file(path)",
    "dtype": "write cr.float32, cr.int64 and so on, or np.dtype", "ndarray": "write cr.Tensor",
    "is_tensor": "write isinstance(x, cr.Tensor)",
    "set_default_dtype": "say dtype= where arrays are made",
    "typename": "write type(x).__name__", "Size": "write tuple: a shape is a tuple",
    **{
        f"{kind}Tensor": f"write cr.tensor(data, dtype=cr.{dtype}), or for sizes cr.zeros(shape)"
        for kind, dtype in (
            ("Float", "float32"), ("Double", "float64"), ("Half", "float16"), ("Long", "int64"),
            ("Int", "int32"), ("Short", "int16"), ("Char", "int8"), ("Byte", "uint8"),
            ("Bool", "bool"), ("BFloat16", "bfloat16"),
        )
    },
    **not_offered.PACKAGES,
}
"""What to do about functions of PyTorch's package that have none here."""
_TO_DTYPE = "write model.to(cr.float64), or give each layer dtype="
MODULES: dict[str, str] = {
    "type": _TO_DTYPE, "float": _TO_DTYPE, "double": _TO_DTYPE,
    "half": "write with cr.autocast():", "bfloat16": "write with cr.autocast(cr.bfloat16):",
    "cuda": _NOWHERE, "cpu": _NOWHERE, "xpu": _NOWHERE, "ipu": _NOWHERE, "mtia": _NOWHERE,
    "to_empty": _NOWHERE, "share_memory": "leave it out",
    "modules": "write [m for _, m in model.named_modules()]",
    "named_children": "write model.children(), which gives names and modules",
    "apply": "write for _, m in model.named_modules(): f(m)",
    "register_buffer": "write model.name = x: a tensor without requires_grad is a buffer",
    "register_parameter": "write model.name = x: a tensor with requires_grad is a parameter",
    "add_module": "write model.name = module", "register_module": "write model.name = module",
    "get_submodule": "write dict(model.named_modules())[name]",
    "get_parameter": "write dict(model.named_parameters())[name]",
    "compile": "write cr.jit(step)",
}
"""What to do about methods of PyTorch's modules."""
LAYERS: dict[str, str] = {
    "Parameter": "write cr.tensor(data, requires_grad=True)",
    "utils": "write cr.optim.clip_grad_norm(parameters, most); nn.weight_norm and "
    "nn.spectral_norm; RNN, LSTM and GRU take lengths= in place of packed sequences",
    "lr_scheduler": "write optim.Scheduler(optimizer, schedule); schedules are Cosine, Linear, ...",
    "swa_utils": "write optim.AveragedModel(model)",
    **not_offered.LAYERS, **not_offered.OPTIMIZERS, **not_offered.FUNCTIONS,
}
"""What to do about classes of PyTorch's `nn` and `optim`."""
ARGUMENTS: dict[str, tuple[str, str]] = {
    "dim": ("axis", "axis="), "dims": ("axis", "axis="), "keepdim": ("keepdims", "keepdims="),
    "unbiased": ("correction", "correction=1 for unbiased=True, correction=0 for False"),
    "ddof": ("correction", "correction="),
    "input": ("x", "x="), "kernel_size": ("kernel", "kernel="), "num_groups": ("groups", "groups="),
    "negative_slope": ("slope", "slope="), "min_val": ("low", "low="), "max_val": ("high", "high="),
    "is_causal": (
        "causal", "causal=, which looks back from the last key; PyTorch's looks back from the "
        "first one, which differs where there are not as many queries as keys"
    ),
    "attn_mask": ("mask", "mask="), "p": ("ord", "ord="), "lambd": ("threshold", "threshold="),
    "end": ("stop", "stop="), "steps": ("num", "num="), "index": ("indices", "indices="),
    "src": ("source", "source="), "size": ("shape", "shape="), "other": ("b", "b="),
    "num_classes": ("classes", "classes="), "chunks": ("count", "count="),
    "maxnorm": ("limit", "limit="), "diagonal": ("k", "k="), "in_dims": ("in_axes", "in_axes="),
    "argnum": ("argnums", "argnums="),
    "out_dims": ("out_axes", "out_axes="), "N": ("columns", "columns="),
    "norm_type": ("ord", "ord="), "var": ("variance", "variance="),
    "start_dim": ("start_axis", "start_axis="), "end_dim": ("end_axis", "end_axis="),
    "normalized_shape": ("weight", "nothing: it is the last axis, and weight= has its shape"),
    **jax_names.ARGUMENTS,
}
"""For an argument of PyTorch's (or NumPy's) functions: which it is here, and what to write."""
LACKING: dict[str, str] = {
    "inplace": "nothing is changed in place; use the result",
    "out": "nothing is changed in place; use the result",
    "requires_grad": "call requires_grad_() on the result",
    "rounding_mode": "write cr.divide(a, b, rounding_mode=...)",
    "alpha": "multiply first, as in a + alpha * b",
    "beta": "write cr.nn.functional.softplus(x, beta)",
    "dtype": "use astype(dtype)",
    "size_average": "write reduction=", "reduce": "write reduction=",
    "foreach": "leave it out", "fused": "leave it out: compile the step with cr.jit",
    "device_type": _NOWHERE, "device": _NOWHERE, "non_blocking": _NOWHERE, "pin_memory": _NOWHERE,
    "memory_format": "leave it out: no result depends on how an array lies in memory",
    **jax_names.LACKING,
}
"""What to do about an argument of PyTorch's that has no counterpart."""
_PARTS = ("nn.functional", "linalg", "fft", "special", "nn", "optim", "explain")
"""Parts of the package in which a name may stand that was looked for in the package itself."""
# fmt: on


def no_attribute(x: Any, name: str) -> AttributeError:
    """The error for a method or attribute that a tensor lacks, with what to write if it is known.

    Known are other libraries' spellings, and functions of ours that are no methods.
    """
    said = f"'{type(x).__name__}' object has no attribute '{name}'"
    hint = None if name.startswith("_") else _method(name)
    if hint is None:
        return AttributeError(said, name=name, obj=x)  # Python adds names that are similar
    return AttributeError(f"{said}: {hint}")


class MissingName:
    """What a class holds under a name that it lacks: asking for it raises, with what to write.

    A `__getattr__` would do the same for every name, and make each look at any attribute slower,
    those that are there included.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, x: Any, cls: type) -> Any:
        raise no_attribute(cls if x is None else x, self.name)


class Hint:
    """What a class holds under a name of PyTorch's: asking for it raises, with what to do."""

    def __init__(self, name: str, hint: str) -> None:
        self.name = name
        self.hint = hint

    def __get__(self, x: Any, cls: type) -> Any:
        said = f"'{cls.__name__}' object has no attribute '{self.name}'"
        raise AttributeError(f"{said}: {self.hint}")


def missing_name_getter(
    module: str, advice: Callable[[str], str | None] | None = None
) -> Callable[[str], Any]:
    """A `__getattr__` for a part of the package, such as `chainrule.nn`.

    `advice` gives what to do about a name, if not as for the parts that have layers.
    """

    def no_name(name: str) -> Any:
        said = f"module '{module}' has no attribute '{name}'"
        hint = None if name.startswith("_") else (advice or _layer)(name)
        raise AttributeError(f"{said}: {hint}" if hint else said)

    return no_name


def _layer(name: str) -> str | None:
    return LAYERS.get(name) or jax_names.layer_advice(name) or _functional(name)


def _functional(name: str) -> str | None:
    """The function that does what a class or a function of another package does, found by the
    letters of its name."""
    functions = import_module("chainrule.nn.functional")
    letters = name.lower().removesuffix("loss") + "loss" * name.endswith("Loss")
    letters = letters.replace("_", "")
    same = {f.replace("_", ""): f for f in dir(functions)} | _LOSSES
    for spelling in (letters, letters.rstrip("123d")):
        if spelling in same:
            return f"there is the function nn.functional.{same[spelling]}"
    return None


_LOSSES = {
    "crossentropyloss": "cross_entropy", "bceloss": "binary_cross_entropy",
    "bcewithlogitsloss": "binary_cross_entropy_with_logits", "kldivloss": "kl_div",
    "adaptiveavgpool2d": "adaptive_avg_pool",
}  # fmt: skip


def put_elsewhere(cls: type) -> None:
    """Let `cls` say what to write for the names of functions, and for `name_`, that it lacks."""
    functions = [n for module in ("chainrule", "chainrule.linalg") for n in imports_of(module)]
    kept = [n for n in methods.METHODS if n not in methods.IN_PLACE]  # their `name_` says so
    families = [n for family in not_offered.FAMILIES for n in family.names]
    for name in [*METHODS, *LEFT_OUT, *functions, *kept, *families]:
        if name[0] == "_" or not name.isidentifier() or not (name.islower() or name in METHODS):
            continue  # a module or a class
        for spelling in (name, f"{name}_"):
            if not any(spelling in vars(c) for c in cls.__mro__):
                setattr(cls, spelling, MissingName(spelling))


def no_function(name: str) -> AttributeError:
    """The error for a function that `chainrule` lacks, with what to write if it is known.

    Known are PyTorch's, NumPy's and JAX's spellings, and what stands in a part of the package.
    """
    said = f"module 'chainrule' has no attribute '{name}'"
    if name.startswith("_"):
        return AttributeError(said)
    hint, of_jax = _function(name), jax_names.function_advice(name)
    if hint and of_jax:
        of_jax = f"or, for JAX's {name}, {of_jax}"
    hints = [h for h in (hint, of_jax) if h] or [h for h in [numpy_advice(name)] if h]
    return AttributeError(f"{said}: {'; '.join(hints)}" if hints else said)


def _function(name: str) -> str | None:
    """What to write for a function of another library's, None if nobody knows."""
    if name in LEFT_OUT or name in PACKAGE:
        return LEFT_OUT.get(name) or PACKAGE[name]
    for table in (FUNCTIONS, METHODS):
        if name in table:
            return f"write {table[name]}{MORE.get(name, '')}"
    for part in _PARTS if is_installed("numpy") else ():
        found = vars(import_module(f"chainrule.{part}")).get(name)
        if getattr(found, "__module__", "").startswith("chainrule"):
            return f"write cr.{part}.{name}"
    if name in methods.METHODS:
        return _function_of_method(name)
    if name.endswith("_") and name[:-1] in methods.IN_PLACE:
        return f"it is a method: write x.{name}(...)"
    if name.endswith("_") and (name[:-1] in imports_of("chainrule") or _function(name[:-1])):
        return f"nothing is changed in place: write what there is for {name[:-1]}"
    return not_offered.family_advice(name)


def _function_of_method(name: str) -> str:
    """What to write for a function of which there is only a method of that name."""
    home, function = methods.METHODS[name]
    if home == methods.CAST:
        return f"write cr.{function}"
    if function in imports_of(home):
        return f"write {home.replace('chainrule', 'cr', 1)}.{function}(x, ...)"
    call = name if name in methods.PROPERTIES else f"{name}(...)"
    return f"it is a method: write x.{call}"


def _method(name: str) -> str | None:
    if name in LEFT_OUT:
        return LEFT_OUT[name]
    if name in METHODS:
        return f"write {METHODS[name]}{MORE.get(name, '')}"
    for home, shown in (("chainrule", "cr"), ("chainrule.linalg", "cr.linalg")):
        if name in imports_of(home):
            return f"it is a function: write {shown}.{name}(x, ...)"
    if name.endswith("_") and name[:-1] in methods.METHODS:
        return f"it would be another shape: write x = x.{name[:-1]}(...)"
    if name.endswith("_") and (there := _method(name[:-1])) is not None:
        return f"nothing is changed in place; {there}, and use the result"
    return not_offered.family_advice(name)
