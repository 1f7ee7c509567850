"""What a machine may be called, from its facts alone.

Calling a guest "bare metal" would answer the lab's question wrongly, so nothing is
assumed: without a fact that says so, a host is not bare metal, and a guest's accelerator
is the one that QEMU reported, never the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from labctl.report.model import TargetView

FUNCTIONAL = "functional: shapes and switches mean something, times do not"


def label_target(
    name: str, kind: str, facts: Mapping[str, tuple[str, ...]], system: str = ""
) -> TargetView:
    """Name a target's role.

    Args:
        kind: "vm", "local", "ssh" or "sim"; "" where the journal does not say.
        facts: each fact's distinct values over all boots, as text.
    """
    if kind == "sim":
        return _simulated(name, {value.lower() for value in facts.get("hypervisor", ())})
    accelerators = {value.lower() for value in facts.get("accelerator", ())}
    if kind == "vm" or (not kind and accelerators):
        return _guest(name, kind, accelerators)
    return _host(name, kind, {value.lower() for value in facts.get("hypervisor", ())})


def _simulated(name: str, hypervisors: set[str]) -> TargetView:
    """Whatever else it says of itself: its times were drawn, nothing was measured."""
    guest = bool(hypervisors - {"none"})
    return TargetView(
        name=name,
        kind="sim",
        role="simulated guest" if guest else "simulated",
        guest=guest,
        functional=False,
        note="its times were drawn from the model in the lab file; nothing was measured",
    )


def _guest(name: str, kind: str, accelerators: set[str]) -> TargetView:
    note = ""
    functional = "tcg" in accelerators
    if accelerators in ({"kvm"}, {"tcg"}):
        role = f"guest, {accelerators.pop().upper()}"
    elif accelerators <= {"kvm", "tcg"} and accelerators:
        role = "guest, KVM and TCG mixed"
        note = "its boots ran under different accelerators"
    elif accelerators:
        role = f"guest, accelerator {' and '.join(sorted(accelerators))}"
    else:
        role = "guest, accelerator unknown"
        note = "QEMU's accelerator was not recorded; if it was TCG, times mean nothing"
    return TargetView(name=name, kind=kind, role=role, guest=True, functional=functional, note=note)


def _host(name: str, kind: str, hypervisors: set[str]) -> TargetView:
    """``hypervisors`` as observe.virtualization names them: "none", a name, or "unknown"
    (there is one, but it is not named)."""
    below = sorted(hypervisors - {"none"})
    note = ""
    if below:
        names = ["an unknown hypervisor" if one == "unknown" else one for one in below]
        role = f"host (itself a guest of {' and '.join(names)})"
        note = "a baseline that is itself a guest is not bare metal"
        if "qemu" in below:
            note += "; if QEMU emulates it (TCG), its times mean nothing"
    elif hypervisors:
        role = "bare metal"
    else:
        role = "host (not known to be bare metal)"
        note = "its facts do not say whether there is a hypervisor below it"
    functional = "tcg" in below
    return TargetView(
        name=name, kind=kind, role=role, guest=False, functional=functional, note=note
    )
