"""The kernel of a guest: fetched where the lab file names one, compared, recorded."""

from __future__ import annotations

from collections.abc import Callable

from labctl.errors import ConfigError
from labctl.guests.hardware import GuestPlan
from labctl.guests.record import GuestRecord
from labctl.images.catalogue import Recipe
from labctl.images.digest import content_digest
from labctl.images.kernels import Kernel, KernelStore
from labctl.images.store import Image
from labctl.lab import Lab

_OWN = "the image's own"


def get(
    lab: Lab, name: str, recipe: Recipe, plan: GuestPlan, progress: Callable[..., None]
) -> Kernel | None:
    """The kernel that the lab file names for the guest ``name``; None: its image's own.

    Args:
        progress: called with what is done, the fraction done (None: unknown), and a detail.

    Raises:
        ConfigError: there is no such kernel; ``where`` is file and line.
        UnavailableError: it cannot be had.
    """
    asked = plan.kernel
    if asked is None:
        return None
    try:
        return KernelStore().get(
            recipe,
            asked,
            progress=lambda stage, part, text: progress(f"{stage} {asked.text}", part, text),
        )
    except ConfigError as error:
        error.where = lab.place("targets", name, "kernel")
        raise


def compared(record: GuestRecord, plan: GuestPlan) -> tuple[str, str]:
    """The kernel that a guest runs and the one that it is to have, in words."""
    has, want = record.kernel_spec or _OWN, plan.kernel.text if plan.kernel else _OWN
    image = plan.kernel.image if plan.kernel else None
    if has == want and image and image.is_file() and content_digest(image) != record.kernel_digest:
        return f"{has} as it was", f"{want} as it is now"
    return has, want


def recorded(image: Image, plan: GuestPlan, kernel: Kernel | None) -> dict[str, str]:
    """What a guest's record says of its kernel."""
    if kernel is None:
        return {
            "kernel_package": image.notes.get("kernel_package", ""),
            "kernel_digest": image.digests.get(image.kernel.name, "") if image.kernel else "",
        }
    return {
        "kernel_spec": plan.kernel.text if plan.kernel else "",
        "kernel_package": kernel.package,
        "kernel_key": kernel.key,
        "kernel_digest": kernel.digest,
    }
