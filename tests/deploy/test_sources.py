"""Hashes and the archive of the sources; the sum by which copies are verified."""

import importlib.util
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl import paths
from labctl.deploy.sources import archive, sources_for


def load_plugin():
    file = paths.data_dir("playbooks") / "action_plugins" / "labctl_put.py"
    spec = importlib.util.spec_from_file_location("labctl_put", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PLUGIN = load_plugin()


def shas(tree):
    return {source.name: source.sha for source in sources_for(tree, ["alpha", "beta"], "Linux")}


def test_only_workloads_of_the_system_are_built(tree):
    names = ["alpha", "beta", "gamma"]
    assert [s.name for s in sources_for(tree, names, "Linux")] == ["alpha", "beta"]
    assert [s.program for s in sources_for(tree, names, "FreeBSD")] == ["gamma_program"]
    assert sources_for(tree, names, "NetBSD") == []


def test_a_workloads_own_files_change_its_hash_alone(tree):
    before = shas(tree)
    (tree / "alpha" / "alpha.c").write_text("int main(void) { return 1; }\n")
    after = shas(tree)
    assert before["alpha"] != after["alpha"]
    assert before["beta"] == after["beta"]


@pytest.mark.parametrize("common", ["build.sh", "harness/tiny.c", "harness/new.h"])
def test_common_files_change_every_hash(tree, common):
    before = shas(tree)
    with (tree / common).open("a") as file:
        file.write("\n")
    after = shas(tree)
    assert all(before[name] != after[name] for name in before)


def test_the_archive_is_the_same_bytes_whatever_times_and_modes_are(tree):
    before = archive(tree)
    for path in tree.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    (tree / "alpha" / "__pycache__").mkdir()
    (tree / "alpha" / "__pycache__" / "x.pyc").write_text("x")
    (tree / "alpha" / "alpha.o").write_text("x")
    assert archive(tree) == before
    with tarfile.open(fileobj=io.BytesIO(before)) as tar:
        names = tar.getnames()
        assert tar.getmember("build.sh").mode == 0o755
    assert names == sorted(names, key=lambda name: Path(name).parts)
    assert "gamma/gamma.c" in names


@given(st.binary(max_size=2000))
def test_the_sum_is_that_of_cksum(data):
    done = subprocess.run(["cksum"], input=data, capture_output=True, check=True)
    assert done.stdout.decode().strip() == PLUGIN.posix_cksum(data)
