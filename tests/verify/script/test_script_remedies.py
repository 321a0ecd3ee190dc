"""What a reader would change in a script: proposed for each kind of finding, tried, and right."""

from __future__ import annotations

import pytest

from chainrule.verify.finding import Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.script.remedies import MOST, REMEDIES, remedies
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled, sampled_file
from tests.verify.script.test_script_again import observed
from tests.verify.scripts.to_correct import START, WINDOW, WRONG

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # PyTorch's own words
    sampled_file(one_in=12),
]


@sampled(one_in=24)
@pytest.mark.parametrize(
    ("text", "code", "after"), WRONG, ids=[f"{c}_{i}" for i, (_, c, _) in enumerate(WRONG)]
)
def test_a_proposal_is_tried_and_right(tmp_path, text, code, after):
    found, _, _ = observed(tmp_path, START + text)
    corrections = [f.correction for f in found if f.name.code == code]
    assert corrections, [f.name for f in found]
    assert corrections[0] is not None and corrections[0].rechecked
    assert after in corrections[0].after


HOPELESS = """
net = nn.Linear(6, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
X[2, 3] = torch.nan
for epoch in range(4):
    opt.zero_grad()
    loss = F.mse_loss(net(X) / 2, Y).sqrt()
    loss.backward()
    opt.step()
"""


def test_a_proposal_that_does_not_help_is_not_made(tmp_path):
    """Data that are bad: no change of the line that shows it first puts that right."""
    found, _, _ = observed(tmp_path, START + HOPELESS)
    assert [f.name.code for f in found] == ["first_bad"]
    correction = found[0].correction
    assert correction is not None
    assert not correction.rechecked and not correction.after


def finding(code: str, path, line: int) -> Finding:
    return Finding("warning", "x", "op", "", (Name(code, "because"),), place=Place(str(path), line))


@pytest.mark.parametrize("code", REMEDIES)
def test_proposals_are_few_and_change_the_lines_that_they_say(tmp_path, code):
    """At every line of every script: what they say is there, is there, and they change it."""
    path = tmp_path / "train.py"
    for text, _, _ in WRONG:
        path.write_text(START + text, encoding="utf-8")
        lines = (START + text).splitlines()
        for n in range(1, len(lines) + 1):
            found = remedies(finding(code, path, n))
            assert len(found) <= MOST
            for c in found:
                before = c.before.splitlines()
                assert c.place is not None
                assert lines[c.place.line - 1 :][: len(before)] == before
                assert c.after != c.before
                at = slice(c.place.line - 1, c.place.line - 1 + len(before))
                whole = [*lines]
                whole[at] = c.after.splitlines()
                compile("\n".join(whole), "train.py", "exec")


def test_what_is_no_python_or_not_there_gets_no_proposal(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("for for\n", encoding="utf-8")
    for file in (path, tmp_path / "none.py"):
        assert [remedies(finding(code, file, 1)) for code in REMEDIES] == [[]] * len(REMEDIES)


TWICE = """
net = nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(4):
    near = F.cosine_similarity(net(X), net(X + 0.1 * torch.randn_like(X)))
    opt.zero_grad()
    (-near.mean()).backward()
    opt.step()
"""


def test_statistics_that_a_second_call_updates_are_no_change_of_a_kept_value(tmp_path):
    """Batch norm keeps its running statistics, and needs those of the batch."""
    assert observed(tmp_path, START + TWICE)[0] == []


def test_an_array_that_is_copied_or_written_to_in_time_is_fine(tmp_path):
    """The same loop with a copy, and with the change behind the backward pass."""
    copied = WINDOW.replace("window[:, ::1]", "window.copy()")
    late = WINDOW.replace("    window.fill(0.5)\n", "") + "    window.fill(0.5)\n"
    for text in (copied, late):
        assert text != WINDOW
        assert observed(tmp_path, START + text)[0] == []
