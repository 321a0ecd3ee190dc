"""What a process does before its first kernel runs: little, if an earlier one has compiled it."""

from __future__ import annotations

import ctypes
import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile import eager
from chainrule.compile.llvm.host_target import host
from chainrule.compile.runtime import code_placement, linking
from chainrule.compile.runtime.cache import folder as cache_folder
from chainrule.compile.runtime.cache import kernels as kernel_entry
from chainrule.compile.runtime.cache import surroundings
from chainrule.compile.runtime.cache.kernels import KernelEntry
from chainrule.compile.runtime.code_placement import ByLLVM
from chainrule.compile.runtime.linking import Linked, UnlinkableError
from chainrule.compile.runtime.machine_code import compile_object
from chainrule.compile.runtime.steady_looks import looks
from chainrule.compile.runtime.threads import the_pool

ELF = pytest.mark.skipif(
    not host().triple.startswith("x86_64") or "linux" not in host().triple,
    reason="the linker is for ELF on x86-64",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that is empty; what a process notes there once has been noted elsewhere."""
    surroundings.surroundings(surroundings.here())
    the_pool()
    looks()
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


# --- a whole process -----------------------------------------------------------------------------

FIRST = """
import sys
import numpy as np
import chainrule as cr
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=2)
x = cr.tensor(np.linspace(-2, 2, 2048, dtype=np.float32).reshape(4, 512), requires_grad=True)
w = cr.tensor(np.linspace(1, 2, 512, dtype=np.float32), requires_grad=True)
y = cr.layer_norm(x, w)
cr.gelu(y).backward(np.ones(x.shape, x.dtype))
print(*[a.numpy().tobytes().hex() for a in (y.detach(), x.grad, w.grad)])
makers = ("llvmlite.", "scipy", "chainrule.compile.trace", "chainrule.compile.lower",
          "chainrule.compile.graph.rules", "chainrule.compile.llvm", "chainrule.compile.traced")
