"""Is what the parameters get the derivative of the loss? One step's calls are recorded to tell.

Where the way from parameters to the loss is cut, the step is run again, in a copy of the process,
with the cuts open: what is lost there decides. A cut that costs nothing (a maximum subtracted
for the sake of the range, running statistics) is never mentioned.

Backward passes and optimizers are events of the loop (`training/record`); how calls are seen, and
what is looked for in one library only, is a `Recorder`.
"""

from __future__ import annotations

import math
import weakref
from collections import defaultdict
from collections.abc import Sequence
from time import perf_counter
from typing import Any, final

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import TRAINING, Checked, Ledger, Skipped
from chainrule.verify.place import Place
from chainrule.verify.script.sandbox.fork import LostError, in_copy, is_branch
from chainrule.verify.script.step.cuts import moved_numbers
from chainrule.verify.script.step.cuts.costs import cost_of_cut
from chainrule.verify.script.step.cuts.cut_findings import Step
from chainrule.verify.script.step.cuts.moved_numbers import Site, Trial
from chainrule.verify.script.step.cuts.number_copies import Going, follow_numbers
from chainrule.verify.script.step.cuts.reopened_cuts import measure_cuts
from chainrule.verify.script.step.cuts.slices import Cut, Slice
from chainrule.verify.script.step.idle_terms import Sum, idle_terms, wasted_spots
from chainrule.verify.script.step.record.recorder import Parts, Recorder
from chainrule.verify.script.step.record.tape import NUMBER, Tape
from chainrule.verify.script.step.spots import Spot, spot_finding
from chainrule.verify.script.step.terms import added_numbers
from chainrule.verify.script.step.unread_values import unread_values
from chainrule.verify.training.facts.history import Pass
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on

_AT = 1
"""The step after which recording begins; it ends with the next."""
_BACKWARDS = 16
"""Backward passes of that step that are looked at."""
WHAT = "one step as a whole"


