"""What the pages say is run: README's examples, CONTRIBUTING's op, the steps, doctests, links."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.public import docstring_examples as examples
from tests.sampling import sampled

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
STEPS = sorted((ROOT / "docs" / "steps").glob("*.py"))
PICTURES = sorted((ROOT / "docs").rglob("*.svg"))
MODULES = sorted(
    ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for p in (ROOT / "chainrule").rglob("*.py")
    if p.name != "__main__.py"  # importing it is running the command
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: the words after the fence, and what is inside."""

    page: Path
    line: int
    info: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(page, text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in found]


@dataclass(frozen=True)
class Program:
    """What a page shows as one program, and what it says that this prints."""

    page: Path
    line: int
    text: str
    printed: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def programs_of(page: Path) -> list[Program]:
    """The programs of a page: one begins with its imports, and goes on in blocks without."""
    found: list[Program] = []
    for block in blocks_of(page):
        begins = block.info == "python" and block.text.startswith(("import ", "from "))
        if begins or (found and block.info in ("python", "text")):
            if begins:
                found.append(Program(page, block.line, "", ""))
            last = found.pop()
            text = last.text + "\n" + block.text if block.info == "python" else last.text
            printed = last.printed + block.text if block.info == "text" else last.printed
            found.append(Program(page, last.line, text, printed))
    return [program for program in found if program.printed]


ELSEWHERE = ("errors.md", "kernels.md", "scalar_speed.md")
"""Pages whose text blocks are no output, but errors and reports; other tests compare them."""
PROGRAMS = [p for page in PAGES if page.name not in ELSEWHERE for p in programs_of(page)]
EXAMPLES = [program for program in PROGRAMS if program.page == ROOT / "README.md"]


