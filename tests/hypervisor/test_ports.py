"""Ports: one owner each, also when two labs start at once."""

import socket
from pathlib import Path

import pytest

from labctl.hypervisor.ports import FIRST, LAST, claim_port, is_free, release_port

from .conftest import python

RACER = """
import sys
from pathlib import Path
from labctl.hypervisor.ports import claim_port
print([claim_port(f"{sys.argv[2]}-{i}" if sys.argv[3] == "own" else f"same-{i}", Path(sys.argv[1]))
       for i in range(20)])
"""


def test_the_same_owner_gets_its_port_again_and_another_owner_another(tmp_path: Path) -> None:
    port = claim_port("lab-linux", tmp_path)
    assert FIRST <= port <= LAST
    assert claim_port("lab-linux", tmp_path) == port
    assert claim_port("lab-bsd", tmp_path) != port


def test_a_released_port_has_no_owner(tmp_path: Path) -> None:
    port = claim_port("a", tmp_path)
    release_port("a", tmp_path)
    release_port("a", tmp_path)
    assert not (tmp_path / str(port)).exists()


def test_a_squatter_gets_to_keep_it(tmp_path: Path) -> None:
    port = claim_port("a", tmp_path)
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        other = claim_port("a", tmp_path)
        assert other != port
        assert not is_free(port)
    assert claim_port("a", tmp_path) == other
    assert not (tmp_path / str(port)).exists()


def test_a_port_that_qemu_could_not_bind_is_avoided(tmp_path: Path) -> None:
    port = claim_port("a", tmp_path)
    assert claim_port("a", tmp_path, avoid={port}) != port


@pytest.mark.parametrize("kind", ["own", "same"])
def test_two_processes_racing(tmp_path: Path, kind: str) -> None:
    racers = [python(RACER, str(tmp_path), name, kind) for name in ("x", "y")]
    first, second = (eval(racer.communicate(timeout=60)[0]) for racer in racers)
    assert len(set(first)) == len(set(second)) == 20
    if kind == "own":
        assert not set(first) & set(second)
    else:
        assert first == second
