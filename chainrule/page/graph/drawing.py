"""What `show.graph` returns: a picture and how to draw it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

from chainrule.errors import ConfigError
from chainrule.files.whole_files import write_whole
from chainrule.page.graph import as_dot, as_svg, as_text
from chainrule.page.graph.picture import Picture
from chainrule.page.svg import Svg

Direction = Literal["right", "down"]


@final
@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture, the direction in which its values flow, and whether edges show the gradient.

    Printing one shows its text; a notebook shows its SVG.

    >>> a = cr.tensor(2.0, requires_grad=True)
    >>> drawing = cr.show.graph(a * a)
    >>> drawing.dot()[:7], drawing.svg()[:4]
    ('digraph', '<svg')
    """

    picture: Picture
    direction: Direction = "right"
    flow: bool = False

    def __post_init__(self) -> None:
        if self.direction not in ("right", "down"):
            raise ConfigError(f"direction: 'right' or 'down', not {self.direction!r}")

    def text(self) -> str:
        """A tree for a terminal: a node a line, the result first."""
        return as_text.draw(self.picture)

    def svg(self) -> Svg:
        """An SVG document; the same graph gives the same bytes."""
        return as_svg.draw(self.picture, self.direction, flow=self.flow)

    def dot(self) -> str:
        """Source for Graphviz."""
        return as_dot.draw(self.picture, self.direction)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing as `.svg`, `.txt` or `.dot`: all of it, or nothing at all."""
        target = Path(path)
        draw = {".svg": self.svg, ".txt": self.text, ".dot": self.dot}.get(target.suffix.lower())
        if draw is None:
            raise ConfigError(
                f"save: {target.name!r} must end in .svg, .txt or .dot, which says how to draw"
            )
        if not target.parent.is_dir():
            raise ConfigError(f"save: there is no folder {str(target.parent)!r} to write to")
        write_whole(target, draw().rstrip("\n") + "\n")

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()  # what someone at a prompt wants to see

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return self.svg()._repr_html_()  # pyright: ignore[reportPrivateUsage]
