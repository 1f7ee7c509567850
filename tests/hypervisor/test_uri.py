"""What of a libvirt URI may be shown."""

import pytest

from labctl.hypervisor.uri import scrubbed, shown


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("auto", "auto"),
        ("qemu:///embed?root=/x/y", "qemu:///embed?root=/x/y"),
        ("qemu+ssh://me@far/system", "qemu+ssh://me@far/system"),
        ("qemu+ssh://me:SECRET@far:22/system?keyfile=/SECRET", "qemu+ssh://me@far:22/system"),
        ("qemu+ssh://me:SEC@RET@far/system", "qemu+ssh://me@far/system"),
        ("qemu+ssh://far/system?sshauth=privkey;keyfile=/SECRET", "qemu+ssh://far/system?sshauth=privkey"),
        ("qemu+ext://far/system?command=/SECRET&no_tty=1", "qemu+ext://far/system?no_tty=1"),
    ],
)  # fmt: skip
def test_secrets_stay_out(uri: str, told: str) -> None:
    assert shown(uri) == told
    assert "SECRET" not in told


def test_a_message_loses_them_too() -> None:
    uri = "qemu+ssh://me:pass@word@far/system?keyfile=/home/me/key&no_tty=1"
    told = scrubbed("pass@word was wrong, /home/me/key not accessible: no_tty=1", uri)
    assert told == "... was wrong, ... not accessible: no_tty=1"


def test_a_connection_that_fails_tells_no_secret() -> None:
    from labctl.errors import UnavailableError
    from labctl.hypervisor.connection import connect

    uri = "qemu+ssh://me:hunter2@host.invalid/system?keyfile=/hidden/key"
    with pytest.raises(UnavailableError) as told, connect(uri, timeout=20):
        pass
    text = f"{told.value} {told.value.detail} {told.value.hint}"
    assert "hunter2" not in text
    assert "hidden" not in text
