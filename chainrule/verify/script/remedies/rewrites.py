"""What a reader would write instead of what cuts a graph, or draws other numbers when run again."""

from __future__ import annotations

from chainrule.verify.script.remedies.patterns import Rewrite

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
