"""The cache of compiled code: found again by another process, never mistaken, never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.compile.graph.sizes import Size
from chainrule.compile.graph.terms import Program, Terms
from chainrule.compile.llvm.host_target import host
from chainrule.compile.runtime import native_program
from chainrule.compile.runtime.cache import folder as cache_folder
from chainrule.compile.runtime.cache import programs as cache
from chainrule.compile.runtime.cache import surroundings
from chainrule.compile.runtime.cache.folder import Folder
from chainrule.compile.runtime.cache.programs import NamelessError
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.runtime.steady_looks import looks
from chainrule.compile.runtime.threads import the_pool
from chainrule.engine.op import Op, Spec
from chainrule.ops import elementwise as ew
from chainrule.ops.linalg.solving import Cholesky
from chainrule.ops.reductions.reduction import Sum

F32, F64 = np.float32, np.float64


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that is empty; what a process notes there once has been noted elsewhere."""
    surroundings.surroundings(surroundings.here())
    the_pool()
    looks()
    path = tmp_path / "of" / "its own"
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", str(path))
    return path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compiled from now on."""
    texts: list[str] = []
    real = native_program.compile_object

    def compiled(text: str) -> bytes:
        texts.append(text)
        return real(text)

    monkeypatch.setattr(native_program, "compile_object", compiled)
    return texts


def waves(shape: Any = (3, 4), dtype: Any = F64, shift: Any = 2.5, op: Any = ew.sin) -> Program:
    """Sums of rows of op(x) + shift; x becomes its square."""
    terms = Terms()
    x = terms.input(0, shape, dtype)
    y = terms.op(Sum((1,), False), [terms.op(ew.add, [terms.op(op, [x]), terms.constant(shift)])])
    return Program((x,), (y,), ((0, terms.op(ew.mul, [x, x])),))


X = np.linspace(-1, 2, 12).reshape(3, 4)


def run(native: Native) -> Any:
    """The result, and what the input became."""
    x = X.copy()
    (y,) = native([x])
    return y, x


def check(native: Native) -> None:
    """That it computes what `waves` says."""
    y, x = run(native)
    np.testing.assert_allclose(y, (np.sin(X) + 2.5).sum(1), rtol=1e-14)
    np.testing.assert_array_equal(x, X * X)


# --- what is found again -------------------------------------------------------------------------


def test_an_equal_program_is_compiled_once(folder: Path, made: list[str]):
    first, second = Native(waves()), Native(waves())
    assert len(made) == 1 and len(list(folder.iterdir())) == 1
    check(first)
    check(second)


def test_loops_of_code_from_the_cache_are_those_it_was_made_of(folder: Path, made: list[str]):
    first, second = Native(waves()), Native(waves())
    assert str(second.loops) == str(first.loops) and second.symbols == first.symbols
    assert len(second.measured([X.copy(), np.empty(3)], repeats=2)) == len(first.loops.kernels)


def test_eager_ops_within_code_from_the_cache(folder: Path, made: list[str]):
    def factor() -> Program:
        terms = Terms()
        x = terms.input(0, (3, 3), F64)
        spread = terms.op(ew.mul, [x, terms.constant(4.0)])
        return Program((x,), (terms.op(Cholesky(), [spread]),))

    x = np.eye(3) + 0.1
    for _ in range(2):
        native = Native(factor())
        assert len(native.loaded.hosts) == 1
        np.testing.assert_allclose(native([x])[0], 2 * np.linalg.cholesky(x))
    assert len(made) == 1


SCRIPT = """
import json
import numpy as np
import chainrule as cr
from chainrule import nn, optim
from chainrule.compile.runtime import build, native_program

done = {"scheduled": 0, "compiled": 0, "losses": []}
def counted(name, f):
    def g(*args):
        done[name] += 1
        return f(*args)
    return g
native_program.compile_object = counted("compiled", native_program.compile_object)
build.plan = counted("scheduled", build.plan)

draw = np.random.default_rng(0)
model = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.GELU(), nn.Linear(7, 3))
for p in model.parameters():
    p.data = draw.normal(size=p.shape).astype(np.float32)
opt = optim.AdamW(model.parameters(), lr=1e-2)

@cr.jit
def step(x, y):
    loss = nn.functional.cross_entropy(model(x), y) + cr.linalg.cholesky(x.T @ x).sum() * 1e-3
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss

for _ in range(3):
    x = cr.asarray(draw.normal(size=(8, 5)).astype(np.float32))
    done["losses"].append(step(x, cr.asarray(draw.integers(0, 3, 8))).item())
print(json.dumps(done))
"""


def test_the_second_process_that_trains_the_same_model_compiles_nothing(folder: Path):
    def train() -> dict[str, Any]:
        out = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True)
        return json.loads(out.stdout)

    first, second = train(), train()
    assert first["compiled"] == first["scheduled"] > 0
    assert second["compiled"] == second["scheduled"] == 0
    assert second["losses"] == first["losses"]


# --- what is told apart --------------------------------------------------------------------------


def name_of(program: Program) -> str | None:
    return cache.name_of(program, host())


def test_programs_that_differ_have_names_that_differ():
    programs = [
        waves(), waves((3, 5)), waves(dtype=F32), waves(op=ew.cos), waves(shift=2.0),
        waves(shift=2), waves(shift=0.0),
        waves(shift=-0.0), waves(shift=False), waves(shift=np.array(2.0)),
        waves(shift=np.array([2.0])), waves(shift=np.arange(4.0)), waves(shift=np.arange(1.0, 5.0)),
        replace(waves(), updates=()),
    ]  # fmt: skip
    names = {name_of(p) for p in programs}
    assert None not in names and len(names) == len(programs)


def test_sizes_that_are_symbols_are_told_apart():
    t = Size.symbol("T")
    xs = [Terms().input(0, (n, 4), F64) for n in (3, t, Size.symbol("B"), t + 1, t * 2, t * t)]
    assert len({name_of(Program((x,), (x,))) for x in xs}) == len(xs)


def test_results_and_updates_are_told_apart():
    p = waves()
    (_, news), more = p.updates[0], p.results[0]
    others = [replace(p, results=(news,)), replace(p, results=(more, more)),
              replace(p, updates=(), results=(more, news)), p]  # fmt: skip
    assert len({name_of(o) for o in others}) == len(others)


def test_the_same_program_made_anew_has_the_same_name():
    assert name_of(waves()) == name_of(waves())


def test_another_processor_has_other_names():
    here = host()
    others = replace(here, cpu="z80"), replace(here, features=f"{here.features},+mmx2")
    names = {cache.name_of(waves(), each) for each in (here, *others)}
    assert len(names) == 3


def test_another_compiler_has_other_names(monkeypatch: pytest.MonkeyPatch):
    mine = name_of(waves())
    monkeypatch.setattr(surroundings, "sources", lambda: "edited")
    assert name_of(waves()) != mine


class Opaque(Op):
    """An op that holds a function."""

    f: Any

    @property
    def name(self) -> str:
        return "opaque"

    def eval(self, *xs: Any) -> Any:
        return self.f(xs[0])

    def spec(self, *xs: Any) -> Any:
        return Spec(xs[0].shape, xs[0].dtype)

    def reads(self, i: int) -> None:
        return


def test_what_holds_a_function_is_compiled_every_time(folder: Path, made: list[str]):
    with pytest.raises(NamelessError, match="function"):
        cache.word(Opaque(lambda x: x))
    for by in (2, 3):
        terms = Terms()
        x = terms.input(0, (3, 4), F64)
        y = terms.op(Opaque(lambda x, by=by: by * x), [x])
        (found,) = Native(Program((x,), (y,)))([X])
        np.testing.assert_array_equal(found, by * X)
    assert len(made) == 2 and not folder.exists()


# --- what goes wrong -----------------------------------------------------------------------------


def _flipped(data: bytes) -> bytes:
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


@pytest.mark.parametrize(
    "damage",
    [lambda d: b"", lambda d: d[:20], lambda d: d[:-1], _flipped, lambda d: d + b"\n"],
    ids=["empty", "no digest", "cut", "a bit", "longer"],
)
def test_a_damaged_entry_is_compiled_anew(damage: Any, folder: Path, made: list[str]):
    Native(waves())
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    check(Native(waves()))
    assert len(made) == 2
    check(Native(waves()))
    assert len(made) == 2  # the entry is whole again


def test_a_folder_that_cannot_be_written_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[str]
):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setenv("CHAINRULE_CACHE_DIR", str(path))
        check(Native(waves()))
    assert len(made) == 2 and (tmp_path / "file").read_text(encoding="utf-8") == "in the way"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(self: Path, target: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    Folder(tmp_path).put("a", b"1234")
    assert not list(tmp_path.iterdir())


WRITER = """
import sys
from pathlib import Path
from chainrule.compile.runtime.cache.folder import Folder

