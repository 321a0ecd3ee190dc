"""Training loops with a mistake: found, named, at a line of the loop."""

from __future__ import annotations

import pytest
import torch

from chainrule.verify.mistakes import MISTAKES
from tests.sampling import sampled, sampled_file
from tests.verify.training.programs import training_wrong, training_wrong_later, training_wrong_more
from tests.verify.training.programs.training_wrong import WRONG
from tests.verify.training.test_training_right import observed

pytestmark = sampled_file(one_in=12)


FILES = tuple([m.__file__ for m in (training_wrong, training_wrong_more, training_wrong_later)])


@sampled(by=lambda loop, codes: codes)
@pytest.mark.parametrize(("loop", "codes"), WRONG, ids=lambda v: getattr(v, "__name__", ""))
def test_the_mistake_is_named_at_a_line_of_the_loop(loop, codes):
    torch.manual_seed(0)
    found, _ = observed(loop)
    loud = [f.name.code for f in found if f.level != "note"]
    assert loud, [(f.level, f.name.code, f.name.because) for f in found]
    assert loud[0] in codes
    places = [f.place for f in found if f.level != "note" and f.place is not None]
    assert all(p.file in FILES for p in places)


def test_a_reset_that_leaves_some_out_is_named():
    found, _ = observed(training_wrong_more.weights_are_reset_by_hand_and_biases_are_not)
    assert [f.place.text for f in found if f.name.code == "not_reset"] == ["p.grad.zero_()"]


def test_there_are_many():
    assert len(WRONG) >= 40
    assert {code for _, codes in WRONG for code in codes} <= MISTAKES.keys()
