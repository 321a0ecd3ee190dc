"""What notebooks show of an answer: its words or a table, in place of its fields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final


class _Printed(ABC):
    __slots__ = ()

    def __init_subclass__(cls) -> None:
        # IPython looks class by class, and would meet the `__repr__` of a dataclass first.
        cls._repr_pretty_ = _Printed._repr_pretty_

    @abstractmethod
    def __str__(self) -> str: ...

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows where it shows text only."""
        printer.text(str(self))


class Readable(_Printed):
    """An answer in words, those of its `str()`."""

    __slots__ = ()

    @final
    def _repr_html_(self) -> str:
        from chainrule.page.html import fragment, words  # when it is shown

        return fragment([words(str(self))])


class Tabled(_Printed):
    """An answer with tables: `html_pieces` are pieces of HTML that say the same as its `str()`."""

    __slots__ = ()

    @abstractmethod
    def html_pieces(self) -> Sequence[str]:
        """Pieces of HTML, one after the other."""

    @final
    def _repr_html_(self) -> str:
        from chainrule.page.html import fragment

        return fragment(self.html_pieces())


@final
class Words(str):
    """A text of several lines, which IPython shows as lines."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))
