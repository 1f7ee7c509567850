"""The workloads compiled for FreeBSD and NetBSD by zig, warnings as errors.

zig has FreeBSD's libraries too, so that is linked; NetBSD's lack kevent. What was compiled
of the systems' own stays in the user's cache: the first time takes some seconds longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from labctl import paths
from labctl.deploy import elf

from .conftest import STRICT, WORKLOADS, sh_build

pytest.importorskip("ziglang", reason="pip install labctl[cross]")

FREEBSD, NETBSD = "x86_64-freebsd.14.0", "x86_64-netbsd.10.1"
NAMES = ("kqtest", "mmapsem", "urandom")


@pytest.fixture(scope="module")
def caches() -> dict[str, str]:
    cache = str(paths.cache_dir() / "zig")
    return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


@pytest.fixture
def compiler(tmp_path):
    """A cc for a system, in a directory for PATH."""

    def make(triple: str) -> str:
        program = tmp_path / f"cc-{triple}"
        program.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc -target {triple} "$@"\n'
        )
        program.chmod(0o755)
        return str(program)

    return make


def test_freebsd(compiler, caches, tmp_path):
    done = sh_build(
        tmp_path / "out",
        *NAMES,
        CC=compiler(FREEBSD),
        CFLAGS=STRICT,
        LINK="dynamic",
        HOME=str(tmp_path),
        **caches,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name in NAMES:
        header = elf.read((tmp_path / "out" / name).read_bytes())
        assert header is not None
        assert (header.system, header.static) == ("freebsd", False)
        assert elf.misfit(header, "freebsd", "amd64") == ""


def compile_for(
    triple: str, compiler, caches, tmp_path, source: Path
) -> subprocess.CompletedProcess:
    return subprocess.run(
        [
            *(compiler(triple), *STRICT.split(), "-std=c99", "-Wall", "-Wextra"),
            *(f"-I{WORKLOADS / 'harness'}", "-c", source, "-o", tmp_path / "object.o"),
        ],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **caches},
        capture_output=True,
        text=True,
    )


def test_netbsd(compiler, caches, tmp_path):
    own = [path for name in NAMES for path in (WORKLOADS / name).glob("*.c")]
    for source in [*own, *(WORKLOADS / "harness").glob("*.c")]:
        done = compile_for(NETBSD, compiler, caches, tmp_path, source)
        assert (done.returncode, done.stderr) == (0, ""), source


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("((void *)(intptr_t)(side))", "((intptr_t)(side))", "incompatible integer to pointer"),
        ("(uintptr_t)fd, EVFILT_READ", "(uintptr_t)fd, EPOLLIN", "EPOLLIN"),
    ],
)
def test_what_only_these_systems_refuse_is_refused(compiler, caches, tmp_path, old, new, said):
    text = (WORKLOADS / "kqtest" / "kqtest.c").read_text()
    assert old in text
    source = tmp_path / "kqtest.c"
    source.write_text(text.replace(old, new))
    done = compile_for(FREEBSD, compiler, caches, tmp_path, source)
    assert done.returncode != 0
    assert said in done.stderr
