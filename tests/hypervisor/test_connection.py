"""Connections: any URI, errors with a hint, turns at the embedded driver."""

import os
import signal
import socket
from pathlib import Path

import pytest

from labctl.errors import UnavailableError
from labctl.hypervisor import embedded
from labctl.hypervisor.connection import connect
from labctl.hypervisor.domain import destroy, list_domains, state, undefine

from .conftest import python

pytest.importorskip("libvirt")


def test_any_libvirt_uri(capfd: pytest.CaptureFixture[str]) -> None:
    with connect("test:///default") as connection:
        assert connection.raw.getType() == "TEST"
        assert not connection.is_embedded
        assert list_domains(connection) == {"test": "running"}
        assert list_domains(connection, "labctl-") == {}
        destroy(connection, "test")
        assert state(connection, "test") == "shutoff"
        undefine(connection, "test")
        undefine(connection, "test")
        destroy(connection, "test")
        assert state(connection, "test") == "absent"
    assert capfd.readouterr() == ("", "")


def test_what_libvirt_refuses_is_an_error_with_a_hint(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        pytest.raises(UnavailableError) as caught,
        connect("qemu+unix:///system?socket=/nonexistent/sock"),
    ):
        pass
    assert "/nonexistent/sock" in caught.value.message
    assert "systemctl start libvirtd" in caught.value.hint
    assert capfd.readouterr() == ("", "")  # libvirt itself prints nothing


def test_an_unknown_scheme() -> None:
    with pytest.raises(UnavailableError), connect("nonsense:///x"):
        pass


def test_a_daemon_that_never_answers(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "s"))
        deaf.listen()
        uri = f"qemu+unix:///system?socket={tmp_path / 's'}"
        with pytest.raises(UnavailableError, match="does not answer"), connect(uri, timeout=0.3):
            pass


def test_a_long_state_directory_gets_a_short_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 120)))
    root, real = embedded.root_dir()
    try:
        assert root != real and root.resolve() == real.resolve()
        assert len(os.fsencode(root)) <= embedded._LONGEST_ROOT
        assert embedded.root_dir() == (root, real)
        root.unlink()
        root.mkdir()  # somebody else's
        with pytest.raises(UnavailableError, match="not the link"):
            embedded.root_dir()
        root.rmdir()
    finally:
        if root.is_symlink():
            root.unlink()


HOLD = """
import time
from labctl.hypervisor.connection import connect
with connect("embed"):
    print("open", flush=True)
    time.sleep(600)
"""


@pytest.mark.guest
def test_one_process_at_a_time_and_the_wait_says_for_whom(home: Path) -> None:
    holder = python(HOLD)
    try:
        assert holder.stdout and holder.stdout.readline() == "open\n"
        said: list[str] = []
        with (
            pytest.raises(UnavailableError, match=f"in use by process {holder.pid} "),
            connect("embed", timeout=0.5, progress=said.append),
        ):
            pass
        assert len(said) == 1 and str(holder.pid) in said[0]
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with connect("embed") as connection:  # the killed one's lock does not stay
        assert connection.is_embedded and "root=" in connection.uri
        with pytest.raises(UnavailableError, match="helper process"):
            _ = connection.raw


@pytest.mark.guest
def test_threads_share_one_helper_and_it_can_be_opened_again(home: Path) -> None:
    with connect("embed") as one, connect("embed") as two:
        assert one.uri == two.uri
        assert list_domains(one) == list_domains(two)
    with connect("embed") as again:
        assert state(again, "no-such-domain") == "absent"
