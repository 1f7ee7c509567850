"""Downloading sets: what goes wrong on the way, and what is left when it does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from archive_server import ArchiveServer
from sets_lab import BELOW, PATH, QUICK, RELEASE, Lab, sha256, sha512_list, tar

from labctl.errors import UnavailableError
from labctl.images.builder import Source
from labctl.images.sets.part import Range, validator
from labctl.images.sets.web import MissingError, Patience, Web

BASE = f"{BELOW}/base.tgz"


def test_sets_are_downloaded_once_and_then_need_no_network(lab: Lab, server: ArchiveServer):
    sets = lab.obtain()
    assert list(sets) == ["base", "etc", "kern-GENERIC", "comp"]
    for name, held in sets.items():
        content = RELEASE[f"{name}.tgz"]
        assert held.path.read_bytes() == content
        assert (held.digest, held.size) == (sha256(content), len(content))
        assert held.origin == f"{server.url}{BELOW}/{name}.tgz"
    assert ("sets", 0.25, "base.tgz 0.3 of 0.3 MiB") in lab.said
    asked = len(server.log)
    assert lab.obtain() == sets == lab.supply().current()
    assert len(server.log) == asked
    assert not list(lab.keep.glob("*.part*"))


def test_a_cut_connection_is_resumed_and_the_whole_file_checked(lab: Lab, server: ArchiveServer):
    server.cuts[BASE] = [100_000, 50_000, 0, 20_000]
    assert lab.obtain()["base"].path.read_bytes() == RELEASE["base.tgz"]
    assert server.gets("base.tgz") == [
        ("", 200),
        ("bytes=100000-", 206),
        ("bytes=150000-", 206),
        ("bytes=150000-", 206),
        ("bytes=170000-", 206),
    ]


def test_a_connection_that_is_always_cut_ends_in_an_error_and_is_resumed_later(
    lab: Lab, server: ArchiveServer
):
    server.cuts[BASE] = [70_000] + [0] * 9
    with pytest.raises(UnavailableError, match="3 times in a row") as caught:
        lab.obtain()
    assert caught.value.where == f"{server.url}{BASE}"
    assert lab.supply().current() is None
    server.cuts.clear()
    server.log.clear()
    assert lab.obtain()["base"].digest == sha256(RELEASE["base.tgz"])
    assert server.gets("base.tgz") == [("bytes=70000-", 206)]


def test_a_server_that_ignores_ranges_makes_it_begin_anew(lab: Lab, server: ArchiveServer):
    server.ranges = False
    server.cuts[BASE] = [100_000, 90_000]
    assert lab.obtain()["base"].path.read_bytes() == RELEASE["base.tgz"]
    assert [code for _, code in server.gets("base.tgz")] == [200, 200, 200]


def test_a_server_that_ignores_ranges_and_always_cuts_is_given_up(lab: Lab, server: ArchiveServer):
    server.ranges = False
    server.cuts[BASE] = [100_000] * 50
    with pytest.raises(UnavailableError, match="times in a row"):
        lab.obtain()
    assert len(server.gets("base.tgz")) == 4  # the first brought something, three did not


def test_without_a_version_named_nothing_is_resumed(lab: Lab, server: ArchiveServer):
    server.etags = False
    server.cuts[BASE] = [100_000]
    assert lab.obtain()["base"].path.read_bytes() == RELEASE["base.tgz"]
    assert server.gets("base.tgz") == [("", 200), ("", 200)]


def test_a_file_that_changed_on_the_server_is_not_glued_together(lab: Lab, server: ArchiveServer):
    server.cuts[BASE] = [100_000, 0, 0, 0]
    with pytest.raises(UnavailableError):
        lab.obtain()
    changed = {**RELEASE, "base.tgz": tar("base", 2)}
    server.files[BASE] = changed["base.tgz"]
    server.files[f"{BELOW}/SHA512"] = sha512_list(changed)
    assert lab.obtain()["base"].path.read_bytes() == changed["base.tgz"]
    assert server.gets("base.tgz")[-1] == ("bytes=100000-", 200)


def test_a_resumed_file_with_a_wrong_digest_is_brought_once_more_in_one_piece(
    lab: Lab, server: ArchiveServer
):
    server.cuts[BASE] = [100_000, 0, 0, 0]
    with pytest.raises(UnavailableError):
        lab.obtain()
    part = lab.keep / "base.tgz.part"
    part.write_bytes(b"x" * part.stat().st_size)
    assert lab.obtain()["base"].path.read_bytes() == RELEASE["base.tgz"]
    assert [code for _, code in server.gets("base.tgz")][-2:] == [206, 200]


def test_a_part_that_was_whole_already_is_taken_after_416(lab: Lab, server: ArchiveServer):
    server.cuts[BASE] = [100_000, 0, 0, 0]
    with pytest.raises(UnavailableError):
        lab.obtain()
    (lab.keep / "base.tgz.part").write_bytes(RELEASE["base.tgz"])
    server.log.clear()
    assert lab.obtain()["base"].digest == sha256(RELEASE["base.tgz"])
    assert [code for _, code in server.gets("base.tgz")] == [416]


def test_a_part_longer_than_the_file_begins_anew_after_416(lab: Lab, server: ArchiveServer):
    server.cuts[BASE] = [100_000, 0, 0, 0]
    with pytest.raises(UnavailableError):
        lab.obtain()
    (lab.keep / "base.tgz.part").write_bytes(RELEASE["base.tgz"] + b"more")
    server.log.clear()
    assert lab.obtain()["base"].path.read_bytes() == RELEASE["base.tgz"]
    assert [code for _, code in server.gets("base.tgz")] == [416, 200]


def test_a_body_shorter_than_announced_is_an_error(lab: Lab, server: ArchiveServer):
    server.extra_length[BASE] = 1000
    server.ranges = False
    with pytest.raises(UnavailableError, match="times in a row"):
        lab.obtain()
    assert lab.supply().current() is None


def test_a_body_cut_by_its_announced_length_is_an_error(lab: Lab, server: ArchiveServer):
    server.extra_length[BASE] = -1000
    with pytest.raises(UnavailableError, match=r"base\.tgz has .*truncated.*SHA512 says"):
        lab.obtain()


def test_a_silent_server_is_asked_again(lab: Lab, server: ArchiveServer):
    server.stalls[BASE] = 120_000
    assert lab.obtain()["base"].digest == sha256(RELEASE["base.tgz"])
    assert server.gets("base.tgz") == [("", 200), ("bytes=120000-", 206)]


def test_a_busy_server_is_asked_again_and_a_broken_one_is_named(lab: Lab, server: ArchiveServer):
    server.status[BASE] = (503, 1)
    assert lab.obtain()["base"].digest == sha256(RELEASE["base.tgz"])
    server.status[BASE] = (500, -1)
    with pytest.raises(UnavailableError, match="500 Internal Server Error"):
        lab.obtain(mirror=f"{server.url}/pub/archive")


@pytest.mark.parametrize("code", [404, 403, 401])
def test_a_refusal_is_named_with_its_url(tmp_path: Path, server: ArchiveServer, code: int):
    server.status["/file"] = (code, -1)
    kind = UnavailableError if code == 401 else MissingError
    with Web(Patience(attempts=2, pause_s=0.01)) as web, pytest.raises(kind) as caught:
        web.download(f"{server.url}/file", tmp_path / "file.part", lambda done, total: None)
    assert f"{server.url}/file: the server answers {code}" in str(caught.value)
    assert len(server.log) == 1
    assert not list(tmp_path.iterdir())


def test_redirections_are_followed_but_not_round_and_round(lab: Lab, server: ArchiveServer):
    server.files["/elsewhere.tgz"] = server.files.pop(BASE)
    server.redirects[BASE] = f"{server.url}/elsewhere.tgz"
    server.cuts["/elsewhere.tgz"] = [100_000]
    assert lab.obtain()["base"].digest == sha256(RELEASE["base.tgz"])
    server.redirects[f"{BELOW}/etc.tgz"] = f"{server.url}{BELOW}/etc.tgz"
    with pytest.raises(UnavailableError, match="cannot be followed"):
        lab.obtain(mirror=f"{server.url}/pub/archive")


def test_a_server_without_head_will_do(lab: Lab, server: ArchiveServer):
    server.heads = False
    del server.files[f"{BELOW}/comp.tgz"]
    assert list(lab.obtain()) == ["base", "etc", "kern-GENERIC"]


def _unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "archive.invalid"])
def test_without_a_network_the_error_says_what_to_bring_by_hand(lab: Lab, host: str):
    mirror = f"http://{host}:{_unused_port()}/archive"
    with pytest.raises(UnavailableError, match="nothing answers") as caught:
        lab.supply(mirror=mirror).obtain(Source(), lab.progress)
    error = caught.value
    assert error.where == f"{mirror}/{PATH}/SHA512"
    assert "labctl image build netbsd-6.1.5 --sets DIR" in error.hint
    assert "base.tgz, etc.tgz, kern-GENERIC.tgz" in error.hint
    assert f"{mirror}/{PATH}/kern-GENERIC.tgz" in error.detail


def test_a_second_archive_is_asked_when_the_first_is_silent(lab: Lab, server: ArchiveServer):
    silent = f"http://127.0.0.1:{_unused_port()}/archive"
    lab.changes = {"mirror": [silent, f"{server.url}/pub/archive"]}
    assert lab.obtain()["base"].origin.startswith(server.url)


def test_proxies_come_from_the_environment(
    lab: Lab, server: ArchiveServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", server.url)
    for path, content in list(server.files.items()):
        server.files[f"http://archive.invalid{path}"] = content
    lab.changes = {"mirror": "http://archive.invalid/pub/archive"}
    assert lab.obtain()["base"].digest == sha256(RELEASE["base.tgz"])


def _program(lab: Lab, program: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of a process that has ``lab``."""
    program = (
        f"import sys\nfrom sets_lab import *\nlab = Lab(Path(sys.argv[1]), sys.argv[2])\n{program}"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    return [sys.executable, "-c", program, str(lab.root), lab.url], environment


def test_a_full_disk_is_named_and_what_is_there_is_gone_on_with(lab: Lab, server: ArchiveServer):
    # A limit on the size of files stands for the disk: a process of its own has it.
    command, environment = _program(
        lab,
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "try: lab.obtain()\n"
        "except Exception as error: print(type(error).__name__, error)",
    )
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    part = lab.keep / "base.tgz.part"
    assert done.stdout == f"UnavailableError {part}: it cannot be written: File too large\n"
    assert lab.supply().current() is None
    size = part.stat().st_size
    assert lab.obtain()["base"].digest == sha256(RELEASE["base.tgz"])
    assert server.gets("base.tgz")[-1] == (f"bytes={size}-", 206)


def test_what_is_killed_leaves_only_parts_and_is_gone_on_with(lab: Lab, server: ArchiveServer):
    server.stalls[f"{BELOW}/etc.tgz"] = 100_000
    command, environment = _program(lab, "lab.patience = None\nlab.obtain()")
    process = subprocess.Popen(command, env=environment)
    part = lab.keep / "etc.tgz.part"
    try:
        deadline = time.monotonic() + 30
        while not part.is_file() or part.stat().st_size < 100_000:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    assert lab.supply().current() is None
    server.log.clear()
    assert lab.obtain()["etc"].digest == sha256(RELEASE["etc.tgz"])
    assert server.gets("base.tgz") == []  # it was whole, and is only read again
    assert server.gets("etc.tgz") == [("bytes=100000-", 206)]


def test_an_interrupt_goes_through_and_keeps_the_part(lab: Lab):
    def interrupt(stage: str, fraction: float | None, detail: str) -> None:
        if "MiB" in detail:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.supply().obtain(Source(), interrupt)
    assert (lab.keep / "base.tgz.part").stat().st_size > 0
    assert lab.supply().current() is None


def test_a_version_that_cannot_be_sent_back_is_none():
    assert validator({"etag": '"\xff\xe4"'}) == validator({"etag": "x" * 300}) == ""
    assert validator({"etag": "W/1", "last-modified": "then"}) == "then"
    assert validator({"etag": '"1"'}) == '"1"'


def test_a_range_of_thousands_of_digits_is_none():
    assert Range.parse("bytes 5-9/" + "9" * 5000) == Range(None, None)
    assert Range.parse("bytes 5-9/10") == Range(5, 10)


def test_what_does_not_end_is_dropped_and_what_crawls_is_given_up(
    tmp_path: Path, server: ArchiveServer
):
    part, url = tmp_path / "part", server.url + BASE
    with Web(QUICK, most_bytes=1000) as web, pytest.raises(UnavailableError, match="1000 bytes"):
        web.download(url, part, lambda *_: None)
    assert not part.exists()
    hasty = replace(QUICK, window_s=0, least_bytes_s=1e15)
    with Web(hasty) as web, pytest.raises(UnavailableError, match="too slow"):
        web.download(url, part, lambda *_: None)
