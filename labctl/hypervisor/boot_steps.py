"""What a line of a serial console means: how far a boot has come, or why it ends there.

Pure: one line in, one event or none out. Reading the console is ``console``. The texts are
those that SeaBIOS, the boot blocks, kernels and start-up scripts of Linux, FreeBSD and
NetBSD print.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["progress", "ready", "failure"]

NOTHING = "nothing"
STEPS = (NOTHING, "firmware", "loader", "kernel", "root", "init", "rc", "sshd", "login", "ready")
"""The steps of a boot in their order; not every system tells of each."""


@dataclass(frozen=True)
class Event:
    """Something that the console said.

    Attributes:
        name: which step or failure ("kernel", "login", "panic" ...).
        kind: "progress", "ready" (SSH is worth an attempt) or "failure" (it will not come up).
        line: the line that said so.
    """

    name: str
    kind: Kind
    line: str

    @property
    def fatal(self) -> bool:
        """Whether the guest will not come up."""
        return self.kind == "failure"

    @property
    def text(self) -> str:
        """For people: ``panic: Kernel panic - not syncing: ...``."""
        return f"{self.name}: {self.line}"


# Searched in each line, first match wins. Failures come first, as a panic's text may mention
# anything.
_FAILURES: tuple[tuple[str, str], ...] = (
    # Linux, its initramfs, systemd.
    ("no root device", r"Unable to mount root fs|Cannot open root device"),
    ("no root device", r"ALERT!.*does not exist|Gave up waiting for root"),
    ("initramfs shell", r"^\(initramfs\)"),
    ("emergency shell", r"(?i)emergency mode|emergency\.target|Give root password"),
    # Kernels of all three. FreeBSD waits 15 s after a panic and resets, so the word counts.
    ("panic", r"Kernel panic - not syncing|^\W*panic(?:\(cpu \d+\))?: |^(?:db|ddb)(?:\{\d+\})?>"),
    ("panic", r"^Fatal (?:trap \d+|double fault)|^fatal .* in supervisor mode|^Stopped in pid"),
    ("panic", r"^Automatic reboot in \d+ seconds"),
    # FreeBSD's and NetBSD's kernels ask, and wait for ever.
    ("no root device", r"^\s*mountroot>|^Mounting from \S+ failed"),
    ("no root device", r"cannot mount root|^root device(?: \([^)]*\))?:"),
    # init and rc of the BSDs.
    ("not configured", r"rc\.conf is not configured|rc_configured is not set|Multiuser boot abort"),
    ("single user", r"Enter (?:full )?pathname of shell"),
    ("file system check", r"\? \[yn\] ?$|Automatic file system check failed"),
    ("start-up aborted", r"ABORTING BOOT|^Unknown error \d+; help!"),
    # Boot blocks and loaders.
    (
        "no boot loader",
        r"gptboot: (?:No |no UFS|unable to load)|No /boot/loader|Missing boot loader",
    ),
    ("no boot loader", r"Boot loader too large|Can't open /boot|^BTX halted|^boot: ?$"),
    ("no kernel", r"[Cc]an't (?:load|find) 'kernel'|Unable to load a kernel|no bootable kernel"),
    ("no kernel", r"^(?:boot|open) \S*netbsd\S*: |^(?:boot|open): \S*netbsd\S*: "),
    # Firmware and the first sector.
    (
        "no bootable disk",
        r"(?i)No bootable (?:device|partition)|^Boot failed: |No active partition",
    ),
    ("no bootable disk", r"Missing operating system|Error loading operating system"),
    ("halted", r"^The operating system has halted|^Please press any key to reboot"),
    ("proof failed", r"^labctl proof: FAILED"),
)
_PROGRESS: tuple[tuple[str, Kind, str], ...] = (
    ("ready", "ready", r"labctl: ready|^labctl proof: complete"),
    ("login", "ready", r"\blogin: ?$"),
    ("sshd", "ready", r"^Starting sshd\."),
    ("reboot", "progress", r"reboot: Restarting system|^[Rr]ebooting\.\.\."),
    (
        "power off",
        "progress",
        r"reboot: Power down|acpi0?: .*power.*off|^labctl proof: power button",
    ),
    ("firmware", "progress", r"SeaBIOS \(|^iPXE |Booting from (?:ROM|Hard Disk)"),
    ("loader", "progress", r"bootstrap loader|^Default: .*/boot/loader|^BTX loader|^Consoles: "),
    ("loader", "progress", r"NetBSD/x86 .*(?:Boot|Bootstrap)|^labctl proof: real"),
    ("loader", "progress", r"^Booting \[|^booting \S+ - starting in"),
    ("kernel", "progress", r"Linux version \d|^Copyright \(c\) (?:19|20)\d\d"),
    ("kernel", "progress", r"^(?:FreeBSD|NetBSD) \d+\.\d+\S* (?:\(|#)"),
    ("root", "progress", r"^Trying to mount root from|^root on \S+|mounted filesystem"),
    ("init", "progress", r"Run /\S*init\S* as init|Welcome to "),
    # With fsck -y what follows is the repair; where nobody answers, the question is the failure.
    ("fsck", "progress", r"UNEXPECTED INCONSISTENCY|^File system preen failed, trying fsck -y"),
    ("rc", "progress", r"^Starting (?:root )?file ?systems? checks?|^Setting hostuuid"),
    ("rc", "progress", r"^Loading configuration files|^Entropy harvesting|^Setting hostname"),
    (
        "rc",
        "progress",
        r"^Mounting (?:local|all) file ?systems|^Starting network|^Building databases",
    ),
    ("sshd", "progress", r"Starting sshd|Started ssh|OpenBSD Secure Shell"),
)
_TABLE: tuple[tuple[str, Kind, re.Pattern[str]], ...] = (
    *((name, "failure", re.compile(pattern)) for name, pattern in _FAILURES),
    *((name, kind, re.compile(pattern)) for name, kind, pattern in _PROGRESS),
)
_AGAIN = re.compile(r"Linux version \d|^Copyright \(c\) 19\d\d")

_LOOKED_AT = 500  # characters: some patterns take the cube of a line's length


def match(line: str) -> Event | None:
    """What a cleaned line tells, if anything; of a long one its beginning and end are looked at."""
    if len(line) > 2 * _LOOKED_AT:
        line = f"{line[:_LOOKED_AT]} {line[-_LOOKED_AT:]}"
    for name, kind, pattern in _TABLE:
        if pattern.search(line):
            return Event(name, kind, line.strip())
    return None


def begins_anew(event: Event, reached: str) -> bool:
    """Whether ``event`` is of the beginning of a boot, after one that had come to ``reached``.

    A kernel that resets the machine without a word shows in nothing else.
    """
    if reached not in STEPS:
        return False
    before = STEPS.index(reached)
    if event.name in ("firmware", "loader"):
        return before >= STEPS.index("kernel")
    return before > STEPS.index("kernel") and _AGAIN.search(event.line) is not None
