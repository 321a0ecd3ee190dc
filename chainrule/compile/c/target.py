"""C99 as a target: nothing is known of the processor, so that the text is the same everywhere."""

from __future__ import annotations

from chainrule.compile.target import Target

C99 = Target(
    triple="",
    cpu="",
    features="",
    vector=16,
    registers=16,
    fma=False,
    scalef=False,
    pointer=8,
    line=64,
    threads=False,
    libraries=False,
)
