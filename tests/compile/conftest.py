"""Every program that is compiled while these tests run is checked by `chainrule.compile.spec`."""

from __future__ import annotations

from chainrule.compile import program

program.CHECKING = True
