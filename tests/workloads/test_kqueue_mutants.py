"""kqtest with a fault put into its source: over the tests' kqueue, each is found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import HERE, STRICT, WORKLOADS, Result, run_program, sh_build

SHIM = HERE / "kqueue_shim"
KQTEST = WORKLOADS / "kqtest" / "kqtest.c"
OPTIONS = [
    "-O1",
    "-std=c99",
    "-D_GNU_SOURCE",
    "-DHAVE_KQUEUE",
    f"-I{SHIM}",
    f"-I{WORKLOADS / 'harness'}",
]

ADD_ONESHOT = "case ONESHOT: return EV_ADD | EV_ONESHOT;"
REARM_ONESHOT = f"{ADD_ONESHOT} /* the event has deleted it */"
REARM_DISPATCH = "case DISPATCH: return EV_ENABLE | EV_DISPATCH;"

NO_PROGRESS = (70, "no progress")
# What is wrong, the mode, the text, what stands for it, the status and what is said.
MUTANTS = [
    ("never armed again", "oneshot", REARM_ONESHOT, "case ONESHOT: return 0;", NO_PROGRESS),
    ("enabled, not added", "oneshot", REARM_ONESHOT, "case ONESHOT: return EV_ENABLE;",
     (71, "kevent: No such file")),
    ("never enabled again", "dispatch", REARM_DISPATCH, "case DISPATCH: return 0;", NO_PROGRESS),
    ("added, not enabled", "dispatch", REARM_DISPATCH,
     "case DISPATCH: return EV_ADD | EV_DISPATCH;", NO_PROGRESS),
    ("deleted by its event", "dispatch", "return EV_ADD | EV_DISPATCH;",
     "return EV_ADD | EV_ONESHOT;", (71, "kevent: No such file")),
    ("armed for one event", "level", "default: return EV_ADD;",
     "default: return EV_ADD | EV_ONESHOT;", NO_PROGRESS),
    ("the ends confused", "level", "#define FROM_UDATA(udata) ((int)(intptr_t)(udata))",
     "#define FROM_UDATA(udata) ((int)(intptr_t)(udata) ^ 1)", (None, "")),
    ("messages not passed on", "clear", "else if (taken == TOKEN_HELD)", "else if (0)",
     NO_PROGRESS),
    ("passed on twice", "clear", "else if (taken == TOKEN_HELD)",
     "if (taken == TOKEN_HELD)\n            token_pass(&hand, side);\n"
     "        if (taken == TOKEN_HELD)", (70, "")),
]  # fmt: skip


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The harness and the tests' kqueue, compiled."""
    base = tmp_path_factory.mktemp("objects")
    sources = [*(WORKLOADS / "harness").glob("*.c"), SHIM / "kqueue.c"]
    subprocess.run(["cc", *OPTIONS, "-c", *sources], cwd=base, check=True)
    return sorted(base.glob("*.o"))


def outcome(text: str, mode: str, objects: list[Path], folder: Path) -> Result:
    source = folder / "kqtest.c"
    source.write_text(text)
    program = folder / "kqtest"
    subprocess.run(["cc", *OPTIONS, source, *objects, "-o", program, "-lpthread"], check=True)
    arguments = f"--rearm {mode} --threads 3 --ops 500 --batches 1 --stall 1 --limit 20"
    return run_program(program, *arguments.split())


@pytest.mark.parametrize("mode", ["oneshot", "dispatch", "clear", "level"])
def test_without_a_fault_all_messages_arrive(objects, tmp_path, mode):
    result = outcome(KQTEST.read_text(), mode, objects, tmp_path)
    assert (result.status, result.ended, result.stderr) == (0, True, "")


@pytest.mark.parametrize(
    ("mode", "old", "new", "found"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS]
)
def test_a_fault_in_the_source_is_found(objects, tmp_path, mode, old, new, found):
    text = KQTEST.read_text()
    assert text.count(old) == 1, "kqtest.c has changed: look at this test"
    result = outcome(text.replace(old, new), mode, objects, tmp_path)
    status, said = found
    assert not result.ended
    assert result.status == status or (status is None and result.status in (70, 71, 124))
    assert said in result.stderr
    assert result.stderr.startswith("kqtest: ")


def test_where_udata_is_a_number_as_in_netbsd_6(tmp_path):
    # Defining __NetBSD__ itself would lead gcc's own headers to look for NetBSD's.
    defines = "-DSHIM_NETBSD_6 -DTO_UDATA(side)=((intptr_t)(side))"
    shim_object = tmp_path / "kqueue.o"
    subprocess.run(
        ["cc", *defines.split(), f"-I{SHIM}", "-c", SHIM / "kqueue.c", "-o", shim_object],
        check=True,
    )
    done = sh_build(
        tmp_path,
        "kqtest",
        LINK="dynamic",
        CFLAGS=f"{STRICT} {defines} -DHAVE_KQUEUE -I{SHIM}",
        LDFLAGS=str(shim_object),
    )
    assert (done.returncode, done.stderr) == (0, "")
    for mode in ("oneshot", "clear", "level"):
        arguments = f"--rearm {mode} --threads 3 --ops 500 --batches 1".split()
        assert run_program(tmp_path / "kqtest", *arguments).status == 0
    assert run_program(tmp_path / "kqtest", "--rearm", "dispatch").status == 69
