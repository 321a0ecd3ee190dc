"""The studio's own pages in Chromium: expressions, the player, slips, lessons, recorded traces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.studio.play import embedded, trace_page
from chainrule.traces.files import to_json
from chainrule.traces.trace import Trace
from tests.studio.axe import check_page
from tests.studio.chromium import address, needs_chromium, opened, settled, visit

pytestmark = needs_chromium


def network() -> Trace:
    draw = cr.Generator(3)
    model = nn.Sequential(
        nn.Linear(4, 12, generator=draw), nn.Sigmoid(), nn.Linear(12, 3, generator=draw)
    )
    rng = np.random.default_rng(1)
    x = cr.tensor(rng.normal(size=(8, 4)).astype(np.float32))
    return cr.record(
        lambda x, y: cr.cross_entropy(model(x), y), x, cr.tensor(rng.integers(0, 3, 8))
    )


def not_run() -> Trace:
    """A program whose backward has not run."""
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    with cr.record() as recording:
        (cr.tanh(x) * 3).sum()
    return recording.trace


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    trace = network()
    (folder / "trace.html").write_text(trace_page(trace), encoding="utf-8")
    (folder / "bare.html").write_text(trace_page(not_run()), encoding="utf-8")
    (folder / "trace.json").write_text(to_json(trace), encoding="utf-8")
    return folder


# --- What a reader sees ---------------------------------------------------------------------------


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def sentence(page: Any) -> str:
    return page.locator(".sentence").inner_text()


def counter(page: Any) -> str:
    return page.locator(".counter").inner_text()


def gradients(page: Any) -> dict[str, str]:
    rows = page.locator(".inputrow").all()[1:]
    return {r.locator(".inputname").inner_text(): r.locator(".grad").inner_text() for r in rows}


def state(page: Any) -> dict[str, str]:
    return dict(parse_qsl(address(page).partition("#")[2]))


def view(page: Any) -> Any:
    """The text that stands in the page, in fields and graph too."""
    settled(page)
    return page.evaluate(
        """() => [document.querySelector(".player").innerText.replace(/\\s+/g, " "),
        [...document.querySelectorAll(".card")].map((c) => c.getAttribute("aria-label")).sort(),
        [...document.querySelectorAll(".player input, .inputs input")]
          .map((e) => e.type === "checkbox" ? e.checked : e.value)]"""
    )


# --- Expressions ----------------------------------------------------------------------------------


def test_an_expression_is_typed_dragged_and_refused(browser: Any, studio: str):
    with opened(browser, studio) as page:
        assert gradients(page) == {"a": "−3", "b": "2", "d": "1"}
        assert "4 → 3.997, slope −3" in page.locator(".inputtable").inner_text()
        field = page.get_by_label("expression", exact=True)
        field.fill("d = a*b + a")
        assert gradients(page) == {"a": "−2", "b": "2"}
        page.locator(".card").nth(3).wait_for()
        before = page.locator(".card").count()
        for text, problem in (
            ("d = a*b +", "The expression ends too early."),
            ("d = foo(a)", "There is no function foo in the op table."),
            ("x" * 10**5, "This is 100000 characters long; 4000 are the most."),
        ):
            field.fill(text)
            assert problem in page.locator(".problem").inner_text()
            assert page.locator(".card").count() == before and gradients(page)["a"] == "−2"
        field.fill("f = relu(a*b + d)")
        assert page.locator(".problem").inner_text() == ""
        page.get_by_label("drag d").fill("10")
        page.get_by_label("drag b").fill("-6")
        assert gradients(page) == {"a": "0", "b": "0", "d": "0"}
        assert "passes nothing back" in page.locator(".why").inner_text()
        assert "is 0 where its input is −2" in page.locator(".why").inner_text()
        page.get_by_label("value of b").fill("")
        assert (
            "is no number; the last one, −6, still holds" in page.locator(".problem").inner_text()
        )
        page.get_by_label("value of b").fill("1e3")
        assert page.get_by_label("drag b").input_value() == "1000"
        page.get_by_text("Show me the Python").click()
        assert "b = Value(1000.0)" in page.locator("pre").first.inner_text()


def test_an_address_that_cannot_be_read(browser: Any, studio: str):
    with opened(browser, studio + "#page=expr&e=relu(&step=x&node=99&v.a=y&v.__proto__=3") as page:
        assert page.locator(".problem").inner_text().startswith("The expression ends too early.")
        assert page.locator(".card").count() == 6 and gradients(page)["a"] == "−3"
    with opened(browser, studio + "#page=nowhere&lesson=none&part=-3") as page:
        assert page.locator("#view .card").count() == 6


def test_an_address_is_followed_though_the_page_writes_its_own_before_it_hears(
    browser: Any, studio: str
):
    with opened(browser, studio) as page:
        page.evaluate("""() => {
            const own = location.href;
            location.hash = "page=break";
            history.replaceState(null, "", own);
        }""")
        page.get_by_role("tab", name="Break it", selected=True).wait_for()


def test_a_fresh_example_plays_in_both_orders(browser: Any, studio: str):
    with opened(browser, studio) as page:
        button(page, "two paths").click()
        assert gradients(page) == {"a": "4", "b": "2"}
        page.get_by_label("wrong order").check()
        assert counter(page) == "7 / 7"
        wrong = dict(re.findall(r"(\w), gradient (\S+)|^", labels(page)))
        assert (wrong["a"], wrong["b"]) == ("1", "0")
        assert page.locator(".card.wrong").count() == 2
        assert sentence(page).startswith("Wrong order.")
        page.get_by_label("wrong order").uncheck()
        settled(page)
        assert page.locator(".card.wrong").count() == 0


def labels(page: Any) -> str:
    settled(page)
    found = page.locator(".card").all()
    texts = [c.get_attribute("aria-label") for c in found]
    return "\n".join([re.sub(r"value \S+, ", "", t) for t in texts])


# --- The player -----------------------------------------------------------------------------------


def test_steps_both_ways_jumps_and_plays(browser: Any, studio: str):
    with opened(browser, studio) as page:
        assert counter(page) == "9 / 9"
        button(page, "to the start (Home)").click()
        assert counter(page) == "0 / 9" and "nothing is computed yet" in sentence(page)
        assert "gradient" not in labels(page)
        button(page, "one step on (→)").click()
        assert sentence(page) == "Forward: a * b = −6."
        button(page, "to the backward pass").click()
        assert sentence(page) == "Backward begins: the gradient of f with respect to itself is 1."
        button(page, "one step back (←)").click()
        assert counter(page) == "3 / 9"
        page.get_by_label("step", exact=True).fill("8")
        assert sentence(page) == "Backward: a * b sends −3 to a."
        assert page.locator(".equation").inner_text().split() == [
            "1", "upstream", "×", "−3", "local", "=", "−3", "contribution",
        ]  # fmt: skip
        page.get_by_label("speed").select_option(label="fast")
        button(page, "to the start (Home)").click()
        button(page, "play forward in time").click()
        page.wait_for_function("() => document.querySelector('.counter').textContent === '9 / 9'")
        page.wait_for_function(
            "document.querySelector('button.primary').textContent.includes('Play')"
        )
        button(page, "play backward in time").click()
        page.wait_for_function("() => document.querySelector('.counter').textContent === '7 / 9'")
        button(page, "play forward in time").click()
        page.wait_for_function(
            "document.querySelector('button.primary').textContent.includes('Play')"
        )
        stopped = counter(page)
        page.wait_for_timeout(400)  # longer than a step
        assert counter(page) == stopped


def test_digits_slices_and_the_address(browser: Any, studio: str):
    with opened(browser, studio) as page:
        button(page, "a neuron").click()
        page.get_by_label("17 digits").check()
        settled(page)
        assert gradients(page)["w1"] == "1.0004510" or len(gradients(page)["w1"]) > 12
        button(page, "show the whole graph").click()
        page.locator(".card", has_text="tanh").click()
        button(page, "What it depends on").click()
        assert page.locator(".card.pale").count() == 0
        page.get_by_label("step", exact=True).fill("6")
        page.locator('.card[aria-label^="w2"]').click()
        button(page, "What it influences").click()
        settled(page)
        pale = page.locator(".card.pale").count()
        assert 0 < pale < page.locator(".card").count()
        assert state(page)["slice"] == "forth" and state(page)["step"] == "6"
        before, url = view(page), address(page)
        visit(page, url)
        assert view(page) == before
        assert page.locator(".card.pale").count() == pale


def test_an_element_opens_into_its_sum(browser: Any, files: Path):
    """Of every product's contribution: by its cell, or by its place in the heat map."""
    with opened(browser, (files / "trace.html").as_uri()) as page:
        lengths: set[int] = set()
        before = url = ""
        for step in range(int(counter(page).split("/")[1]), 0, -1):
            page.get_by_label("step", exact=True).fill(str(step))
            if sentence(page).startswith("Forward"):
                break
            if "Backward: matmul" not in sentence(page):
                continue
            cells = page.locator('.panel button.cell[aria-label^="contribution"]')
            if cells.count():
                cells.nth(1).click()
                assert page.locator(".cell.chosen").count() == 1
            else:
                page.locator('.panel canvas[aria-label^="contribution"]').focus()
                page.keyboard.press("ArrowRight")
                page.keyboard.press("Enter")
            assert focus(page).startswith("contribution")
            said = page.locator(".element .certificate").inner_text()
            assert said.startswith(("✓ This element agrees", "– This element was checked together"))
            rows = page.locator(".element table tr").all()
            texts = [r.locator("td.num").last.inner_text().replace("−", "-") for r in rows]
            *terms, total = [float(x) for x in texts]
            assert sum(terms) == pytest.approx(total, rel=1e-3, abs=1e-6)
            if not lengths:
                before, url = view(page), address(page)
            lengths.add(len(terms))
        assert len(lengths) >= 2
        button(page, "to the end (End)").click()
        page.locator(".card.parameter").first.click()
        assert "✓ This gradient agrees with differences of the result" in panel_text(page)
        visit(page, url)
        assert view(page) == before and page.locator(".element").count() == 1