print([m for m in sys.modules if m.startswith(makers) and m != "llvmlite._version"])
"""


def first(folder: Path, code: str = FIRST) -> list[str]:
    env = {**os.environ, "CHAINRULE_CACHE_DIR": str(folder)}
    call = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        call, env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()


@ELF
def test_a_second_process_loads_no_compiler_and_traces_nothing(tmp_path: Path):
    cold, warm = first(tmp_path / "cache"), first(tmp_path / "cache")
    assert cold[0] == warm[0]
    assert cold[1] != "[]" and warm[1] == "[]"


@ELF
@pytest.mark.parametrize("what", ["kernel-", "machine-", "sources-", "pool-", ""])
def test_what_is_damaged_is_made_anew(what: str, tmp_path: Path):
    folder = tmp_path / "cache"
    want = first(folder)[0]
    first(folder)  # the sources may have been too new for the first
    found = [p for p in folder.iterdir() if p.name.startswith(what)]
    assert found
    for path in found:
        path.write_bytes(path.read_bytes()[:-1])
    assert first(folder)[0] == want
    assert first(folder) == [want, "[]"]


# --- kernels by name -----------------------------------------------------------------------------


def doubled(xs: Any) -> Any:
    return xs[0] * 2


def halved(xs: Any) -> Any:
    return xs[0] / 2


X = np.linspace(-1, 2, 12).reshape(3, 4)


def run(name: str, f: Any, dtype: Any = np.float64, letters: str = "NC") -> Any:
    """What the kernel of that name computes of X."""
    x = X.astype(dtype).reshape(-1) if letters == "N" else X.astype(dtype)
    return eager.kernel(name, f, [letters], [np.dtype(dtype)]).at([x.shape], [x.shape])((x,))[0]


def test_a_kernel_is_found_by_its_name(folder: Path):
    np.testing.assert_array_equal(run("f", doubled), X * 2)
    np.testing.assert_array_equal(run("f", halved), X * 2)  # which nobody looked at
    np.testing.assert_array_equal(run("g", halved), X / 2)
    assert run("f", doubled, np.float32).dtype == np.float32
    assert run("f", doubled, letters="N").shape == (12,)


def test_a_kernel_where_arrays_are_laid_out_otherwise(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(eager, "arrays_are_known", lambda: False)
    np.testing.assert_array_equal(run("f", doubled), X * 2)
    np.testing.assert_array_equal(run("f", doubled), X * 2)


@pytest.mark.parametrize(
    ("limit", "most", "kept"),
    [("SCRATCH", 0, 1), ("SCRATCH", 1 << 20, 3), ("SIZES", 1, 1), ("SIZES", 2, 2)],
)
def test_a_kernel_keeps_some_scratch_memory(
    limit: str, most: int, kept: int, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """Results are right however sizes alternate, and memory does not grow with their number."""
    monkeypatch.setattr(eager, f"MOST_{limit}", most)

    def sums(xs: Any) -> Any:
        return (xs[0] @ xs[0].T) @ xs[0]

    kernel = eager.kernel("products", sums, ["NC"], [np.dtype(np.float64)])
    loaded = vars(kernel)["_loaded"]
    assert loaded.layout.scratch
    calls = {n: kernel.at([(n, 3)], [(n, 3)]) for n in (2, 5, 7)}
    for n in (2, 5, 2, 7, 5, 2):
        x = np.linspace(0, 1, 3 * n).reshape(n, 3)
        np.testing.assert_allclose(calls[n]((x,))[0], x @ x.T @ x)
        assert len(vars(loaded)["_memory"]) <= kept
    assert len(vars(loaded)["_memory"]) == kept
    assert sum(call.run is not None for call in calls.values()) == kept


def test_a_kernel_of_other_sources_is_not_found(folder: Path, monkeypatch: pytest.MonkeyPatch):
    run("f", doubled)
    monkeypatch.setattr(surroundings, "sources", lambda: "edited")
    np.testing.assert_array_equal(run("f", halved), X / 2)


def test_a_kernel_whose_program_is_gone_is_made_anew(folder: Path):
    run("f", doubled)
    (program,) = [p for p in folder.iterdir() if not p.name.startswith("kernel-")]
    program.unlink()
    np.testing.assert_array_equal(run("f", doubled), X * 2)
    assert program.exists()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"program": 1, "args": [], "places": [], "checks": []}',
     b'{"program": "a", "args": [-1], "places": [], "checks": []}',
     b'{"program": "a", "args": [0], "places": [[1, 0]], "checks": []}',
     b'{"program": "a", "args": [0], "places": [[0]], "checks": []}',
     b'{"program": "a", "args": [0], "places": [], "checks": [2]}',
     b'{"program": "a", "args": [0], "places": []}'],
)  # fmt: skip
def test_an_entry_that_is_none_is_not_used(body: bytes, folder: Path):
    run("f", doubled)
    (path,) = folder.glob("kernel-*")
    home = cache_folder.folder()
    assert home is not None
    home.put(path.name.removesuffix(".chainrule-code"), body)
    np.testing.assert_array_equal(run("f", doubled), X * 2)


def test_composites_have_names_that_differ(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Each argument that changes what is computed changes the name, and so does what is wanted."""
    names: list[str] = []

    def noted(name: str, entry: KernelEntry, kernel: Any) -> None:
        names.append(name)

    from chainrule.ops import eager_kernels, fusing

    monkeypatch.setattr(kernel_entry, "put", noted)
    monkeypatch.setattr(kernel_entry, "get", lambda name: None)
    monkeypatch.setattr(eager_kernels, "LEAST", 1)
    for kept in (fusing.value_kernel, fusing.pull_kernel):
        kept.cache_clear()
    x, w = cr.tensor(X, requires_grad=True), cr.tensor(X[0], requires_grad=True)
    fusing._value_call.cache_clear()  # pyright: ignore[reportPrivateUsage]
    fusing._pull_call.cache_clear()  # pyright: ignore[reportPrivateUsage]
    for f in (
        lambda: cr.layer_norm(x), lambda: cr.layer_norm(x, eps=0.1), lambda: cr.layer_norm(x, w),
        lambda: cr.layer_norm(x.detach(), w), lambda: cr.rms_norm(x), lambda: cr.gelu(x),
        lambda: cr.gelu(x, approximate="tanh"), lambda: cr.layer_norm(x.astype(np.float32)),
    ):  # fmt: skip
        f().sum().backward()
    assert len(names) == len(set(names)) == 15  # layer_norm(x, w) twice, of one value


