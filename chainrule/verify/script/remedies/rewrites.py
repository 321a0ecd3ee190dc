"""What a reader would write instead: other dtypes, activations, initial weights, stable forms."""

from __future__ import annotations

from chainrule.verify.script.remedies.patterns import Rewrite, Row

SMALL = "1e-8"
"""What is added to an argument that must not be 0: much less than any number that matters in
float32, and the root of it is no less than float32 resolves."""

# --- numbers that float16 or bfloat16 cannot hold

WIDER = Rewrite((
    ("half(X)", "bfloat16(X)"), ("torch.half", "torch.bfloat16"), ("X.float16", "X.bfloat16"),
))  # fmt: skip
"""A dtype that has float32's range."""
FINER = Rewrite((
    ("half(X)", "float(X)"), ("bfloat16(X)", "float(X)"), ("torch.half", "torch.float"),
    ("X.float16", "X.float32"), ("X.bfloat16", "X.float32"),
))  # fmt: skip
"""float32, in which small updates count."""
USUAL_SCALE = Rewrite(
    (
        ("update(S, *A)", "update(S)"),
        ("GradScaler(*A, init_scale=X, backoff_factor=Y)", "GradScaler(*A)"),
        ("GradScaler(*A, init_scale=X)", "GradScaler(*A)"),
        ("GradScaler(*A, backoff_factor=X)", "GradScaler(*A)"),
    ),
    "around",
)
"""A gradient scaler that begins, and goes down, as it does by default; and is not set anew."""
SWITCHED_ON = Rewrite(
    (("GradScaler(*A, enabled=X)", "GradScaler(*A)", 'GradScaler("cpu")'),), "around"
)
"""A gradient scaler that is enabled, for the device that there is."""

# --- gradients that do not come through

STEEP = Rewrite(
    (
        ("X.sigmoid", "X.relu"), ("X.tanh", "X.relu"), ("X.Sigmoid", "X.ReLU"),
        ("X.Tanh", "X.ReLU"),
    ),
    "scopes", but_last=True,
)  # fmt: skip
"""relu in place of what flattens: the widest use of it that helps is wanted, but the last layer may
need to stay what it is."""
_DRAWS = ("normal_", "uniform_", "trunc_normal_", "xavier_normal_", "xavier_uniform_")
DRAWN = tuple([
    Rewrite(tuple([
        (f"{before}{draw}(W, *A)", f'{after}kaiming_normal_(W, nonlinearity="{kind}")')
        for draw in _DRAWS for before, after in (("init.", "init."), ("", "torch.nn.init."))
    ])) for kind in ("relu", "tanh")
])  # fmt: skip
"""Initial weights of variance 2/fan-in, which neither shrinks nor grows through a relu."""
SCALED = Rewrite((
    ("(D := randn(N, M)) * C", "D * (2 / N) ** 0.5"),
    ("C * (D := randn(N, M))", "(2 / N) ** 0.5 * D"),
))  # fmt: skip
"""`torch.randn(n, m) * 0.01` by the root of n instead."""
ZEROED = Rewrite(
    (("constant_(W, X)", "constant_(W, 0.0)"), ("fill_(W, X)", "fill_(W, 0.0)")), each=True
)
"""Biases that begin at 0."""
LEAKY = Rewrite(
    (
        ("F.relu(X, *A)", "F.leaky_relu(X, *A)"),
        ("functional.relu(X, *A)", "functional.leaky_relu(X, *A)"),
        ("relu(X)", "torch.nn.functional.leaky_relu(X)"),
        ("X.relu", "X.leaky_relu"),
        ("X.ReLU", "X.LeakyReLU"),
    ),
    "scopes",
)
"""A relu that lets something through."""

# --- operations without a finite value, or slope, where they were evaluated

