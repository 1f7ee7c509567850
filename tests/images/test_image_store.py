import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from tiny import tiny_recipe

from labctl.errors import UnavailableError
from labctl.images.catalogue import find_recipe
from labctl.images.store import ImageStore


@pytest.fixture
def store(tmp_path):
    tiny.ran.clear()
    return ImageStore(tmp_path / "images")


def builder_process(store, **kwargs):
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, tiny.__file__, str(store.root)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        **kwargs,
    )


def wait_for(process, text):
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the builder ended without saying {text!r}")


def test_an_image_is_built_once_and_found_again(store):
    recipe = tiny_recipe(text="x")
    assert store.find(recipe) is None
    image = store.build(recipe)
    assert image.disk.read_text() == "x"
    assert store.build(recipe) == image == store.find(recipe)
    assert tiny.ran == ["first", "second"]


def test_what_changes_the_content_changes_the_key_and_nothing_else_does(store):
    recipe = tiny_recipe(text="x")
    key = store.build(recipe).key
    assert store.build(recipe.model_copy(update={"summary": "other words"})).key == key
    keys = {key, store.build(tiny_recipe(text="y")).key}
    keys.add(store.build(tiny_recipe(text="x", more="z")).key)
    assert len(keys) == 3


def test_the_key_of_a_shipped_recipe_is_the_same_every_time():
    recipe, again = find_recipe("debian-12"), find_recipe("debian-12")
    builder = tiny.builders.get_builder("debian")
    assert [(s.name, s.inputs) for s in builder.stages(recipe)] == [
        (s.name, s.inputs) for s in builder.stages(again)
    ]


def test_a_change_builds_only_the_stages_that_it_touches(store):
    recipe = tiny_recipe(text="x")
    store.build(recipe)
    image = store.build(tiny_recipe(text="x", more="+"))
    assert image.disk.read_text() == "x+"
    assert tiny.ran == ["first", "second", "second"]


def test_a_failed_build_resumes_at_its_stage_and_leaves_no_image(store, tmp_path):
    (tmp_path / "fail").touch()
    recipe = tiny_recipe(text="x", fail=str(tmp_path / "fail"))
    with pytest.raises(UnavailableError) as caught:
        store.build(recipe)
    assert "second" in caught.value.where
    assert store.find(recipe) is None
    (tmp_path / "fail").unlink()
    assert store.build(recipe).disk.read_text() == "x"
    assert tiny.ran == ["first", "second", "second"]


def test_a_killed_builder_leaves_nothing_that_passes_for_whole(store, tmp_path):
    (tmp_path / "stall").touch()
    process = builder_process(store)
    wait_for(process, "half")
    process.kill()
    process.wait()
    recipe = tiny_recipe(text="t", stall=str(tmp_path / "stall"))
    assert store.find(recipe) is None
    (left,) = (store.root / "tiny" / "tmp").glob("*/second/disk")
    assert left.read_text() == "half"
    (tmp_path / "stall").unlink()
    image = store.build(recipe)
    assert image.disk.read_text() == "t"
    assert tiny.ran == ["second"]
    assert not (store.root / "tiny" / "tmp").exists()


def test_an_interrupted_builder_tidies_up(store, tmp_path):
    (tmp_path / "stall").touch()
    process = builder_process(store, stderr=subprocess.DEVNULL)
    wait_for(process, "half")
    process.send_signal(signal.SIGINT)
    process.wait(timeout=10)
    assert not (store.root / "tiny" / "tmp").exists()
    assert len(list((store.root / "tiny" / "stages").iterdir())) == 1


def test_a_second_builder_waits_and_says_for_whom(store, tmp_path):
    (tmp_path / "stall").touch()
    process = builder_process(store)
    wait_for(process, "half")
    said = []

    def progress(stage, fraction, detail):
        if stage == "waiting":
            said.append(detail)
            (tmp_path / "stall").unlink(missing_ok=True)

    image = store.build(tiny_recipe(text="t", stall=str(tmp_path / "stall")), progress=progress)
    process.stdout.read()
    assert process.wait() == 0
    assert f"process {process.pid}" in said[0]
    assert image.disk.read_text() == "t"
    assert tiny.ran == []


