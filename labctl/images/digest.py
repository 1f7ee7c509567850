"""A digest of a file's content that passes over holes, for disks of gigabytes of nothing.

Equal content gives an equal digest, however it is stored: blocks of zeros do not count,
whether they are holes or written out.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

BLOCK = 1 << 20


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
