"""One guest under libvirt: start, ask, stop.

Domains are persistent (``virsh list --all`` shows them when they are off) but hold
nothing of their own: a stopped one is defined anew from its spec at each start. A
guest goes on when labctl ends, and the next labctl finds it.

What a guest is made of is ``spec``; functions whose names begin with ``_`` run where
the connection lives (``Connection.call``), and take and return plain values.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

from labctl import paths
from labctl.errors import LabctlError, UnavailableError
from labctl.hypervisor import libvirt_api
from labctl.hypervisor import spec as specs
from labctl.hypervisor.connection import Connection
from labctl.hypervisor.spec import DomainSpec, render

__all__ = [
    "DomainDiffersError",
    "DomainSpec",
    "PortTakenError",
    "destroy",
    "domstats",
    "ensure_running",
    "list_domains",
    "qemu_pid",
    "qemu_version",
    "query_accelerator",
    "render",
    "shutdown",
    "spec_of",
    "state",
    "undefine",
    "vcpu_threads",
]

_ACPI_AGAIN = 10.0  # seconds after which the power button is pressed again


class DomainDiffersError(LabctlError):
    """A domain of this name runs, but is not what the spec says (exit code 3)."""

    exit_code = UnavailableError.exit_code


class PortTakenError(UnavailableError):
    """QEMU could not bind the SSH port: claim another one and try again."""


def ensure_running(conn: Connection, spec: DomainSpec, *, replace: bool = False) -> bool:
    """Have the guest run as ``spec`` says.

    Args:
        replace: stop and start anew a guest that runs with another spec.

    Returns:
        True if it was started, False if it was already running.

    Raises:
        DomainDiffersError: it runs with another spec (``detail``: what differs), or
            a domain of this name is not labctl's.
        PortTakenError: somebody listens on ``spec.ssh_port``.
        UnavailableError: libvirt or QEMU refused, or a TCG guest's vCPUs take turns
            on one thread (no contention could be measured; it is stopped again).
    """
    if conn.uri.startswith(("qemu:///system", "qemu+unix:///system")) and not spec.run_as:
        # The daemon's default user cannot read disks in a private state directory.
        spec = dataclasses.replace(spec, run_as=f"+{os.getuid()}:+{os.getgid()}")
    xml = render(spec)
    found = state(conn, spec.name)
    if found != "absent":
        _check_ours(conn, spec.name)
    if found not in ("absent", "shutoff"):
        wrong = _what_differs(conn, spec, found)
        if not wrong:
            return False
        if not replace:
            raise DomainDiffersError(
                "the guest runs, but not as the lab file says",
                where=spec.name,
                hint="stop it (labctl down) and bring it up again",
                detail="\n".join(wrong),
            )
        destroy(conn, spec.name)
    _make_log(spec.console_log)
    try:
        conn.call(_define_and_start, xml, timeout=180)
    except UnavailableError as error:
        raise _start_error(error, spec) from None
    _require_threads(conn, spec)
    return True


def _check_ours(conn: Connection, name: str) -> None:
    if spec_of(conn, name) is None:
        raise DomainDiffersError(
            "a domain of this name exists that this labctl did not make",
            where=name,
            hint=f"rename the target, or remove it: virsh -c {conn.shown} undefine {name}",
        )


def _what_differs(conn: Connection, spec: DomainSpec, found: str) -> list[str]:
    running = spec_of(conn, spec.name)
    assert running is not None
    wrong = specs.differences(running, spec)
    return wrong if found == "running" else [f"it is {found}", *wrong]


def _make_log(log: Path) -> None:
    """Make the file ourselves: a daemon would make it as root's, unreadable to the user."""
    paths.private_dir(log.parent)
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))


def _start_error(error: UnavailableError, spec: DomainSpec) -> UnavailableError:
    if "Could not set up host forwarding rule" in error.message:
        return PortTakenError(
            f"port {spec.ssh_port} of 127.0.0.1 is taken", where=spec.name, detail=error.message
        )
    kind = type(error)
    hint = error.hint
    if "Permission denied" in error.message:
        hint = f"QEMU cannot read {spec.disk} or what lies beside it; use uri: qemu:///session"
    return kind(error.message, where=spec.name, hint=hint, detail=error.detail)


def _require_threads(conn: Connection, spec: DomainSpec) -> None:
    if spec.vcpus < 2 or vcpu_threads(conn, spec.name) == spec.vcpus:
        return
    destroy(conn, spec.name)
    raise UnavailableError(
        "its vCPUs share one host thread, so nothing in it runs at the same time",
        where=spec.name,
        hint="this QEMU has no multi-threaded TCG for the guest: use KVM or one vCPU",
    )


def _define_and_start(raw: Any, xml: str) -> None:
    domain = raw.defineXML(xml)
    try:
        domain.create()
    except libvirt_api.libvirt.libvirtError:
        if not domain.isActive():  # leave nothing behind that never ran
            domain.undefine()
        raise


def state(conn: Connection, name: str) -> str:
    """ "running", "paused", "shutting down", "shutoff", "crashed", "suspended" or "absent"."""
    return str(conn.call(_state, name))


def messages(conn: Connection, name: str, lines: int = 12) -> str:
    """The last lines of QEMU's own log of a domain; "" where it is not on this machine."""
    log = conn.qemu_log(name)
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log else ""
    except OSError:
        return ""


def _state(raw: Any, name: str) -> str:
    domain = _find(raw, name)
    return "absent" if domain is None else _state_name(domain)


