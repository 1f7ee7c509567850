"""Which set is believed to be the right one, over HTTP: pins, lists, the first use, mirrors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from archive_server import ArchiveServer
from pydantic import ValidationError
from sets_lab import BELOW, PATH, RELEASE, Lab, manifest, sha256, sha512_list, tar

from labctl.errors import ConfigError, UnavailableError
from labctl.images.sets import SetsSpec

OTHER = {name: tar(name.removesuffix(".tgz"), 2) for name in RELEASE}
PINS = {name: sha256(RELEASE[f"{name}.tgz"]) for name in ("base", "etc", "kern-GENERIC", "comp")}


def _serve(server: ArchiveServer, files: dict[str, bytes], below: str = BELOW) -> None:
    for name, content in files.items():
        server.files[f"{below}/{name}"] = content


def _pin_file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "labctl" / "pins" / "netbsd-6.1.5.json"


def test_the_list_is_trusted_at_first_use_and_that_is_said(lab: Lab, tmp_path: Path):
    sets = lab.obtain()
    assert {held.trust for held in sets.values()} == {"published, first use"}
    pins = json.loads(_pin_file(tmp_path).read_text())
    assert pins["etc"]["digest"] == "sha512:" + hashlib.sha512(RELEASE["etc.tgz"]).hexdigest()
    said = f"etc.tgz: trusted as {lab.url}{BELOW}/SHA512 says, and pinned from now on in"
    assert f"{said} {_pin_file(tmp_path)}" in lab.words


def test_what_was_pinned_at_first_use_is_expected_from_then_on(lab: Lab):
    lab.obtain()
    lab.supply().remove()
    assert {held.trust for held in lab.obtain().values()} == {"published, pinned earlier"}


def test_a_list_that_changes_its_mind_is_an_error(lab: Lab, server: ArchiveServer, tmp_path: Path):
    lab.obtain()
    lab.supply().remove()
    _serve(server, {**OTHER, "SHA512": sha512_list(OTHER)})
    with pytest.raises(UnavailableError, match=r"now says sha512:\w+ for base\.tgz") as caught:
        lab.obtain()
    pin = json.loads(_pin_file(tmp_path).read_text())["base"]
    assert f"pinned on {pin['at']} in {_pin_file(tmp_path)}" in caught.value.message
    assert pin["digest"] in caught.value.message
    assert caught.value.where == f"{lab.url}{BELOW}/SHA512"
    assert str(_pin_file(tmp_path)) in caught.value.hint
    assert server.gets("base.tgz") == [("", 200)]


def test_another_file_without_its_list_is_an_error_too(lab: Lab, server: ArchiveServer):
    lab.obtain()
    lab.supply().remove()
    _serve(server, OTHER)
    del server.files[f"{BELOW}/SHA512"]
    with pytest.raises(UnavailableError, match=r"base\.tgz has sha512:.*pinned on .* says"):
        lab.obtain()


def test_pins_that_cannot_be_read_are_no_reason_to_trust_anything(lab: Lab, tmp_path: Path):
    lab.obtain()
    lab.supply().remove()
    _pin_file(tmp_path).write_text("{")
    with pytest.raises(UnavailableError, match="cannot be read"):
        lab.obtain()


def test_a_list_that_disagrees_with_its_own_file_pins_nothing(
    lab: Lab, server: ArchiveServer, tmp_path: Path
):
    _serve(server, {"base.tgz": OTHER["base.tgz"]})
    with pytest.raises(UnavailableError, match=r"base\.tgz has sha512:.*SHA512 says sha512:"):
        lab.obtain()
    assert not _pin_file(tmp_path).exists()
    assert lab.supply().current() is None
    assert not list(lab.keep.glob("base*"))


@pytest.mark.parametrize("text", [None, b"", b"<html>Please log in to the hotel's network</html>"])
def test_without_a_list_nothing_unpinned_is_trusted(
    lab: Lab, server: ArchiveServer, text: bytes | None
):
    del server.files[f"{BELOW}/SHA512"]
    if text is not None:
        server.files[f"{BELOW}/SHA512"] = text
    with pytest.raises(UnavailableError, match=r"nothing to check base\.tgz by") as caught:
        lab.obtain()
    assert "--sets DIR" in caught.value.hint
    assert server.gets("base.tgz") == []


def test_a_set_that_the_list_leaves_out_is_not_trusted(lab: Lab, server: ArchiveServer):
    server.files[f"{BELOW}/SHA512"] = sha512_list({"base.tgz": RELEASE["base.tgz"]})
    with pytest.raises(UnavailableError, match=r"SHA512 does not name etc\.tgz"):
        lab.obtain()


def test_pins_of_the_recipe_need_no_list(lab: Lab, server: ArchiveServer, tmp_path: Path):
    del server.files[f"{BELOW}/SHA512"]
    sets = lab.obtain(digests=PINS)
    assert {held.trust for held in sets.values()} == {"pinned"}
    assert not _pin_file(tmp_path).exists()


def test_some_may_be_pinned_and_others_published(lab: Lab, server: ArchiveServer):
    server.files[f"{BELOW}/SHA512"] = sha512_list(
        {"base.tgz": OTHER["base.tgz"], **{n: RELEASE[n] for n in ("etc.tgz", "kern-GENERIC.tgz")}}
    )
    sets = lab.obtain(digests={"base": PINS["base"]})
    assert (sets["base"].trust, sets["etc"].trust) == ("pinned", "published, first use")
    assert "comp" not in sets
    assert "comp is left out (optional): comp.tgz is there, but nothing to check it by" in lab.words


def test_a_mirror_with_other_sets_than_pinned_is_refused(lab: Lab, server: ArchiveServer):
    _serve(server, {**OTHER, "SHA512": sha512_list(OTHER)})
    with pytest.raises(UnavailableError) as caught:
        lab.obtain(mirror=f"{lab.url}/pub/archive", digests=PINS)
    text = str(caught.value)
    for word in (f"{lab.url}{BELOW}/base.tgz", PINS["base"], sha256(OTHER["base.tgz"])):
        assert word in text
    assert "--sets URL" in caught.value.hint


@pytest.mark.parametrize("below", ["", "/sets", "/binary/sets", f"/{PATH}"])
def test_a_mirror_may_begin_anywhere_below_the_archives_root(
    lab: Lab, server: ArchiveServer, below: str
):
    server.files.clear()
    _serve(server, {**RELEASE, "SHA512": sha512_list(RELEASE)}, f"/mine{below}")
    sets = lab.obtain(mirror=f"{lab.url}/mine/")
    assert sets["comp"].origin == f"{lab.url}/mine{below}/comp.tgz"


def test_an_empty_mirror_is_named_with_all_that_was_looked_for(lab: Lab, server: ArchiveServer):
    with pytest.raises(UnavailableError, match=r"looked for base\{\.tgz,\.tar\.xz\}") as caught:
        lab.obtain(mirror=f"{lab.url}/empty")
    assert f"{lab.url}/empty/{PATH}/" in caught.value.detail
    assert f"{lab.url}/empty/\n" in caught.value.detail + "\n"


def test_sets_of_ones_own_by_url_are_taken_and_marked(lab: Lab, server: ArchiveServer):
    _serve(server, OTHER, "/own")
    sets = lab.obtain(sets=f"{lab.url}/own", digests={"base": PINS["base"]})
    assert sets["base"].digest == sha256(OTHER["base.tgz"])
    assert sets["base"].trust == "given by hand, not the release's own file"
    assert sets["etc"].trust == "given by hand, with no digest to check it by"
    assert lab.supply(digests={"base": PINS["base"]}).current() == sets


def test_the_list_beside_ones_own_sets_counts(lab: Lab, server: ArchiveServer):
    _serve(server, {**OTHER, "MANIFEST": manifest(OTHER)}, "/own")
    assert lab.obtain(sets=f"{lab.url}/own")["etc"].trust == (
        "given by hand, as the list beside it says"
    )
    _serve(server, {"etc.tgz": RELEASE["etc.tgz"]}, "/own")
    with pytest.raises(UnavailableError, match=r"etc\.tgz has .*/own/MANIFEST says"):
        lab.obtain(sets=f"{lab.url}/own")


def test_what_was_here_stays_when_new_sets_fail(lab: Lab, server: ArchiveServer):
    before = lab.obtain()
    _serve(server, {**OTHER, "etc.tgz": OTHER["etc.tgz"][:-9]}, "/own")
    with pytest.raises(UnavailableError, match=r"etc\.tgz is no whole archive"):
        lab.obtain(sets=f"{lab.url}/own")
    assert lab.supply().current() == before
    assert all(finding.ok for finding in lab.supply().verify(lab.progress))


def test_missing_sets_are_all_named_and_an_optional_one_is_said(lab: Lab, server: ArchiveServer):
    del server.files[f"{BELOW}/comp.tgz"]
    assert list(lab.obtain()) == ["base", "etc", "kern-GENERIC"]
    assert "comp is left out (optional): it is not there" in lab.words
    lab.supply().remove()
    for name in ("etc", "kern-GENERIC"):
        del server.files[f"{BELOW}/{name}.tgz"]
    with pytest.raises(UnavailableError, match=r"missing: etc, kern-GENERIC .*etc\.tar\.xz"):
        lab.obtain()
    assert server.gets("base.tgz") == [("", 200)]


def test_suffixes_are_tried_in_order(lab: Lab, server: ArchiveServer):
    server.files.clear()
    files = {f"{name}.tar.xz": tar(name, suffix=".tar.xz") for name in PINS}
    files |= {"etc.tgz": RELEASE["etc.tgz"]}
    _serve(server, {**files, "SHA512": sha512_list(files)})
    sets = lab.obtain()
    assert [held.origin.rpartition("/")[2] for held in sets.values()] == [
        "base.tar.xz",
        "etc.tgz",
        "kern-GENERIC.tar.xz",
        "comp.tar.xz",
    ]
    assert sets["base"].path.name.endswith(".tar.xz")


def test_a_pin_that_the_recipe_gains_later_is_heeded(lab: Lab):
    lab.obtain()
    assert lab.supply(digests=PINS).current() is not None
    wrong = {"base": sha256(OTHER["base.tgz"])}
    assert lab.supply(digests=wrong).current() is None
    findings = lab.supply(digests=wrong).verify(lab.progress)
    assert [finding.name for finding in findings if not finding.ok] == ["set base"]
    assert f"the recipe now pins {wrong['base']}" in findings[0].text


@pytest.mark.parametrize("url", ["ftp://host/sets", "http://", "http://host/x?y"])
def test_a_place_that_is_no_web_directory_is_refused(lab: Lab, url: str):
    with pytest.raises(ConfigError, match="URL"):
        lab.obtain(sets=url)


@pytest.mark.parametrize(
    "change",
    [
        {"mirror": "ftp://host/archive"},
        {"path": "../x"},
        {"path": "/abs"},
        {"required": []},
        {"required": ["base", "base"]},
        {"required": ["../base"]},
        {"suffixes": [".zip"]},
        {"digests": {"base": "sha256:12"}},
        {"digests": {"games": f"sha256:{'0' * 64}"}},
        {"colour": "red"},
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(change: dict[str, object]):
    good = {
        "mirror": "https://host/archive",
        "path": "a/b",
        "required": ["base"],
        "checksums": "SHA512",
    }
    assert SetsSpec.model_validate(good).mirrors == ("https://host/archive",)
    with pytest.raises(ValidationError):
        SetsSpec.model_validate({**good, **change})
