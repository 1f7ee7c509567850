"""Namespaces where a libvirtd can touch nothing of the machine's, and Vagrant on our Vagrantfile."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LAB = """\
lab: contention
targets:
  metal: {kind: local}
  linux: {kind: vm, image: debian-12, accel: tcg, vcpus: 3}
  freebsd9: {kind: vm, image: freebsd-9.3, accel: tcg}
  netbsd6: {kind: vm, image: netbsd-6.1.5, accel: tcg}
"""

QEMU_CONF = """\
security_driver = "none"
user = "root"
group = "root"
cgroup_controllers = []
remember_owner = 0
namespaces = []
"""

# The mode "open" adds no firewall rules: libvirt would call iptables for the others, and in a
# network namespace without a way out there is nothing to filter. Vagrant reads this file of
# the user's before the project's.
USERS_VAGRANTFILE = """\
Vagrant.configure("2") do |config|
  config.vm.provider(:libvirt) { |libvirt| libvirt.management_network_mode = "open" }
end
"""

# $1: directory whose subdirectories stand in for libvirt's own.
_SETUP = """
set -eu
for place in run/libvirt etc/libvirt var/lib/libvirt var/cache/libvirt var/log/libvirt; do
    mkdir -p "/$place"
    mount --bind "$1/$place" "/$place"
done
ip link set lo up
echo ready
sleep infinity &
wait # and reap what daemons leave: libvirt waits until its QEMUs are gone
"""


class Namespace:
    """Mounts, network and processes apart; all that runs in it ends with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for place in ("run", "etc", "var/lib", "var/cache", "var/log"):
            (directory / place / "libvirt").mkdir(parents=True)
        (directory / "etc/libvirt/qemu.conf").write_text(QEMU_CONF)

    def __enter__(self) -> Namespace:
        unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc"]
        self._holder = subprocess.Popen(
            [*unshare, "--kill-child", "sh", "-c", _SETUP, "sh", str(self.directory)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self._pid = children.read_text().split()[0]
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()  # its child, the namespace's first process, goes with it
        self._holder.wait()

    def command(self, arguments: Sequence[str], directory: Path = ROOT) -> list[str]:
        enter = ["nsenter", "-t", self._pid, "--mount", "--net", "--pid"]
        return [*enter, f"--wd={directory}", *arguments]

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            self.command(arguments), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout


class Vagrant:
    """Runs ``vagrant`` on the project's Vagrantfile with a home of its own."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        home = directory / "vagrant"
        home.mkdir()
        (home / "Vagrantfile").write_text(USERS_VAGRANTFILE)
        self.namespace: Namespace | None = None
        self.directory = directory
        self.environment = {
            **os.environ,
            **environment,
            "VAGRANT_HOME": str(home),
            "VAGRANT_CWD": str(ROOT),
            "VAGRANT_DOTFILE_PATH": str(directory / "dot"),
            "VAGRANT_CHECKPOINT_DISABLE": "1",
            "VAGRANT_NO_COLOR": "1",
        }

    def command(self, *arguments: str) -> list[str]:
        command = ["vagrant", *arguments]
        return self.namespace.command(command, self.directory) if self.namespace else command

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a signal to its group reaches it inside the namespace
        )

    def __call__(self, *arguments: str, status: int = 0, timeout: float = 180) -> str:
        process = self.start(*arguments)
        try:
            out, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        assert process.returncode == status, f"vagrant {' '.join(arguments)}\n{out}"
        return out
