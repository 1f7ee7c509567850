"""What a file that is kept has to be: its size, and a digest that passes over holes, for
disks of gigabytes of nothing.

Equal content gives an equal digest, however it is stored: blocks of zeros do not count,
whether they are holes or written out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

BLOCK = 1 << 20

FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
"""A bare name: what is recorded under it lies beside the record, and nowhere else."""


class FileRecord(BaseModel):
    """What a file was when it was made; ``digest`` is its ``content_digest``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    size: int = Field(ge=0)
    digest: str = Field(pattern=r"^blocks-sha256:[0-9a-f]{64}$")

    @classmethod
    def of(cls, path: Path) -> FileRecord:
        """Of a file that is here.

        Raises:
            OSError: it cannot be read.
        """
        return cls(size=path.stat().st_size, digest=content_digest(path))

    def has_size(self, path: Path) -> bool:
        """Whether ``path`` is a file of that size; its content is not looked at."""
        try:
            found = path.lstat()
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size == self.size

    def fits(self, path: Path) -> bool:
        """Whether ``path`` is still that file, byte by byte."""
        return self.has_size(path) and content_digest(path) == self.digest


def content_digest(path: Path, progress: Callable[[float], None] = lambda part: None) -> str:
    """``"blocks-sha256:" + hex`` of the size and of each block (1 MiB) that is not all zeros.

    Args:
        progress: called with the fraction done.

    Raises:
        OSError: it cannot be read.
    """
    zeros = bytes(BLOCK)
    total = hashlib.sha256()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        total.update(size.to_bytes(8, "little"))
        for offset in _data_blocks(file.fileno(), size):
            block = os.pread(file.fileno(), BLOCK, offset)
            if block != zeros[: len(block)]:
                total.update(offset.to_bytes(8, "little"))
                total.update(block)
            progress(offset / size)
    return f"blocks-sha256:{total.hexdigest()}"


def _data_blocks(descriptor: int, size: int) -> Iterator[int]:
    """Offsets of the blocks that hold data, in order."""
    offset = 0
    while offset < size:
        try:
            start = os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: a hole to the end
                raise
            return
        offset = start - start % BLOCK
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        while offset < end:
            yield offset
            offset += BLOCK
