"""The supply of one recipe's sets: what is here, bringing what is not, checking it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labctl import paths
from labctl.errors import UnavailableError
from labctl.images.builder import Finding, Progress, Source
from labctl.images.sets.digests import Inspection, inspect
from labctl.images.sets.keep import Keep, SetFile
from labctl.images.sets.part import discard
from labctl.images.sets.pins import Pins
from labctl.images.sets.places import Place, find_place
from labctl.images.sets.spec import SetsSpec
from labctl.images.sets.trust import FIRST_USE, Expectation, Judge, doubts
from labctl.images.sets.web import MissingError, Patience, Report, Web

STAGE = "sets"
_MIB = 1 << 20


class Supply:
    """The sets of one recipe, kept under ``root`` (the user's cache unless given).

    Changing it (``obtain``, ``remove``) is for one process at a time; the caller locks.
    """

    def __init__(
        self,
        recipe_name: str,
        spec: SetsSpec,
        root: Path | None = None,
        *,
        patience: Patience | None = None,
        most_bytes: int = 1 << 40,
    ) -> None:
        """``most_bytes``: of one set; a server that sends more has something else."""
        self._name = recipe_name
        self._spec = spec
        self._keep = Keep((root or paths.cache_dir() / "sets") / recipe_name)
        self._pins = Pins(recipe_name)
        self._patience = patience
        self._most_bytes = most_bytes

    def current(self) -> dict[str, SetFile] | None:
        """The sets that are here, in the order in which they are unpacked; None when any is
        missing. Looks at the record and the files' sizes, not into the files."""
        record = self._keep.read()
        if record is None:
            return None
        held = {name: record.sets[name] for name in self._spec.names if name in record.sets}
        left_out = set(self._spec.names) - set(held)
        if not left_out <= set(self._spec.optional) & set(record.absent):
            return None
        for each in held.values():
            if _size(each.path) != each.size:
                return None
            pin = self._spec.digests.get(each.name)
            if pin and not each.by_hand and pin not in (each.digest, each.checked):
                return None
        return held

    def obtain(self, source: Source, progress: Progress) -> dict[str, SetFile]:
        """Have the sets here: nothing is done where they are, unless ``source`` names a place.

        Until all new ones are here and checked, those that were here before stay; and they are
        kept beside the new ones until ``settle`` or ``take_back``.

        Args:
            source: a place to take them from, else the recipe's.

        Raises:
            ConfigError: ``source`` is neither a directory nor an http(s) URL.
            UnavailableError: a set is missing, damaged, or not what it should be; or the place
                cannot be reached.
        """
        here = self.current()
        if here is not None and not source:
            return here
        with self._explained(source), Web(self._patience, self._most_bytes) as web:
            place = find_place(self._spec, source, web)
            judge = Judge(self._name, self._spec, self._pins, place)
            files = self._choose(place, judge, progress)
            sets = []
            for number, (name, file) in enumerate(files.items()):
                report = _reporter(progress, number, len(files), file)
                held = self._have(name, file, place, judge, report, progress)
                if held:
                    sets.append(held)
            names = {held.name for held in sets}
            self._keep.replace(sets, [name for name in self._spec.optional if name not in names])
        return {held.name: held for held in sets}

    def settle(self) -> None:
        """Drop the sets that were here before the present ones, which have proved good."""
        self._keep.settle_record()

    def take_back(self) -> None:
        """Have again the sets that were here before the present ones, which are no good; the
        present ones stay where there were none."""
        self._keep.take_back()

    def verify(self, progress: Progress) -> list[Finding]:
        """Read every set again and compare it with the record and with today's pins. Empty
        when no sets are recorded."""
        record = self._keep.read()
        if record is None:
            return []
        findings = []
        for number, held in enumerate(record.sets.values()):
            report = _reporter(progress, number, len(record.sets), held.path.name)
            findings.append(self._verify(held, report))
        findings += [
            Finding(f"set {name}", False, "it is required, and not here")
            for name in self._spec.required
            if name not in record.sets
        ]
        return findings

    def remove(self) -> None:
        """Delete the sets. First-use pins stay: the next sets must be the same."""
        self._keep.remove()

    # -- bringing ---------------------------------------------------------------------

    def _choose(self, place: Place, judge: Judge, progress: Progress) -> dict[str, str]:
        """Which file each set is.

        Raises:
            UnavailableError: required ones are missing; it names them all.
        """
        files: dict[str, str] = {}
        missing: list[str] = []
        for name in self._spec.names:
            progress(STAGE, None, f"looking for {name} at {place.where}")
            endings = (name + suffix for suffix in place.suffixes)
            file = next((each for each in endings if place.has(each)), None)
            if file is None and name in self._spec.required:
                missing.append(name)
            elif file is None or not self._checkable(name, file, place, judge):
                progress(STAGE, None, f"{name} is left out (optional): {_why(file)}")
            else:
                files[name] = file
        if missing:
            raise UnavailableError(
                f"missing: {', '.join(missing)} (looked for {self._endings(missing, place)})",
                where=place.where,
            )
        return files

    def _checkable(self, name: str, file: str, place: Place, judge: Judge) -> bool:
        """Whether an optional set can be had in a way that the required ones are."""
        if name in self._spec.required or place.by_hand or name in self._spec.digests:
            return True
        return bool(judge.listing and file in judge.listing.digests) or name in self._pins.all()

    def _have(
        self,
        name: str,
        file: str,
        place: Place,
        judge: Judge,
        report: Report,
        progress: Progress,
    ) -> SetFile | None:
        """One set, checked, in the keep; None for an optional one that is not there after all."""
        expected = judge.expect(name, file)
        adopted = None if place.by_hand else self._adopt(name, file, expected)
        if adopted:
            path, found = adopted
        else:
            try:
                path, found = self._bring(name, file, place, expected, report)
            except MissingError:
                if name in self._spec.required:
                    raise
                progress(STAGE, None, f"{name} is left out (optional): {_why(None)}")
                return None
        trust, checked = expected.judge(found)
        if trust == FIRST_USE:
            progress(STAGE, None, judge.pin(name, file, expected.digest))
        elif place.by_hand:
            progress(STAGE, None, f"{file}: {trust}")
        origin = place.origin(file)
        return SetFile(name, path, found.digests["sha256"], found.size, origin, trust, checked)

    def _adopt(self, name: str, file: str, expected: Expectation) -> tuple[Path, Inspection] | None:
        """A file that an earlier, interrupted ``obtain`` brought, or that is in use already."""
        for path in self._keep.versions(file, name):
            found = inspect(path, expected.digests, unpack=False)
            if not found.disagrees(expected.digest):
                return path, found
        return None

    def _bring(
        self, name: str, file: str, place: Place, expected: Expectation, report: Report
    ) -> tuple[Path, Inspection]:
        part = self._keep.part(file)
        resumed = place.bring(file, part, report)
        found = inspect(part, expected.digests)
        if resumed and _objection(file, found, expected):
            # Two versions of it may have been glued together, by a server that names none.
            discard(part)
            place.bring(file, part, report)
            found = inspect(part, expected.digests)
        objection = _objection(file, found, expected)
        if objection:
            discard(part)
            raise UnavailableError(objection, where=place.origin(file), hint=expected.hint)
        return self._keep.settle(part, name, found.digests["sha256"]), found

    # -- checking again ---------------------------------------------------------------

    def _verify(self, held: SetFile, report: Report) -> Finding:
        name = f"set {held.name}"
        remedy = f"remove {held.path}, and the next build brings it again"
        try:
            found = inspect(
                held.path,
                [held.checked] if held.checked else [],
                lambda done: report(done, held.size),
                unpack=False,
            )
        except OSError as error:
            return Finding(name, False, f"{held.path}: {error.strerror}; the next build brings it")
        wrong = found.disagrees(held.digest)
        if wrong:
            return Finding(name, False, f"it has {wrong}, not {held.digest}: {remedy}")
        if held.checked and found.disagrees(held.checked):
            return Finding(name, False, f"it does not have {held.checked}: {remedy}")
        doubt = doubts(self._spec, self._pins, held)
        if doubt:
            return Finding(name, False, f"it has {held.digest}, and {doubt}: {remedy}")
        return Finding(name, True, f"{held.digest} ({held.trust})")

    # -- words ------------------------------------------------------------------------

    @contextmanager
    def _explained(self, source: Source) -> Iterator[None]:
        """Complete errors: what to do without this place, and what is wanted."""
        try:
            yield
        except UnavailableError as error:
            wanted = [name + self._spec.suffixes[0] for name in self._spec.names]
            count = len(self._spec.required)
            extra = f" (better also {', '.join(wanted[count:])})" if wanted[count:] else ""
            error.hint = error.hint or (
                f"to supply the sets by hand: labctl image build {self._name} --sets DIR, where "
                f"DIR has {', '.join(wanted[:count])}{extra}"
            )
            if not source:
                below = f"{self._spec.mirrors[0]}/{self._spec.path}"
                urls = "".join(f"\n  {below}/{file}" for file in wanted)
                error.detail = f"{error.detail}\nwanted{urls}".lstrip()
            raise
        except OSError as error:
            where = str(error.filename or self._keep.directory)
            raise UnavailableError(f"no access: {error.strerror}", where=where) from None

    def _endings(self, names: list[str], place: Place) -> str:
        return ", ".join(name + suffix for name in names for suffix in place.suffixes)


def _objection(file: str, found: Inspection, expected: Expectation) -> str:
    """What is wrong with a file; "" for nothing."""
    wrong = found.disagrees(expected.digest) if expected.digest else ""
    damage = f" ({found.damage})" if found.damage else ""
    if wrong:
        return f"{file} has {wrong}{damage}, but {expected.said_by} says {expected.digest}"
    return f"{file} is no whole archive: {found.damage}" if found.damage else ""


def _reporter(progress: Progress, number: int, count: int, file: str) -> Report:
    """Reports one file's bytes as a part of all files; now and then, not for every block."""
    last = -1

    def report(done: int, total: int | None) -> None:
        nonlocal last
        if done // _MIB == last and done != total:
            return
        last = done // _MIB
        part = min(done / total, 1.0) if total else 0.0
        of = f" of {_mib(total)}" if total else ""
        progress(STAGE, (number + part) / count, f"{file} {_mib(done)}{of} MiB")

    return report


def _mib(size: int) -> str:
    return f"{size / _MIB:.0f}" if size >= 10 * _MIB else f"{size / _MIB:.1f}"


def _why(file: str | None) -> str:
    return f"{file} is there, but nothing to check it by" if file else "it is not there"


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