def panel_text(page: Any) -> str:
    settled(page)
    return page.locator(".panel").inner_text()


def test_groups_fold_and_the_view_moves(browser: Any, files: Path):
    with opened(browser, (files / "trace.html").as_uri()) as page:
        settled(page)
        cards = page.locator(".card").count()
        button(page, "fold or unfold all groups").click()
        settled(page)
        folded = page.locator(".card.group").count()
        assert folded >= 1 and page.locator(".card").count() < cards
        page.locator(".card.group").first.click()
        settled(page)
        assert page.locator(".card.group").count() == folded - 1
        button(page, "show the whole graph").click()
        settled(page)
        whole = transform(page)
        button(page, "zoom in").click()
        settled(page)
        assert transform(page)[2] == pytest.approx(whole[2] * 1.25)
        box = page.locator(".stage").bounding_box()
        page.mouse.move(box["x"] + 20, box["y"] + box["height"] - 20)
        page.mouse.down()
        page.mouse.move(box["x"] + 80, box["y"] + box["height"] - 50, steps=4)
        page.mouse.up()
        settled(page)
        moved = transform(page)
        assert moved[0] > whole[0] - 400 and moved != whole
        page.mouse.wheel(0, -120)
        settled(page)
        assert transform(page)[2] > moved[2]
        button(page, "show the whole graph").click()
        settled(page)
        assert transform(page) == whole


