"""How options are read: numbers with errors that say what was given."""

from __future__ import annotations

import argparse
from typing import NoReturn

from chainrule.cli.files import CommandError


class Parser(argparse.ArgumentParser):
    """A parser whose errors are raised, so that one place shows all of them in one way."""

    def error(self, message: str) -> NoReturn:
        """Raise `CommandError` with argparse's reason and where to look."""
        raise CommandError(f"{message.removeprefix('argument ')} (see {self.prog} --help)")


def integer(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def number(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
