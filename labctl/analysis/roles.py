"""What a machine may be called, from its facts alone.

Calling a guest "bare metal" would answer the lab's question wrongly, so nothing is
assumed: without a fact that says so, a host is not bare metal, and a guest's accelerator
is the one that QEMU reported, never the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

FUNCTIONAL = "functional: shapes and switches mean something, times do not"
IMPORTED = "one number a cell, as its file has it: no interval, and no verdict can rest on it"
SIMULATED = "simulated: drawn from a model, nothing was measured"


@dataclass(frozen=True)
class Role:
    """What a target is as far as its facts establish it.

    Attributes:
        text: in words: "bare metal", "guest, TCG", "host (itself a guest of kvm)".
        guest: a guest of the lab's own.
        virtual: whether there is a hypervisor below it; None where that is not known.
        accelerator: of a guest: "kvm", "tcg", "mixed", "unknown" or another's name; else "".
        functional: its times mean nothing (emulation), only shapes and switches an operation.
        simulated: its samples were drawn from a model.
        imported: its numbers were made elsewhere, one a cell.
        note: what is to be said against it.
    """

    text: str
    guest: bool
    virtual: bool | None
    accelerator: str = ""
    functional: bool = False
    simulated: bool = False
    imported: bool = False
    note: str = ""


def role_of(kind: str, facts: Mapping[str, tuple[str, ...]]) -> Role:
    """Name a target's role.

    Args:
        kind: "vm", "local", "ssh", "sim" or "imported"; "" where the journal does not say.
        facts: each fact's distinct values over all boots, as text.
    """
    accelerators = {value.lower() for value in facts.get("accelerator", ())}
    hypervisors = {value.lower() for value in facts.get("hypervisor", ())}
    if kind == "imported":
        text = "imported, not measured by labctl"
        return Role(text, False, None, imported=True, note=IMPORTED)
    if kind == "sim":
        below = accelerators or hypervisors - {"none"}
        role = _guest(below) if below else _host(hypervisors)
        return replace(role, text=f"simulated {role.text}", simulated=True, note=SIMULATED)
    if kind == "vm" or (not kind and accelerators):
        return _guest(accelerators)
    return _host(hypervisors)


def _guest(accelerators: set[str]) -> Role:
    functional = "tcg" in accelerators
    if accelerators in ({"kvm"}, {"tcg"}):
        (name,) = accelerators
        text, note = f"guest, {name.upper()}", ""
    elif accelerators <= {"kvm", "tcg"} and accelerators:
        name, text = "mixed", "guest, KVM and TCG mixed"
        note = "its boots ran under different accelerators"
    elif accelerators:
        name = " and ".join(sorted(accelerators))
        text, note = f"guest, accelerator {name}", ""
    else:
        name, text = "unknown", "guest, accelerator unknown"
        note = "QEMU's accelerator was not recorded; if it was TCG, times mean nothing"
    return Role(text, True, True, name, functional, note=note)


def _host(hypervisors: set[str]) -> Role:
    """``hypervisors`` as observe.virtualization names them: "none", a name, or "unknown"
    (there is one, but it is not named)."""
    below = sorted(hypervisors - {"none"})
    if below:
        names = ["an unknown hypervisor" if one == "unknown" else one for one in below]
        note = "a baseline that is itself a guest is not bare metal"
        if "qemu" in below:
            note += "; if QEMU emulates it (TCG), its times mean nothing"
        text = f"host (itself a guest of {' and '.join(names)})"
        return Role(text, False, True, functional="tcg" in below, note=note)
    if hypervisors:
        return Role("bare metal", False, False)
    note = "its facts do not say whether there is a hypervisor below it"
    return Role("host (not known to be bare metal)", False, None, note=note)
