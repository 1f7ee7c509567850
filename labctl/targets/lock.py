"""A run's claim on a target: two runs never measure on one machine at the same time.

The claim is the directory WORKDIR/lock, made by mkdir (atomic everywhere), with a file
``owner`` in it that says who holds it and which shells it opened. A claim whose holder is
gone is taken over, and what that holder left running is killed first: a workload that
survived its controller would spoil every number measured beside it.

All on the target is POSIX sh. No clocks are compared and nothing times out by age.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from labctl.errors import LabctlError, UnavailableError
from labctl.targets.base import CommandResult, Shell, Target

_BUSY, _CHANGED, _BROKEN = 10, 11, 12
_GRACE = 2.0  # seconds between mkdir and the owner file that a claimant may take

_CLAIM = r"""
mkdir -p "$workdir" || exit 1
if mkdir "$workdir/lock" 2>/dev/null; then
  cd "$workdir/lock" && printf '%s\n' "$owner" >owner.new && mv owner.new owner
  exit
fi
[ -d "$workdir/lock" ] || { mkdir "$workdir/lock"; exit 1; }
cat "$workdir/lock/owner" 2>/dev/null || exit 12
exit 10
"""

# Only one of several that found the same stale claim gets past mkdir, and it looks again.
_TAKE_OVER = r"""
cd "$workdir/lock" || exit 11
mkdir takeover || exit 11
if [ "$(cat owner 2>/dev/null)" != "$judged" ]; then rmdir takeover; exit 11; fi
printf '%s\n' "$owner" >owner.new && mv owner.new owner
status=$?
rmdir takeover
exit $status
"""

# Zombies count as gone: where init does not reap, they stay. Linux may lack ps, BSD lacks /proc.
_SHELL_FUNCTIONS = r"""
ours() { # PID TOKEN: is it still the shell that was recorded?
  if [ -r "/proc/$1/cmdline" ]; then args=$(tr '\0' ' ' <"/proc/$1/cmdline")
  else args=$(ps -ww -o args= -p "$1" 2>/dev/null)
  fi
  case $args in *"labctl-shell $2"*) return 0;; esac
  return 1
}
processes() { # prints "PID PGID STATE" of every process
  if [ -r /proc/self/stat ]; then
    for file in /proc/[0-9]*/stat; do
      { read -r line <"$file"; } 2>/dev/null || continue
      set -- ${line##*) }
      echo "${line%% *} $3 $1"
    done
  else
    ps -A -o pid= -o pgid= -o stat=
  fi
}
lives() { # COLUMN NUMBER: is there such a process (1: by pid, 2: by group)?
  processes | awk -v c="$1" -v n="$2" '$c == n && $3 !~ /^Z/ { found = 1 } END { exit !found }'
}
end() { # PID PGID TOKEN
  if ! ours "$1" "$3"; then
    # Without its shell a group is known for ours only if it bears the shell's pid, which
    # is not given away while the group lives.
    [ "$1" = "$2" ] || return 0
    if lives 1 "$1"; then return 0; fi
  fi
  kill -9 "-$2" 2>/dev/null || return 0
  for turn in 1 2 3 4 5 6 7 8 9 10; do
    lives 2 "$2" || return 0
    sleep 0.1 2>/dev/null || sleep 1
  done
  echo "process group $2 does not end" >&2
  return 1
}
"""


@dataclass(frozen=True)
class Owner:
    """Who holds a claim. ``text`` is the owner file, ``shells`` are (pid, pgid, token)."""

    text: str
    run: str
    host: str
    pid: int
    started: float
    boot: str
    since: str
    token: str
    shells: tuple[tuple[int, int, str], ...]

    @classmethod
    def parse(cls, text: str) -> Owner:
        """The owner file's content; what is missing or damaged is empty. After a power cut a
        file may be of NUL bytes; a shell drops them, so that they are no part of ``text``."""
        text = text.replace("\0", "")
        fields = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
        shells = re.findall(r"^shell=(\d+) (\d+) (\w+)$", text, re.MULTILINE)
        pid, started = fields.get("pid", ""), fields.get("started", "")
        return cls(
            text=text.rstrip("\n"),
            run=fields.get("run", ""),
            host=fields.get("host", ""),
            pid=int(pid) if pid.isdigit() else 0,
            started=float(started) if re.fullmatch(r"\d+\.?\d*", started) else 0.0,
            boot=fields.get("boot", ""),
            since=fields.get("since", ""),
            token=fields.get("token", ""),
            shells=tuple((int(pid), int(pgid), token) for pid, pgid, token in shells),
        )

    @property
    def controller_is_local(self) -> bool:
        """Whether the holder's labctl ran on this machine, in this boot of it."""
        return self.host == _this_host()

    @property
    def controller_lives(self) -> bool:
        """Whether the holder's labctl, on this machine, is running still."""
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) < 1.0
        except (psutil.Error, ValueError):
            return False


class BusyError(UnavailableError):
    """Somebody else is using the target: ``holder``."""

    def __init__(self, holder: Owner, target: Target) -> None:
        who = f"run {holder.run} (labctl on {holder.host}, process {holder.pid})"
        super().__init__(
            f"{who} has been using this target since {holder.since}",
            where=target.name,
            hint="wait for it, or stop that process; if it is gone for certain: "
            f"rm -r {shlex.quote(target.workdir)}/lock on the target",
        )
        self.holder = holder