def _state_name(domain: Any) -> str:
    lv = libvirt_api.libvirt
    return {
        lv.VIR_DOMAIN_RUNNING: "running",
        lv.VIR_DOMAIN_BLOCKED: "running",
        lv.VIR_DOMAIN_PAUSED: "paused",
        lv.VIR_DOMAIN_SHUTDOWN: "shutting down",
        lv.VIR_DOMAIN_SHUTOFF: "shutoff",
        lv.VIR_DOMAIN_CRASHED: "crashed",
        lv.VIR_DOMAIN_PMSUSPENDED: "suspended",
    }.get(domain.state()[0], "unknown")


def _find(raw: Any, name: str) -> Any:
    """The virDomain, or None."""
    try:
        return raw.lookupByName(name)
    except libvirt_api.libvirt.libvirtError as error:
        if libvirt_api.is_missing(error):
            return None
        raise


def list_domains(conn: Connection, prefix: str = "") -> dict[str, str]:
    """State of each domain whose name begins with ``prefix``, running or not, by name."""
    found: dict[str, str] = conn.call(_list_domains, prefix)
    return found


def _list_domains(raw: Any, prefix: str) -> dict[str, str]:
    domains = sorted(raw.listAllDomains(), key=lambda domain: str(domain.name()))
    return {d.name(): _state_name(d) for d in domains if d.name().startswith(prefix)}


def spec_of(conn: Connection, name: str) -> DomainSpec | None:
    """The spec that a domain was made from; None if absent or not labctl's."""
    xml = conn.call(_xml, name)
    return specs.parse(xml) if xml else None


def _xml(raw: Any, name: str) -> str:
    domain = _find(raw, name)
    return "" if domain is None else str(domain.XMLDesc())


def shutdown(
    conn: Connection, name: str, timeout: float = 60.0, *, press_after: float = 0.0
) -> bool:
    """Press the ACPI power button and wait.

    Args:
        press_after: seconds to leave a guest in peace that was told otherwise to shut down:
            some kernels, pressed meanwhile, drop everything and go off.

    Returns:
        True if the guest is off (or was), False if it still runs after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    press = time.monotonic() + press_after if press_after else 0.0
    while state(conn, name) not in ("shutoff", "absent"):
        now = time.monotonic()
        if now > deadline:
            return False
        if now >= press:  # a guest that was still booting did not see the first
            conn.call(_press_power_button, name)
            press = now + _ACPI_AGAIN
        time.sleep(0.2)
    return True


def _press_power_button(raw: Any, name: str) -> None:
    domain = _find(raw, name)
    try:
        if domain is not None:
            domain.shutdown()
    except libvirt_api.libvirt.libvirtError:
        if _state(raw, name) == "running":  # it went off by itself meanwhile
            raise


def destroy(conn: Connection, name: str) -> None:
    """Pull the plug. Nothing happens if the domain is off or absent."""
    conn.call(_destroy, name)


def _destroy(raw: Any, name: str) -> None:
    domain = _find(raw, name)
    if domain is None or not domain.isActive():
        return
    try:
        domain.destroy()
    except libvirt_api.libvirt.libvirtError:
        # libvirt may say "domain not found" of one that it did destroy.
        if _state(raw, name) not in ("absent", "shutoff"):
            raise


def undefine(conn: Connection, name: str) -> None:
    """Forget a domain that is off. Nothing happens if it is absent."""
    conn.call(_undefine, name)


def _undefine(raw: Any, name: str) -> None:
    domain = _find(raw, name)
    if domain is None:
        return
    try:
        domain.undefine()
    except libvirt_api.libvirt.libvirtError:
        if _find(raw, name) is not None:
            raise


def query_accelerator(conn: Connection, name: str) -> str:
    """ "kvm" or "tcg", as QEMU itself says (not as the domain's XML says)."""
    return "kvm" if _monitor(conn, name, "query-kvm")["enabled"] else "tcg"


def qemu_version(conn: Connection, name: str) -> str:
    """Version of the QEMU that runs the guest, such as "7.2.22"."""
    version = _monitor(conn, name, "query-version")["qemu"]
    return f"{version['major']}.{version['minor']}.{version['micro']}"


def vcpu_threads(conn: Connection, name: str) -> int:
    """How many host threads run the vCPUs: less than the vCPUs means that they take turns."""
    return len({cpu["thread-id"] for cpu in _monitor(conn, name, "query-cpus-fast")})


def qemu_pid(conn: Connection, name: str) -> int:
    """Process id of the guest's QEMU on this host.

    Raises:
        UnavailableError: the guest does not run, or runs on another host.
    """
    thread = _monitor(conn, name, "query-cpus-fast")[0]["thread-id"]
    try:
        status = Path(f"/proc/{thread}/status").read_text()
    except OSError:
        raise UnavailableError("its QEMU is not on this host", where=name) from None
    return next(int(s.split()[1]) for s in status.splitlines() if s.startswith("Tgid:"))


def _monitor(conn: Connection, name: str, command: str) -> Any:
    reply = json.loads(conn.call(_monitor_command, name, json.dumps({"execute": command})))
    if "return" not in reply:
        raise UnavailableError(f"QEMU refused {command}: {reply.get('error')}", where=name)
    return reply["return"]


def _monitor_command(raw: Any, name: str, command: str) -> str:
    return str(libvirt_api.libvirt_qemu.qemuMonitorCommand(raw.lookupByName(name), command, 0))


def domstats(conn: Connection, name: str) -> dict[str, int | str]:
    """What ``virsh domstats`` shows: vCPU times in ns, halt polling, block and balloon."""
    stats: dict[str, int | str] = conn.call(_domstats, name)
    return stats


def _domstats(raw: Any, name: str) -> dict[str, Any]:
    records = raw.domainListGetStats([raw.lookupByName(name)])
    return dict(records[0][1]) if records else {}
