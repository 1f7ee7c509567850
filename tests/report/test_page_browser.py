"""The page in a real browser: headless Chromium, which tools/packages.txt names for the tests.

One page is of a real run of this machine; the other of simulated machines, one of which is
"emulated" and all of whose names are hostile.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from labctl.report import build_report, render_page
from tests.conftest import InProcess
from tests.report.synthetic import make_header, make_records
from tests.report.test_forms import hostile_model  # noqa: F401  (a fixture)

pytestmark = pytest.mark.slow  # half a minute in all
CHROMIUM = Path("/usr/bin/chromium")
MANY = """
lab: many
targets:
  one: {kind: sim, guest: true, times: {base_us: 2.0, factor: 1.3}}
  two: {kind: sim, times: {base_us: 2.0}}
  three: {kind: sim, guest: true, times: {base_us: 2.0}}
pairs: [{guest: one, metal: two}, {guest: three, metal: two}]
"""
LAB = "lab: here\ntargets: {metal: {kind: local}, twin: {kind: local, workdir: %s}}\n"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM.exists(), "Chromium is missing: tools/setup test installs it"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sweep that was just measured here."""
    base = tmp_path_factory.mktemp("real")
    (base / "lab.yaml").write_text(
        LAB % (base / "twin") + "pairs: [{kernel: twin, against: metal}]\n"
    )
    labctl = InProcess(base, {"XDG_STATE_HOME": str(base / "state")})
    design = ("--rounds", "3", "--batches", "2", "--min-batch-ms", "2", "--threads", "1,2")
    labctl("sweep", "kqtest", "urandom", *design)
    labctl("report")
    (run,) = (base / "results").iterdir()
    return run / "report.html"


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory, hostile_model: Any) -> Path:  # noqa: F811
    path = tmp_path_factory.mktemp("evil") / "page.html"
    path.write_text(render_page(hostile_model))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a made-up journal with a guest under TCG and published numbers."""
    path = tmp_path_factory.mktemp("made") / "page.html"
    path.write_text(render_page(build_report(make_records(make_header()))))
    return path


class Look:
    """A page that was opened, with whatever it asked for and said."""

    def __init__(self, browser: Browser, path: Path, **options: Any) -> None:
        options = {"viewport": {"width": 1200, "height": 900}, **options}
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.asked: list[str] = []
        self.said: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-drawn]", state="attached")

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def shown(self, name: str) -> list[bool]:
        """Whether each renderer of that name is visible."""
        found: list[bool] = self.page.evaluate(
            "(name) => Bokeh.documents.flatMap((d) => [...d.all_models])"
            ".filter((m) => m.type === 'GlyphRenderer' && m.name === name).map((m) => m.visible)",
            name,
        )
        return found


def until(page: Page, expression: str) -> None:
    """Wait for an expression to hold. (Playwright's own way is refused by the page's policy.)"""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"it never came true: {expression}")


def fits(page: Page) -> None:
    """Nothing is wider than the window, once the figures have taken their widths."""
    until(page, "document.documentElement.scrollWidth <= window.innerWidth")


def darkness(image: bytes) -> float:
    """Mean brightness of a picture, 0 to 255."""
    import io

    from PIL import Image, ImageStat

    with Image.open(io.BytesIO(image)) as opened:
        return float(ImageStat.Stat(opened.convert("L")).mean[0])


@pytest.mark.parametrize("which", ["real", "evil", "made"])
def test_it_asks_nobody_and_says_nothing(
    browser: Browser, request: pytest.FixtureRequest, which: str
) -> None:
    path = request.getfixturevalue(which)
    look = Look(browser, path)
    with look as page:
        page.mouse.wheel(0, 4000)
        assert look.asked == [path.as_uri()]
        assert look.said == []
        assert page.locator(".plot canvas").count() >= 5


def figure_of(page: Page, title: str) -> Locator:
    """The drawn figure under a title that begins so, the first on the page."""
    return page.locator("figure", has=page.locator("h4", has_text=title)).first.locator(".plot")


def hover(page: Page, title: str) -> str:
    """The tooltip over the first marker of a figure."""
    figure = figure_of(page, title)
    figure.scroll_into_view_if_needed()
    at = figure.evaluate(
        """(element) => {
          const view = [...Bokeh.index].find((one) => element.contains(one.el));
          const renderer = view.model.renderers.filter((one) => one.glyph.type === "Scatter"
            && one.data_source.data.shown !== undefined).at(-1);
          const box = view.el.getBoundingClientRect();
          const x = renderer.data_source.data.x[0], y = renderer.data_source.data.y[0];
          return [box.x + view.frame.x_scale.compute(x), box.y + view.frame.y_scale.compute(y)];
        }"""
    )
    page.mouse.move(at[0] - 30, at[1] - 30)
    page.mouse.move(*at, steps=5)
    tooltip = page.locator(".bk-tooltip-content").first
    tooltip.wait_for(state="visible", timeout=5000)
    return str(tooltip.inner_text())


def test_pointing_at_a_marker_shows_its_value(browser: Browser, real: Path) -> None:
    with Look(browser, real) as page:
        text = hover(page, "Time per")
        assert "1 thread" in text
        assert "interval" in text
        assert "from 1 boot, 3 processes, 6 batches" in text


def test_a_hostile_name_is_text_where_somebody_points(browser: Browser, evil: Path) -> None:
    look = Look(browser, evil)
    with look as page:
        assert "<script>alert(1)</script>" in hover(page, "Time per")
        assert page.locator(".bk-tooltip-content b").count() == 0
        assert look.said == []


@pytest.mark.parametrize("how", ["mouse", "keyboard"])
def test_a_legend_entry_hides_a_series_in_all_figures(
    browser: Browser, real: Path, how: str
) -> None:
    look = Look(browser, real)
    with look as page:
        button = page.locator("button[data-series]").first
        name = str(button.get_attribute("data-series"))
        figure = figure_of(page, "Time per")
        before = figure.screenshot()
        assert len(look.shown(name)) >= 5
        assert all(look.shown(name))
        if how == "mouse":
            button.click()
        else:
            button.focus()
            page.keyboard.press("Space")
        assert button.get_attribute("aria-pressed") == "false"
        assert not any(look.shown(name))
        page.wait_for_timeout(200)
        assert figure.screenshot() != before
        page.keyboard.press("Enter") if how == "keyboard" else button.click()
        assert all(look.shown(name))


def test_published_numbers_can_be_switched_off(browser: Browser, made: Path) -> None:
    look = Look(browser, made)
    with look as page:
        single = page.locator("button[data-series^=seed]")
        names = [str(one.get_attribute("data-series")) for one in single.all()]
        assert len(names) == 3
        single.first.click()
        assert [any(look.shown(name)) for name in names] == [False, True, True]
        every = page.locator("button[data-group]")
        every.focus()
        page.keyboard.press("Enter")
        assert not any(shown for name in names for shown in look.shown(name))
        assert {one.get_attribute("aria-pressed") for one in single.all()} == {"false"}
        every.click()
        assert all(shown for name in names for shown in look.shown(name))


@pytest.mark.parametrize("which", ["real", "made"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_usable_on_a_phone_in_light_and_dark(
    browser: Browser, request: pytest.FixtureRequest, which: str, scheme: str
) -> None:
    options = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    with Look(browser, request.getfixturevalue(which), **options) as page:
        fits(page)
        bright = darkness(page.screenshot())
        assert bright < 80 if scheme == "dark" else bright > 180
        widths = page.evaluate(
            "[...document.querySelectorAll('.plot')].map((e) => e.getBoundingClientRect().width)"
        )
        assert all(250 < width <= 390 for width in widths)


def test_a_name_without_end_does_not_widen_a_phone(browser: Browser, evil: Path) -> None:
    with Look(browser, evil, viewport={"width": 390, "height": 844}) as page:
        fits(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["real", "made"])
def test_no_serious_finding_of_accessibility(
    browser: Browser, request: pytest.FixtureRequest, which: str, scheme: str
) -> None:
    with Look(browser, request.getfixturevalue(which), color_scheme=scheme) as page:
        for details in page.locator("details").all():
            details.evaluate("(e) => { e.open = true; }")
        found = Axe().run(page).response["violations"]
        grave = [
            (one["id"], one["impact"], [node["html"][:200] for node in one["nodes"]][:3])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert grave == []


def test_it_prints_with_everything_open_and_on_white(browser: Browser, made: Path) -> None:
    with Look(browser, made, color_scheme="dark") as page:
        closed = page.locator("details:not([open])")
        before = closed.count()
        page.emulate_media(media="print")
        until(page, "document.querySelectorAll('details:not([open])').length === 0")
        assert page.locator("nav").is_hidden()
        assert page.locator(".plot").first.is_visible()
        assert darkness(page.screenshot()) > 180
        assert page.pdf().startswith(b"%PDF")
        page.set_viewport_size({"width": 720, "height": 1000})  # A4 between its margins
        beyond_the_paper = page.evaluate(
            """[...document.querySelectorAll('table, figure, pre, p, li')]
               .filter(one => one.getBoundingClientRect().right > 721).map(one => one.innerText)"""
        )
        assert beyond_the_paper == []
        page.emulate_media(media="screen")
        until(page, f"document.querySelectorAll('details:not([open])').length === {before}")
        assert before >= 10


def test_the_commands_can_be_copied(browser: Browser, made: Path) -> None:
    with Look(browser, made, permissions=["clipboard-read", "clipboard-write"]) as page:
        button = page.locator("button.copy")
        button.focus()
        page.keyboard.press("Enter")
        button.filter(has_text="Copied").wait_for()
        assert "labctl sweep kqtest" in page.evaluate("navigator.clipboard.readText()")


def test_old_numbers_stand_in_the_figures_marked_as_imported(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "lab.yaml").write_text(MANY)
    (tmp_path / "old.csv").write_text(
        "workload,target,threads,us_per_op\neptest,old box,1,3.5\neptest,old box,2,4.5\n"
    )
    labctl = InProcess(tmp_path, {"XDG_STATE_HOME": str(tmp_path / "state")})
    labctl("import", "old.csv", "--name", "old")
    labctl("sweep", "eptest", "--threads", "1,2", "--rounds", "3")
    labctl("report", "latest", "--beside", "old", "--html", str(tmp_path / "page.html"))
    look = Look(browser, tmp_path / "page.html")
    with look as page:
        figures = page.locator("figure", has=page.locator("h4", has_text="Time per"))
        (alone,) = [text for text in figures.all_inner_texts() if "old box" in text]
        assert "Imported, one number a cell and no interval: old box" in alone
        assert "One boot" not in alone
        orders = page.locator("figure", has_text="Samples in the order taken").all_inner_texts()
        assert len(orders) == 1, "imported numbers have none"
        assert page.locator(".mark", has_text="imported").count() >= 2
        assert look.said == []


def test_a_run_of_many_samples_is_small_and_says_what_is_drawn(
    browser: Browser, tmp_path: Path
) -> None:
    """Over 100,000 samples; three targets, as a kqtest of two hours has them."""
    (tmp_path / "lab.yaml").write_text(MANY)
    labctl = InProcess(tmp_path, {"XDG_STATE_HOME": str(tmp_path / "state")})
    design = ("--rounds", "21", "--boots", "2", "--batches", "250", "--threads", "1,2,4,8")
    labctl("sweep", "eptest", "urandom", *design)
    labctl("report")
    (run,) = (tmp_path / "results").iterdir()
    page_file = run / "report.html"
    assert sum(1 for _ in (run / "journal.jsonl").open()) > 100_000
    assert page_file.stat().st_size < 2_000_000
    look = Look(browser, page_file)
    with look as page:
        text = page.locator("figure", has_text="Samples in the order taken").first.inner_text()
        assert re.search(r"mean of \d+ successive samples", text)
        assert look.said == []
