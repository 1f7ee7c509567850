"""Programs that were made elsewhere: given, copied from another target, cross-compiled.

The machines without a compiler are as bare as an old BSD (tests/bsd_root.py); the programs
are the project's own, compiled for real and run there."""

import contextlib
import hashlib
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from labctl import paths
from labctl.deploy import cross, deploy, is_current, summary
from labctl.errors import ConfigError, InterruptedByUser
from labctl.targets.lock import claim
from tests.bsd_root import FREEBSD, System, brand, bsd_root, build_for
from tests.sshd import running_sshd

WORKLOADS = paths.data_dir("workloads")
GCC = "cc (GCC) 4.2.1 20070831 patched [FreeBSD]"
# Without /proc even Linux has to tell its boot otherwise.
LINUX = System("Linux 6.1.0-13-amd64 x86_64", {"kern.boottime": "1"}, {})
FREEBSD_14 = System("FreeBSD 14.2-RELEASE amd64", FREEBSD.sysctls, FREEBSD.kenv)


@pytest.fixture(scope="session")
def kqtest(tmp_path_factory):
    """A kqtest for FreeBSD, with the record that build.sh leaves beside it."""
    return build_for(FREEBSD, tmp_path_factory.mktemp("kqtest"), "kqtest") / "kqtest"


@pytest.fixture(scope="session")
def parrot(tmp_path_factory):
    """A program that says what is in the file /tmp/says, and ends with status ``N``, its
    first byte's digit."""
    base = tmp_path_factory.mktemp("parrot")
    (base / "parrot.c").write_text(
        '#include <stdio.h>\nint main(void) { FILE *f = fopen("/tmp/says", "r"); int c, s;\n'
        'if (!f || fscanf(f, "%d ", &s) != 1) return 99;\n'
        "while ((c = getc(f)) != EOF) putchar(c);\nreturn s; }\n"
    )
    program = base / "parrot"
    subprocess.run(["cc", "-static", "-o", program, base / "parrot.c"], check=True)
    return brand(program, FREEBSD)


@pytest.fixture
def machine(tmp_path):
    """``machine(NAME, SYSTEM, ...)``: a target that leads to such a machine, and its root."""
    with contextlib.ExitStack() as stack:

        def make(name, system, **options):
            root = bsd_root(tmp_path / name, system, **options)
            server = stack.enter_context(
                running_sshd(tmp_path / f"{name}.sshd", login_shell=str(root.enter))
            )
            target = server.target(name, workdir="/var/labctl")
            stack.callback(target.close)
            return target, root

        yield make


@pytest.fixture
def go(tmp_path):
    def call(*targets, names=("kqtest",), **options):
        call.said = []
        return deploy(
            targets,
            names,
            workloads_dir=options.pop("workloads_dir", WORKLOADS),
            private_dir=tmp_path / "private",
            progress=lambda *words: call.said.append(words),
            **options,
        )

    call.runs = lambda: len(list((tmp_path / "private" / "artifacts").glob("*")))
    return call


def record(root, program):
    lines = root.path(f"/var/labctl/bin/{program}.build").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def files(root):
    base = root.path("/var/labctl")
    return {path: path.stat().st_mtime_ns for path in base.rglob("*") if path.is_file()}


# -- given -------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["kqtest", "bin/kqtest"])
def test_a_given_program_is_taken_and_taken_again_when_it_changes(
    machine, go, kqtest, tmp_path, place
):
    given = tmp_path / "given" / place
    given.parent.mkdir(parents=True)
    shutil.copy(kqtest, given)
    shutil.copy(f"{kqtest}.build", f"{given}.build")
    box, root = machine("box", FREEBSD)
    binaries = {"box": tmp_path / "given"}
    result = go(box, binaries=binaries)["box"]
    assert result.error is None
    assert (result.ok, result.changed) == (True, True)
    digest = hashlib.sha256(kqtest.read_bytes()).hexdigest()
    assert result.builds["kqtest"]["origin"] == f"given in {given.parent}"
    assert result.builds["kqtest"]["sha256"] == digest
    assert result.builds["kqtest"]["compiler"].startswith("cc ")  # from the record beside it
    assert record(root, "kqtest")["source_sha"] == f"given-{digest}"
    assert root.path("/var/labctl/bin/kqtest").read_bytes() == kqtest.read_bytes()
    assert box.run("/var/labctl/bin/kqtest 4 1000").ok
    assert sorted(p.name for p in root.path("/var/labctl/bin").iterdir()) == [
        "kqtest",
        "kqtest.build",
    ]
    assert go.runs() == 0  # Ansible had nothing to do

    before = files(root)
    again = go(box, binaries=binaries)["box"]
    assert (again.ok, again.changed, files(root)) == (True, False, before)
    assert again.builds == result.builds
    given_here = {"binaries": tmp_path / "given"}
    assert is_current(box, ["kqtest"], **given_here, sums=False)
    assert summary(box, ["kqtest"], **given_here) == f"current (given in {given.parent})"

    given.write_bytes(kqtest.read_bytes() + b"\0")
    assert not is_current(box, ["kqtest"], **given_here, sums=False)
    assert go(box, binaries=binaries)["box"].changed
    assert root.path("/var/labctl/bin/kqtest").read_bytes() == given.read_bytes()
    # Without the directory, it is not what is wanted any more.
    assert not is_current(box, ["kqtest"])


