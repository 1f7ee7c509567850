import stat
import subprocess

import pytest

from labctl.errors import ConfigError
from labctl.images.keys import ensure_keypair


def test_ssh_keygen_reads_the_key_and_finds_the_same_public_one(tmp_path):
    line = ensure_keypair(tmp_path / "sub" / "id", "lab x")
    private = tmp_path / "sub" / "id"
    assert private.read_text().startswith("-----BEGIN EC PRIVATE KEY-----")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    shown = subprocess.run(
        ["ssh-keygen", "-y", "-f", private], capture_output=True, text=True, check=True
    )
    assert line == f"{' '.join(shown.stdout.split()[:2])} lab x"
    assert line.startswith("ecdsa-sha2-nistp256 ")
    assert (tmp_path / "sub" / "id.pub").read_text() == line + "\n"


def test_a_key_is_made_once_and_its_lost_public_file_again(tmp_path):
    first = ensure_keypair(tmp_path / "id", "a")
    private = (tmp_path / "id").read_bytes()
    (tmp_path / "id.pub").unlink()
    assert ensure_keypair(tmp_path / "id", "a") == first
    assert (tmp_path / "id").read_bytes() == private
    assert (tmp_path / "id.pub").read_text().strip() == first


def test_what_is_no_key_is_refused_and_left_alone(tmp_path):
    (tmp_path / "id").write_text("mine\n")
    with pytest.raises(ConfigError):
        ensure_keypair(tmp_path / "id", "a")
    assert (tmp_path / "id").read_text() == "mine\n"
