"""Why a set is believed to be the right one: the recipe's pins, first-use pins, lists.

Decides and words; reads no set itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from labctl.errors import UnavailableError
from labctl.images.sets.digests import Inspection, algorithm
from labctl.images.sets.keep import BY_HAND, SetFile
from labctl.images.sets.pins import Pins
from labctl.images.sets.places import Listing, Place
from labctl.images.sets.spec import SetsSpec

PINNED = "pinned"
FIRST_USE = "published, first use"
PINNED_EARLIER = "published, pinned earlier"
NOT_RELEASE = f"{BY_HAND}, not the release's own file"
AS_LISTED = f"{BY_HAND}, as the list beside it says"
UNCHECKED = f"{BY_HAND}, with no digest to check it by"


@dataclass(frozen=True)
class Expectation:
    """What a set's file has to be.

    Attributes:
        digest: that it must have; "" when any is taken.
        said_by: whose word that is.
        trust: what to say of a file that has it.
        hint: what to do about a file that has not.
        known: digest of the release's own file, as far as it is known. A file given by hand
            may have another; it is said then.
        known_trust: what to say of a file that has that one.
    """

    digest: str
    said_by: str
    trust: str
    hint: str = ""
    known: str = ""
    known_trust: str = ""

    @property
    def digests(self) -> tuple[str, ...]:
        """All that the file is to be compared with."""
        return tuple(digest for digest in (self.digest, self.known) if digest)

    def judge(self, found: Inspection) -> tuple[str, str]:
        """Trust in a file, which has ``digest``; and what it was compared with."""
        if not self.known:
            return self.trust, self.digest
        if found.disagrees(self.known):
            return NOT_RELEASE, self.digest
        return self.known_trust, self.known


class Judge:
    """What is expected of a recipe's sets at one place."""

    def __init__(self, recipe_name: str, spec: SetsSpec, pins: Pins, place: Place) -> None:
        self._recipe_name = recipe_name
        self._spec = spec
        self._pins = pins
        self._place = place
        self._listing: Listing | None = None
        self._list_read = False

    @property
    def listing(self) -> Listing | None:
        """The list at the place, read when first asked for."""
        if not self._list_read:
            self._listing, self._list_read = self._place.listing(), True
        return self._listing

    def expect(self, name: str, file: str) -> Expectation:
        """What ``file`` must be to pass for the set ``name``.

        Raises:
            UnavailableError: the list says another digest than it once did, or nobody says any
                and it has not been given by hand.
        """
        if self._place.by_hand:
            return self._by_hand(name, file)
        pin = self._spec.digests.get(name)
        if pin:
            own = "--sets URL (or DIR), if these are meant to be sets of your own"
            return Expectation(pin, f"the recipe of {self._recipe_name}", PINNED, own)
        listed = self.listing.digests.get(file) if self.listing else None
        earlier = self._pins.all().get(name)
        if earlier:
            said_by = f"{earlier.list_url}, pinned on {earlier.at} in {self._pins.path},"
            hint = (
                f"find out which of the two is the release's; remove {self._pins.path} to trust "
                "what is published now, or use --sets for sets of your own"
            )
            same_kind = listed and algorithm(listed) == algorithm(earlier.digest)
            if self.listing and listed and same_kind and listed != earlier.digest:
                raise UnavailableError(
                    f"the list now says {listed} for {file}; {said_by} said {earlier.digest}",
                    where=self.listing.url,
                    hint=hint,
                )
            return Expectation(earlier.digest, said_by, PINNED_EARLIER, hint)
        if self.listing and listed:
            again = "the archive disagrees with its own list: try again later, or use --mirror"
            return Expectation(listed, self.listing.url, FIRST_USE, again)
        raise UnavailableError(self._unlisted(file), where=self._place.origin(file))

    def pin(self, name: str, file: str, digest: str) -> str:
        """Hold to a digest of the list from now on; what to say of it."""
        where = self.listing.url if self.listing else self._place.where
        self._pins.add(name, digest, file, where)
        return f"{file}: trusted as {where} says, and pinned from now on in {self._pins.path}"

    def _by_hand(self, name: str, file: str) -> Expectation:
        known = self._spec.digests.get(name, "")
        known_trust = PINNED if known else PINNED_EARLIER
        earlier = self._pins.all().get(name)
        if not known and earlier:
            known = earlier.digest
        listed = self.listing.digests.get(file) if self.listing else None
        if self.listing and listed:
            hint = "a damaged copy: bring it again (or, if it was changed on purpose, the list too)"
            return Expectation(listed, self.listing.url, AS_LISTED, hint, known, known_trust)
        return Expectation("", "", UNCHECKED, "", known, known_trust)

    def _unlisted(self, file: str) -> str:
        if self.listing:
            return f"{self.listing.url} does not name {file}, and the recipe pins no digest of it"
        return (
            f"there is nothing to check {file} by: the recipe pins no digest of it, and there is "
            f"no list of digests ({self._spec.checksums}) at {self._place.where}"
        )


def doubts(spec: SetsSpec, pins: Pins, held: SetFile) -> str:
    """What the pins of today have against a set that was brought earlier; "" for nothing."""
    if held.by_hand:
        return ""
    pin = spec.digests.get(held.name)
    if pin and pin not in (held.digest, held.checked):
        return f"the recipe now pins {pin}"
    earlier = None if pin else pins.all().get(held.name)
    if earlier and earlier.digest not in (held.digest, held.checked):
        return f"{pins.path} has {earlier.digest}, of {earlier.at}"
    return ""