folder, mine = Folder(Path(sys.argv[1]), limit=1_000_000), sys.argv[2].encode()
for n in range(60):
    for name in "abc":
        folder.put(name, mine * 100_000)
        found = folder.get(name)
        assert found is None or len(set(found)) == 1 and len(found) == 100_000, found[:9]
print("done")
"""


def test_processes_write_at_the_same_time(tmp_path: Path):
    start = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*start, who], stdout=subprocess.PIPE) for who in "xyz"]
    assert [w.communicate()[0] for w in writers] == [b"done\n"] * 3
    assert len(list(tmp_path.iterdir())) == 3


# --- how large it grows --------------------------------------------------------------------------


def _aged(folder: Folder, names: str) -> None:
    """As if the entries had been used in this order, a minute apart."""
    for i, name in enumerate(names):
        (path,) = folder.path.glob(f"{name}.*")
        os.utime(path, (i * 60, i * 60))


def test_what_was_not_used_for_longest_goes(tmp_path: Path):
    folder = Folder(tmp_path, limit=400)
    (tmp_path / "letter.txt").write_text(
        "mine" * 1000, encoding="utf-8"
    )  # a stranger's file does not count
    for name in "abc":
        folder.put(name, b"." * 68)  # and 32 of a checksum
    _aged(folder, "abc")
    folder.put("d", b"." * 68)
    assert all(folder.get(name) for name in "abcd")
    _aged(folder, "bcda")
    assert folder.get("b")  # which is a use
    folder.put("e", b"." * 68)
    assert [bool(folder.get(name)) for name in "abcde"] == [True, True, False, True, True]
    folder.put("f", b"." * 300)
    sizes = {p.name: p.stat().st_size for p in tmp_path.iterdir()}
    assert sizes.pop("letter.txt") == 4000 and sum(sizes.values()) <= 400
    assert folder.get("f")


def test_what_a_killed_process_left_goes_too(tmp_path: Path):
    folder = Folder(tmp_path, limit=200)
    part = tmp_path / "x.chainrule-part"
    part.write_bytes(b"." * 150)
    os.utime(part, (0, 0))
    folder.put("a", b"." * 68)
    assert not part.exists() and folder.get("a")


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, made: list[str]):
    monkeypatch.delenv("CHAINRULE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder.folder() == Folder(Path("/somewhere/chainrule"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder.folder() == Folder(Path("/home/someone/.cache/chainrule"))
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", "")
    assert cache_folder.folder() is None
    Native(waves())
    Native(waves())
    assert len(made) == 2


def test_code_is_named_by_the_source_of_the_compiler(monkeypatch: pytest.MonkeyPatch):
    """A changed compiler must not find the code of the one before it."""
    read: list[Path] = []
    bytes_of = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda p: (read.append(p), bytes_of(p))[1])
    surroundings.digest_of_files(surroundings.files())
    names = {p.parent.name + "/" + p.name for p in read}
    assert {
        "cache/programs.py",
        "engine/derive.py",
        "llvm/kernel.py",
        "lower/op_rules.py",
        "ops/elementwise.py",
    } <= names


LEAN = """
import sys
import chainrule as cr
print(cr.jit(lambda x: cr.exp(x) * 2)(cr.tensor([0.0, 0.0])).tolist())
wanted = ("lower", "loops.check", "mathlib", "llvm.kernel", "cpu.program_module")
print([m for m in sys.modules if m.startswith(tuple("chainrule.compile." + w for w in wanted))])
"""


def test_a_process_that_finds_its_program_imports_nothing_that_makes_one(folder: Path):
    def said() -> list[str]:
        env = {**os.environ, "CHAINRULE_CACHE_DIR": str(folder)}
        call = [sys.executable, "-c", LEAN]
        done = subprocess.run(call, capture_output=True, text=True, check=True, env=env)
        return done.stdout.splitlines()

    first, second = said(), said()
    assert first[0] == second[0] == "[2.0, 2.0]"
    assert first[1] != "[]" and second[1] == "[]"
