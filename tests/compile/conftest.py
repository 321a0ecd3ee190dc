"""Every program that is compiled while these tests run is checked (`compile.checking.spec`)."""

from __future__ import annotations

from chainrule.compile.runtime import build

build.CHECKING = True
