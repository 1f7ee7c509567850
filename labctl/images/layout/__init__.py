"""Byte layouts of bootable disks: partition tables, labels and boot blocks around a root.

``make_gpt_disk`` is what FreeBSD boots from, ``make_mbr_disk`` what NetBSD boots from.
Nothing here knows release sets or guests: boot blocks come in as bytes, the root as an
image of a UFS1 file system, and a disk comes out. The same input gives the same bytes.
"""

from labctl.images.layout.gpt import make_gpt_disk
from labctl.images.layout.mbr import BootParameters, make_mbr_disk
from labctl.images.layout.parts import Layout, Partition

__all__ = ["BootParameters", "Layout", "Partition", "make_gpt_disk", "make_mbr_disk"]
