"""The project's checksum against the command of that name."""

import subprocess

import pytest

from labctl.targets.cksum import posix_cksum


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"123456789", bytes(range(256)) * 300, b"\xff" * 65_536, b"a" * 16_777_217],
    ids=len,
)
def test_it_is_what_cksum_prints(data):
    done = subprocess.run(["cksum"], input=data, capture_output=True, check=True)
    assert posix_cksum(data) == done.stdout.decode().strip()
