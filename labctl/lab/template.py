"""The lab file that ``labctl init`` writes: commented, valid, ready to bring up."""

from __future__ import annotations

from pathlib import Path

from labctl.errors import ConfigError
from labctl.paths import write_atomic

TEMPLATE = """\
# What labctl brings up and measures. `labctl doctor` checks it, `labctl up` makes it so.
lab: contention

# What a vm has where it does not say otherwise.
defaults:
  vcpus: 2
  memory: 1GiB        # MiB, GiB
  accel: auto         # auto: KVM where it proves to work, else TCG; or kvm, tcg
  init: minimal       # minimal: up in seconds, nothing else runs; or systemd

# auto: qemu:///system, qemu:///session, else libvirt's embedded driver (no daemon).
# Any libvirt URI will do.
hypervisors:
  local: {uri: auto}

targets:
  # This machine; nothing is installed, no SSH server is needed.
  metal: {kind: local}

  # A guest. `labctl image ls` lists the images.
  linux: {kind: vm, image: debian-12}

  # Any machine that exists. Its host key must be in known_hosts; only workdir is written.
  # box:
  #   kind: ssh
  #   host: 192.0.2.7
  #   user: lab
  #   identity: ~/.ssh/lab
  #   workdir: /var/tmp/labctl
  #   reboot: false     # true lets `labctl sweep --boots N` reboot it

# Which two are compared: the same work in a guest and on metal.
pairs:
  - {guest: linux, metal: metal}
"""


def write_lab_file(path: Path, *, force: bool = False) -> None:
    """Write the template to ``path``.

    Raises:
        ConfigError: a file is there already and ``force`` is not given, or the directory
            cannot be written.
    """
    if path.exists() and not force:
        raise ConfigError("there is a file already", where=str(path), hint="--force replaces it")
    try:
        write_atomic(path, TEMPLATE)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", where=str(path)) from None
