"""What to measure instead, where the kernel and the virtualization changed at once.

Such a run answers neither question: its verdict opens with that, and with the two comparisons
that would answer one each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labctl.analysis.sides import Side
from labctl.analysis.verdicts import Comparison
from labctl.analysis.words import plain

_WITH_KVM = "on a host that has working KVM, because times under TCG mean nothing"
_KERNEL = ("system", "kernel", "kernel_version")


def opening(c: Comparison) -> str:
    """That both changed, as a sentence; "" where they did not, or where it is not known."""
    if not _both_changed(c):
        return ""
    other = "emulation (TCG)" if c.functional else "virtualization"
    return plain(
        f"This run cannot separate the kernel from the {other}, because both changed "
        f"between {c.pair.other} and {c.pair.one}."
    )


def instead(c: Comparison, lab: Mapping[str, Any]) -> list[str]:
    """What to measure instead, a sentence for each of the two questions.

    Args:
        lab: the lab file as the journal has it, for what it offers already.
    """
    if not _both_changed(c):
        return []
    found = [
        f"For the virtualization, {_one_kernel(c)}.",
        f"For the kernel, {_one_ground(c, lab)}.",
    ]
    return [plain(text) for text in found]


def _both_changed(c: Comparison) -> bool:
    """Whether the kernels are known to differ, and so is what they ran on."""
    keys = {x.key for x in c.confounders if x.bars == "all" and "unknown" not in (x.one, x.other)}
    if c.pair.subject == "virtualization":
        return not keys.isdisjoint(_KERNEL)
    return c.pair.subject == "kernel" and "ground" in keys


def _one_kernel(c: Comparison) -> str:
    """How to have one kernel on both sides, so that the virtualization alone changes."""
    guest, metal = (c.one, c.other) if c.one.role.guest else (c.other, c.one)
    if _may_have_another_kernel(guest) and guest.fact("system") == metal.fact("system"):
        text = (
            f"measure one kernel on both sides: that of {metal.name} in {guest.name} too "
            f"(`kernel: FILE` for {guest.name} in the lab file, a copy of {metal.name}'s), or that "
            f"of {guest.name} on {metal.name}"
        )
    else:
        runs = " ".join(filter(None, (guest.fact("system"), guest.fact("kernel"))))
        text = f"measure {guest.name} against a machine that itself runs {runs or 'its kernel'}"
        text += " (`kind: ssh`)" if guest.kind == "vm" else ""
    if guest.role.functional:
        text += f", {_WITH_KVM}"
    return text


def _one_ground(c: Comparison, lab: Mapping[str, Any]) -> str:
    """How to have two kernels on one ground, so that the kernel alone changes."""
    guest = c.one if c.one.role.guest else c.other
    if not _may_have_another_kernel(guest):
        return "measure two kernels on one and the same machine, or in two guests of one image"
    image = guest.fact("image")
    if twin := _twin(guest, lab):
        return (
            f"measure {guest.name} against {twin}, which boots another kernel with the same image: "
            f"`labctl sweep {c.one_curve.workload} --targets {guest.name},{twin}`"
        )
    kernel = "debian/bullseye" if image.startswith("debian") else "./bzImage"
    text = (
        f"measure {guest.name} against a second guest of its image with another kernel: "
        f"`older: {{kind: vm, image: {image}, kernel: {kernel}}}` in the lab file"
    )
    return f"{text}, {_WITH_KVM}" if guest.role.functional else text


def _may_have_another_kernel(guest: Side) -> bool:
    """Of the lab's own guests, Linux boots any kernel with its image."""
    return guest.kind == "vm" and guest.fact("system") == "linux" and bool(guest.fact("image"))


def _twin(guest: Side, lab: Mapping[str, Any]) -> str:
    """A guest of the lab with the same image and accelerator, and another kernel; "" if none."""
    targets = lab.get("targets")
    known = targets if isinstance(targets, Mapping) else {}
    own = known.get(guest.name)
    if not isinstance(own, Mapping):
        return ""
    same = ("kind", "image", "hypervisor", "accel")
    for name, spec in known.items():
        if not isinstance(spec, Mapping) or any(spec.get(key) != own.get(key) for key in same):
            continue
        if spec.get("kernel") != own.get("kernel"):
            return str(name)
    return ""
