"""The command `chainrule`: its subcommands, and the border where errors become sentences."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

import chainrule
from chainrule.cli.options import Parser
from chainrule.errors import ChainruleError, OtherWorkerError
from chainrule.optional import require

COMMANDS = {
    "train": "train a GPT on names, or on any text file with one document a line",
    "sample": "draw new documents from a trained model",
    "export": "write a training run as a program in C that needs only the C library",
    "verify": "run a training script and say which gradient is wrong, where, and what to do",
    "play": "see a backward pass step by step, and train live, in a page of one file",
}
"""What each command does. The module of its name here has EXAMPLES, add_options(parser) and
command(asked, console): an exit code. It is loaded if its command was asked for."""

FOREIGN = {"verify", "play"}
"""Those in which somebody else's program writes to stdout: it finds stdout as Python made it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv` (the process's own if None); the exit code.

    0: done. 2: what was asked cannot be done; stderr says why in a sentence. 3: another worker
    could not go on, and this one with it. 128 + n: stopped by signal n.
    """
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _refuse("interrupted", 130)
    except BrokenPipeError:  # the reader has enough
        _drop_output()
        return 141
    except OtherWorkerError as error:
        return _refuse(str(error), error.EXIT_CODE)
    except ChainruleError as error:
        return _refuse(str(error), 2)
    except MemoryError:
        return _refuse("there is not enough memory: make the model or the batch smaller", 2)
    except OSError as error:
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{where}{error.strerror or error}", 2)
    return code


def _run(argv: Sequence[str] | None) -> int:
    require("rich", "the command chainrule")
    words = sys.argv[1:] if argv is None else argv
    first = next((word for word in words if not word.startswith("-")), "")
    asked = vars(_parser(first).parse_args(words))
    name: str = asked.pop("subcommand")
    if name not in FOREIGN:
        _show_any_letter()
    module = _module(name)
    console = importlib.import_module("chainrule.cli.console")
    # In a notebook, too, lines of text: rich makes an output of each otherwise.
    return module.command(asked, console.PipedConsole(force_jupyter=False))


def _show_any_letter() -> None:
    """Let stdout show the number of a letter that the terminal does not have."""
    out: Any = sys.stdout
    if type(out) is TextIOWrapper:
        out.reconfigure(errors="backslashreplace")


def _module(command: str) -> Any:
    return importlib.import_module(f"chainrule.cli.{command}")


def _parser(command: str) -> argparse.ArgumentParser:
    """All commands, with the options of the one that was asked for."""
    parser = Parser(
        prog="chainrule",
        description="Backpropagation you can see, trust and run at full speed.",
        epilog="start with:  chainrule train",
    )
    parser.add_argument("--version", action="version", version=f"chainrule {chainrule.__version__}")
    subparsers = parser.add_subparsers(
        dest="subcommand", required=True, metavar="COMMAND", parser_class=Parser
    )
    for name, does in COMMANDS.items():
        sub = subparsers.add_parser(
            name,
            help=does,
            description=does[0].upper() + does[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == command:
            module = _module(name)
            sub.epilog = module.EXAMPLES
            module.add_options(sub)
    return parser


def _drop_output() -> None:
    """Forget what stdout will not take, or Python would complain about it once more at its exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(sentence: str, code: int) -> int:
    """Say why on stderr; the exit code."""
    text = " ".join(sentence.split()).rstrip(".")
    sys.stderr.write(f"chainrule: {text}.\n")
    return code
