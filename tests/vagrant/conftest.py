"""A libvirtd of the tests' own."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

import pytest
from vagrant_machine import Namespace


@pytest.fixture(scope="session")
def libvirtd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """A namespace with a libvirtd that answers at qemu:///system."""
    if os.geteuid() != 0:
        pytest.skip("a mount and a network namespace with a libvirtd need root")
    for program in ("libvirtd", "virtlogd", "dnsmasq"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    with Namespace(tmp_path_factory.mktemp("libvirt")) as namespace:
        namespace.run("virtlogd", "-d")
        namespace.run("libvirtd", "-d")
        deadline = time.monotonic() + 30
        while True:
            try:
                namespace.run("virsh", "-c", "qemu:///system", "list")
                break
            except AssertionError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        yield namespace
