"""Reading a set: a tar archive, perhaps compressed, as a stream that must be whole.

Python's tarfile ends quietly at a damaged header, and does not check a stream's checksums;
here both are errors. What the members mean is ``labctl.images.ufs.tree``'s affair.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from labctl.errors import UnavailableError

Progress = Callable[[float | None, str], None]
"""Called with the fraction done (0..1; None: unknown) and a detail."""

_CHUNK = 1 << 20
_REPORT_EVERY = 200  # members

_DAMAGE = (
    EOFError,
    OverflowError,
    RecursionError,  # headers of headers of headers
    ValueError,  # numbers and text of damaged headers
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zlib.error,
)

_EndMarker: type[Exception] = tarfile.EOFHeaderError  # type: ignore[attr-defined]

_EXTENSIONS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_LONGEST_HEADER = 1 << 20

Content = IO[bytes] | None
Visit = Callable[[tarfile.TarInfo, Content], None]


class _Header(tarfile.TarInfo):
    """A member whose header must be sound: only the end marker ends an archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        if header.type in _EXTENSIONS and header.size > _LONGEST_HEADER:
            # tarfile reads it into memory in one piece.
            raise tarfile.InvalidHeaderError(f"a header of {header.size} bytes")  # type: ignore[attr-defined]
        return header

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> _Header:
        try:
            return super().fromtarfile(archive)
        except _EndMarker:
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from None


class _Hashed(io.RawIOBase):
    """A file that is read once, from beginning to end, and hashed on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._sha256 = hashlib.sha256()

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what comes next."""
        data = self._file.read(len(buffer))
        self._sha256.update(data)
        buffer[: len(data)] = data
        return len(data)

    def digest(self) -> str:
        """``sha256:hex`` of the whole file."""
        while self.read(_CHUNK):  # what may lie behind the archive's end
            pass
        return f"sha256:{self._sha256.hexdigest()}"


def visit_members(archive: Path, visit: Visit, progress: Progress | None = None) -> str:
    """Call ``visit`` with every member, in order, and the content of those that are files.

    Names are text as ``os.fsdecode`` makes it for UTF-8: any bytes come through.

    Returns:
        ``sha256:hex`` of the bytes that were read, all of the file.

    Raises:
        UnavailableError: the archive is damaged, or cannot be read.
    """
    size = max(archive.stat().st_size, 1) if archive.exists() else 1
    with _damage_named(archive), archive.open("rb") as raw:
        hashed = _Hashed(raw)
        stream = _decompressed(io.BufferedReader(hashed, _CHUNK))
        with tarfile.open(
            fileobj=stream, mode="r|", tarinfo=_Header, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            for number, member in enumerate(tar):
                visit(member, tar.extractfile(member) if member.isreg() else None)
                if progress and number % _REPORT_EVERY == 0:
                    progress(raw.tell() / size, "")
        while stream.read(_CHUNK):  # to the end, where the checksum is
            pass
        digest = hashed.digest()
    if progress:
        progress(1.0, "")
    return digest


def _decompressed(raw: io.BufferedReader) -> IO[bytes]:
    magic = raw.peek(6)[:6]
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if magic == b"\xfd7zXZ\0":
        return cast(IO[bytes], lzma.LZMAFile(raw))
    if magic.startswith(b"BZh"):
        return cast(IO[bytes], bz2.BZ2File(raw))
    return raw


@contextmanager
def _damage_named(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise UnavailableError(
            "this archive is damaged, or is none",
            where=str(archive),
            hint="fetch it again and compare its checksum",
            detail=str(error),
        ) from None
    except OSError as error:
        # Reading and writing alike; the system's words name the file that is not the archive.
        raise UnavailableError(f"unpacking failed: {error}", where=str(archive)) from None
