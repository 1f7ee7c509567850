"""From release sets to a UFS1 file system, and the places in it that are filled in later.

- ``tree``     what the file system is to hold, unpacked from archives and changed
- ``ffs``      the image made of it by makefs
- ``slots``    files of fixed size whose content each guest gets in its own overlay

Nothing here knows a system, a partition table or a boot block.
"""

from labctl.images.ufs.ffs import make_ffs
from labctl.images.ufs.slots import SLOT_BYTES, Slot, SlotMovedError, find, placeholder, plant
from labctl.images.ufs.tree import Entry, Tree

__all__ = [
    "SLOT_BYTES",
    "Entry",
    "Slot",
    "SlotMovedError",
    "Tree",
    "find",
    "make_ffs",
    "placeholder",
    "plant",
]
