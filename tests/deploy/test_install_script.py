"""install.sh by itself: under the shells that a target may have, and by whatever name a
system has SHA-256."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from labctl import paths
from labctl.deploy.sources import archive

INSTALL = paths.data_dir("playbooks") / "files" / "install.sh"
# No sha256sum, stat, readlink, mktemp, install, nproc ...: what POSIX has, and tar.
TOOLS = (
    "awk basename cat chmod cp cut date dd dirname echo env expr false grep head ls mkdir mv ps "
    "printf rm rmdir sed sh sleep sort tail tar test touch tr true uname wc"
)


@pytest.fixture
def machine(tree, tmp_path):
    """A PATH with nothing more than POSIX has, and a work directory with the sources."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in TOOLS.split():
        (tools / name).symlink_to(shutil.which(name))
    write(tools / "cc", 'exec env PATH=/usr/bin:/bin cc "$@"')
    write(tools / "cksum", "[ $# -eq 0 ] || exit 1\nexec /usr/bin/cksum")
    work = tmp_path / "it's work"
    work.mkdir()
    (work / "sources.tar").write_bytes(archive(tree))
    return tools, work


def write(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def install(machine, *items, shell=("sh",), mode="keep"):
    tools, work = machine
    program = [shutil.which(shell[0]), *shell[1:]]
    return subprocess.run(
        [*program, INSTALL, work, "cc", mode, *items],
        env={"PATH": str(tools)},
        cwd="/",
        capture_output=True,
        text=True,
    )


def record(machine, name="alpha_program"):
    lines = (machine[1] / "bin" / f"{name}.build").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("shell", ["dash", "bash --posix", "busybox sh", "mksh"])
def test_every_shell_compiles_and_then_does_nothing(machine, shell):
    words = shell.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here")
    items = ("alpha:alpha_program:1a", "beta:beta_program:2b")
    done = install(machine, *items, shell=words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "labctl: unpacked",
        "labctl: compiled alpha",
        "labctl: compiled beta",
    ]
    assert record(machine)["origin"] == "compiled here"
    assert record(machine)["source_sha"] == "1a"
    again = install(machine, *items, shell=words)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    third = install(machine, items[0], "beta:beta_program:3c", shell=words)
    assert third.stdout.splitlines() == ["labctl: unpacked", "labctl: compiled beta"]


GNU_SUM = "exec /usr/bin/sha256sum"
BY_NAME = {
    "sha256sum": GNU_SUM,  # Linux
    "sha256": f'[ "$1" = -q ] || exit 1\n{GNU_SUM} "$2" | cut -c 1-64',  # FreeBSD
    "cksum": f'[ $# -eq 0 ] && exec /usr/bin/cksum\n[ "$*" = "-a sha256" ] || exit 1\n'
    f"{GNU_SUM} | cut -c 1-64",  # NetBSD
    "openssl": f'[ "$*" = "dgst -sha256" ] || exit 1\necho "SHA256(stdin)= $({GNU_SUM} | '
    'cut -c 1-64)"',
}


@pytest.mark.parametrize("name", [*BY_NAME, "none"])
def test_sha256_by_whatever_name_there_is(machine, name):
    if name != "none":
        write(machine[0] / name, BY_NAME[name])
    done = install(machine, "alpha:alpha_program:1a")
    assert (done.returncode, done.stderr) == (0, "")
    program = machine[1] / "bin" / "alpha_program"
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    assert record(machine)["sha256"] == ("" if name == "none" else digest)
    assert record(machine)["cksum"]
    assert os.access(program, os.X_OK)