def test_what_is_sent_covers_no_number_of_its_two_cards(browser: Any, tmp_path: Path):
    x, w = np.random.default_rng(0).normal(size=(2, 5, 5))
    file = tmp_path / "layer.html"
    file.write_text(trace_page(cr.record(lambda w: cr.tanh(w.T @ x).sum(), w)), encoding="utf-8")
    with opened(browser, file.as_uri()) as page:
        for step in range(1, int(counter(page).split("/")[1]) + 1):
            page.get_by_label("step", exact=True).fill(str(step))
            settled(page)
            assert page.evaluate(COVERED) == [], step


COVERED = """() => {
    const box = document.querySelector(".edgebox")?.getBoundingClientRect();
    const isCovered = (t) => t.right > box.left && t.left < box.right
        && t.bottom > box.top && t.top < box.bottom;
    return [...document.querySelectorAll(".card.now text")]
        .filter((t) => box && isCovered(t.getBoundingClientRect())).map((t) => t.textContent);
}"""


def transform(page: Any) -> list[float]:
    text = page.locator("svg.near > g").get_attribute("transform")
    return [float(x) for x in re.findall(r"-?[\d.]+(?:e-?\d+)?", text)]


def test_a_backward_that_has_not_run_shows_no_number(browser: Any, files: Path):
    with opened(browser, (files / "bare.html").as_uri()) as page:
        settled(page)
        assert "Backward has not run" in page.locator("#studio").inner_text()
        assert "∂" not in page.locator("svg.near").text_content()
        page.locator(".card", has_text="tanh").click()
        assert "backward has not run" in page.locator(".panel").inner_text()
        for step in range(int(counter(page).split("/")[1]) + 1):
            page.get_by_label("step", exact=True).fill(str(step))
            settled(page)
            assert "∂" not in page.locator("svg.near").text_content()


