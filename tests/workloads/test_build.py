"""The build script: what it leaves, and that a failure leaves nothing half-made."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from labctl.workloads import load_workloads

from .conftest import WORKLOADS, run_program, sh_build

KNOWN = load_workloads()


def record(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def test_static_build_is_recorded(tmp_path):
    done = sh_build(tmp_path, "eptest", "kqtest", SOURCE_SHA="abc123", CFLAGS="-O0 -g")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "eptest",
        "eptest.build",
        "kqtest",
        "kqtest.build",
    ]
    facts = record(tmp_path / "eptest.build")
    first_line = subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout
    assert facts["compiler"] == first_line.splitlines()[0]
    assert facts["flags"] == "-O0 -g -std=c99 -Wall -Wextra"
    assert facts["link"] == "static"
    assert facts["source_sha"] == "abc123"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", facts["built"])
    assert run_program(tmp_path / "eptest", "4", "1000").status == 0


def test_kqtest_says_that_linux_has_no_kqueue(tmp_path):
    assert sh_build(tmp_path, "kqtest", LINK="dynamic", CFLAGS="-O0").returncode == 0
    for arguments in (["1", "10"], ["--capabilities"], ["--ops", "1"]):
        result = run_program(tmp_path / "kqtest", *arguments)
        assert (result.status, result.stdout) == (69, "")
        assert "kqueue is not on this system" in result.stderr


def test_a_value_that_this_build_lacks_is_unsupported(tmp_path):
    shim = Path(__file__).parent / "kqueue_shim"
    shim_object = tmp_path / "kqueue.o"
    subprocess.run(
        ["cc", "-DSHIM_WITHOUT_DISPATCH", f"-I{shim}", "-c", "kqueue.c", "-o", str(shim_object)],
        cwd=shim,
        check=True,
    )
    done = sh_build(
        tmp_path,
        "kqtest",
        LINK="dynamic",
        CFLAGS=f"-O0 -DHAVE_KQUEUE -DSHIM_WITHOUT_DISPATCH -I{shim}",
        LDFLAGS=str(shim_object),
    )
    assert (done.returncode, done.stderr) == (0, "")
    kqtest = tmp_path / "kqtest"
    assert run_program(kqtest, "--capabilities").lines[0].params == {
        "rearm": ["oneshot", "clear", "level"]
    }
    result = run_program(kqtest, "--rearm", "dispatch", "--ops", "1")
    assert (result.status, result.stdout) == (69, "")
    assert "--rearm dispatch is not supported on this system" in result.stderr


def test_dynamic_where_static_does_not_link(tmp_path):
    compiler = tmp_path / "no-static"
    compiler.write_text(
        '#!/bin/sh\nfor word; do [ "$word" != -static ] || exit 1; done\nexec cc "$@"\n'
    )
    compiler.chmod(0o755)
    done = sh_build(tmp_path / "bin", "mmapsem", CC=str(compiler), CFLAGS="-O0")
    assert (done.returncode, done.stderr) == (0, "")
    assert record(tmp_path / "bin" / "mmapsem.build")["link"] == "dynamic"
    forced = sh_build(tmp_path / "forced", "mmapsem", CC=str(compiler), CFLAGS="-O0", LINK="static")
    assert forced.returncode == 1
    assert list((tmp_path / "forced").iterdir()) == []


def test_dynamic_where_static_does_not_run(tmp_path):
    compiler = tmp_path / "bad-static"
    compiler.write_text(
        "#!/bin/sh\nfor word; do\n"
        '    [ "$word" != -static ] || exec cc "$@" -Wl,--defsym=main=abort\n'
        'done\nexec cc "$@"\n'
    )
    compiler.chmod(0o755)
    done = sh_build(tmp_path / "bin", "mmapsem", CC=str(compiler), CFLAGS="-O0")
    assert done.returncode == 0
    assert record(tmp_path / "bin" / "mmapsem.build")["link"] == "dynamic"
    assert run_program(tmp_path / "bin" / "mmapsem", "1", "10").status == 0


@pytest.mark.parametrize("error", ["int broken(", "void missing(void); int x = 0;"])
def test_a_failure_shows_the_compilers_words_and_leaves_nothing(tmp_path, error):
    tree = tmp_path / "workloads"
    shutil.copytree(WORKLOADS, tree)
    source = tree / "eptest" / "eptest.c"
    if error.startswith("int"):
        source.write_text(error)
        said = "eptest.c:1"
    else:
        source.write_text(source.read_text().replace("token_open();", "token_opened();"))
        said = "token_opened"
    done = sh_build(tmp_path / "bin", "eptest", "mmapsem", source=tree, CFLAGS="-O0")
    assert done.returncode == 1
    assert said in done.stderr
    assert "build.sh: cannot build eptest" in done.stderr
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == [
        "mmapsem",
        "mmapsem.build",
    ]


def test_usage(tmp_path):
    assert sh_build(tmp_path).returncode == 2
    assert sh_build(tmp_path, "eptest", LINK="sometimes").returncode == 2
    missing = sh_build(tmp_path, "nosuch", LINK="dynamic", CFLAGS="-O0")
    assert missing.returncode == 1
    assert "there is no workload nosuch" in missing.stderr


@pytest.mark.parametrize("shell", ["dash", "busybox sh"])
def test_other_shells(tmp_path, shell):
    if shutil.which(shell.split()[0]) is None:
        pytest.skip(f"{shell} is not here")
    done = subprocess.run(
        [*shell.split(), str(WORKLOADS / "build.sh"), str(tmp_path / "with blank"), "mmapsem"],
        env={"PATH": "/usr/bin:/bin", "LINK": "dynamic", "CFLAGS": "-O0"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "with blank" / "mmapsem.build").is_file()


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_sed_reads_the_manifest_as_yaml_does(name, tmp_path):
    """The script's own reader, cut out of it, against the real one."""
    text = (WORKLOADS / "build.sh").read_text()
    function = re.search(r"^manifest_key\(\) \{.*?^\}$", text, re.M | re.S).group()
    workload = KNOWN[name]
    for key, expected in (
        ("program", [workload.program]),
        ("sources", list(workload.sources)),
        ("libraries", list(workload.libraries)),
    ):
        done = subprocess.run(
            ["sh", "-c", f'{function}\nmanifest_key "$1" "$2"', "sh", key, "workload.yaml"],
            cwd=WORKLOADS / name,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == expected
