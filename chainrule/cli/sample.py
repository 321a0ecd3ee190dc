"""`chainrule sample`: draw new documents from a trained model."""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from chainrule.cli import checkpoint as checkpoints
from chainrule.cli.files import CommandError
from chainrule.cli.options import integer, number
from chainrule.cli.settings import Settings
from chainrule.cli.trainer import draw_documents, restored_engine
from chainrule.data import CharTokenizer

EXAMPLES = """examples:
  chainrule sample --checkpoint runs/names-gpt2
  chainrule sample --checkpoint runs/names-gpt2 --prompt ann --count 5 --temperature 0.8
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        required=True,
        help="the folder of a run (its newest checkpoint is taken), or a checkpoint in it",
    )
    parser.add_argument("--count", type=integer, default=20, metavar="N", help="default: 20")
    parser.add_argument(
        "--temperature",
        type=number,
        default=0.5,
        metavar="X",
        help="0: always the most probable character; 1: as probable as in the data (default: 0.5)",
    )
    parser.add_argument("--prompt", default="", metavar="TEXT", help="how each begins")
    parser.add_argument("--seed", type=integer, metavar="N", help="for the same ones every time")


def command(asked: Mapping[str, Any], console: Console) -> int:
    """Print `count` documents, one a line; the exit code 0."""
    count, temperature, seed = asked["count"], asked["temperature"], asked["seed"]
    if count < 1:
        raise CommandError(f"--count must be at least 1, not {count}")
    if not 0 <= temperature < math.inf:
        raise CommandError(f"--temperature must be a number, at least 0, not {temperature}")
    if seed is not None and seed < 0:
        raise CommandError(f"--seed must be at least 0, not {seed}")
    saved = checkpoints.load(checkpoints.find(Path(asked["checkpoint"])))
    settings = Settings.from_dict(saved.settings)
    documents = draw_documents(
        restored_engine(settings, saved),
        CharTokenizer.from_dict(saved.tokenizer),
        settings.block_size,
        random.Random(seed),
        count=count,
        temperature=temperature,
        prompt=asked["prompt"],
    )
    console.print("\n".join(documents), highlight=False, markup=False, soft_wrap=True)
    return 0