def test_a_given_program_that_was_changed_on_the_target_is_copied_again(machine, go, kqtest):
    box, root = machine("box", FREEBSD)
    binaries = {"box": kqtest.parent}
    assert go(box, binaries=binaries)["box"].ok
    program = root.path("/var/labctl/bin/kqtest")
    program.write_bytes(kqtest.read_bytes()[:-1] + b"x")
    assert go(box, binaries=binaries)["box"].changed
    assert program.read_bytes() == kqtest.read_bytes()


def test_where_there_is_no_cksum_a_given_program_is_trusted(machine, go, kqtest):
    box, root = machine("box", FREEBSD, cksum=False)
    binaries = {"box": kqtest.parent}
    assert go(box, binaries=binaries)["box"].ok
    assert record(root, "kqtest")["cksum"] == ""
    assert not go(box, binaries=binaries)["box"].changed


SAYS = '0 {"type":"capabilities","protocol":%d,"workload":"%s","form":"%s","params":{%s}}\n'
RIGHT = '"rearm":["oneshot","clear","level"]'


WRONG = [
    (SAYS % (2, "kqtest", "kqueue", RIGHT), "does not speak this labctl's batch protocol"),
    ("0 Hello\n", "does not speak this labctl's batch protocol"),
    (SAYS % (1, "eptest", "epoll", RIGHT), "is eptest (epoll), not kqtest"),
    (SAYS % (1, "kqtest", "kqueue", ""), "another version: its rearm differs"),
    (SAYS % (1, "kqtest", "kqueue", '"rearm":["quick"]'), "another version: its rearm"),
    (SAYS % (1, "kqtest", "kqueue", f'{RIGHT},"x":["y"]'), "another version: its x differs"),
    ("69 ", "this system lacks what it measures"),
    ("3 ", "does not run there: it ended with status 3"),
]


@pytest.mark.slow
def test_a_given_program_must_be_the_workload_it_is_given_for(machine, go, parrot, tmp_path):
    (tmp_path / "given").mkdir()
    shutil.copy(parrot, tmp_path / "given" / "kqtest")
    box, root = machine("box", FREEBSD)
    for says, problem in [*WRONG, WRONG[-1]]:  # and the second time it is not taken for current
        root.path("/tmp/says").write_text(says)
        error = go(box, binaries={"box": tmp_path / "given"})["box"].error
        assert problem in error.message
        assert f"given in {tmp_path / 'given'}" in error.message
        assert "build.sh" in error.hint
        assert list(root.path("/var/labctl/bin").iterdir()) == []
    # What is right is taken.
    root.path("/tmp/says").write_text(SAYS % (1, "kqtest", "kqueue", RIGHT))
    assert go(box, binaries={"box": tmp_path / "given"})["box"].ok


def test_a_program_for_another_machine_is_refused_before_it_is_copied(
    machine, go, kqtest, tmp_path
):
    given = tmp_path / "given"
    given.mkdir()
    box, root = machine("box", FREEBSD)

    def problem(data):
        (given / "kqtest").write_bytes(data)
        error = go(box, binaries={"box": given})["box"].error
        assert not root.path("/var/labctl/bin").exists()
        return error.message

    good = kqtest.read_bytes()
    assert "no ELF program" in problem(b"#!/bin/sh\n")
    assert "no ELF program" in problem(good[:40])
    assert "for aarch64, the target is amd64" in problem(good[:18] + b"\xb7\0" + good[20:])
    assert "of netbsd" in problem(good[:7] + b"\x02" + good[8:])
    assert "of linux" in problem(Path("/bin/true").read_bytes())