# --- By keyboard ----------------------------------------------------------------------------------


def focus(page: Any) -> str:
    settled(page)
    return page.evaluate(
        "(((e) => e.getAttribute('aria-label') ?? e.textContent)(document.activeElement)).trim()"
    )


def test_tabs_and_steps_by_keyboard(browser: Any, studio: str):
    with opened(browser, studio) as page:
        page.get_by_role("tab", name="Expression").focus()
        press = page.keyboard.press
        press("ArrowRight")
        assert focus(page) == "Network"
        press("ArrowLeft")
        press("ArrowLeft")
        assert focus(page) == "Your program"
        press("ArrowRight")
        assert focus(page) == "Expression" and page.locator(".inputrow").count() == 4
        button(page, "one step back (←)").focus()
        for k in range(3):
            press("Enter")
            assert counter(page) == f"{8 - k} / 9" and focus(page) == "one step back (←)"
        press("Home")
        assert counter(page) == "0 / 9"
        press("End")
        press("ArrowLeft")
        assert counter(page) == "8 / 9"
        page.get_by_label("step", exact=True).focus()
        press("ArrowLeft")
        assert focus(page) == "step"
        page.get_by_label("17 digits").focus()
        press("Space")
        assert page.get_by_label("17 digits").is_checked()


def test_cards_by_keyboard(browser: Any, studio: str):
    with opened(browser, studio) as page:
        press = page.keyboard.press
        button(page, "one step back (←)").focus()
        press("Enter")
        card = page.locator('.card[tabindex="0"]')
        assert card.count() == 1
        card.focus()
        assert focus(page).startswith("f, relu")
        press("ArrowLeft")
        assert focus(page).startswith("add")
        press("ArrowLeft")
        first = focus(page)
        assert first.startswith(("mul", "d,"))
        press("ArrowDown")
        there, back = ("ArrowDown", "ArrowUp") if focus(page) != first else ("ArrowUp", "ArrowDown")
        press(there)
        beside = focus(page)
        press(back)
        press(back)
        assert focus(page) == first and beside != first
        press("Enter")
        assert focus(page) == first and page.locator(".card.chosen").count() == 1
        press("Escape")
        settled(page)
        assert page.locator(".card.chosen").count() == 0
        link = page.locator(".panel button.link").first
        link.focus()
        press("Enter")
        assert page.evaluate("document.querySelector('.panel').contains(document.activeElement)")


def test_groups_by_keyboard(browser: Any, files: Path):
    with opened(browser, (files / "trace.html").as_uri()) as page:
        button(page, "fold or unfold all groups").click()
        settled(page)
        page.locator(".card.group").first.focus()
        name = focus(page)
        page.keyboard.press("Enter")
        assert not focus(page).startswith(name) and page.evaluate(
            "document.activeElement.classList.contains('card')"
        )
        page.keyboard.press("Backspace")
        assert focus(page) == name


# --- Lessons, slips -------------------------------------------------------------------------------