class Lease:
    """A claim that is held. A context manager: leaving it releases the target."""

    def __init__(self, target: Target, run_id: str, token: str) -> None:
        self.run_id = run_id
        self._target = target
        self._token = token

    def cover(self, shell: Shell) -> None:
        """Record a shell, so that what it runs is killed if this process is.

        Raises:
            UnavailableError: the claim is not ours any more.
        """
        line = f"shell={shell.pid} {shell.pgid} {shell.token}"
        script = 'cd "$workdir/lock" && grep -qx "token=$token" owner && echo "$line" >>owner'
        result = _sh(self._target, script, token=self._token, line=line)
        if not result.ok:
            raise UnavailableError(
                "another run has taken over this target",
                where=self._target.name,
                hint="see that no two sweeps use it, then resume",
                detail=result.stderr.strip(),
            )

    def release(self) -> None:
        """Give the target back. Never raises: a claim left behind is taken over later."""
        # Renamed first: a lock directory without its owner would look like one being made.
        script = (
            'cd "$workdir" && grep -qx "token=$token" lock/owner && mv lock "lock.$token" '
            '&& rm -rf "lock.$token"'
        )
        try:
            _sh(self._target, script, token=self._token)
        except LabctlError:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def claim(target: Target, run_id: str) -> Lease:
    """Claim ``target`` for a run, and end what a dead holder of it left running.

    Raises:
        BusyError: another run, or another process of this one, holds it.
        UnavailableError: the work directory cannot be written.
    """
    boot = target.boot_id()
    token = secrets.token_hex(8)
    owner = _describe(run_id, boot, token)
    deadline = time.monotonic() + 10 * _GRACE
    broken_since: float | None = None
    while time.monotonic() < deadline:
        result = _sh(target, _CLAIM, owner=owner)
        if result.ok:
            return Lease(target, run_id, token)
        if result.status == _BROKEN:  # just being made, or its maker died at it
            broken_since = broken_since or time.monotonic()
            if time.monotonic() - broken_since < _GRACE:
                time.sleep(0.2)
                continue
        elif result.status != _BUSY:
            raise UnavailableError(
                f"the work directory {target.workdir} cannot be written",
                where=target.name,
                hint="name another with `workdir:` in the lab file, or make it writable",
                detail=result.stderr.strip(),
            )
        holder = Owner.parse(result.stdout)
        if result.status == _BUSY:
            _judge(target, holder, run_id, boot)
            if holder.boot == boot:
                _end(target, holder.shells)
        if _sh(target, _TAKE_OVER, owner=owner, judged=holder.text).ok:
            return Lease(target, run_id, token)
        time.sleep(0.1)
    raise UnavailableError(
        "the claim on this target changes hands all the time",
        where=target.name,
        hint=f"if nothing else uses it: rm -r {shlex.quote(target.workdir)}/lock on it",
    )


def _judge(target: Target, holder: Owner, run_id: str, boot: str) -> None:
    """Return if the holder is gone; raise if it is, or may be, at work."""
    if holder.boot != boot:
        return
    if holder.controller_is_local:
        ours = holder.pid == os.getpid() and holder.run == run_id
        if ours or not holder.controller_lives:
            return
    elif holder.run == run_id or (holder.shells and not _any_alive(target, holder.shells)):
        return
    raise BusyError(holder, target)


def _describe(run_id: str, boot: str, token: str) -> str:
    me = psutil.Process()
    fields = {
        "run": run_id,
        "host": _this_host(),
        "pid": me.pid,
        "started": f"{me.create_time():.2f}",
        "boot": boot,
        "since": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "token": token,
    }
    return "\n".join(f"{key}={value}" for key, value in fields.items())


def _this_host() -> str:
    # Many machines are called "localhost"; the boot identity tells them apart.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = f"{psutil.boot_time():.0f}"
    return f"{socket.gethostname()}/{boot[:8]}"


def _any_alive(target: Target, shells: Sequence[tuple[int, int, str]]) -> bool:
    checks = " || ".join(f"ours {pid} {token}" for pid, _, token in shells)
    return _sh(target, _SHELL_FUNCTIONS + checks).ok


def _end(target: Target, shells: Sequence[tuple[int, int, str]]) -> None:
    if not shells:
        return
    ends = "".join(f"end {pid} {pgid} {token} || failed=1\n" for pid, pgid, token in shells)
    result = _sh(target, f"{_SHELL_FUNCTIONS}failed=0\n{ends}exit $failed")
    if not result.ok:
        raise UnavailableError(
            "a process of an earlier run cannot be ended",
            where=target.name,
            hint="reboot the target",
            detail=result.stderr.strip(),
        )


def _sh(target: Target, script: str, **variables: str) -> CommandResult:
    given = {"workdir": target.workdir} | variables
    settings = "".join(f"{name}={shlex.quote(value)}\n" for name, value in given.items())
    return target.run(settings + script, timeout=60.0)
