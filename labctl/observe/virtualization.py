"""Is this machine a guest, and whose? A judgement over evidence; nothing is read here.

No evidence is not proof of bare metal: the answer is ``"none"`` only where the
machine could have said otherwise (an x86 CPU that shows its flags without the one
for hypervisors, or firmware of a maker of real machines), and None where it could not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Firmware and device-tree strings (lower case, anywhere in the text) -> hypervisor.
# "qemu" means a machine that QEMU makes; by which accelerator only the host can say.
_MAKERS: tuple[tuple[str, str], ...] = (
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("vmware", "vmware"),
    ("bhyve", "bhyve"),
    ("parallels", "parallels"),
    ("apple virtualization", "apple"),
    ("firecracker", "firecracker"),
    ("cloud hypervisor", "cloud-hypervisor"),
    ("acrn", "acrn"),
    ("xen", "xen"),
    ("hvm domu", "xen"),
    ("openstack", "kvm"),
    ("rhev", "kvm"),
    ("red hat", "kvm"),
    ("kubevirt", "kvm"),
    ("google compute engine", "kvm"),
    ("digitalocean", "kvm"),
    ("ahv", "kvm"),
    ("hetzner", "kvm"),
    ("alibaba cloud", "kvm"),
    ("linux,kvm", "kvm"),
    ("kvm", "kvm"),
    ("qemu", "qemu"),
    ("bochs", "qemu"),
    ("seabios", "qemu"),
    ("dummy-virt", "qemu"),
)
_ACPI_OEMS = {
    "FIRECK": "firecracker",
    "BOCHS": "qemu",
    "VBOX": "virtualbox",
    "VRTUAL": "microsoft",
    "BHYVE": "bhyve",
    "CLOUDH": "cloud-hypervisor",
    "Xen": "xen",
}
# kern.vm_guest of FreeBSD, machdep.hypervisor of NetBSD
_VM_GUESTS = {
    "hv": "microsoft",
    "hyper-v": "microsoft",
    "kvm": "kvm",
    "xen": "xen",
    "vmware": "vmware",
    "bhyve": "bhyve",
    "virtualbox": "virtualbox",
    "vbox": "virtualbox",
    "parallels": "parallels",
    "nvmm": "nvmm",
}
_FIRMWARE = (
    "product_name",
    "smbios_product",
    "sys_vendor",
    "smbios_maker",
    "board_vendor",
    "bios_vendor",
    "dt_hypervisor",
    "dt_compatible",
    "control_program",
)
_WHOLE_MACHINES = ("sys_vendor", "smbios_maker")


def hypervisor(
    evidence: Mapping[str, str],
    *,
    cpu_flags: str | None = None,
    cpu_model: str | None = None,
    clocksources: str | None = None,
) -> str | None:
    """Name of the hypervisor that this machine runs under.

    Args:
        evidence: what the firmware and kernel say, by the names that facts.sh gives.
        cpu_flags: the CPU's feature names, where the kernel shows them.
        cpu_model: the CPU's brand string.
        clocksources: names of the clocks that the kernel could use.

    Returns:
        A name; "unknown" (there is one, but it is not named); "none"; or None: it
        cannot be told.
    """
    flag = _hypervisor_flag(evidence, cpu_flags)
    named = (
        _from_kernel(evidence)
        or _from_firmware(evidence, flag)
        or _from_clocks(clocksources)
        or ("qemu" if "qemu" in (cpu_model or "").lower() else None)
    )
    if named == "qemu" and _from_clocks(clocksources) == "kvm":
        return "kvm"
    if named:
        return named
    if flag or evidence.get("vm_guest") not in (None, "none", "no"):
        return "unknown"
    metal_firmware = any(evidence.get(name, "").strip() for name in _WHOLE_MACHINES)
    # A BSD kernel's own "none" is no proof: FreeBSD 9 takes a stock QEMU for metal.
    return "none" if flag is False or metal_firmware else None


def _hypervisor_flag(evidence: Mapping[str, str], cpu_flags: str | None) -> bool | None:
    """CPUID's hypervisor bit; None where the kernel does not show it."""
    if cpu_flags is not None and re.search(r"\b(fpu|tsc)\b", cpu_flags):
        return "hypervisor" in cpu_flags.split()
    features = evidence.get("cpu_features", "")
    match = re.search(r"Features2=\w+<([^>]*)>", features)  # FreeBSD's boot messages
    return "HV" in match[1].split(",") if match else None


def _from_kernel(evidence: Mapping[str, str]) -> str | None:
    guest = evidence.get("vm_guest", "").strip().lower()
    if guest in _VM_GUESTS:
        return _VM_GUESTS[guest]
    if evidence.get("xen_type"):
        return "xen"
    return _ACPI_OEMS.get(evidence.get("acpi_oem", ""))


def _from_firmware(evidence: Mapping[str, str], flag: bool | None) -> str | None:
    texts = {name: evidence.get(name, "").lower() for name in _FIRMWARE}
    vendor = texts["sys_vendor"] or texts["smbios_maker"]
    product = texts["product_name"] or texts["smbios_product"]
    if vendor.startswith("microsoft") and product.startswith("virtual"):
        return "microsoft"
    if vendor.startswith("amazon ec2"):
        return None if flag is False or product.endswith(".metal") else "kvm"
    # QEMU's own name comes first: a product called "KVM" may well run under TCG.
    if vendor == "qemu":
        return "qemu"
    if flag is False:  # SeaBIOS also starts real machines
        texts.pop("bios_vendor")
    for text in texts.values():
        for needle, name in _MAKERS:
            if needle in text:
                return name
    return None


def _from_clocks(clocksources: str | None) -> str | None:
    """A clock that only a hypervisor offers."""
    clocks = (clocksources or "").split()
    if "kvm-clock" in clocks:
        return "kvm"
    if "xen" in clocks:
        return "xen"
    return "microsoft" if any(name.startswith("hyperv_clock") for name in clocks) else None