def test_all_lessons_can_be_walked(browser: Any, studio: str):
    with opened(browser, studio) as page:
        chooser = page.get_by_label("lessons")
        titles = chooser.locator("option").all_inner_texts()[1:]
        assert len(titles) == 6
        chooser.select_option(label=titles[0])
        walked: list[str] = []
        for _ in range(40):
            settled(page)
            walked.append(page.locator(".lessonbar .kicker").text_content())
            assert (
                page.locator(".lessonbar p").nth(1).inner_text()
                and page.locator("#view *").count() > 10
            )
            on = page.locator(".lessonbar button.primary")
            if not on.count():
                break
            on.focus()
            page.keyboard.press("Enter")
            settled(page)
            assert page.evaluate(
                "document.querySelector('.lessonbar').contains(document.activeElement)"
            )
        assert {re.sub(r"Lesson: (.*), \d.*", r"\1", w) for w in walked} == set(titles)
        assert state(page)["lesson"] == "reset"
        url = address(page)
        button(page, "Leave the lesson").click()
        assert page.locator(".lessonbar").is_hidden() and "lesson" not in state(page)
        assert focus(page) == "Break it"
        visit(page, url)
        assert "A forgotten reset, 2 of 2" in page.locator(".lessonbar").text_content()


def test_every_slip_is_shown_and_the_quiz_answers(browser: Any, studio: str):
    with opened(browser, studio + "#page=break") as page:
        assert "Nothing is wrong" in page.locator(".breakreport").inner_text()
        slips = page.locator(".slips button:not(.primary)")
        assert slips.count() == 12
        for k in range(12):
            slips.nth(k).click()
            text = page.locator(".breakreport").inner_text()
            assert "✗ wrong" in text and slips.nth(k).get_attribute("aria-pressed") == "true"
            assert page.locator(".losscurve").count() == 2 and state(page)["slip"] == f"V{k + 1}"
            settled(page)
            assert page.locator(".card.wrong").count() > 0
            assert page.locator(".mark.right").count() == 0
        page.evaluate("Math.random = () => 0")
        button(page, "Quiz: which op is wrong?").click()
        assert "slip" not in state(page) and page.locator(".breakreport pre").count() == 0
        quiz = page.locator(".quiz")
        quiz.get_by_role("button", name="loss", exact=True).click()
        assert "✗ No: loss is right" in quiz.inner_text()
        quiz.get_by_role("button", name="h @ W2", exact=True).click()
        assert "✓ Yes." in quiz.inner_text() and "transposed" in quiz.inner_text()


# --- Files ----------------------------------------------------------------------------------------