def test_a_program_that_cannot_be_started_there_is_told_by_the_systems_words(machine, go, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    source = tmp_path / "kqtest.c"
    source.write_text("int main(void) { return 0; }\n")
    linker = "-Wl,--dynamic-linker=/libexec/ld-elf.so.1"
    subprocess.run(["cc", linker, "-o", given / "kqtest", source], check=True)
    brand(given / "kqtest", FREEBSD)
    box, _ = machine("box", FREEBSD)
    error = go(box, binaries={"box": given})["box"].error
    assert "its dynamic linker is not there" in error.message
    assert "not found" in error.detail


def test_a_directory_that_is_not_there_is_a_configuration_error(machine, go, tmp_path):
    box, _ = machine("box", FREEBSD)
    error = go(box, binaries={"box": tmp_path / "none"})["box"].error
    assert isinstance(error, ConfigError)
    assert error.where == str(tmp_path / "none")


def test_what_is_given_is_there_even_if_others_cannot_be_had(machine, go, kqtest):
    box, _ = machine("box", FREEBSD)
    result = go(box, names=("mmapsem", "kqtest"), binaries={"box": kqtest.parent})["box"]
    assert not result.ok
    assert "mmapsem for FreeBSD 9.3-RELEASE amd64" in result.error.message
    assert list(result.builds) == ["kqtest"]


# -- nothing to be had -------------------------------------------------------------------


def test_where_nothing_can_be_had_the_error_says_what_was_tried(machine, go, monkeypatch):
    box, root = machine("box", FREEBSD)
    error = go(box)["box"].error
    assert error.message == (
        "there is no C compiler, and kqtest for FreeBSD 9.3-RELEASE amd64 could not be had "
        "elsewhere"
    )
    assert error.detail.splitlines() == [
        "tried:",
        "- a compiler there (cc, gcc, clang): none",
        "- another target of this deployment with FreeBSD 9.3-RELEASE amd64 and a compiler: none",
        "- zig on this machine: it makes programs for FreeBSD 14 and later, and Linux, not for "
        "FreeBSD 9.3-RELEASE amd64",
    ]
    assert all(way in error.hint for way in ("base.txz", "binaries:", "build.sh"))
    assert not root.path("/var/labctl/lock").exists()

    later, _ = machine("later", FREEBSD_14)
    monkeypatch.setattr(cross, "zig_version", lambda: None)
    error = go(later)["later"].error
    assert "zig is not installed; pip install labctl[cross]" in error.detail


# -- copied from another target ------------------------------------------------------------


@pytest.mark.slow
def test_a_target_without_a_compiler_takes_what_its_like_has_compiled(machine, go):
    donor, donors_root = machine("donor", FREEBSD, compiler=GCC)
    bare, root = machine("bare", FREEBSD)
    newer, _ = machine("newer", System("FreeBSD 9.2-RELEASE amd64", FREEBSD.sysctls, {}))
    names = ("kqtest", "mmapsem")
    results = go(bare, donor, newer, names=names)
    assert (results["donor"].error, results["bare"].error) == (None, None)
    assert "9.2-RELEASE amd64 and a compiler: none" in results["newer"].error.detail
    assert ("bare", "copying programs from donor") in go.said
    for name in names:
        program = root.path(f"/var/labctl/bin/{name}")
        theirs = donors_root.path(f"/var/labctl/bin/{name}")
        assert program.read_bytes() == theirs.read_bytes()
        digest = hashlib.sha256(program.read_bytes()).hexdigest()
        mine, his = results["bare"].builds[name], results["donor"].builds[name]
        assert mine == his | {"origin": "copied from target donor"}
        assert his["origin"] == "compiled here"
        assert his["sha256"] == digest
        assert his["compiler"] == GCC
    assert bare.run("/var/labctl/bin/kqtest 4 1000").ok
    assert summary(bare, names) == "current (copied from target donor)"
    assert summary(donor, names) == "current"

    before = files(root)
    again = go(bare, donor, names=names)
    assert [(r.ok, r.changed) for r in again.values()] == [(True, False)] * 2
    assert files(root) == before
    assert go.runs() == 1

    # A donor that is current is asked without Ansible; but not while it is measuring.
    root.path("/var/labctl/bin/kqtest").unlink()
    with claim(donor, "run-9"):
        error = go(bare, donor, names=names)["bare"].error
    assert "target donor: run run-9" in error.detail
    assert go(bare, donor, names=names)["bare"].ok
    assert go.runs() == 1


@pytest.mark.slow
def test_a_donor_that_does_not_compile_is_named(machine, go, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(WORKLOADS, tree)
    (tree / "kqtest" / "kqtest.c").write_text("int broken(\n")
    donor, _ = machine("donor", FREEBSD, compiler=GCC)
    bare, _ = machine("bare", FREEBSD)
    results = go(bare, donor, workloads_dir=tree)
    assert "cannot be compiled with cc" in results["donor"].error.message
    assert "- target donor: kqtest cannot be compiled with cc" in results["bare"].error.detail


# -- cross-compiled --------------------------------------------------------------------------


@pytest.fixture
def own_results(tmp_path, monkeypatch):
    """No program of an earlier test run is found, but zig finds the libraries it compiled."""
    theirs = paths.cache_dir() / "zig"
    theirs.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (paths.cache_dir() / "zig").symlink_to(theirs)


@pytest.mark.slow
@pytest.mark.usefixtures("own_results")
def test_linux_without_a_compiler_gets_programs_linked_with_musl(machine, go, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(WORKLOADS, tree)
    box, root = machine("box", LINUX)
    result = go(box, names=("mmapsem", "kqtest"), workloads_dir=tree)["box"]
    assert result.error is None
    build = result.builds["mmapsem"]
    origin = f"cross-compiled by zig {cross.zig_version()} for x86_64-linux-musl (musl static)"
    assert build["origin"] == origin
    assert build["link"] == "static"
    assert build["compiler"].startswith("clang")
    assert list(result.builds) == ["mmapsem"]  # the other is not for Linux
    assert box.run("/var/labctl/bin/mmapsem 2 100").ok
    assert summary(box, ["mmapsem"], workloads_dir=tree) == f"current ({origin})"

    before = files(root)
    assert not go(box, names=("mmapsem",), workloads_dir=tree)["box"].changed
    assert files(root) == before
    # Another machine of that kind gets the one that was kept.
    other, others_root = machine("other", LINUX)
    began = time.time()
    assert go(other, names=("mmapsem",), workloads_dir=tree)["other"].ok
    program = others_root.path("/var/labctl/bin/mmapsem")
    assert program.read_bytes() == root.path("/var/labctl/bin/mmapsem").read_bytes()
    kept = paths.cache_dir() / "cross"
    assert not [path for path in kept.glob("mmapsem-*") if path.stat().st_mtime > began]

    # What does not compile is told in the compiler's words.
    (tree / "mmapsem" / "mmapsem.c").write_text("int broken(\n")
    error = go(box, names=("mmapsem",), workloads_dir=tree)["box"].error
    assert "zig cannot compile mmapsem for x86_64-linux-musl" in error.detail
    assert "mmapsem.c:1" in error.detail


@pytest.mark.slow
@pytest.mark.usefixtures("own_results")
def test_freebsd_14_gets_a_program_that_is_tried_before_it_is_used(machine, go):
    # It is for FreeBSD indeed, so that it cannot start on the kernel here: and that is told.
    box, root = machine("box", FREEBSD_14)
    error = go(box)["box"].error
    assert f"cross-compiled by zig {cross.zig_version()} for x86_64-freebsd.14.0" in error.message
    assert "dynamic linker is not there" in error.message
    assert list(root.path("/var/labctl/bin").iterdir()) == []


def test_what_zig_can_make():
    assert cross.triple_for("FreeBSD", "15.0-RELEASE-p1", "arm64") == "aarch64-freebsd.14.0"
    assert cross.triple_for("FreeBSD", "13.4-RELEASE", "amd64") is None
    assert cross.triple_for("Linux", "2.6.32", "x86_64") == "x86_64-linux-musl"
    assert cross.triple_for("NetBSD", "10.1", "amd64") is None
    assert cross.triple_for("Linux", "6.1", "alpha") is None


def test_a_compiler_that_is_interrupted_is_ended_with_all_that_it_started(tmp_path):
    stop = threading.Event()
    pid = tmp_path / "pid"
    script = f'sleep 300 & echo $! >"{pid}.new"; mv "{pid}.new" "{pid}"; wait'

    def interrupt():
        while not pid.exists():
            time.sleep(0.01)
        stop.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(InterruptedByUser):
        cross._run(["sh", "-c", script], {"PATH": "/usr/bin:/bin"}, tmp_path / "log", stop)
    thread.join()
    child = Path(f"/proc/{pid.read_text().strip()}/stat")
    deadline = time.monotonic() + 10
    while child.exists() and ") Z " not in child.read_text():
        assert time.monotonic() < deadline
