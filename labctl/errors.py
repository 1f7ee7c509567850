"""The one family of errors that the core raises.

An error says what is wrong (``message``), where (``where``: file and line, a
target, a URL) and what to do (``hint``). The core neither prints nor exits;
``labctl.cli`` turns an error into words and its exit code.
"""

from __future__ import annotations


class LabctlError(Exception):
    """Base of all errors meant for the user. ``detail`` holds longer evidence
    (a compiler's output, a console's tail), shown below the message."""

    exit_code = 1

    def __init__(self, message: str, *, where: str = "", hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class MeasurementError(LabctlError):
    """A benchmark failed or a result is not to be trusted (exit code 1)."""

    exit_code = 1


class ConfigError(LabctlError):
    """The lab file, an option or another input is wrong (exit code 2)."""

    exit_code = 2


class UnavailableError(LabctlError):
    """A machine, hypervisor, tool or download is not there (exit code 3)."""

    exit_code = 3


class PartialError(LabctlError):
    """Some of the work was done and kept; the rest can be resumed (exit code 4)."""

    exit_code = 4


class InterruptedByUser(LabctlError):
    """Stopped by Ctrl-C or SIGTERM; what was done is kept (exit code 130)."""

    exit_code = 130
