"""What a run says and leaves behind: losses as numbers and as a picture, samples, advice."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

import chainrule
from chainrule.cli.files import CommandError
from chainrule.cli.trainer import Run
from chainrule.files.whole_folders import write_file
from chainrule.page.curve import Curve, terminal
from chainrule.page.curve_svg import svg

SAMPLES, TEMPERATURE = 20, 0.5


def introduce(run: Run, folder: Path, console: Console) -> None:
    """Say what is trained on what, and where it is kept."""
    s, corpus = run.settings, run.corpus
    size = sum([w.size for w in run.engine.state().weights.values()])
    cut = sum([len(d) >= s.block_size for d in corpus.training])
    lines = [
        f"chainrule {chainrule.__version__}: {s.preset}, layers {s.n_layer}, heads {s.n_head}, "
        f"channels {s.n_embd}, {size:,} parameters",
        f"{_data(run)}: {len(corpus.training):,} documents to train on, "
        f"{len(corpus.held_out):,} held out, {corpus.tokenizer.vocab_size} tokens",
        f"{s.engine} engine, {s.dtype}, {s.batch} a step, learning rate {s.lr:g}, seed {s.seed}",
        f"kept in {folder}" + (f", from step {run.step}" if run.step else ""),
    ]
    if cut:
        lines.insert(2, f"{cut:,} documents are longer than {s.block_size - 1} characters: cut")
    _say(console, lines)


def report_interruption(run: Run, folder: Path, console: Console) -> None:
    """Write the losses so far; say how to go on."""
    write(run, folder)
    _say(
        console,
        [
            f"interrupted at step {run.step} of {run.settings.steps}, and saved; go on with",
            f"  {resuming(folder)}",
        ],
    )


def conclude(run: Run, folder: Path, console: Console) -> None:
    """Show the curve, the held-out loss, new documents, and where everything is."""
    checkpoint_kept = shlex.join(["chainrule", "sample", "--checkpoint", str(folder)])
    samples = run.samples(SAMPLES, TEMPERATURE)
    curve = write(run, folder, samples)
    unicode = "utf" in (console.encoding or "").lower()
    lines = ["", terminal(curve, width=max(40, min(console.width, 78)), unicode=unicode), ""]
    if run.held_out:
        lines.append(f"held-out loss {run.held_out[-1][1]:.4f} nats per token")
    known = {*run.corpus.training, *run.corpus.held_out}
    lines += [
        f"{len(samples)} samples at temperature {TEMPERATURE}, "
        f"{sum([sample not in known for sample in samples])} of them not in the data:",
        *[f"  {sample}{'  (in the data)' if sample in known else ''}" for sample in samples],
        "",
        f"picture    {folder / 'losses.svg'}",
        f"numbers    {folder / 'losses.csv'}",
        f"more       {checkpoint_kept}",
    ]
    _say(console, lines)


def resuming(folder: Path) -> str:
    """The command that continues the run in `folder`."""
    return shlex.join(["chainrule", "train", "--resume", str(folder)])


def write(run: Run, folder: Path, samples: Sequence[str] = ()) -> Curve:
    """Write losses.csv, losses.svg and, if there are samples, samples.txt; the losses' curve."""
    s = run.settings
    sizes = f"layers {s.n_layer}, channels {s.n_embd}, documents a step {s.batch}, {s.dtype}"
    curve = Curve(run.losses, run.held_out, f"{s.preset} on {_data(run)}", sizes)
    files = {"losses.csv": table(run), "losses.svg": svg(curve)} if run.losses else {}
    if samples:
        files["samples.txt"] = "".join([f"{sample}\n" for sample in samples])
    for name, text in files.items():
        try:
            # the name of the data may hold bytes that are no letters
            write_file(folder / name, text.encode("utf-8", "backslashreplace"))
        except OSError as cause:
            raise CommandError(
                f"{folder / name} could not be written ({cause.strerror}); the model itself is "
                f"saved in {folder / 'checkpoints'}"
            ) from cause
    return curve


def table(run: Run) -> str:
    """step, loss, held-out loss as CSV; numbers as Python prints them, so that nothing is lost."""
    held = dict(run.held_out)
    rows = [f"{i},{loss!r},{held.get(i, '')}" for i, loss in enumerate(run.losses, 1)]
    return "\n".join(["step,loss,held_out_loss", *rows]) + "\n"


def _data(run: Run) -> str:
    return Path(run.settings.data).name if run.settings.data else "US census names"


def _say(console: Console, lines: Sequence[str]) -> None:
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