def run(
    *command: str | Path, cwd: Path, path: Path | str = ROOT, ok: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a Python command elsewhere, with the package that lies in `path`."""
    env = {**os.environ, "PYTHONPATH": str(path), "PYTHONIOENCODING": "utf-8"}
    env.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert (done.returncode == 0) is ok, f"{done.stdout}\n{done.stderr}"
    return done


# --- README and CONTRIBUTING


def test_readme_has_the_four_faces_the_compiler_and_the_verifier():
    assert len(EXAMPLES) == 4


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_page_prints_what_it_says(program: Program, tmp_path: Path):
    (tmp_path / "example.py").write_text(program.text, encoding="utf-8")
    done = run("-W", "error", "example.py", cwd=tmp_path)
    assert done.stdout == program.printed


def test_the_commands_of_the_readme_run(tmp_path: Path):
    lines = [
        line
        for b in blocks_of(ROOT / "README.md")
        if b.info == "sh"
        for line in b.text.splitlines()
    ]
    commands = [line.split() for line in lines if line.startswith("chainrule ")]
    assert [c[1] for c in commands] == ["train", "sample"]
    names = ROOT / "chainrule" / "data" / "us_census_1990_first_names.txt"
    shutil.copy(names, tmp_path / "poems.txt")
    for _, *options in commands:
        if "--steps" in options:
            options[options.index("--steps") + 1] = "3"
        run("-W", "error", "-m", "chainrule", *options, cwd=tmp_path)
    resumed = ["train", "--resume", "runs/poems", "--steps", "4"]
    assert "step" in run("-m", "chainrule", *resumed, cwd=tmp_path).stdout


def test_make_has_the_targets_that_the_pages_name():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"`make (\w+)|^make (\w+)", text, re.MULTILINE))
        targets = {"".join(pair) for pair in named}
        assert targets
        for target in targets:
            assert f"\n{target}:" in makefile, f"{page.name} names make {target}"


def test_adding_an_op_is_two_lines(tmp_path: Path):
    skip = shutil.ignore_patterns("__pycache__")
    for folder in ("chainrule", "tests/ops"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for file in ("__init__.py", "sampling.py"):
        shutil.copy(ROOT / "tests" / file, tmp_path / "tests")
    added = [b for b in blocks_of(ROOT / "CONTRIBUTING.md") if b.info.startswith("python in")]
    assert len(added) == 2
    for block in added:
        place = re.fullmatch(r'python in (\S+) after "(.*)"', block.info)
        assert place, block.info
        file = tmp_path / place[1]
        text = file.read_text(encoding="utf-8")
        assert text.count(f"\n{place[2]}\n") == 1, f"{place[1]} has no line {place[2]!r}"
        file.write_text(text.replace(place[2], f"{place[2]}\n{block.text}", 1), encoding="utf-8")
    ours = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/ops"]
    said = run(*ours, "-k", "bell or every_row_has_a_sample", cwd=tmp_path, path=tmp_path).stdout
    passed = re.search(r"(\d+) passed", said)
    assert passed, said
    assert int(passed[1]) > 30, said
    both = (
        "import chainrule as cr\n"
        "from chainrule.ops.elementwise import bell\n"
        "from chainrule import Value\n"
        "v = Value(-3.0)\n"
        "bell(v).backward()\n"
        "print(v.grad, cr.grad(cr.grad(bell))(3.0).item())\n"
    )
    # a Value computes as Python does, a tensor of Python's number in float32
    expected = "0.06000000000000001 0.052000001072883606\n"
    assert run("-c", both, cwd=tmp_path, path=tmp_path).stdout == expected


DESIGN = [ROOT / "docs" / "design.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]


def missing_modules(text: str) -> list[str]:
    """Files and folders that a page names in code spans, and that are nowhere in the package."""
    spans = " ".join(re.findall(r"`([^`\n]+)`", text)).split()
    named = {s for s in spans if re.fullmatch(r"[\w/]+(\.(py|mjs)|/)", s)}
    known = [f"/{p.relative_to(ROOT)}" + "/" * p.is_dir() for p in (ROOT / "chainrule").rglob("*")]
    known += [f"/{p.relative_to(ROOT)}" for p in (ROOT / "tests").rglob("*.py")]
    known += ["/tests/attacks/", "/bench/", "/chainrule/"]
    return sorted(s for s in named if not any(k.endswith(f"/{s}") for k in known))


@pytest.mark.parametrize("page", DESIGN, ids=lambda p: p.stem)
def test_what_the_design_names_is_there(page: Path):
    assert missing_modules(page.read_text(encoding="utf-8")) == []


def test_a_module_that_is_gone_is_seen():
    assert missing_modules("`ops/gone.py` beside `op.py` and `ops/`") == ["ops/gone.py"]


# --- Steps, pictures, doctests, links


NEEDS = {"11_digits": "scikit-learn"}
"""Steps that need what chainrule does not, and what that is."""
IMPORTED = {"scikit-learn": "sklearn", "pytest-xdist": "xdist"}
"""What a package is imported as, where that is not its name."""
BLOCKED = """
import sys
sys.modules |= dict.fromkeys({names})
"""


@pytest.fixture(scope="session")
def needed_only(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A path on which nothing is found but what chainrule needs: as after `make train`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [*project["dependency-groups"].values()]
    groups += [*project["project"]["optional-dependencies"].values()]
    named = [p for group in groups for p in group if isinstance(p, str)]  # no groups in groups
    packages = [re.split(r"[^\w-]", p)[0] for p in named]
    names = sorted({IMPORTED.get(name, name) for name in packages})
    assert {"torch", "sklearn", "mpmath", "jax"} <= set(names)
    folder = tmp_path_factory.mktemp("path")
    text = BLOCKED.format(names=names)
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return os.pathsep.join([str(folder), str(ROOT)])


@sampled(one_in=3)
@pytest.mark.parametrize("step", STEPS, ids=lambda p: p.stem)
def test_step(step: Path, tmp_path: Path, needed_only: str):
    path = str(ROOT) if step.stem in NEEDS else needed_only
    done = run("-W", "error", step, cwd=tmp_path, path=path)
    assert done.stdout.strip(), "a step shows its numbers"
    assert not list(tmp_path.iterdir()), "a step leaves nothing behind"


@pytest.mark.parametrize("stem", NEEDS)
def test_a_step_says_what_to_install(stem: str, tmp_path: Path, needed_only: str):
    step = ROOT / "docs" / "steps" / f"{stem}.py"
    err = run("-W", "error", step, cwd=tmp_path, path=needed_only, ok=False).stderr
    assert err.count("\n") == 1 and f"pip install {NEEDS[stem]}" in err


def test_a_step_with_a_wrong_number_fails(tmp_path: Path):
    text = STEPS[0].read_text(encoding="utf-8")
    wrong = text.replace("== (-3, 2, 1)", "== (-3, 2, 2)")
    assert wrong != text
    (tmp_path / "wrong.py").write_text(wrong, encoding="utf-8")
    assert "AssertionError" in run("wrong.py", cwd=tmp_path, ok=False).stderr


def test_every_step_checks_something_and_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(steps/(\S+\.py)\)", index) == [p.name for p in STEPS]
    for number, step in enumerate(STEPS, 1):
        text = step.read_text(encoding="utf-8")
        assert step.name.startswith(f"{number:02}_")
        assert text.startswith('"""') and "\nassert " in text.replace("\n    assert", "\nassert")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda p: p.stem)
def test_picture_is_what_the_code_draws(picture: Path):
    script = picture.with_suffix(".py")
    drawn = runpy.run_path(str(script))["drawing"]().svg()
    saved = picture.read_text(encoding="utf-8")
    assert drawn.strip() == saved.strip(), f"run: python {script.relative_to(ROOT)} save"


@sampled(one_in=3)
@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str):
    tests = examples.tests_of_module(importlib.import_module(name))
    assert examples.failures(tests) == []


def test_there_are_examples_in_docstrings():
    files = [p for p in (ROOT / "chainrule").rglob("*.py") if ">>> " in p.read_text("utf-8")]
    assert len(files) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("http://", "https://", "#")):
            assert (page.parent / target.partition("#")[0]).exists(), f"{page.name}: {target}"


LONGEST = 40
"""Words of a sentence."""


def long_sentences(text: str) -> list[str]:
    """Sentences of a page that nobody reads without going back; not those of tables and code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    parts = re.split(r"\n\s*\n|\n(?=\s*[*|#-] ?)|\n(?=\d+\. )", text)
    prose = [" ".join(p.split()) for p in parts if not p.lstrip().startswith("|")]
    sentences = [s for p in prose for s in re.split(r"(?<=[.!?:;])\**\s+", p)]
    return [s for s in sentences if len(s.split()) > LONGEST]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_sentences_are_short(page: Path):
    assert long_sentences(page.read_text(encoding="utf-8")) == []


def test_a_long_sentence_is_seen():
    long = "word " * 41 + "end."
    assert long_sentences(f"Short.\n\n* {long}\n\n| {long} |\n") == [f"* {long}"]


def test_the_table_of_files_names_what_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, table = text.partition("## What is where")
    for row in table.splitlines():
        where = row.split("|")[1] if row.startswith("| `") else ""
        folder = ROOT
        for path in re.findall(r"`([^`]+)`", where):
            found = [p for p in (ROOT / path, folder / path) if p.exists()]
            assert found, f"README: there is no {path}"
            folder = found[0].parent
