"""The training pages in Chromium: they train, answer to keys, say what is wrong, exclude nobody."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.studio.axe import check_page
from tests.studio.chromium import address, needs_chromium, opened

pytestmark = needs_chromium


@pytest.fixture
def pages(studio: str) -> dict[str, str]:
    """Addresses of the two pages; settings are appended."""
    return {name: f"{studio}#page={name}" for name in ("network", "gpt")}


def state(page: Any) -> dict[str, str]:
    """The state in the address of a page, but for the page's name."""
    pairs = parse_qsl(address(page).partition("#")[2], keep_blank_values=True)
    return {name: value for name, value in pairs if name != "page"}


def fact(page: Any, name: str) -> float:
    text = page.locator(f".t-fact-{name} b").inner_text().replace(",", "").replace("−", "-")
    return float(text) if text != "–" else float("nan")


def wait_for_step(page: Any, step: int, compare: str = ">=") -> None:
    page.wait_for_function(
        "([s, exact]) => { const n = Number(document.querySelector('.t-fact-step b').textContent"
        ".replaceAll(',', '')); return exact ? n === s : n >= s; }",
        arg=[step, compare == "="],
    )


def press(page: Any, name: str) -> None:
    """A button, by key."""
    page.get_by_role("button", name=name, exact=True).focus()
    page.keyboard.press("Enter")


def test_a_network_trains_pauses_and_goes_back(browser: Any, pages: dict[str, str]):
    with opened(browser, pages["network"]) as page:
        press(page, "One step")
        wait_for_step(page, 1, "=")
        before = fact(page, "train")
        press(page, "One epoch")
        wait_for_step(page, 8, "=")
        press(page, "Train")
        wait_for_step(page, 300)
        press(page, "Pause")
        page.get_by_text("Paused.").wait_for()
        assert fact(page, "train") < before / 2
        page.get_by_label("go back to a step").focus()
        page.keyboard.press("Home")
        wait_for_step(page, 0, "=")
        assert "the old curve stays" in page.locator(".t-status").inner_text()
        page.get_by_label("Learning rate").select_option("0.1")
        press(page, "One step")
        wait_for_step(page, 1, "=")


def test_layers_and_units_change_while_it_runs(browser: Any, pages: dict[str, str]):
    with opened(browser, pages["network"]) as page:
        press(page, "Train")
        wait_for_step(page, 20)
        for _ in range(2):
            press(page, "one hidden layer more")
        for _ in range(3):
            press(page, "one unit more in layer 3")
        page.get_by_label("Activation").select_option("relu")
        page.get_by_label("Residual connections").check()
        wait_for_step(page, 200)
        now = state(page)
        assert now["widths"] == "6,4,7,4" and now["residual"] == "1"
        for _ in range(4):
            press(page, "one hidden layer less")
        page.get_by_text("0 hidden layers").wait_for()
        assert state(page)["widths"] == ""
        assert page.get_by_role("button", name="Pause").count() == 1  # it has run all the time


def test_points_are_drawn_and_pasted(browser: Any, pages: dict[str, str]):
    with opened(browser, pages["network"]) as page:
        said = page.locator(".t-status")
        page.locator(".t-surface").click(position={"x": 20, "y": 20})
        page.get_by_text("301 points of your own.").wait_for()
        page.get_by_text("Draw your own").click()
        page.get_by_label("orange").check()
        press(page, "Add")
        page.get_by_text("302 points of your own.").wait_for()
        press(page, "Clear")
        page.get_by_text("There are no points").wait_for()
        page.get_by_text("Paste points").click()
        page.get_by_label("points, one a line").fill(
            "x,y,label\n1,2,0\n-1,-2,1\noops\n0.5,1,0\n1,1,1"
        )
        press(page, "Use these points")
        assert said.inner_text().startswith("4 points pasted. 1 line is no")
        press(page, "One step")
        wait_for_step(page, 1, "=")


def test_a_million_lines_are_sampled(browser: Any, pages: dict[str, str]):
    with opened(browser, pages["network"]) as page:
        page.get_by_text("Paste points").click()
        page.evaluate("""() => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text", "1,2,0\\n-1,0.5,1\\n".repeat(5e5));
            const event = new ClipboardEvent("paste", {clipboardData, cancelable: true});
            document.querySelector(".t-more textarea").dispatchEvent(event);
        }""")
        page.get_by_text("1,000,000 points are more than the page can show").wait_for()


def test_a_loss_that_is_no_number_stops_with_a_sentence(browser: Any, pages: dict[str, str]):
    url = (
        pages["network"]
        + "&activation=linear&optimizer=sgd&rate=100&widths=16,16&data=plane&pace=0"
    )
    with opened(browser, url) as page:
        press(page, "Train")
        page.get_by_text("The loss is no finite number").wait_for()
        assert page.get_by_role("button", name="Train").count() == 1
        press(page, "Reset")
        wait_for_step(page, 0, "=")


