"""`--open`: a browser is asked and not waited for; where there is none, that is said."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ASK = "import sys, pathlib; from labctl.cli.reports import _browse; "
ASK += "print(_browse(pathlib.Path(sys.argv[1])))"


def browse(page: Path, path: str, browser: str = "") -> str:
    """What is said by a process whose environment has these programs and no display."""
    without = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "PATH")
    environment = {k: v for k, v in os.environ.items() if k not in without}
    environment |= {"PATH": path} | ({"BROWSER": browser} if browser else {})
    command = [sys.executable, "-c", ASK, str(page)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_no_browser_is_said(tmp_path: Path) -> None:
    assert "no web browser" in browse(tmp_path / "page.html", str(tmp_path))


def test_a_browser_for_text_does_not_take_the_terminal(tmp_path: Path) -> None:
    program(tmp_path / "lynx", f"touch '{tmp_path}/asked'")
    assert "for text alone" in browse(tmp_path / "page.html", str(tmp_path))
    assert not (tmp_path / "asked").exists()


def test_the_browser_is_asked_for_the_page_and_not_waited_for(tmp_path: Path) -> None:
    go_on, asked = tmp_path / "go-on", tmp_path / "asked"
    wait = f"while [ ! -e '{go_on}' ]; do sleep 0.05; done"
    shown = program(tmp_path / "browser", f"{wait}; echo \"$1\" > '{asked}.part'")
    with shown.open("a") as script:
        script.write(f"mv '{asked}.part' '{asked}'\n")
    page = tmp_path / "a page.html"
    assert browse(page, os.environ["PATH"], f"{shown} %s") == ""
    assert not asked.exists(), "the browser is still waiting, the command is not"
    go_on.touch()
    deadline = time.monotonic() + 60
    while not asked.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert asked.read_text().strip() == page.as_uri()
