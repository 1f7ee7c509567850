"""Guests: a ``vm`` target from its image to an SSH server that answers.

Joins images (what is booted), hypervisor (the domain) and targets (SSH). Everything a
later command needs to know of a guest stands in its directory, ``guest.json``.
"""

from labctl.guests.hardware import GuestPlan, resolve
from labctl.guests.manage import (
    describe,
    listens,
    look,
    make_target,
    ports_of,
    remove,
    side_by_side,
    stop,
)
from labctl.guests.ready import HeldError, check_runs, wait_ready
from labctl.guests.record import CONSOLE, GuestRecord, directory, ssh_words, using
from labctl.guests.start import DiffersError, Started, start, start_without_kvm

__all__ = [
    "CONSOLE",
    "DiffersError",
    "GuestPlan",
    "GuestRecord",
    "HeldError",
    "Started",
    "check_runs",
    "describe",
    "directory",
    "listens",
    "look",
    "make_target",
    "ports_of",
    "remove",
    "resolve",
    "side_by_side",
    "ssh_words",
    "start",
    "start_without_kvm",
    "stop",
    "using",
    "wait_ready",
]
