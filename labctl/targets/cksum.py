"""The checksum that every POSIX system has a command for (``cksum``), to verify copies by.

It finds damage, not malice; sums of contents that matter for long are SHA-256.
"""

from __future__ import annotations

import zlib

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def posix_cksum(data: bytes) -> str:
    """What ``cksum < file`` prints: CRC and length.

    It is the CRC of POSIX (polynomial 0x04C11DB7, the length appended, complemented), which
    is zlib's with the bits of each byte, and of the result, in reverse order.

    >>> posix_cksum(b"123456789")
    '930766865 9'
    """
    length = len(data)
    tail = length.to_bytes((length.bit_length() + 7) // 8, "little")
    # POSIX begins with 0, which zlib, whose register is complemented, calls ~0.
    crc = zlib.crc32((data + tail).translate(_REVERSED), 0xFFFFFFFF)
    return f"{int(f'{crc:032b}'[::-1], 2)} {length}"