def test_too_little_disk_space_is_said_before_the_stage(store):
    with pytest.raises(UnavailableError) as caught:
        store.build(tiny_recipe(needs=10**12))
    assert "1000000000000 MiB" in caught.value.message
    assert tiny.ran == ["first"]


def test_a_manifest_without_its_files_is_no_image(store):
    recipe = tiny_recipe(text="x")
    image = store.build(recipe)
    image.disk.unlink()
    assert store.find(recipe) is None
    assert store.build(recipe).disk.read_text() == "x"


def test_remove_takes_builds_and_stages(store):
    recipe = tiny_recipe(text="x")
    store.build(recipe)
    assert store.remove("tiny")
    assert store.find(recipe) is None
    assert not (store.root / "tiny").exists()
    assert not store.remove("tiny")


def test_the_list_has_a_row_for_every_recipe_of_the_catalogue(store):
    rows = {row.name: row for row in store.list()}
    assert rows["debian-12"].state == "missing"
    assert rows["debian-12"].as_dict()["system"] == "linux"


def test_a_stage_that_is_not_what_was_made_is_made_anew(store):
    recipe = tiny_recipe(text="x")
    image = store.build(recipe)
    shutil.rmtree(image.directory)
    for damage in (
        lambda disk: os.truncate(disk, 0),
        lambda disk: disk.write_text("y"),
        Path.unlink,
    ):
        (made,) = store.root.glob("tiny/stages/second-*/disk")
        tiny.ran.clear()
        damage(made)
        assert store.build(recipe).disk.read_text() == "x"
        assert tiny.ran == ["second"], "the other stage was whole"
        shutil.rmtree(image.directory)


def test_an_image_of_another_size_than_recorded_is_none_and_made_anew(store):
    recipe = tiny_recipe(text="text")
    image = store.build(recipe)
    os.truncate(image.disk, 2)
    assert store.find(recipe) is None
    assert [finding.ok for finding in store.verify(recipe)] == [False]
    assert store.build(recipe).disk.read_text() == "text"


def test_a_changed_image_of_the_same_size_is_seen_by_verify(store):
    image = store.build(tiny_recipe(text="text"))
    assert [finding.ok for finding in store.verify(image.recipe)] == [True]
    image.disk.write_text("TEXT")
    assert [finding.ok for finding in store.verify(image.recipe)] == [False]


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: [],
        lambda manifest: 5,
        lambda manifest: manifest | {"built": 5},
        lambda manifest: manifest | {"notes": 5},
        lambda manifest: manifest | {"files": manifest["files"] | {"disk": None}},
        lambda manifest: with_disk(manifest, name="/etc/passwd"),
        lambda manifest: with_disk(manifest, name="../other/disk"),
        lambda manifest: with_disk(manifest, digest=""),
        lambda manifest: with_disk(manifest, size="4"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_no_image(store, change):
    recipe = tiny_recipe(text="text")
    manifest = store.build(recipe).directory / "image.json"
    manifest.write_text(json.dumps(change(json.loads(manifest.read_text()))))
    assert store.find(recipe) is None
    (finding,) = store.verify(recipe)
    assert not finding.ok
    assert "not whole" in finding.text
    assert store.list()
    assert store.build(recipe).disk.read_text() == "text"


def with_disk(manifest, **fields):
    disk = manifest["files"]["disk"] | fields
    return manifest | {"files": manifest["files"] | {"disk": disk}}


def test_a_tree_deeper_than_any_path_is_removed(store):
    store.build(tiny_recipe(text="x"))
    for below in ("tmp", "stages"):
        descriptor = os.open(store.root / "tiny", os.O_RDONLY)
        for name in [below] + ["a" * 200] * 60:  # beyond PATH_MAX
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
            inner = os.open(name, os.O_RDONLY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        os.close(descriptor)
    for _ in range(1500):
        (store.root / "tiny" / "tmp").rename(store.root / "tiny" / "inner")
        (store.root / "tiny" / "tmp").mkdir()
        (store.root / "tiny" / "inner").rename(store.root / "tiny" / "tmp" / "a")
    assert store.build(tiny_recipe(text="y")).disk.read_text() == "y"
    assert store.remove("tiny")
    assert not (store.root / "tiny").exists()