@final
class OneStep(Part):
    """Records one step and looks for cuts in it."""

    title = WHAT

    def __init__(self, bus: Bus, recorder: Recorder[Any]) -> None:
        super().__init__(bus)
        self.recorder = recorder
        self._step = Step()
        self._skipped: list[str] = []
        self._unfit = ""
        """Why a step cannot be recorded."""
        self._parts: Parts = ()
        self._slices: list[Slice] = []
        """Of all losses of the step."""
        self._unread: list[Spot] = []
        self._sums: list[Sum] = []
        """Losses as they are added up, and the passes from these."""
        self._passes = defaultdict[Place | None, list[Pass]](list)
        """All that were seen, by line."""
        self._is_paused = False
        """Whether a backward pass or an optimizer is running."""
        self._derived: dict[int, weakref.ref[Any]] = {}
        """Leaves by which derivatives were taken, by id."""
        self._backwards = self._losses = self._ends = 0
        self._sites: dict[Site, int] = {}
        """Where numbers leave that may come back into a loss (see `numbers.sites`)."""
        self._trial: Going | None = None
        """What this process tries, if it is a copy in which the script goes on."""
        self._since = self._seconds_of_step = 0.0

    def start(self) -> None:
        """Wait for the first step to be done."""
        super().start()
        self.recorder.watch()

    def step_done(self, step: int) -> None:
        """Record from the end of the first step to that of the second."""
        if step == _AT and self.recorder.tape is None:
            self._begin()
        elif step > _AT and self._is_whole():
            self._end()
            self._follow()

    def stop(self) -> None:
        """Record no more."""
        self._end()
        self.recorder.unwatch()
        super().stop()

    def _begin(self) -> None:
        if self._unfit:
            self._skipped.append(self._unfit)
            return
        self._since = perf_counter()
        self.recorder.tape = self.recorder.begin(self)

    def _end(self) -> None:
        tape = self.recorder.tape
        if tape is None or not self.recorder.is_on:
            return
        self._seconds_of_step = perf_counter() - self._since
        self.recorder.end()
        if self._step.stepped and self._trial is None:
            self._unread = list(unread_values(tape, self._slices, tape.consumed))
        self._slices.clear()
        self._parts, self._is_paused, tape.active = (), False, False
        if tape.broken:
            self._skipped.append(tape.broken)
        tape.clear()

    def _is_whole(self) -> bool:
        """Whether what was recorded is a whole step. Without an optimizer one begins behind its
        forward pass, with its first backward pass. If it has several of them, only the next one is
        seen from its beginning."""
        self._ends += 1
        begins_whole = self.recorder.begins_whole or bool(self._step.stepped)
        return begins_whole or self._backwards <= 1 or self._ends > 1

    # --- what the loop does

    def pause(self) -> bool:
        """Record nothing for a while; whether calls were recorded until now."""
        tape = self.recorder.tape
        if tape is None or not (self.recorder.is_on and tape.active):
            return False
        self._is_paused, tape.active = True, False
        return True

    def resume(self) -> None:
        """Record again."""
        tape = self.recorder.tape
        if tape is not None and self._is_paused:
            self._parts, self._is_paused, tape.active = (), False, not tape.broken

    @on(events.BackwardBegins)
    def _pass_begins(self, e: events.BackwardBegins) -> None:
        if self.pause():
            self.look_back(e.roots)

    @on(events.BackwardEnds)
    def _pass_ends(self, e: events.BackwardEnds) -> None:
        if self._is_paused and e.error is None:
            try:
                self.recorder.look_after(self._parts, self._step)
            except Exception as error:
                self._skipped.append(f"{type(error).__name__}: {error}")
        self._note_sums(e)
        self.resume()

    def _note_sums(self, e: events.BackwardEnds) -> None:
        """What the losses of a pass are the sums of, which gradients of it will be used for."""
        if (made := self.history.newest) is None or e.error is not None:
            return
        self._passes[made.place].append(made)
        if self._is_paused and self._trial is None:
            self._sums += [Sum.of(part, made) for part, _ in self._parts]

    @on(events.Differentiated)
    def _differentiates(self, e: events.Differentiated) -> None:
        """By parameters it is a backward pass, whose gradients the program gives to them itself.

        An input is a leaf, too, and a penalty on the derivative by it is no step. Parameters are
        those of the optimizers that have made a step, or without one, leaves by which derivatives
        were taken before.
        """
        rows = self.history.trainers.values()
        trained = {key for row in rows if row.steps for key in row.ids}
        trained = trained or {key for key, ref in self._derived.items() if ref() is not None}
        ids, tape = {id(x) for x in e.leaves}, self.recorder.tape
        is_step = math.prod(e.roots[0].shape) == 1 and ids <= trained
        if is_step and self.recorder.is_on and tape is not None and not tape.broken:
            self.look_back(e.roots, ids)  # recorded as one call: its parts are not
            self._parts = ()

    @on(events.Given)
    def _differentiated(self, e: events.Given) -> None:
        self._derived |= {id(x): weakref.ref(x) for x in e.inputs if x.is_leaf}

    @on(events.Zeroed)
    def _zeroed(self, e: events.Zeroed) -> None:
        self._step.factors.reset(e.ids)

    @on(events.Compiles)
    def _compiles(self, e: events.Compiles) -> None:
        self._unfit = "compiled code cannot be recorded without changing what it computes"

    @on(events.StepBegins)
    def _step_begins(self, e: events.StepBegins) -> None:
        """What an optimizer computes is its own; but a closure runs the model."""
        tape = self.recorder.tape
        if tape is not None and self.recorder.is_on:
            held = [p.grad for p in e.params if p.grad is not None]
            tape.consumed.update([s for g in held if (s := tape.slot(g)) is not None])
        if not e.closure:
            self.pause()

    @on(events.StepEnds)
    def _step_ends(self, e: events.StepEnds) -> None:
        self.resume()
        if self.recorder.is_on:
            ids = {id(p) for p in e.params}
            self._step.note_step(ids)
            self._step.factors.note_step(ids)

    # --- looking

    def look_back(self, losses: Sequence[Any], leaves: set[int] | None = None) -> None:
        """Before a backward pass: what does it not see?

        `leaves`: ids of those that it may give a gradient, if these are not all that it reaches.
        """
        tape = self.recorder.tape
        assert tape is not None
        self.recorder.trains = True
        start = perf_counter()
        try:
            self._parts = self._look(tape, losses, leaves)
            self.recorder.look(losses, self._parts)
        except Exception as error:
            self._skipped.append(f"{type(error).__name__}: {error}")
        if self._trial is not None:  # a copy may have seen enough
            self._trial.looked(self._step.costs, self._skipped)
        tape.seconds += perf_counter() - start

    def _look(self, tape: Tape, losses: Sequence[Any], leaves: set[int] | None) -> Parts:
        """The part of the tape behind each loss, and what it does not see of the parameters."""
        self._backwards += 1
        if self._trial is not None:
            self._trial.join()
        else:
            self._sites |= moved_numbers.sites(tape, self.recorder.tensors)
        reached = {leaf for loss in losses for leaf in self.recorder.leaves(loss)}
        self._step.note_pass(reached if leaves is None else reached & leaves)
        parts: list[tuple[Slice, Any]] = []
        for loss in losses:
            slot = tape.slot(loss)
            self._losses += 1
            if slot is None or self._backwards > _BACKWARDS:
                continue
            part = Slice(tape, slot)
            parts.append((part, loss))
            self._slices.append(part)
            self._compare(part, loss)
            self._step.used |= part.used
            self._step.factors.look(part, self._step.turn)
        return parts

    def _compare(self, part: Slice, loss: Any) -> None:
        """What a loss would give to parameters, were it not for cuts."""
        cuts = [c for c in part.cuts if not self._is_old(c)]
        if self._trial is not None:
            cuts = self._trial.of_numbers(cuts)
        self._step.numbers += added_numbers(part)
        self._step.idle |= dict.fromkeys(idle_terms(part))
        if cuts and math.prod(loss.shape) == 1:
            self._measure(part, cuts, loss)

    def _is_old(self, cut: Cut) -> bool:
        """Whether the value's graph was used already, as at the start of a chunk of a sequence."""
        last = [e for e in cut.entries if e.name != NUMBER] or cut.entries
        return all(self._step.used.intersection(e.inputs) for e in last)

    def _measure(self, part: Slice, cuts: list[Cut], loss: Any) -> None:
        tensors = self.recorder.tensors
        try:
            lost = in_copy(lambda: measure_cuts(tensors, part, cuts, loss))
        except LostError as error:
            where = ", ".join([str(c.place) for c in cuts])
            self._skipped.append(f"the cuts at {where} could not be measured: {error}")
            return
        turn, nth, names = self._step.turn, self._losses, self.recorder.names()
        pairs = zip(cuts, lost, strict=True)
        self._step.costs += [cost_of_cut(part, cut, one, turn, nth, names) for cut, one in pairs]

    # --- copies in which the script goes on

    def _follow(self) -> None:
        """Let the script go on in copies, to see which numbers come back into a loss."""
        sites, self._sites = self._sites, {}
        if sites and not is_branch():
            rows, why = follow_numbers(sites, self._go_on, self._seconds_of_step)
            self._step.costs += rows
            self._skipped += why

    def _go_on(self, trial: Trial) -> None:
        """In a copy: record the next step as well, for a trial."""
        backwards = self._backwards
        self._step, self._skipped = Step(), []
        self._backwards = self._losses = 0
        self._begin()
        if self.recorder.is_on:
            self._trial = Going(self.recorder.move(trial), backwards)

    # --- the report

    def _reported(self, ledger: Ledger) -> list[Finding]:
        """Note in the ledger what was looked at, and what not; cuts that cost a gradient."""
        recorder = self.recorder
        ledger.skipped.extend([Skipped(WHAT, why) for why in self._skipped])
        if self._backwards:
            how = "calls of one step recorded, and what its cuts cost"
            seconds = recorder.tape.seconds if recorder.tape is not None else 0.0
            ledger.checked.append(Checked(WHAT, TRAINING, self._backwards, seconds, how))
        elif recorder.trains and not self._skipped:
            none = "no backward pass from one number was seen in the second step"
            why = "it takes two steps to see one" if recorder.tape is None else none
            ledger.skipped.append(Skipped(WHAT, why))
        wasted = wasted_spots(self._sums, self._passes, self.history)
        spots = [*self._unread, *wasted]
        return [*recorder.findings(self._step), *map(spot_finding, spots)]
