"""Digests of archives: lists of them as they are published, and those of a file at hand.

A digest is written ``algorithm:hex``. Whose digest is to be believed is decided elsewhere.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHUNK = 1 << 16  # also bounds what a compressed bomb unpacks to at once
_HEX_LENGTHS = {64: "sha256", 128: "sha512"}
_BSD = re.compile(r"^(SHA256|SHA512) \((?:\./)?(.+)\) = ([0-9a-fA-F]+)$")
_GNU = re.compile(r"^([0-9a-fA-F]{64}|[0-9a-fA-F]{128}) [ *](?:\./)?(.+)$")


@dataclass(frozen=True)
class Inspection:
    """What a file's bytes are.

    Attributes:
        digests: algorithm to ``algorithm:hex``.
        damage: what is wrong with the compressed archive; "" when nothing is.
    """

    size: int
    digests: Mapping[str, str]
    damage: str

    def disagrees(self, digest: str) -> str:
        """The file's own digest where it is another than ``digest``, else ""."""
        found = self.digests[algorithm(digest)]
        return "" if found == digest else found


def algorithm(digest: str) -> str:
    """``sha256`` of ``sha256:hex``."""
    return digest.partition(":")[0]


def parse_list(text: str) -> dict[str, str]:
    """File names and digests of a published list; the stronger digest where there are two.

    Understood are FreeBSD's MANIFEST (tab-separated: file, sha256, ...), the BSD style
    ``SHA512 (file) = hex`` and that of sha256sum. Other lines, such as those of weak
    algorithms, are passed over.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, digest = _parse_line(line.rstrip())
        if name and (name not in found or algorithm(found[name]) < algorithm(digest)):
            found[name] = digest
    return found


def _parse_line(line: str) -> tuple[str, str]:
    columns = line.split("\t")
    if len(columns) >= 3 and re.fullmatch(r"[0-9a-fA-F]{64}", columns[1]):
        return columns[0], f"sha256:{columns[1].lower()}"
    bsd = _BSD.match(line)
    if bsd and _HEX_LENGTHS.get(len(bsd[3])) == bsd[1].lower():
        return bsd[2], f"{bsd[1].lower()}:{bsd[3].lower()}"
    gnu = _GNU.match(line)
    if gnu:
        return gnu[2], f"{_HEX_LENGTHS[len(gnu[1])]}:{gnu[1].lower()}"
    return "", ""


def inspect(
    path: Path,
    digests: Iterable[str] = (),
    progress: Callable[[int], None] = lambda done: None,
    *,
    unpack: bool = True,
) -> Inspection:
    """Read a whole file: its sha256, the kinds of digest that ``digests`` are, and (with
    ``unpack``) whether it is a gzip or xz stream from beginning to end.

    Args:
        progress: called with the bytes read.

    Raises:
        OSError: it cannot be read.
    """
    hashes = {name: hashlib.new(name) for name in {"sha256", *map(algorithm, digests)}}
    stream = _Stream() if unpack else None
    size = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            for each in hashes.values():
                each.update(chunk)
            if stream:
                stream.feed(chunk)
            progress(size)
    return Inspection(
        size=size,
        digests={name: f"{name}:{each.hexdigest()}" for name, each in hashes.items()},
        damage=stream.finish() if stream else "",
    )


class _Stream:
    """Decompresses to nowhere, to learn whether a stream is whole. Members and streams may
    follow each other, with zeros after them, as gzip and xz allow."""

    def __init__(self) -> None:
        self._make: Callable[[], Any] | None = None
        self._decoder: Any = None
        self._damage = ""
        self._fed = False

    def feed(self, data: bytes) -> None:
        if self._make is None and not self._fed:
            self._make = _decoder_for(data)
        self._fed = True
        if self._make is None or self._damage:
            return
        try:
            while data:
                if self._decoder is None or self._decoder.eof:
                    data = data.lstrip(b"\0") if self._decoder else data
                    if not data:
                        return
                    self._decoder = self._make()
                self._decoder.decompress(data)
                data = self._decoder.unused_data if self._decoder.eof else b""
        except (zlib.error, lzma.LZMAError) as error:
            self._damage = f"the compressed data is damaged ({error})"

    def finish(self) -> str:
        if not self._fed:
            return "the file is empty"
        if self._make is None:
            return "it is neither gzip nor xz"
        if not self._damage and not self._decoder.eof:
            return "the compressed data ends too early: the file is truncated"
        return self._damage


def _decoder_for(head: bytes) -> Callable[[], Any] | None:
    if head.startswith(b"\x1f\x8b"):
        return lambda: zlib.decompressobj(wbits=31)
    if head.startswith(b"\xfd7zXZ\0"):
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)
    return None
