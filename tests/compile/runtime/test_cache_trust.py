"""Whose cache entries are run: those of this user, and nobody else's."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.compile.graph.sizes import Size
from chainrule.compile.graph.terms import Program, Terms
from chainrule.compile.llvm.host_target import host
from chainrule.compile.runtime import native_program
from chainrule.compile.runtime.cache import entry as cache_entry
from chainrule.compile.runtime.cache import folder as cache_folder
from chainrule.compile.runtime.cache import key as cache_key
from chainrule.compile.runtime.cache import programs as cache
from chainrule.compile.runtime.cache import surroundings
from chainrule.compile.runtime.cache.folder import Folder
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.runtime.steady_looks import looks
from chainrule.compile.runtime.threads import the_pool
from chainrule.errors import CacheWarning
from chainrule.ops import elementwise as ew
from chainrule.ops.linalg.solving import Cholesky

pytestmark = pytest.mark.skipif(os.name == "nt", reason="of permissions as POSIX has them")
ROOT_ONLY = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root gives away")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that is empty, a key that is not made yet, no warning that was given."""
    surroundings.surroundings(surroundings.here())  # noted elsewhere
    the_pool()
    looks()
    path = tmp_path / "cache"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", str(path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(cache_folder, "_warned", set[str]())
    return path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compiled from now on."""
    texts: list[str] = []
    real = native_program.compile_object
    monkeypatch.setattr(
        native_program, "compile_object", lambda text: (texts.append(text), real(text))[1]
    )
    return texts


def waves(shift: float = 2.5) -> Program:
    terms = Terms()
    x = terms.input(0, (3, 4), np.float64)
    return Program((x,), (terms.op(ew.add, [terms.op(ew.sin, [x]), terms.constant(shift)]),))


def check() -> None:
    """That the program computes what it says."""
    x = np.linspace(-1, 2, 12).reshape(3, 4)
    np.testing.assert_allclose(Native(waves())([x])[0], np.sin(x) + 2.5, rtol=1e-14)


class Hostile:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


# --- folders and entries of others ---------------------------------------------------------------


def _folder_link(folder: Path, entry: Path) -> None:
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")


FOREIGN: dict[str, tuple[Callable[[Path, Path], Any], str]] = {
    "folder 777": (lambda f, e: f.chmod(0o777), r"cache can be written by others \(mode 777\)"),
    "folder 770": (lambda f, e: f.chmod(0o770), "can be written by others"),
    "entry 666": (lambda f, e: e.chmod(0o666), r"code can be written by others \(mode 666\)"),
    "folder is a link": (_folder_link, "cache is a symbolic link"),
}


@pytest.mark.parametrize("how", FOREIGN)
def test_what_others_can_write_is_not_run(how: str, folder: Path, made: list[str]):
    check()
    (entry,) = folder.iterdir()
    entry.write_bytes(pickle.dumps(Hostile(folder / "ran")))
    spoil, says = FOREIGN[how]
    spoil(folder, entry)
    with pytest.warns(CacheWarning, match=says) as seen:
        check()
    assert "chmod go-w" in str(seen[0].message) and len(made) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check()  # it is said once
    assert not (folder / "ran").exists()


@ROOT_ONLY
@pytest.mark.parametrize("what", ["folder", "entry"])
def test_what_others_own_is_not_run(what: str, folder: Path, made: list[str]):
    check()
    (entry,) = folder.iterdir()
    os.chown(folder if what == "folder" else entry, 12345, 12345)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        check()
    assert len(made) == 2


def test_a_pipe_and_a_link_are_no_entries(folder: Path, made: list[str]):
    check()
    (entry,) = folder.iterdir()
    kept = entry.rename(folder.parent / "kept")
    for put in (lambda: os.mkfifo(entry), lambda: entry.symlink_to(kept), entry.mkdir):
        put()
        check()
        if entry.is_dir():
            entry.rmdir()
        else:
            assert entry.is_file() and not entry.is_symlink()  # a new one took its place
            entry.unlink()
    assert len(made) == 4


# --- keys ----------------------------------------------------------------------------------------


def test_an_entry_is_of_one_name_and_one_key(folder: Path, monkeypatch: pytest.MonkeyPatch):
    mine = Folder(folder)
    mine.put("a", b"body")
    (entry,) = folder.iterdir()
    assert mine.get("a") == b"body"
    (folder / entry.name.replace("a.", "b.", 1)).write_bytes(entry.read_bytes())
    assert mine.get("b") is None
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent / "of another user"))
    assert mine.get("a") is None
    mine.put("c", b"body")
    assert mine.get("c") == b"body" and mine.get("a") is None


def test_a_key_is_secret_and_made_once(folder: Path):
    secret = cache_key.key(make=True)
    path = cache_key.folder() / "cache.key"
    assert secret == path.read_bytes() and len(secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["cache.key"]
    assert cache_key.key(make=True) == secret


def test_a_key_that_others_can_read_is_no_key(folder: Path, monkeypatch: pytest.MonkeyPatch):
    cache_key.key(make=True)
    (cache_key.folder() / "cache.key").chmod(0o644)
    monkeypatch.setattr(cache_key, "_known", {})
    with pytest.warns(CacheWarning, match=r"cache\.key can be read by others"):
        Folder(folder).put("a", b"body")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("damage", [b"", b"short", b"long" * 9])
def test_a_damaged_key_is_made_anew(damage: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch):
    Folder(folder).put("a", b"body")
    path = cache_key.folder() / "cache.key"
    path.write_bytes(damage)
    monkeypatch.setattr(cache_key, "_known", {})
    assert Folder(folder).get("a") is None
    Folder(folder).put("a", b"body")
    assert Folder(folder).get("a") == b"body" and len(path.read_bytes()) == 32


MAKER = """
import sys
from chainrule.compile.runtime.cache import key as cache_key