def test_composites_are_functions_whose_source_is_read():
    from chainrule.ops import fusing

    assert all(c.f.__module__.startswith("chainrule.ops.") for c in fusing.composites.values())


# --- what surrounds a program --------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two files that were written an hour ago."""
    root = tmp_path / "package"
    (root / "ops" / "deep").mkdir(parents=True)
    for name in ("a.py", "ops/deep/b.py", "ops/deep/c.txt"):
        (root / name).write_text(name, encoding="utf-8")
    monkeypatch.setattr(surroundings, "_ROOT", str(root))
    monkeypatch.setattr(surroundings, "FOLDERS", ("ops",))
    monkeypatch.setattr(surroundings, "_SETTLED", 0)
    return root


def sources() -> str:
    return vars(surroundings)["sources"].__wrapped__()


def test_sources_are_read_once(package: Path, monkeypatch: pytest.MonkeyPatch):
    found = sources()
    read: list[Path] = []
    monkeypatch.setattr(Path, "read_bytes", lambda p: read.append(p) or b"")
    assert sources() == found and not read
    os.utime(package / "a.py")
    assert sources() != found and len(read) == 2


@pytest.mark.parametrize("name", ["a.py", "ops/deep/b.py"])
def test_an_edit_is_seen(name: str, package: Path):
    found, path = sources(), package / name
    stat = path.stat()
    path.write_text(name[::-1], encoding="utf-8")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as long, and as if as old
    assert sources() != found
    path.unlink()
    assert sources() != found


