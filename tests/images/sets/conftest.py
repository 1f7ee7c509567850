"""A web server with a release, and a lab that takes sets from it into a directory of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from archive_server import ArchiveServer
from sets_lab import BELOW, RELEASE, Lab, sha512_list


@pytest.fixture
def server() -> Iterator[ArchiveServer]:
    served = ArchiveServer()
    for name, content in RELEASE.items():
        served.files[f"{BELOW}/{name}"] = content
    served.files[f"{BELOW}/SHA512"] = sha512_list(RELEASE)
    yield served
    served.close()


@pytest.fixture
def lab(tmp_path: Path, server: ArchiveServer, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    return Lab(tmp_path / "keep", server.url)


@pytest.fixture
def directory(tmp_path: Path) -> Callable[..., Path]:
    """Makes a directory with files."""

    def make(files: dict[str, bytes], below: str = "") -> Path:
        top = tmp_path / "given"
        (top / below).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (top / below / name).write_bytes(content)
        return top

    return make