def test_the_address_restores_a_state(browser: Any, pages: dict[str, str]):
    url = (
        pages["network"]
        + "&data=spirals&widths=8,8,8&activation=relu&rate=0.003&step=120&seed=5&noise=zz"
    )
    with opened(browser, url) as page:
        wait_for_step(page, 120, "=")
        loss, now = fact(page, "train"), state(page)
        want = {
            "data": "spirals",
            "widths": "8,8,8",
            "activation": "relu",
            "rate": "0.003",
            "step": "120",
            "seed": "5",
        }
        assert now == want
    with opened(browser, url) as page:
        wait_for_step(page, 120, "=")
        assert fact(page, "train") == loss


def test_the_program_is_shown(browser: Any, pages: dict[str, str]):
    with opened(browser, pages["network"]) as page:
        press(page, "One epoch")
        wait_for_step(page, 7, "=")
        page.get_by_text("Show me the Python").click()
        code = page.locator(".t-code").filter(has_text="optim.Adam(parameters, lr=0.01")
        compile(code.inner_text(), "shown.py", "exec")


def test_microgpt_learns_and_shows_its_tensors(browser: Any, pages: dict[str, str]):
    with opened(browser, pages["gpt"] + "&pace=0") as page:
        press(page, "One step")
        wait_for_step(page, 1, "=")
        assert abs(fact(page, "loss") - 3.3) < 0.4
        press(page, "Train")
        page.get_by_text("1,000 steps are done").wait_for()
        assert fact(page, "loss") < 2.6
        assert page.locator(".t-names li").count() == 12
        field = page.get_by_label("tensor, and slice")
        for text, words in {
            "h.0.attn.wq.grad[:, :2]": "16 × 2", "blocks.0.attn.qkv.weight.grad[:8]": "8 × 16",
            "wte": "27 × 16", "lm_head[-1]": "1 × 16",
        }.items():  # fmt: skip
            field.fill(text)
            field.press("Enter")
            page.locator(".t-panel .t-note", has_text=words).wait_for()
        field.fill("h.0.attn.wx")
        field.press("Enter")
        assert "There is no tensor h.0.attn.wx" in page.get_by_role("alert").inner_text()
        field.fill("wte")
        field.press("Enter")
        page.locator(".t-map").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".t-cell").inner_text().startswith("[0, 1]")
        page.get_by_label("name to look at").fill("emma")
        page.get_by_label("name to look at").press("Enter")
        page.wait_for_function(
            "() => document.querySelector('.t-head-map').ariaLabel.includes('e reads')"
        )


def test_microgpt_learns_lines_of_the_reader(browser: Any, pages: dict[str, str]):
    with opened(browser, pages["gpt"]) as page:
        page.get_by_text("Learn from your own lines").click()
        page.get_by_label("names or words, one a line").fill("rote\nruten\nroter\n")
        press(page, "Use these lines")
        page.get_by_text("3 lines to learn from.").wait_for()
        press(page, "One step")
        wait_for_step(page, 1, "=")


def test_without_simd_there_is_a_sentence(browser: Any, pages: dict[str, str]):
    for name in ("network", "gpt"):
        with opened(browser, pages[name], "WebAssembly.validate = () => false") as page:
            page.get_by_text("WebAssembly has no SIMD").wait_for()
            assert page.get_by_role("button", name="Train").is_disabled()


@pytest.mark.parametrize("name", ["network", "gpt"])
def test_nobody_is_shut_out(browser: Any, pages: dict[str, str], name: str):
    with opened(browser, pages[name], color_scheme="light") as page:
        press(page, "Train")
        wait_for_step(page, 50)
        press(page, "Pause")
        for summary in page.locator("summary").all():
            summary.click()
        check_page(page, name)


@pytest.mark.parametrize("name", ["network", "gpt"])
def test_it_fits_a_telephone_and_keeps_still(browser: Any, pages: dict[str, str], name: str):
    narrow = {"viewport": {"width": 360, "height": 700}, "reduced_motion": "reduce"}
    with opened(browser, pages[name], COUNT_FRAMES, **narrow) as page:
        press(page, "Train")
        wait_for_step(page, 50)
        for summary in page.locator("summary").all():
            summary.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.evaluate("frames.length = 0")
        page.wait_for_timeout(1000)
        assert page.evaluate("frames.length") <= 3


COUNT_FRAMES = """
globalThis.frames = [];
const set = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message) {
  if (message.type === "frame") frames.push(performance.now());
  return set.apply(this, arguments);
};
"""


COUNT_WORKERS = """
globalThis.workers = 0;
globalThis.Worker = class extends Worker {
  constructor(...args) { super(...args); workers++; }
  terminate() { workers--; super.terminate(); }
};
"""


def test_a_page_that_is_replaced_ends_its_worker(browser: Any, pages: dict[str, str]):
    with opened(browser, pages["network"], COUNT_WORKERS) as page:
        for seed in (2, 3):
            page.evaluate(f"location.hash = 'page=network&seed={seed}&step=4'")
            wait_for_step(page, 4, "=")
            assert page.get_by_label("Seed").input_value() == str(seed)
            assert page.evaluate("workers") == 1
