"""The README's pictures: the page of a run, as headless Chromium shows it.

    python tools/pictures.py RUN    RUN is a run's directory; its page is made anew.

Writes docs/report.png (light), docs/report-figures.png (dark, the first workload's figures) and
docs/report-phone.png (390 pixels). Each is stored with a palette: a third of the size.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from labctl.analysis import open_run
from labctl.report import build_report, write_page
from labctl.workloads import load_workloads

DOCS = Path(__file__).resolve().parents[1] / "docs"


@dataclass(frozen=True)
class Picture:
    """A file, the window that it is taken of (CSS pixels), and where on the page it begins."""

    name: str
    scheme: Literal["light", "dark"]
    width: int
    height: int
    begins: str = "body"


PICTURES = (
    Picture("report.png", "light", 1160, 1020),
    Picture("report-figures.png", "dark", 1160, 1500, "#section-1"),
    Picture("report-phone.png", "light", 390, 1180),
)


def main(run: Path) -> None:
    """Write all of them."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no Chromium; tools/setup test installs it")
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        model = build_report(open_run(run), workloads=load_workloads())
        page = write_page(model, Path(scratch) / "report.html")
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for picture in PICTURES:
            path = DOCS / picture.name
            _take(browser, page, picture).save(path, optimize=True)
            print(f"{path}: {path.stat().st_size // 1024} KiB")
        browser.close()


def _take(browser: Browser, page: Path, picture: Picture) -> Image.Image:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height}, color_scheme=picture.scheme
    )
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-drawn]", state="attached")
    tab.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    tab.evaluate(f"document.querySelector('{picture.begins}').scrollIntoView()")
    tab.wait_for_timeout(500)  # figures outside of the window are drawn when they are reached
    image = Image.open(io.BytesIO(tab.screenshot()))
    context.close()
    return image.convert("RGB").quantize(256, dither=Image.Dither.NONE)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/pictures.py RUN (a run's directory)")
    main(Path(sys.argv[1]))
