"""Every picture in every viewer: colours and fonts are attributes, style sheets add the dark."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import chainrule as cr
from chainrule import Value, show
from chainrule.page.curve import Curve
from chainrule.page.curve_svg import svg as curve_svg
from chainrule.page.palette import PALETTE
from chainrule.verify.finding import Heat
from chainrule.verify.reporting import as_html
from tests.show.png import pixels

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
FILLED = {f"{SVG}{tag}" for tag in ("rect", "path", "circle", "polygon", "text")}


def two_layers(x: cr.Tensor, w: cr.Tensor) -> cr.Tensor:
    return (cr.tanh(x @ w) * 2.0).sum()


def scalars() -> str:
    a, b = Value(2.0, label="a"), Value(-3.0, label="b & <c>")
    y = (a * b).relu()
    y.backward()
    return show.svg(y, steps=[y])


def curve() -> str:
    losses = [3.0 - i / 40 + 0.2 * (i % 3) for i in range(60)]
    return curve_svg(Curve(losses, [(20, 2.9), (60, 2.0)], "names <1>", "layers 2 & more"))


def matrices() -> list[str]:
    right = np.random.default_rng(0).normal(size=(6, 8))
    wrong = np.where(right > 1.2, np.nan, 2 * right)
    figures = list(as_html._pictures(Heat(wrong, right, (6,), (8,))))
    return re.findall(r"<svg.*?</svg>", "".join(figures), re.DOTALL)


X, W = np.ones((2, 3)), np.full((3, 2), 0.5)
WRITERS: dict[str, Callable[[], str]] = {
    "tensors": lambda: show.svg(two_layers, X, W),
    "tensors, downwards": lambda: show.svg(two_layers, X, W, direction="down", flow=True),
    "scalars": scalars,
    "a part of a graph": lambda: show.svg(lambda x: x * x * x * x, 2.0, max_nodes=3),
    "losses": curve,
    "a matrix": lambda: matrices()[0],
    "a right matrix": lambda: matrices()[1],
    "a difference": lambda: matrices()[2],
    **{str(p.relative_to(ROOT)): lambda p=p: p.read_text("utf-8")
       for p in sorted(ROOT.glob("docs/**/*.svg"))},
}  # fmt: skip


def faults(text: str) -> list[str]:
    """What would look wrong in a viewer that knows no style sheets."""
    root, out = ET.fromstring(text), list[str]()
    parents = {child: parent for parent in root.iter() for child in parent}

    def value(e: ET.Element | None, name: str) -> str:
        while e is not None and name not in e.attrib:
            e = parents.get(e)
        return "" if e is None else e.attrib[name]

    for e in root.iter():
        needed = ["fill"] if e.tag in FILLED else ["stroke"] if e.tag == f"{SVG}line" else []
        needed += ["font-size", "font-family"] if e.tag == f"{SVG}text" else []
        out += [f"{e.tag} has no {name}" for name in needed if not value(e, name)]
        for name in ("fill", "stroke"):
            colour = e.get(name, "none")
            if not re.fullmatch(r"none|#[0-9a-f]{6}", colour):
                out.append(f"{e.tag} has {name}={colour}")
        if "style" in e.attrib or "var(" in "".join(e.attrib.values()):
            out.append(f"{e.tag} has a style")
    return out


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_depends_on_a_style_sheet(name: str):
    assert faults(WRITERS[name]()) == []


@pytest.mark.parametrize("name", WRITERS)
def test_the_style_sheet_is_dark_colours_of_this_picture_only(name: str):
    root = ET.fromstring(WRITERS[name]())
    sheet = root.find(f"{SVG}style")
    assert sheet is not None and sheet.text
    first, *rules, last = sheet.text.strip().splitlines()
    assert first == "@media (prefers-color-scheme: dark) {" and last == "}"
    colours = {c.dark for c in PALETTE.values()}
    for rule in rules:
        assert rule.startswith(f".{root.get('class')} .")
        assert set(re.findall(r"#\w+", rule)) <= colours
    used = {c for e in root.iter() for c in e.get("class", "").split()}
    lights = {c.light for c in PALETTE.values()}
    roles = [e for e in root.iter() if {e.get("fill"), e.get("stroke")} & lights and e.get("class")]
    assert roles and used


OLD = (
    f'<svg xmlns="{SVG[1:-1]}" class="s" width="40" height="20"><style>.s {{--a:#ffffff}} '
    ".s .g {fill:var(--a)}</style>{body}</svg>"
)


def test_what_depends_on_a_style_sheet_is_seen():
    bodies = ['<rect class="g"/>', '<rect fill="var(--a)"/>', '<rect fill="red"/>',
              '<line x2="1"/>', '<text fill="#000000" font-size="3">a</text>',
              '<g style="fill:#000000"/>']  # fmt: skip
    for body in bodies:
        assert faults(OLD.replace("{body}", body)), body
    assert not faults(OLD.replace("{body}", '<g fill="#000000"><rect/></g>'))


# --- as rsvg-convert draws it, which knows no media queries

drawn = pytest.mark.skipif(
    shutil.which("rsvg-convert") is None,
    reason="rsvg-convert is not installed (Debian: librsvg2-bin): pictures were not drawn",
)


def png(text: str) -> NDArray[np.uint8]:
    done = subprocess.run(["rsvg-convert"], input=text.encode(), capture_output=True, check=True)
    return pixels(done.stdout)


def share(image: NDArray[np.uint8], colour: str) -> float:
    """Part of the opaque pixels that have about this colour."""
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    near = (np.abs(image[..., :3].astype(int) - wanted) <= 6).all(axis=-1)
    opaque = image[..., 3] > 250 if image.shape[-1] == 4 else True
    return float((near & opaque).mean())


def without(text: str, tag: str) -> str:
    root = ET.fromstring(text)
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag == f"{SVG}{tag}"]:
            parent.remove(child)
    return ET.tostring(root, "unicode")


@drawn
@pytest.mark.parametrize("name", WRITERS)
def test_a_viewer_draws_it_as_it_is_meant(name: str):
    text = WRITERS[name]()
    image = png(text)
    np.testing.assert_array_equal(image, png(without(text, "style")))
    root = ET.fromstring(text)
    size = [float(root.attrib[k]) for k in ("height", "width")]
    np.testing.assert_allclose(image.shape[:2], size, atol=1)
    if f"{SVG}text" in {e.tag for e in root.iter()}:
        assert share(image, "#000000") < 0.001
        assert share(image, PALETTE["ground"].light) > 0.3
        bare = png(without(text, "text"))
        assert (bare != image).any(axis=-1).mean() > 0.005  # the text is there
    for e in root.iter(f"{SVG}rect"):
        if e.get("class"):
            fill = e.get("fill", "none")
            assert fill == "none" or share(image, fill) > 0.001


@drawn
def test_a_picture_made_of_variables_would_be_seen_to_be_black():
    image = png(OLD.replace("{body}", '<rect class="g" width="40" height="20"/>'))
    assert share(image, "#ffffff") < 0.5


def test_pixels_are_read_with_every_filter():
    import struct
    import zlib

    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (5, 4, 4), np.uint8)
    raw, above = b"", np.zeros((4, 4), int)
    for kind, row in enumerate(image.astype(int)):
        left, corner = np.vstack([np.zeros((1, 4), int), row[:-1]]), np.vstack(
            [np.zeros((1, 4), int), above[:-1]])  # fmt: skip
        p = left + above - corner
        a, b, c = abs(p - left), abs(p - above), abs(p - corner)
        paeth = np.where((a <= b) & (a <= c), left, np.where(b <= c, above, corner))
        guess = [0 * row, left, above, (left + above) // 2, paeth][kind]
        raw += bytes([kind]) + ((row - guess) % 256).astype(np.uint8).tobytes()
        above = row
    head = struct.pack(">I4sIIBBBBBI", 13, b"IHDR", 4, 5, 8, 6, 0, 0, 0, 0)
    body = zlib.compress(raw)
    data = b"\x89PNG\r\n\x1a\n" + head + struct.pack(">I4s", len(body), b"IDAT") + body + bytes(4)
    np.testing.assert_array_equal(pixels(data), image)


# --- colours


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(a: str, b: str) -> float:
    high, low = sorted([luminance(a), luminance(b)], reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("role", ["ink", "soft", "accent", "contrast", "bad", "look", "good"])
def test_text_can_be_read_on_every_ground(role: str, scheme: str):
    colour = getattr(PALETTE[role], scheme)
    grounds = ["ground", "card", "panel", "leaf", "constant"]
    grounds += ["accent_pale"] if role == "accent" else []
    for ground in grounds:
        assert contrast(colour, getattr(PALETTE[ground], scheme)) >= 4.5, ground
