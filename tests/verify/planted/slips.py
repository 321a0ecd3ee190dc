"""Reads the `.slips` files beside the right code: small diffs, each with the mistake's names.

call: linear linear_backward        how it is called: see `Call` for the keys

V1 x-bar: transposed (at square)    row of the list, own words, codes, where it is verified
- g @ W.T                           text that occurs once in the right code ...
+ g @ W                             ... and what stands there instead
"""

from __future__ import annotations

import re
from pathlib import Path

from .case import Call, Case, Right, Slip

FOLDERS = {"numpy": "arrays", "torch": "torch", "own": "own", "script": "scripts"}
_HEAD = re.compile(r"(V\d+|X) ([\w-]+): ([\w ]+?)((?: \(\w+ \w+\))*)$")


def parsed(block: str) -> Slip:
    """One block: its head line and its edits."""
    head, *lines = block.splitlines()
    found = _HEAD.fullmatch(head)
    if not found:
        raise ValueError(f"not the head of a slip: {head!r}")
    edits: list[tuple[list[str], list[str]]] = []
    for line in lines:
        if line[:1] == "-" and (not edits or edits[-1][1]):
            edits.append(([], []))
        edits[-1]["-+".index(line[0])].append(line[2:])
    options = dict(re.findall(r"\((\w+) (\w+)\)", found[4]))
    return Slip(
        v=found[1],
        what=found[2],
        codes=tuple(found[3].split()),
        edits=tuple([("\n".join(old), "\n".join(new)) for old, new in edits]),
        at=options.get("at", ""),
        wrong=options.get("wrong", ""),
    )


def read(face: str, path: Path) -> Right:
    """The right code beside the file, with the file's slips."""
    head, *blocks = re.split(r"\n\n+", path.read_text(encoding="utf-8").strip("\n"))
    keys = dict([line.split(": ", 1) for line in head.splitlines()])
    forward, _, backward = keys["call"].partition(" ")
    call = Call(
        forward,
        backward,
        keys.get("order", "g first"),
        tuple(keys.get("params", "").split()),
        tuple(keys.get("grads", "").split()),
        keys.get("as", ""),
    )
    slips = tuple([parsed(block) for block in blocks])
    op = keys.get("op", path.stem)
    return Right(face, op, path.with_suffix(".py"), call, slips, keys.get("at", "generic"))


def rights(face: str) -> list[Right]:
    """All right code of a face."""
    folder = Path(__file__).parent / "right" / FOLDERS[face]
    return [read(face, path) for path in sorted(folder.glob("*.slips"))]


def cases(face: str) -> list[Case]:
    """Every slip of every right code of a face."""
    return [Case(right, slip) for right in rights(face) for slip in right.slips]