def test_traces_are_opened_or_refused_in_a_sentence(browser: Any, studio: str, files: Path):
    good = (files / "trace.json").read_text(encoding="utf-8")
    (files / "damaged.json").write_text(good.replace('"op":"matmul"', '"op":3'), encoding="utf-8")
    (files / "cut.json").write_text(good[: len(good) // 2], encoding="utf-8")
    (files / "later.json").write_text(good.replace('"version":1', '"version":9'), encoding="utf-8")
    (files / "other.json").write_text('{"a": 1}', encoding="utf-8")
    with (files / "huge.json").open("wb") as f:
        f.truncate(300_000_000)
    with opened(browser, studio + "#page=trace") as page:
        assert "Nothing is recorded in this page" in page.locator("#view").inner_text()
        chooser = page.get_by_label("Open a trace")
        chooser.set_input_files(files / "trace.json")
        page.locator(".card").first.wait_for()
        for name, problem in {
            "damaged": "This trace is damaged: node ",
            "cut": "This is no trace: it is not JSON.",
            "later": "This trace is of version 9; this page reads version 1. Record it again.",
            "other": "This file holds no trace of chainrule.",
            "huge": "This file has 300 MB; 256 MB are the most.",
        }.items():
            page.get_by_label("Open a trace").set_input_files(files / f"{name}.json")
            page.get_by_text(f"{name}.json: {problem}").wait_for()
            assert page.locator(".card").count() > 5
        page.get_by_label("Open a trace").set_input_files(files / "trace.json")
        page.wait_for_function("() => document.querySelector('.problem').textContent === ''")


# --- Browsers -------------------------------------------------------------------------------------


def test_a_browser_without_simd_is_told(browser: Any, studio: str):
    error = "new WebAssembly.CompileError('invalid SIMD opcode')"
    without = f"WebAssembly.compile = () => Promise.reject({error})"
    with opened(browser, studio, without) as page:
        page.get_by_role("alert").wait_for()
        text = page.get_by_role("alert").inner_text()
        assert "needs a browser with WebAssembly and its SIMD instructions" in text


@pytest.mark.parametrize("name", ["trace", "studio"])
def test_a_page_plays_in_a_notebook_s_frame(browser: Any, files: Path, studio: str, name: str):
    url = studio if name == "studio" else (files / "trace.html").as_uri()
    document = Path(url.removeprefix("file://")).read_text(encoding="utf-8")
    frame = files / f"frame_{name}.html"
    frame.write_text(f"<!doctype html><title>x</title>{embedded(document)}", encoding="utf-8")
    with opened(browser, frame.as_uri()) as page:
        inner = page.frame_locator("iframe")
        inner.locator(".card").first.wait_for()
        before = inner.locator(".counter").inner_text()
        inner.get_by_role("button", name="one step back (←)").click()
        assert inner.locator(".counter").inner_text() != before
        if name == "studio":
            inner.get_by_role("tab", name="Break it").click()
            inner.locator(".slips button").first.click()
            assert "✗ wrong" in inner.locator(".breakreport").inner_text()


def test_less_motion_where_it_is_asked_for(browser: Any, studio: str):
    with opened(browser, studio + "#page=expr&step=8", reduced_motion="reduce") as page:
        settled(page)
        assert page.locator(".pulse").first.is_hidden()
        assert counter(page) == "8 / 9"


def test_the_nodes_of_a_step_are_in_view(browser: Any, studio: str):
    """On a telephone, where the whole graph is not: at first, and where the window changes."""
    with opened(browser, studio, viewport={"width": 390, "height": 900}) as page:
        for place in ("page=break", "lesson=paths&part=3"):
            page.evaluate(f"location.hash = '{place}'")
            for width in (390, 360):
                page.set_viewport_size({"width": width, "height": 900})
                page.locator(".card.now").nth(1).wait_for()
                settled(page)
                assert cards_in_view(page) == 2, (place, width)


def cards_in_view(page: Any) -> int:
    """How many cards of this step are wholly on the stage, and not below its buttons."""
    return page.evaluate("""() => {
        const [stage, bar] = [".stage", ".zoombar"].map(
            (name) => document.querySelector(name).getBoundingClientRect());
        const isBelow = (b) => b.right > bar.left && b.bottom > bar.top;
        const inside = (b) => b.left >= stage.left && b.right <= stage.right
            && b.top >= stage.top && b.bottom <= stage.bottom && !isBelow(b);
        return [...document.querySelectorAll(".card.now .body")]
            .filter((c) => inside(c.getBoundingClientRect())).length;
    }""")


OTHER_TABS = ("expr", "break&slip=V6", "trace")
"""Those that do not train: test_training_pages.py checks the others when they have trained."""
TABS = ("network", "gpt", *OTHER_TABS)


def test_nothing_scrolls_sideways(browser: Any, studio: str, files: Path):
    """On a phone, and at 200% zoom of a small window."""
    for tabs, options in (
        (OTHER_TABS, {"viewport": {"width": 360, "height": 740}}),
        (TABS, {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2}),
    ):
        with opened(browser, studio, **options) as page:
            for tab in tabs:
                page.evaluate(f"location.hash = 'page={tab}'")
                settled(page)
                check_width(page, tab)
            page.get_by_label("Open a trace").set_input_files(files / "trace.json")
            page.locator(".card").first.wait_for()
            page.get_by_label("17 digits").check()
            check_width(page, "a trace")


def check_width(page: Any, what: str) -> None:
    settled(page)
    wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room, f"{what} is {wide} wide in a window of {room}"


def test_axe_finds_nothing(browser: Any, studio: str, files: Path):
    with opened(browser, studio, color_scheme="light") as page:
        for tab in OTHER_TABS:
            page.evaluate(f"location.hash = 'page={tab}'")
            check_page(page, tab)
        page.evaluate("location.hash = 'lesson=paths&part=3'")
        check_page(page, "a lesson")
        page.get_by_label("expression", exact=True).fill("a +")
        check_page(page, "a problem")
    with opened(browser, (files / "trace.html").as_uri(), color_scheme="light") as page:
        check_page(page, "a trace")
        page.get_by_label("step", exact=True).fill("12")
        check_page(page, "a step of a trace")
