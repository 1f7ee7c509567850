"""Sets from a directory of the user's; what is kept, and checking it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sets_lab import PATH, RELEASE, Lab, manifest, sha256, sha512_list, tar

from labctl.errors import ConfigError, UnavailableError
from labctl.images.sets.digests import parse_list

Make = Callable[..., Path]
REQUIRED = {name: RELEASE[name] for name in ("base.tgz", "etc.tgz", "kern-GENERIC.tgz")}


def test_a_directory_of_sets_needs_no_network(lab: Lab, directory: Make):
    given = directory({**RELEASE, "games.tgz": b"of no interest", "README": b"hello"})
    lab.url = "http://archive.invalid"
    sets = lab.obtain(given)
    assert {name: held.path.read_bytes() for name, held in sets.items()} == {
        name.removesuffix(".tgz"): content for name, content in RELEASE.items()
    }
    assert sets["base"].origin == str(given / "base.tgz")
    assert lab.supply().current() == sets
    assert sorted(path.name for path in lab.keep.iterdir()) == sorted(
        ["sets.json", *(held.path.name for held in sets.values())]
    )


@pytest.mark.parametrize("below", [PATH, "binary/sets", "sets"])
def test_a_directory_laid_out_as_the_archive_will_do(lab: Lab, directory: Make, below: str):
    given = directory(REQUIRED, below)
    assert lab.obtain(given)["etc"].origin == str(given / below / "etc.tgz")


@pytest.mark.parametrize("suffix", [".tgz", ".tar.gz", ".txz", ".tar.xz"])
def test_every_suffix_is_known(lab: Lab, directory: Make, suffix: str):
    files = {f"{n}{suffix}": tar(n, suffix=suffix) for n in ("base", "etc", "kern-GENERIC")}
    sets = lab.obtain(directory(files), suffixes=[".txz"])
    assert sets["base"].path.name.endswith(suffix)
    assert sets["base"].path.read_bytes() == files[f"base{suffix}"]


def test_trust_in_what_is_given_follows_the_pins(lab: Lab, directory: Make):
    pins = {"base": sha256(RELEASE["base.tgz"]), "etc": sha256(tar("etc", 2))}
    sets = lab.obtain(directory(REQUIRED), digests=pins)
    assert [held.trust for held in sets.values()] == [
        "pinned",
        "given by hand, not the release's own file",
        "given by hand, with no digest to check it by",
    ]
    assert "etc.tgz: given by hand, not the release's own file" in lab.words


def test_first_use_pins_are_known_of_what_is_given(lab: Lab, directory: Make):
    lab.obtain()
    sets = lab.obtain(directory({**REQUIRED, "etc.tgz": tar("etc", 2)}))
    assert sets["base"].trust == "published, pinned earlier"
    assert sets["etc"].trust == "given by hand, not the release's own file"
    assert "comp" not in sets
    assert list(lab.obtain()) == ["base", "etc", "kern-GENERIC"]  # until another place is named


@pytest.mark.parametrize("listing", ["MANIFEST", "SHA512"])
def test_a_copy_that_differs_from_its_list_is_refused(lab: Lab, directory: Make, listing: str):
    published = manifest(RELEASE) if listing == "MANIFEST" else sha512_list(RELEASE)
    given = directory({**REQUIRED, listing: published})
    assert lab.obtain(given)["etc"].trust == "given by hand, as the list beside it says"
    (given / "etc.tgz").write_bytes(tar("etc", 2))
    with pytest.raises(UnavailableError, match=rf"etc\.tgz has .*{listing} says") as caught:
        lab.obtain(given)
    assert caught.value.where == str(given / "etc.tgz")
    assert "damaged copy" in caught.value.hint


def test_missing_sets_are_named_with_where_and_what_was_looked_for(lab: Lab, directory: Make):
    given = directory({"base.tgz": RELEASE["base.tgz"], "etc": b"", "kern-GENERIC.tgz.part": b""})
    with pytest.raises(UnavailableError) as caught:
        lab.obtain(given)
    assert caught.value.where == str(given)
    assert "missing: etc, kern-GENERIC (looked for etc.tgz, etc.tar.xz" in caught.value.message
    assert not lab.keep.exists()


def test_a_directory_without_any_and_what_is_none(lab: Lab, directory: Make):
    given = directory({"file": b""})
    with pytest.raises(UnavailableError, match="none of the sets is there") as caught:
        lab.obtain(given)
    assert str(given / PATH) in caught.value.detail
    with pytest.raises(ConfigError, match="not a directory"):
        lab.obtain(given / "file")
    with pytest.raises(ConfigError, match="no such directory"):
        lab.obtain(given / "none")


def _flipped(content: bytes) -> bytes:
    return content[:150_000] + bytes(200) + content[150_200:]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (RELEASE["base.tgz"][:-100], "truncated"),
        (RELEASE["base.tgz"][:65536], "truncated"),
        (RELEASE["base.tgz"][:5], "truncated"),
        (_flipped(RELEASE["base.tgz"]), "damaged"),
        (RELEASE["base.tgz"] + b"left over", "damaged"),
        (tar("base", suffix=".txz")[:-100], "truncated"),
        (_flipped(tar("base", suffix=".txz")), "damaged"),
        (b"<html>Not found</html>", "neither gzip nor xz"),
        (b"", "empty"),
    ],
)
def test_a_damaged_archive_is_named(lab: Lab, directory: Make, content: bytes, words: str):
    given = directory({**REQUIRED, "base.tgz": content})
    with pytest.raises(UnavailableError, match=f"no whole archive: .*{words}") as caught:
        lab.obtain(given)
    assert caught.value.where == str(given / "base.tgz")
    assert lab.supply().current() is None
    assert list(lab.keep.iterdir()) == []


@pytest.mark.parametrize("suffix", [".tgz", ".txz"])
def test_joined_streams_and_zeros_after_them_are_whole(lab: Lab, directory: Make, suffix: str):
    joined = tar("base", suffix=suffix) + tar("more", suffix=suffix) + bytes(100_000)
    sets = lab.obtain(directory({**REQUIRED, f"base{suffix}": joined}), suffixes=[suffix, ".tgz"])
    assert sets["base"].digest == sha256(joined)


def test_names_that_begin_alike_are_kept_apart(lab: Lab, directory: Make):
    files = {f"{name}.tgz": tar(name) for name in ("base", "base-0123456789ab", "base32")}
    names = {"required": ["base", "base-0123456789ab", "base32"], "optional": []}
    sets = lab.obtain(directory(files), **names)
    assert {name: held.path.read_bytes() for name, held in sets.items()} == {
        name.removesuffix(".tgz"): content for name, content in files.items()
    }


def test_a_copy_never_passes_for_a_part_of_a_download(lab: Lab, directory: Make, server):
    server.cuts[f"/pub/archive/{PATH}/base.tgz"] = [100_000, 0, 0, 0]
    with pytest.raises(UnavailableError):
        lab.obtain()

    def stop(stage: str, fraction: float | None, detail: str) -> None:
        if detail.startswith("base.tgz 0.3"):
            raise KeyboardInterrupt

    from labctl.images.builder import Source

    given = directory({**REQUIRED, "base.tgz": tar("base", 2)})
    with pytest.raises(KeyboardInterrupt):
        lab.supply().obtain(Source(sets=str(given)), stop)
    server.log.clear()
    assert lab.obtain()["base"].digest == sha256(RELEASE["base.tgz"])
    assert server.gets("base.tgz") == [("", 200)]


def test_verify_reads_everything_again(lab: Lab, directory: Make):
    assert lab.supply().verify(lab.progress) == []
    sets = lab.obtain(directory(RELEASE))
    findings = lab.supply().verify(lab.progress)
    assert [finding.name for finding in findings] == [f"set {name}" for name in sets]
    assert all(finding.ok for finding in findings)
    path = sets["etc"].path
    path.write_bytes(_flipped(path.read_bytes()))
    sets["comp"].path.unlink()
    assert lab.supply().current() is None
    wrong = {f.name: f.text for f in lab.supply().verify(lab.progress) if not f.ok}
    assert set(wrong) == {"set etc", "set comp"}
    assert sets["etc"].digest in wrong["set etc"]
    assert str(path) in wrong["set etc"]


def test_a_damaged_set_that_is_removed_is_brought_again(lab: Lab):
    sets = lab.obtain()
    sets["etc"].path.write_bytes(_flipped(RELEASE["etc.tgz"]))
    sets["etc"].path.unlink()
    assert lab.supply().current() is None
    assert lab.obtain()["etc"].path.read_bytes() == RELEASE["etc.tgz"]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"sets": {"base": {}}, "absent": []}', '{"sets": {}, "absent": [[]]}']
)
def test_a_record_that_makes_no_sense_is_none(lab: Lab, directory: Make, text: str):
    lab.obtain(directory(RELEASE))
    (lab.keep / "sets.json").write_text(text)
    assert lab.supply().current() is None


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "md5:x"},
        {"digest": 5},
        {"trust": 5},
        {"size": "x"},
        {"checked": "x"},
        {"file": "/etc/passwd"},
        {"file": "../etc.tgz"},
    ],
)
def test_a_record_with_a_senseless_entry_is_none(lab: Lab, directory: Make, change: dict):
    lab.obtain(directory(RELEASE))
    record = json.loads((lab.keep / "sets.json").read_text())
    record["sets"]["base"] |= change
    (lab.keep / "sets.json").write_text(json.dumps(record))
    assert lab.supply().current() is None
    assert lab.supply().verify(lab.progress) == []


def test_a_set_that_the_recipe_gains_later_is_looked_for(lab: Lab, directory: Make):
    lab.obtain(directory(REQUIRED))
    assert lab.supply().current() is not None
    assert lab.supply(optional=["comp", "games"]).current() is None
    assert lab.supply(required=["base", "comp"], optional=[]).current() is None
    assert json.loads((lab.keep / "sets.json").read_text())["absent"] == ["comp"]


def test_remove_leaves_nothing_of_the_sets(lab: Lab, directory: Make):
    lab.obtain(directory(RELEASE))
    lab.supply().remove()
    lab.supply().remove()
    assert lab.supply().current() is None
    assert not lab.keep.exists()


def test_lists_of_all_kinds_are_read():
    hex64, hex128 = "a" * 64, "B" * 128
    text = (
        f'base.txz\t{hex64}\t12\tbase\t"Base system"\ton\n'
        f"SHA512 (./comp.tgz) = {hex128}\r\n"
        f"SHA256 (comp.tgz) = {hex64}\n"
        f"MD5 (etc.tgz) = {'c' * 32}\n"
        f"SHA512 (bad.tgz) = {hex64}\n"
        f"{hex64}  games.tgz\n"
        f"{hex64} *./man.tgz\n"
        "<html>\n"
    )
    assert parse_list(text) == {
        "base.txz": f"sha256:{hex64}",
        "comp.tgz": f"sha512:{hex128.lower()}",
        "games.tgz": f"sha256:{hex64}",
        "man.tgz": f"sha256:{hex64}",
    }


def test_what_is_given_is_on_trial_until_an_image_was_made_of_it(lab: Lab, directory: Make):
    before = lab.obtain()
    given = directory({**REQUIRED, "etc.tgz": tar("etc", 2)})
    after = lab.obtain(given)
    assert lab.supply().current() == after != before
    lab.supply().take_back()
    assert lab.supply().current() == before
    lab.supply().take_back()  # of nothing
    assert lab.obtain() == before
    after = lab.obtain(given)
    lab.supply().settle()
    lab.supply().take_back()
    assert lab.supply().current() == after
    assert sorted(path.name for path in lab.keep.iterdir()) == sorted(
        ["sets.json", *(held.path.name for held in after.values())]
    )


@pytest.mark.parametrize(
    "place", ["~nobody-of-this-name/x", "http://[bad", "file://[x", "http://h:x/", "http://a..b/"]
)
def test_a_place_that_is_none_is_the_users_mistake_or_out_of_reach(lab: Lab, place: str):
    with pytest.raises((ConfigError, UnavailableError)):
        lab.obtain(place)
