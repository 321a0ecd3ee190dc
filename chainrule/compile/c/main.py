"""`main` and what it reads: the text of the end of the file.

The data's file begins with three int64: a number that tells what it is, the bytes of the state, how
many batches there are. The state and the batches follow, each array as it lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.c.arrays import Array
from chainrule.compile.export.call_data import without_folders

MAGIC = int.from_bytes(b"chainrul", "little")

_READ = """\
/* Reads so many bytes from the data's file. */
static void read_bytes(FILE *file, void *to, size_t bytes) {
    if (fread(to, 1, bytes, file) != bytes) {
        fprintf(stderr, "the data ends too soon\\n");
        exit(1);
    }
}
"""


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """What is read once, what of it lives on, what is read at every step, and what is printed."""

    initial: list[Array]
    state: list[Array]
    each_step: list[Array]
    results: list[Array]
    outside: Array | None
    checks: list[str]
    """What to say for each bit of `outside`: the indices that were out of range."""
    asks_first: bool = False
    """Whether the first call tells of that, and no other one is made then."""


def main_text(
    reading: Reading, calls: Sequence[str], symbols: Sequence[str], data: str, steps: int
) -> str:
    """The functions that read, and `main`, which makes these `calls` at every step. It takes so
    many `steps`, and reads the file `data`, unless it is told otherwise."""
    lines = [
        *_open_data(data, steps),
        "    read_state(file);",
        "    const long batches_start = ftell(file);",
        "    for (int step = 0; step < steps; step++) {",
        "        if (step % header[2] == 0) fseek(file, batches_start, SEEK_SET);",
        *[f"        int64_t {s};\n        read_bytes(file, &{s}, sizeof {s});" for s in symbols],
        *([f"        read_batch({', '.join(['file', *symbols])});"] if reading.each_step else []),
        *[f"        {call}" for call in _asking(reading, calls)],
        *[f"        {line}" for line in _print_results(reading.results)],
        "    }",
        "    fclose(file);",
        "    if (argc > 3) write_state(argv[3]);",
        "    return 0;",
    ]  # fmt: skip
    arguments = "".join([f", int {s}" for s in symbols])
    batch = _reader("read_batch", reading.each_step, arguments) if reading.each_step else ""
    return "\n".join([
        "/* ---- main ---- */\n", _READ, _reader("read_state", reading.initial, ""),
        *([batch] if batch else []),
        *([_refusal(reading.checks)] if reading.outside else []),
        _writer([*reading.state, *dict.fromkeys(reading.results)]),
        "int main(int argc, char **argv) {\n" + "\n".join(lines) + "\n}\n",
    ])  # fmt: skip


def _asking(reading: Reading, calls: Sequence[str]) -> list[str]:
    """The calls, with the question whether anything was outside."""
    if reading.outside is None:
        return [*calls]
    name, first = reading.outside.name, 1 if reading.asks_first else len(calls)
    return [*calls[:first], f"if (*{name}) return refuse(*{name});", *calls[first:]]


def _reader(name: str, arrays: Sequence[Array], arguments: str) -> str:
    lines = [f"    read_bytes(file, {a.name}, {a.bytes()});\n" for a in arrays]
    body = "".join(lines) or "    (void)file;\n"
    return f"static void {name}(FILE *file{arguments}) {{\n{body}}}\n"


def _writer(arrays: Sequence[Array]) -> str:
    lines = [f"    fwrite({a.name}, 1, {a.room()}, file);\n" for a in arrays]
    return (
        "/* Writes the state and the results as they are now, each array as it lies in memory. */\n"
        "static void write_state(const char *path) {\n"
        '    FILE *file = fopen(path, "wb");\n'
        "    if (!file) {\n"
        '        fprintf(stderr, "%s cannot be written\\n", path);\n'
        "        exit(1);\n"
        "    }\n" + "".join(lines) + "    fclose(file);\n}\n"
    )


def _refusal(checks: Sequence[str]) -> str:
    lines = [
        f'    if (outside >> {bit} & 1) fputs("{_c_string(words)}\\n", stderr);\n'
        for bit, words in enumerate(checks)
    ]
    return (
        "/* Says what was outside. */\n"
        "static int refuse(int64_t outside) {\n" + "".join(lines) + "    return 1;\n}\n"
    )


def _c_string(words: str) -> str:
    """What a check says in a string of C, with the name of the file alone."""
    plain = without_folders(words).encode("ascii", "replace").decode()
    return plain.replace("\\", "/").replace('"', "'").replace("?", ".")


def _open_data(data: str, steps: int) -> list[str]:
    """The lines of `main` that read the number of steps and open the file of data."""
    return [
        f"    const int steps = argc > 1 ? atoi(argv[1]) : {steps};",
        f'    const char *path = argc > 2 ? argv[2] : "{data}";',
        '    FILE *file = fopen(path, "rb");',
        "    int64_t header[3];",
        "    if (!file) {",
        '        fprintf(stderr, "%s cannot be read: give its path after the number of steps\\n",',
        "                path);",
        "        return 1;",
        "    }",
        "    read_bytes(file, header, sizeof header);",
        f"    if (header[0] != INT64_C({MAGIC}) || header[2] < 1) {{",
        '        fprintf(stderr, "%s is not the data of this program\\n", path);',
        "        return 1;",
        "    }",
    ]


def _print_results(results: Sequence[Array]) -> list[str]:
    """Prints the results that are single numbers."""
    lines = ['printf("step %d", step + 1);']
    for a in [a for a in dict.fromkeys(results) if a.shape == ()]:
        digits = "%.17g" if a.dtype.itemsize == 8 else "%.9g"
        lines.append(f'printf("  {a.path} {digits}", (double)*{a.name});')
    return [*lines, 'printf("\\n");']


# --- the data beside the file, in the byte order of this machine ----------------------------------


def data_of(state: Sequence[Any], batches: Sequence[Sequence[Any]]) -> bytes:
    """The header, the state, and each batch."""
    size = sum([a.nbytes for a in state])
    header = np.array([MAGIC, size, len(batches)], np.int64)
    arrays = [header, *state, *[a for batch in batches for a in batch]]
    return b"".join([a.tobytes() for a in arrays])
