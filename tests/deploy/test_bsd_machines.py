"""labctl from `up` to `report` on machines as an old BSD is (tests/bsd_root.py), reached by a
server that speaks no more than OpenSSH 5.8 did."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from labctl.errors import UnavailableError
from labctl.observe.facts import differences
from labctl.sweep.journal import iterate, read_journal
from labctl.sweep.records import FactsRecord
from labctl.targets import check
from labctl.targets.lock import BusyError, claim
from tests.bsd_root import FREEBSD, NETBSD, BSDRoot, bsd_root, build_for
from tests.conftest import Labctl
from tests.sshd import Sshd, running_sshd

# What OpenSSH 5.8 (FreeBSD 9.0) offers, of what today's server still has.
OPENSSH_5_8 = (
    "KexAlgorithms ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521,"
    "diffie-hellman-group-exchange-sha256,diffie-hellman-group-exchange-sha1,"
    "diffie-hellman-group14-sha1,diffie-hellman-group1-sha1",
    "Ciphers aes128-ctr,aes192-ctr,aes256-ctr,aes128-cbc,3des-cbc",
    "MACs hmac-md5,hmac-sha1,umac-64@openssh.com,hmac-sha1-96,hmac-md5-96",
    "HostKeyAlgorithms ecdsa-sha2-nistp256",
    "PubkeyAcceptedAlgorithms ecdsa-sha2-nistp256,ssh-rsa",
)
GCC = "cc (GCC) 4.2.1 20070831 patched [FreeBSD]"


@pytest.fixture(params=[FREEBSD, NETBSD], ids=["freebsd", "netbsd"])
def box(request, tmp_path):
    """A target that leads to such a machine, and its root."""
    root = bsd_root(tmp_path / "root", request.param)
    with running_sshd(
        tmp_path / "sshd", login_shell=str(root.enter), options=OPENSSH_5_8
    ) as server:
        target = server.target(workdir="/var/lib/lab's ctl")
        yield target, root
        target.close()


def test_commands_files_and_shells(box, tmp_path):
    target, root = box
    assert target.run("echo $PATH").stdout == "/usr/bin:/bin:/sbin:/usr/sbin\n"
    assert not target.run("[ -e /proc/self ] || command -v python3 bash cc stat nproc").ok
    data = bytes(range(256)) * 1000
    (tmp_path / "data").write_bytes(data)
    target.put(tmp_path / "data", "/var/a b/it's!", mode=0o600)
    assert root.path("/var/a b/it's!").read_bytes() == data
    assert target.get("/var/a b/it's!") == data
    boot = target.boot_id()
    assert boot in ("{ sec = 1405036479", "1405036479")
    check(target)
    shell = target.shell()
    assert list(shell.stream("echo a; exit 3", timeout=20)) == ["a"]
    assert shell.last.status == 3
    assert shell.pgid == int(target.run(f"ps -o pgid= -p {shell.pid}").stdout)
    with pytest.raises(UnavailableError, match="no reply") as raised:
        shell.run("sleep 300; :", timeout=1)
    assert raised.value.hint == "it was killed on the target"


def test_what_a_dead_run_left_is_ended_without_proc(box):
    target, root = box
    left = target.shell()
    args = f"ps -ww -o args= -p {left.pid} | grep -q labctl-shell"
    with claim(target, "run-1") as lease:
        lease.cover(left)
        with pytest.raises(BusyError, match="run run-1"):
            claim(target, "run-2")
        assert target.run(args).ok
        # The same run claims again, as after its connection was lost: its shell is ended.
        with claim(target, "run-1"):
            assert not target.run(args).ok
    assert not root.path(f"{target.workdir}/lock").exists()


LAB = """\
lab: old
targets:
  freebsd: {freebsd}
  netbsd: {netbsd}
"""


def declared(server: Sshd, **more: object) -> str:
    values = {
        "kind": "ssh",
        "host": "127.0.0.1",
        "port": server.port,
        "user": server.user,
        "identity": str(server.identity),
        "known_hosts": str(server.known_hosts),
        "workdir": "/var/labctl",
        **more,
    }
    return json.dumps(values)


@pytest.mark.slow
def test_from_up_to_report(labctl: Labctl, tmp_path: Path) -> None:
    """FreeBSD compiles, by Ansible's raw and our put action; NetBSD, which has no compiler, no
    file transfer and no EV_DISPATCH, gets its programs from a directory beside the lab file."""
    programs = build_for(NETBSD, tmp_path, "kqtest", "mmapsem", "urandom", dispatch=False)
    programs.rename(labctl.directory / "for-netbsd")
    freebsd = bsd_root(tmp_path / "freebsd", FREEBSD, compiler=GCC)
    netbsd = bsd_root(tmp_path / "netbsd", NETBSD)

    def server(root: BSDRoot, *, sftp: bool) -> AbstractContextManager[Sshd]:
        directory = tmp_path / f"{root.directory.name}.sshd"
        return running_sshd(directory, login_shell=str(root.enter), sftp=sftp, options=OPENSSH_5_8)

    with server(freebsd, sftp=True) as one, server(netbsd, sftp=False) as two:
        text = LAB.format(freebsd=declared(one), netbsd=declared(two, binaries="for-netbsd"))
        (labctl.directory / "lab.yaml").write_text(text)
        assert all(target["ready"] for target in labctl.json("up")["targets"])
        assert not any(target["changed"] for target in labctl.json("up")["targets"])
        status = {row["name"]: row["deployed"] for row in labctl.json("status")["targets"]}
        given = f"given in {labctl.directory / 'for-netbsd'}"
        assert status == {"freebsd": "current", "netbsd": f"current ({given})"}

        swept = labctl.json(
            *("sweep", "kqtest", "--threads", "1,2", "--rounds", "2", "--min-batch-ms", "5"),
            *("--param", "rearm=oneshot,dispatch"),
        )
        labctl("report")
    view = read_journal(labctl.directory / "results" / swept["run"])
    cells = {(c.target, c.params["rearm"]) for c in (e.cell for e in view.header.executions)}
    assert cells == {("freebsd", "oneshot"), ("freebsd", "dispatch"), ("netbsd", "oneshot")}
    assert swept["done"] == 3 * 2 * 2
    assert "netbsd: kqtest has no rearm=dispatch on this system" in view.header.skipped
    builds = {name: target["builds"]["kqtest"] for name, target in view.header.targets.items()}
    assert builds["freebsd"]["origin"] == "compiled here"
    assert builds["freebsd"]["compiler"] == GCC
    assert builds["netbsd"]["origin"] == given
    records = iterate(labctl.directory / "results" / swept["run"] / "journal.jsonl")
    facts = {r.target: r.facts for r in records if isinstance(r, FactsRecord)}
    assert facts["freebsd"]["hz"] == 1000
    assert facts["netbsd"]["clocksource"] == "hpet0"
    assert facts["netbsd"]["program_origin"]["kqtest"] == given
    differ = [key for key, _, _ in differences(facts["netbsd"], facts["freebsd"])]
    assert {"system", "hz", "clocksource", "program_build.kqtest"} <= set(differ)
    page = labctl.directory / "results" / swept["run"] / "report.html"
    assert "for-netbsd" in page.read_text()
