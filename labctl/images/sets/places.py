"""Where sets can be had: a directory, or one on a web server; and finding the right one.

A place says what it has and brings files. Whether they are what they should be is decided
in ``supply``.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from labctl.errors import ConfigError, UnavailableError
from labctl.images.builder import Source
from labctl.images.sets.digests import parse_list
from labctl.images.sets.part import discard
from labctl.images.sets.spec import SetsSpec
from labctl.images.sets.web import Report, Web

_CHUNK = 1 << 20
_LISTS = ("MANIFEST", "SHA512", "SHA256", "SHA512SUMS", "SHA256SUMS")


@dataclass(frozen=True)
class Listing:
    """A published list of digests.

    Attributes:
        url: where it is.
        digests: file name to digest.
    """

    url: str
    digests: Mapping[str, str]


class Place(Protocol):
    """A directory of sets, somewhere.

    Attributes:
        by_hand: the user says that these are the sets; else they must be the release's.
        where: the directory or its URL.
        suffixes: endings that sets may have here.
    """

    by_hand: bool
    where: str
    suffixes: tuple[str, ...]

    def has(self, file: str) -> bool:
        """Whether that file is here."""

    def origin(self, file: str) -> str:
        """Path or URL of a file."""

    def listing(self) -> Listing | None:
        """The list of digests beside the sets, if there is one."""

    def bring(self, file: str, part: Path, report: Report) -> bool:
        """Bring the file to ``part``; whether an earlier attempt was gone on with.

        Raises:
            UnavailableError: it cannot be had.
        """


class LocalPlace:
    """A directory of this machine."""

    by_hand = True

    def __init__(self, directory: Path, spec: SetsSpec) -> None:
        self.where = str(directory)
        self.suffixes = spec.all_suffixes
        self._directory = directory
        self._lists = dict.fromkeys((spec.checksums, *_LISTS))

    def has(self, file: str) -> bool:
        """Whether a regular file is there."""
        return (self._directory / file).is_file()

    def origin(self, file: str) -> str:
        """Its path."""
        return str(self._directory / file)

    def listing(self) -> Listing | None:
        """The first list found that names anything."""
        for name in self._lists:
            path = self._directory / name
            if path.is_file():
                digests = parse_list(path.read_text(errors="replace"))
                if digests:
                    return Listing(str(path), digests)
        return None

    def bring(self, file: str, part: Path, report: Report) -> bool:
        """Copy it."""
        source = self._directory / file
        done = 0
        # A copy begins anew, and must not be taken for the part of a download that was here.
        discard(part)
        try:
            with source.open("rb") as read, part.open("xb") as write:
                total = os.fstat(read.fileno()).st_size
                while chunk := read.read(_CHUNK):
                    write.write(chunk)
                    done += len(chunk)
                    report(done, total)
        except OSError as error:
            discard(part)
            raise UnavailableError(
                f"{file} cannot be copied to {part.parent}: {error.strerror}", where=str(source)
            ) from None
        return False


class WebPlace:
    """A directory of a web server.

    ``by_hand`` is for sets of the user's own: they may have any known suffix and any list.
    """

    def __init__(self, url: str, spec: SetsSpec, web: Web, *, by_hand: bool = False) -> None:
        self.where = url.rstrip("/") + "/"
        self.by_hand = by_hand
        self.suffixes = spec.all_suffixes if by_hand else spec.suffixes
        self._lists = dict.fromkeys((spec.checksums, *(_LISTS[:2] if by_hand else ())))
        self._web = web

    def has(self, file: str) -> bool:
        """Whether the server answers that it is."""
        return self._web.exists(self.origin(file))

    def has_list(self) -> bool:
        """Whether there is a list of digests."""
        return any(self.has(name) for name in self._lists)

    def origin(self, file: str) -> str:
        """Its URL."""
        return self.where + urllib.parse.quote(file)

    def listing(self) -> Listing | None:
        """The first list found that names anything: a page that says "log in here" does not."""
        for name in self._lists:
            digests = parse_list(self._web.text(self.origin(name)) or "")
            if digests:
                return Listing(self.origin(name), digests)
        return None

    def bring(self, file: str, part: Path, report: Report) -> bool:
        """Download it."""
        return self._web.download(self.origin(file), part, report)


def find_place(spec: SetsSpec, source: Source, web: Web) -> Place:
    """The place that has the sets: the one that ``source`` names, else one of the recipe's.

    Raises:
        ConfigError: ``source`` is neither a directory nor an http(s) URL.
        UnavailableError: no set is where it should be, or nothing answers.
    """
    if source.sets:
        directory = _directory(source.sets)
        if directory:
            return _find_local(directory, spec)
        # The user names the directory itself; one above it is second best.
        tails = sorted(spec.tails(), key=len)
        return _find_web([_join(_http(source.sets), tail) for tail in tails], spec, web, True)
    if source.mirror:
        urls = [_join(_http(source.mirror), tail) for tail in spec.tails()]
        return _find_web(urls, spec, web, False)
    return _find_web([_join(mirror, spec.path) for mirror in spec.mirrors], spec, web, False)


def _directory(text: str) -> Path | None:
    if text.startswith("file://"):
        text = urllib.parse.unquote(_split(text).path)
    if "://" in text:
        return None
    try:
        directory = Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"this home directory is not known: {error}", where=text) from None
    if not directory.is_dir():
        raise ConfigError(
            "this is not a directory" if directory.exists() else "there is no such directory",
            where=text,
            hint="--sets takes the directory that holds the sets (or an http(s) URL of one)",
        )
    return directory


def _http(url: str) -> str:
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise ConfigError("this is no http(s) URL of a directory", where=url)
    return url


def _split(url: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port  # which is looked at only now
    except ValueError as error:
        raise ConfigError(f"this is no URL: {error}", where=url) from None
    return parts


def _find_local(directory: Path, spec: SetsSpec) -> Place:
    for tail in sorted(spec.tails(), key=len):
        place = LocalPlace(directory / tail, spec)
        if any(place.has(name + suffix) for name in spec.required for suffix in place.suffixes):
            return place
    raise _nowhere(spec, [str(directory / tail) for tail in spec.tails()], spec.all_suffixes)


def _find_web(urls: Iterable[str], spec: SetsSpec, web: Web, by_hand: bool) -> Place:
    """The first of ``urls`` that has the list, or else the first required set."""
    looked: list[str] = []
    silent: list[UnavailableError] = []
    hosts: set[str] = set()
    for url in urls:
        host = url.split("/")[2]
        if host in hosts:
            continue
        place = WebPlace(url, spec, web, by_hand=by_hand)
        looked.append(place.where)
        try:
            first = (spec.required[0] + suffix for suffix in place.suffixes)
            if place.has_list() or any(place.has(file) for file in first):
                return place
        except UnavailableError as error:
            # It says the same of every directory of that host; another archive may be well.
            silent.append(error)
            hosts.add(host)
    if silent:
        silent[0].detail = "\n".join(str(error) for error in silent[1:])
        raise silent[0]
    raise _nowhere(spec, looked, spec.all_suffixes if by_hand else spec.suffixes)


def _nowhere(spec: SetsSpec, looked: list[str], suffixes: tuple[str, ...]) -> UnavailableError:
    names = ", ".join(f"{name}{{{','.join(suffixes)}}}" for name in spec.required)
    return UnavailableError(
        f"none of the sets is there: looked for {names}",
        where=looked[0],
        detail="looked in\n" + "\n".join(f"  {place}" for place in looked),
    )


def _join(url: str, path: str) -> str:
    return f"{url.rstrip('/')}/{path}".rstrip("/")
