"""Release sets: where a BSD release's archives come from, and how they are kept and trusted.

What is in the sets, and what becomes of it, is the builders' business.
"""

from labctl.images.sets.keep import SetFile
from labctl.images.sets.spec import SetsSpec
from labctl.images.sets.supply import Supply

__all__ = ["SetFile", "SetsSpec", "Supply"]