def test_a_file_that_just_changed_is_not_relied_on(package: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(surroundings, "_SETTLED", 3600 * 10**9)
    sources()
    read: list[Path] = []
    monkeypatch.setattr(Path, "read_bytes", lambda p: read.append(p) or b"")
    sources()
    assert len(read) == 2


def test_the_machine_is_what_llvm_says():
    assert surroundings.here() == host()


def test_another_start_or_processor_asks_llvm_again(monkeypatch: pytest.MonkeyPatch):
    stamp = vars(surroundings)["_llvm_stamp"]
    if stamp() is None:
        pytest.skip("this system does not say")
    mine, opened = stamp(), Path.open
    assert stamp() == mine
    for path, said in (("boot_id", "another\n"), ("cpuinfo", b"flags: none\n\n")):

        def other(self: Path, *how: Any, path: str = path, said: Any = said, **named: Any) -> Any:
            if self.name != path:
                return opened(self, *how, **named)
            return io.StringIO(said) if isinstance(said, str) else io.BytesIO(said)

        monkeypatch.setattr(Path, "open", other)
        assert stamp() != mine


def test_modules_that_a_trace_loads_are_among_the_sources(tmp_path: Path):
    """What changes a composite's trace must change the names of kernels."""
    code = FIRST + (
        "root = next(iter(sys.modules['chainrule'].__path__))\n"
        "print([m.__file__ for n, m in sys.modules.items() if n.startswith('chainrule')])\n"
    )
    loaded = eval(first(tmp_path / "cache", code)[2])
    known = {path for path, *_ in surroundings.files()}
    elsewhere = {str(Path(p).relative_to(Path(cr.__file__).parent)) for p in set(loaded) - known}
    assert {p.split("/")[0] for p in elsewhere} <= {"names", "files"}


# --- the linker ----------------------------------------------------------------------------------

MODULE = """
@table = constant [2 x ptr] [ptr @count, ptr @twice]
@total = internal global i64 40
@zero = internal global [512 x i64] zeroinitializer, align 64
declare double @sqrt(double)
define i64 @count(i64 %n) {
  %old = load i64, ptr @total
  %new = add i64 %old, %n
  store i64 %new, ptr @total
  ret i64 %new
}
define i64 @twice(i64 %n) {
  %m = call i64 @count(i64 %n)
  %f = load ptr, ptr @table
  %k = call i64 %f(i64 %n)
  ret i64 %k
}
define double @root(double %x) {
  %y = call double @sqrt(double %x)
  %z = fmul double %y, 0x4000CCCCCCCCCCCD
  ret double %z
}
"""
LONG = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
DOUBLE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


@ELF
@pytest.mark.parametrize("kind", [Linked, ByLLVM])
def test_code_data_and_constants_are_linked(kind: Any):
    code = kind(compile_object(MODULE))
    assert LONG(code.address("count"))(2) == 42
    assert LONG(code.address("twice"))(1) == 44
    assert DOUBLE(code.address("root"))(9.0) == 3 * 2.1
    other = kind(compile_object(MODULE))
    assert LONG(other.address("count"))(2) == 42  # data of its own


@ELF
def test_nothing_is_both_written_and_run():
    code = Linked(compile_object(MODULE))
    places = [code.address(name) for name in ("count", "table")]
    rights: list[str] = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        low, high = [int(n, 16) for n in line.split()[0].split("-")]
        rights += [line.split()[1] for place in places if low <= place < high]
    assert sorted(rights) == ["r--p", "r-xp"]


def test_what_the_linker_does_not_know_is_llvms(monkeypatch: pytest.MonkeyPatch):
    whole = compile_object(MODULE)
    missing = compile_object("declare void @nowhere()\ndefine void @f() {\n call void @nowhere()\n"
                             " ret void\n}\n")  # fmt: skip
    for code in (b"", b"MZ" + bytes(100), b"\0asm\1\0\0\0", whole[:-30], whole[:200], missing):
        with pytest.raises(UnlinkableError):
            Linked(code)
    monkeypatch.setattr(linking, "_X86_64", 183)
    code = code_placement.placed(whole)
    assert isinstance(code, ByLLVM) and LONG(code.address("count"))(2) == 42


@ELF
def test_names_that_this_package_gives_are_found(monkeypatch: pytest.MonkeyPatch):
    ten = LONG(lambda n: 10 * n)
    address = ctypes.cast(ten, ctypes.c_void_p).value
    text = "declare i64 @of_ours(i64)\ndefine i64 @f(i64 %n) {\n %y = call i64 @of_ours(i64 %n)\n"
    monkeypatch.setitem(linking.known, "of_ours", address)
    for kind in (Linked, ByLLVM):
        code = kind(compile_object(f"{text} ret i64 %y\n}}\n"))
        assert LONG(code.address("f"))(7) == 70


@ELF
def test_no_program_of_ours_needs_llvm_to_be_linked(monkeypatch: pytest.MonkeyPatch):
    def refuse(code: bytes) -> None:
        raise AssertionError("linked by LLVM")

    monkeypatch.setattr(code_placement, "ByLLVM", refuse)
    x = np.linspace(0.1, 2, 400_000).reshape(2, -1, 20)
    made = cr.jit(lambda x: cr.special.lgamma(cr.sin(x)) + cr.linalg.det(x[0, :20]) + x @ x[0, :20])
    made(x)
    fft = cr.jit(lambda x: cr.sort(abs(cr.fft.fft(x))))
    fft(x)
    step = cr.jit(cr.grad(lambda w: (cr.tanh(x @ w) ** 2).sum()))
    step(x[0, :20])


def test_code_that_is_loaded_often_is_quick():
    """A program of a thousand addresses takes no longer than a few milliseconds."""
    calls = "\n".join(f"  %y{i} = call i64 @count(i64 {i})" for i in range(1000))
    code = compile_object(f"{MODULE}define i64 @many() {{\n{calls}\n  ret i64 %y999\n}}\n")
    start = time.process_time()
    for _ in range(10):
        code_placement.placed(code)
    assert time.process_time() - start < 0.5
