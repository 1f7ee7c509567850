"""A machine that labctl knows by SSH alone, rebooted between boots as metal would be: a guest
of another lab, with systemd as its init."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.sweep.journal import read_journal
from labctl.sweep.records import FactsRecord
from tests.conftest import Labctl

pytestmark = pytest.mark.guest

INNER = "lab: inner\ntargets: {linux: {kind: vm, image: debian-12, init: systemd}}\n"
OUTER = """\
lab: outer
targets:
  box:
    kind: ssh
    host: 127.0.0.1
    port: %s
    user: root
    identity: %s
    known_hosts: %s
    workdir: /var/tmp/labctl
    reboot: true
"""


def test_a_machine_is_rebooted_over_ssh_between_boots(tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path / "s"), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    labs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        labs.append(Labctl(tmp_path / name, state))
    inner, outer = labs
    (inner.directory / "lab.yaml").write_text(INNER)
    try:
        inner("up", timeout=900)
        (guest,) = inner.json("status")["targets"]
        port = guest["address"].rpartition(":")[2]
        (key,) = (tmp_path / "s").glob("labctl/labs/inner-*/id_ecdsa")
        known = key.parent / "guests" / "linux" / "known_hosts"
        (outer.directory / "lab.yaml").write_text(OUTER % (port, key, known))
        run = outer.json(
            "sweep", "eptest", "--threads", "1,2", "--boots", "2", "--rounds", "1",
            "--min-batch-ms", "10",
        )["run"]  # fmt: skip
    finally:
        inner("destroy", "--yes")
    view = read_journal(outer.directory / "results" / run)
    assert len(view.done) == len(view.header.executions) == 4
    boots = [r.boot_id for r in view.records if isinstance(r, FactsRecord) and r.moment == "start"]
    assert len(boots) == len(set(boots)) == 2
