"""The README's pictures: the page of a run, as headless Chromium shows it.

    python tools/pictures.py RUN    RUN is a run's directory; its page is made anew.

Writes docs/report.png (wide, light) and docs/report-phone.png (390 pixels, dark).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from labctl.analysis import open_run
from labctl.report import build_report, write_page
from labctl.workloads import load_workloads

DOCS = Path(__file__).resolve().parents[1] / "docs"
SHOTS = {
    "report.png": {"viewport": {"width": 1200, "height": 2100}, "color_scheme": "light"},
    "report-phone.png": {"viewport": {"width": 390, "height": 1500}, "color_scheme": "dark"},
}


def main(run: Path) -> None:
    """Make the pictures of a run's page."""
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        model = build_report(open_run(run), workloads=load_workloads())
        page = write_page(model, Path(scratch) / "report.html")
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        for name, options in SHOTS.items():
            tab = browser.new_context(**options).new_page()  # type: ignore[arg-type]
            tab.goto(page.as_uri())
            tab.wait_for_timeout(2000)
            tab.screenshot(path=DOCS / name)
            print(f"{DOCS / name}: {(DOCS / name).stat().st_size // 1024} KiB")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/pictures.py RUN (a run's directory)")
    main(Path(sys.argv[1]))
