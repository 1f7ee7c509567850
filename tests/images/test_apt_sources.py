from pathlib import Path

from labctl.images.apt import select

KEYS = Path("/keys.gpg")
MAIN = "Debian|bookworm|main|yes|http://mirror.invalid/debian/|bookworm"
SECURITY = "Debian|bookworm-security|main|yes|http://mirror.invalid/sec/|oldstable-security"
FOREIGN = "Example Inc|bookworm|main|yes|http://other.invalid/apt/|bookworm"


def test_main_updates_and_security_of_the_suite_are_used():
    assert select("bookworm", [MAIN, SECURITY], keyring=KEYS) == [
        "deb [signed-by=/keys.gpg] http://mirror.invalid/debian/ bookworm main",
        "deb [signed-by=/keys.gpg] http://mirror.invalid/sec/ oldstable-security main",
    ]


def test_third_parties_backports_and_untrusted_entries_are_not():
    others = [
        FOREIGN,
        MAIN.replace("|main|", "|contrib|"),
        SECURITY.replace("security|main", "backports|main"),
        SECURITY.replace("|yes|", "|no|"),
        "not a target",
    ]
    assert select("bookworm", [MAIN, *others], keyring=None) == [
        "deb http://mirror.invalid/debian/ bookworm main"
    ]


def test_a_host_without_the_suite_itself_has_nothing_to_offer():
    assert select("bookworm", [SECURITY, FOREIGN], keyring=None) == []
    assert select("trixie", [MAIN], keyring=None) == []