made = cache_key._make

def make_when_told(path):
    print("no key yet", flush=True)
    sys.stdin.readline()
    return made(path)

cache_key._make = make_when_told
print(cache_key.key(make=True).hex())
"""


@pytest.mark.parametrize("before", [None, b"damaged"])
def test_processes_that_make_a_key_at_once_agree(before: bytes | None, folder: Path):
    """They wait where each has seen that there is no key, so that all of them make one."""
    path = cache_key.folder() / "cache.key"
    if before is not None:
        cache_key.key(make=True)
        path.write_bytes(before)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MAKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for each in started:
        assert each.stdout is not None and each.stdout.readline() == b"no key yet\n"
    for each in started:
        assert each.stdin is not None
        each.stdin.write(b"\n")
        each.stdin.flush()
    found = {each.communicate()[0] for each in started}
    assert found == {path.read_bytes().hex().encode() + b"\n"}


def test_without_a_place_for_a_key_there_is_no_cache(folder: Path, made: list[str]):
    (folder.parent / "config").write_text("in the way", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check()
        check()
    assert len(made) == 2 and not list(folder.iterdir())


# --- what an entry says --------------------------------------------------------------------------


def rooted(constant: float, n: Any = 3) -> Program:
    """A factor, in its eager form where LAPACK fails, and a sum of a symbol's size."""
    terms = Terms()
    x = terms.input(0, (n, n), np.float64)
    fixed = terms.constant(np.diag([constant, 2.0, 3.0]))
    return Program((x,), (terms.op(Cholesky(), [x]), terms.op(Cholesky(), [fixed])))


@pytest.mark.parametrize("n", [3, Size.symbol("N")])
def test_what_is_read_is_what_was_written(n: Any):
    p = rooted(4.0, n)
    made = Native(p)._made()  # pyright: ignore[reportPrivateUsage]
    layout, hosts, code = cache_entry.read(cache_entry.write(made, p, ["name"]), p, ["name"])

    def shown(layout: Any, hosts: Any) -> list[Any]:
        buffers = [*layout.objects, *layout.scratch]
        places = [(s.buffer.name, s.offset, s.shape, s.strides) for h in hosts
                  for s in (*h.inputs, *h.outputs)]  # fmt: skip
        constants = [s.buffer.value for h in hosts for s in h.inputs if s.buffer.value is not None]
        return [
            layout.symbols, layout.results, [layout.lives[b] for b in layout.scratch],
            [(b.name, b.dtype, b.shape, b.role, b.label) for b in buffers], places,
            [h.op for h in hosts], [c.tolist() for c in constants],
        ]  # fmt: skip

    assert hosts and code == made[2] and shown(layout, hosts) == shown(made[0], made[1])


def test_an_entry_of_another_program_is_malformed():
    p, other = rooted(4.0), rooted(5.0)
    body = cache_entry.write(Native(p)._made(), p, ["name"])  # pyright: ignore[reportPrivateUsage]
    for label, whose in ((["other"], p), (["name", "digest"], p), (["name"], waves())):
        with pytest.raises(cache_entry.MalformedError):
            cache_entry.read(body, whose, label)
    assert cache.name_of(p, host()) != cache.name_of(other, host())


def test_nothing_that_reads_files_can_run_what_they_hold():
    """Pickles pass only through pipes from processes that this one has started."""
    root = Path(cache.__file__).parents[3]
    loaders = ("import pickle", "import marshal", "import shelve", "allow_pickle", "import dill")
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in loaders)
    }
    pipes = {"verify/script/sandbox/fork.py"}
    assert found <= {*pipes, "data/worker_processes.py"}
