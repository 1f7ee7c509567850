from pathlib import Path

import pytest
import yaml

from labctl.errors import ConfigError
from labctl.images.catalogue import find_recipe, load_catalogue, load_recipes

DEBIAN = load_catalogue()["debian-12"]


def write(directory: Path, **changes: object) -> Path:
    """A copy of the Debian recipe with some keys changed (None: taken out)."""
    home = directory / "mine"
    (home / "guest").mkdir(parents=True)
    (home / "initramfs-init").write_text("#!/bin/sh\n")
    content = yaml.safe_load((DEBIAN.directory / "recipe.yaml").read_text())
    content |= {"name": "mine"} | changes
    path = home / "recipe.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}))
    return path


def test_every_recipe_of_the_catalogue_is_valid_and_named_like_its_directory():
    catalogue = load_catalogue()
    assert "debian-12" in catalogue
    for name, recipe in catalogue.items():
        directory = recipe.directory.name
        assert name == directory or name.startswith(f"{directory}-"), "its release follows"


def test_a_release_is_laid_over_what_all_have_in_common(tmp_path):
    path = write(tmp_path)
    text = path.read_text() + 'releases: {"1": {summary: one, hardware: {max_vcpus: 3}}, "2": }\n'
    path.write_text(text)
    first, second = load_recipes(path)
    assert (first.name, second.name) == ("mine-1", "mine-2")
    assert (first.summary, first.hardware.max_vcpus) == ("one", 3)
    assert first.hardware.nic == second.hardware.nic
    assert second.summary != "one"


def test_a_copy_of_a_recipe_in_another_directory_loads(tmp_path):
    [recipe] = load_recipes(write(tmp_path))
    assert (recipe.name, recipe.default_init) == ("mine", "minimal")
    assert load_catalogue(tmp_path) == {"mine": recipe}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hardwear": {}}, "hardwear"),
        ({"hardware": None}, "hardware"),
        ({"name": "other"}, "differs from its directory"),
        ({"builder": "gentoo"}, "gentoo"),
        ({"build": {"suite": "bookworm", "kernel": "linux-image-amd64"}}, "packages"),
        ({"build": DEBIAN.build | {"sweet": "x"}}, "sweet"),
        ({"build": DEBIAN.build | {"guest": "absent"}}, "absent"),
        ({"inits": []}, "inits"),
    ],
)
def test_a_wrong_recipe_is_refused_by_key(tmp_path, changes, said):
    path = write(tmp_path, **changes)
    with pytest.raises(ConfigError) as caught:
        load_recipes(path)
    assert said in f"{caught.value} {caught.value.hint}"


def test_broken_yaml_is_a_configuration_error_with_its_file(tmp_path):
    path = write(tmp_path)
    path.write_text("name: [")
    with pytest.raises(ConfigError) as caught:
        load_recipes(path)
    assert str(path) in str(caught.value)


def test_an_unknown_image_is_answered_with_the_nearest_and_the_known():
    with pytest.raises(ConfigError) as caught:
        find_recipe("debain-12")
    assert "did you mean debian-12?" in caught.value.hint
    assert "known images:" in caught.value.hint


def test_init_is_the_default_or_one_that_the_image_has():
    assert DEBIAN.init(None) == "minimal"
    assert DEBIAN.init("systemd") == "systemd"
    with pytest.raises(ConfigError):
        DEBIAN.init("openrc")