STABLE: tuple[Row, ...] = (
    ("log(softmax(X, *A))", "log_softmax(X, *A)"),
    ("log(sigmoid(X))", "torch.nn.functional.logsigmoid(X)"),
    ("log(sum(exp(X), *A))", "torch.logsumexp(X, *A)"),
)
_ROOTS = ("sqrt", "rsqrt", "log", "log2", "log10", "reciprocal", "pow")
_ARCS = ("acos", "asin", "arccos", "arcsin", "atanh", "arctanh")
AWAY: tuple[Row, ...] = (
    *[(f"{f}(X, *A)", f"{f}(X + {SMALL}, *A)", f"{f}(X.clamp(min={SMALL}), *A)") for f in _ROOTS],
    *[
        (f"{f}(X, Y, *A)", f"{f}(X, Y + {SMALL}, *A)", f"{f}(X, Y.clamp(min={SMALL}), *A)")
        for f in ("div", "true_divide", "divide")
    ],
    *[(f"{f}(X, *A)", f"{f}(X.clamp(-1 + 1e-6, 1 - 1e-6), *A)") for f in _ARCS],
    ("log1p(X, *A)", "log1p(X.clamp(min=-1 + 1e-6), *A)"),
    ("exp(X, *A)", "exp(X.clamp(max=80), *A)"),  # e^80 and sums of many such are finite in float32
    ("X / Y", f"X / (Y + {SMALL})", f"X / (Y.clamp(min={SMALL}))"),
    ("X ** Y", f"(X + {SMALL}) ** Y", f"(X.clamp(min={SMALL})) ** Y"),
)
"""The argument kept away from the place at which it goes wrong."""

# --- cuts

_ASKED = (", create_graph=X, retain_graph=Y", ", retain_graph=X", ", create_graph=X", "")
DERIVED_AGAIN = Rewrite(
    tuple([(f"grad(*A{words})", "grad(*A, create_graph=True)") for words in _ASKED]), "around"
)
"""A derivative with a graph."""
OTHER_WAY_ROUND = Rewrite(tuple([
    (text, "X + (Y - X).detach()") for text in (
        "Y - X + X.detach()", "Y + X.detach() - X", "Y + (X.detach() - X)", "X.detach() - X + Y",
        "X.detach() + Y - X", "X.detach() + (Y - X)",
    )
]), "line")  # fmt: skip
"""A step whose gradient is that of what it was made of."""
NOT_REENTRANT = Rewrite(
    (
        ("checkpoint(*A, use_reentrant=X)", "checkpoint(*A, use_reentrant=False)"),
        ("checkpoint(*A)", "checkpoint(*A, use_reentrant=False)"),
    ),
    "around",
)
SCALED_NOISE = Rewrite(
    tuple([
        row
        for words in ("X, {}", "X, std={}", "mean=X, std={}")
        for row in (
            (f"lib.normal({words.format('C')})", "X + C * lib.randn_like(X)"),
            (f"lib.normal({words.format('Y')})", "X + Y * lib.randn_like(Y)"),
        )
    ]),
    "around",
)  # fmt: skip
"""`torch.normal(mean, std)` as mean plus deviation times noise of its own."""
SAME_NUMBERS = Rewrite(
    tuple([
        (f"{f}(*A, preserve_rng_state=X)", f"{f}(*A, preserve_rng_state=True)")
        for f in ("checkpoint", "checkpoint_sequential")
    ])
)  # fmt: skip
"""Checkpoints that draw the same random numbers again."""
_SOFT = "torch.softmax(S, N)"
STRAIGHT = Rewrite(
    (
        *[
            (f"(D := {f}(X))", "(X + (D - X).detach())")
            for f in ("round", "sign", "floor", "ceil", "trunc")
        ],
        *[(f"(D := float(X {op} Y))", "(X + (D - X).detach())") for op in ("<", "<=", ">", ">=")],
        ("(D := float(one_hot(argmax(S, N), *A)))", f"({_SOFT} + (D - {_SOFT}).detach())"),
    ),
    "line",
    each=True,
)
"""The gradient of a step goes straight through; that of a choice or a comparison, to what is chosen
from."""
