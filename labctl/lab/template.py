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
  init: minimal       # of Linux. minimal: up in seconds, nothing else runs; or systemd

# auto: qemu:///system, qemu:///session, else libvirt's embedded driver (no daemon).
# Any libvirt URI will do.
hypervisors:
  local: {uri: auto}

targets:
  # This machine; nothing is installed, no SSH server is needed.
  metal: {kind: local}

  # Guests. `labctl image ls` lists the images; the first `up` builds those that are named
  # here. Those of the BSDs need their release's archive, or `labctl image build --sets DIR`;
  # without them the others come up all the same.
  linux: {kind: vm, image: debian-12}
  freebsd9: {kind: vm, image: freebsd-9.3}
  netbsd6: {kind: vm, image: netbsd-6.1.5}

  # Another kernel on the same root file system: a Debian suite's, a version, or ./bzImage.
  # older: {kind: vm, image: debian-12, kernel: debian/bullseye}

  # All that a guest may have instead of its image's own; recorded with every run.
  # freebsd9-as-guest:
  #   kind: vm
  #   image: freebsd-9.3
  #   hardware:
  #     machine: pc              # or q35
  #     cpu: Westmere            # a CPU model of QEMU's, max, or (KVM) host-passthrough
  #     disk_bus: ide            # or sata, virtio
  #     nic: e1000               # or virtio-net-pci
  #     smbios_product: KVM      # FreeBSD 9 knows by it that it is a guest
  #     video: vga               # or none
  #   tunables: {kern.hz: 100}                          # FreeBSD's boot loader
  #   sysctls: {kern.timecounter.hardware: HPET}        # FreeBSD, NetBSD
  # linux-unmitigated:
  #   kind: vm
  #   image: debian-12
  #   cmdline: mitigations=off                          # Linux

  # Any machine that exists. Its host key must be in known_hosts; only workdir is written.
  # box:
  #   kind: ssh
  #   host: 192.0.2.7
  #   user: lab
  #   identity: ~/.ssh/lab
  #   workdir: /var/tmp/labctl
  #   reboot: false     # true lets `labctl sweep --boots N` reboot it

# Which two are compared: the same work in a guest and on metal. A BSD's other side is a
# machine of its own (kind: ssh) that runs the same system. Two kernels are a pair too:
# {kernel: linux, against: linux-5.10}. What is not said is found where facts allow it.
pairs:
  - {guest: linux, metal: metal}

# Times that differ by less count as equal.
margin: 10%

# What `labctl nightly` measures and compares with its baseline.
# nightly:
#   workloads: [kqtest, urandom]
#   targets: [metal, linux]        # without it: all of the lab
#   threads: [1, 2, 4, 8]
#   design: {rounds: 12, boots: 1}
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
