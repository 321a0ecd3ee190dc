"""Memory after copies of the process: the script's next writes do not go through the kernel."""

from __future__ import annotations

import mmap
import os
import resource
import sys
from pathlib import Path

import pytest

from chainrule.verify.script.sandbox import quiet

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells what is in memory"
)
PAGES = 4096


def faults(memory: mmap.mmap) -> int:
    """How often the kernel is asked while one byte of each page is written."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for i in range(0, len(memory), mmap.PAGESIZE):
        memory[i] = 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def copied() -> None:
    """A copy of the process comes and goes."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_writes_after_a_copy_are_as_before():
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        faults(memory)
        copied()
        assert faults(memory) > PAGES // 2
        copied()
        quiet.reclaim()
        if faults(memory) > PAGES // 2:
            pytest.skip("this kernel cannot take faults in advance")
        assert faults(memory) < PAGES // 8


def test_no_page_is_added():
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE) as memory:
        memory[0] = 1
        before = _resident()
        quiet.reclaim()
        assert _resident() - before < PAGES // 2
        assert memory[mmap.PAGESIZE] == 0


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
