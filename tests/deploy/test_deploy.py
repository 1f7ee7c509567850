"""Deployment by real Ansible, to this machine and to real SSH servers."""

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from labctl import paths
from labctl.deploy import deploy, is_current
from labctl.deploy.ansible import run_playbook
from labctl.deploy.inventory import host_vars
from labctl.errors import ConfigError
from labctl.targets.local import LocalTarget
from labctl.targets.lock import claim
from labctl.targets.vm import VMTarget
from tests.sshd import make_key, running_sshd

pytestmark = pytest.mark.slow

NAMES = ["alpha", "beta", "gamma"]


@pytest.fixture
def go(tree, tmp_path):
    """Deploy the tree; ``go.runs()`` is how often Ansible was started."""
    private = tmp_path / "private"

    def call(*targets, names=NAMES, **options):
        call.said = []
        return deploy(
            targets,
            names,
            workloads_dir=tree,
            private_dir=private,
            progress=lambda *words: call.said.append(words),
            **options,
        )

    call.runs = lambda: len(list((private / "artifacts").glob("*")))
    call.private = private
    return call


def written(target):
    """Modification times of all that deployment leaves on a target."""
    base = Path(target.workdir)
    files = (path for path in base.rglob("*") if path.is_file())
    return {str(path.relative_to(base)): path.stat().st_mtime_ns for path in files}


def ended(pid):
    """Whether a process has ended (a zombie, where init does not reap, has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def guest_on(server, tmp_path, host_key):
    """The server as a guest with a planted key."""
    return VMTarget(
        "guest",
        server.port,
        host_key=host_key,
        identity=server.identity,
        user=server.user,
        workdir=str(tmp_path / "guest"),
    )


def test_two_machines_from_nothing_to_current(go, tree, local, tmp_path, monkeypatch):
    # What a user may have lying about must not matter.
    (tmp_path / "ansible.cfg").write_text("[defaults]\nstrategy = nonsense\ninventory = /none\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    monkeypatch.setenv("ANSIBLE_STRATEGY", "nonsense")
    monkeypatch.setenv("ANSIBLE_CALLBACK_PLUGINS", "/nonsense")
    monkeypatch.setenv("ANSIBLE_REMOTE_USER", "nobody")
    csh = shutil.which("csh") or shutil.which("tcsh") or "/bin/sh"
    # An account with csh, without file transfer: as unfriendly as an old BSD can be.
    with running_sshd(tmp_path / "server", login_shell=csh, sftp=False) as server:
        box = server.target("box")
        results = go(local, box)
        for target in (local, box):
            result = results[target.name]
            assert result.error is None
            assert (result.ok, result.changed) == (True, True)
            assert sorted(result.builds) == ["alpha", "beta"]  # gamma is for another system
            build = result.builds["alpha"]
            assert all(build[key] for key in ("compiler", "flags", "link", "source_sha"))
            assert build["origin"] == "compiled here"
            program = Path(target.workdir) / "bin/alpha_program"
            assert build["sha256"] == hashlib.sha256(program.read_bytes()).hexdigest()
            assert target.run(f"{target.workdir}/bin/alpha_program").ok
            assert (Path(target.workdir) / "src/harness/tiny.c").exists()
            assert not (Path(target.workdir) / "lock").exists()
            assert is_current(target, NAMES, workloads_dir=tree)
        assert ("box", "compiling") in go.said

        before = [written(local), written(box)]
        again = go(local, box)
        assert [(r.ok, r.changed) for r in again.values()] == [(True, False)] * 2
        assert again["box"].builds == results["box"].builds
        assert go.runs() == 1  # Ansible was not even started
        assert [written(local), written(box)] == before

        # One source changes: that one is compiled, the other is left as it is.
        (tree / "beta" / "beta.c").write_text("int main(void) { return 0; /* new */ }\n")
        assert not is_current(box, NAMES, workloads_dir=tree)
        assert is_current(box, ["alpha"], workloads_dir=tree)
        third = go(local, box)
        assert all(result.ok and result.changed for result in third.values())
        for target, old in zip((local, box), before, strict=True):
            new = written(target)
            assert new["bin/alpha_program"] == old["bin/alpha_program"]
            assert new["bin/beta_program"] != old["bin/beta_program"]
            assert new["install.sh"] == old["install.sh"]
            assert new["sources.tar"] != old["sources.tar"]
        box.close()


def test_damage_is_repaired_and_force_does_all_again(go, local):
    assert go(local)["here"].ok
    # The copy on the target is cut short, though the stamp beside it is right.
    archive = Path(local.workdir) / "sources.tar"
    whole = archive.read_bytes()
    archive.write_bytes(whole[:1000])
    (Path(local.workdir) / "bin/alpha_program.build").unlink()
    # And what was unpacked is as a power cut may leave it.
    (Path(local.workdir) / "src/harness/tiny.c").write_bytes(b"\0" * 100)
    assert go(local)["here"].ok
    assert archive.read_bytes() == whole

    old = written(local)
    result = go(local, force=True)["here"]
    assert (result.ok, result.changed) == (True, True)
    new = written(local)
    changed = {name for name in old if old[name] != new[name]}
    assert {"sources.tar", "bin/alpha_program", "bin/beta_program"} <= changed


def test_a_program_that_is_not_the_one_compiled_is_compiled_again(go, tree, local):
    assert go(local)["here"].ok
    program = Path(local.workdir) / "bin/alpha_program"
    good, old = program.read_bytes(), written(local)
    program.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))  # of the same size
    assert not is_current(local, ["alpha"], workloads_dir=tree)
    assert is_current(local, ["beta"], workloads_dir=tree)
    result = go(local)["here"]
    assert (result.ok, result.changed) == (True, True)
    assert program.read_bytes() == good
    assert written(local)["bin/beta_program"] == old["bin/beta_program"]
    assert is_current(local, NAMES, workloads_dir=tree)


def test_where_there_is_no_cksum_the_record_is_trusted(go, tree, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "cksum":
            (tools / program.name).symlink_to(program)
    with running_sshd(tmp_path / "server", options=(f"SetEnv PATH={tools}",)) as server:
        box = server.target("box")
        assert not box.run("command -v cksum").ok
        assert go(box)["box"].error is None
        assert is_current(box, NAMES, workloads_dir=tree)
        box.close()


def test_a_path_is_no_template(go, tree, tmp_path):
    folder = tmp_path / "base"
    name = "{{ 7*7 }} {{ lookup('pipe', 'echo ran') }} {% raw %} {#"
    private = tmp_path / "{{8*8}}"
    with running_sshd(tmp_path / "server") as server:
        box = server.target("box", workdir=f"{folder}/box {name}")
        here = LocalTarget("here", f"{folder}/here {name}")
        results = deploy(
            [box, here],
            ["alpha"],
            workloads_dir=tree,
            private_dir=private,
            progress=lambda *_: None,
        )
        for target in (box, here):
            assert results[target.name].error is None
            assert target.run(f"{shlex.quote(target.workdir)}/bin/alpha_program").ok
            target.close()
    assert sorted(path.name for path in folder.iterdir()) == [f"box {name}", f"here {name}"]
    assert not (tmp_path / "64").exists()


DEPLOYMENT = """
import sys
from pathlib import Path
from labctl.deploy import deploy
from labctl.targets.local import LocalTarget
tree, private, *workdirs = map(Path, sys.argv[1:])
targets = [LocalTarget(path.name, str(path)) for path in workdirs]
results = deploy(targets, ["alpha"], workloads_dir=tree, private_dir=private,
                 progress=lambda *words: print(*words, flush=True))
for result in results.values():
    if result.error:
        print("failed:", result.error)
"""


@pytest.mark.parametrize("same_lab", [True, False])
def test_two_deployments_at_once_take_turns_and_compile_once(tree, tmp_path, same_lab):
    # The compiler waits until the test lets it go on, so the two do overlap.
    script, gate, compiled = tree / "build.sh", tmp_path / "gate", tmp_path / "compiled"
    os.mkfifo(gate)
    hold = f"#!/bin/sh\necho once >>{compiled}; read -r leave <{gate}\n"
    script.write_text(hold + script.read_text())
    workdir = tmp_path / "here"

    def start(private):
        argv = [sys.executable, "-c", DEPLOYMENT, tree, tmp_path / private, workdir]
        env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)

    with start("one") as first:
        assert first.stdout.readline() == "here copying the sources\n"
        assert first.stdout.readline() == "here compiling\n"
        with start("one" if same_lab else "two") as second:
            said = second.stdout.readline()
            assert said == f"here waiting for another deployment (process {first.pid})\n"
            gate.write_text("go\n")
            assert first.stdout.read() == ""
            assert second.stdout.read() == ""
    assert (first.returncode, second.returncode) == (0, 0)
    assert compiled.read_text() == "once\n"
    assert not (workdir / "lock").exists()


def test_a_target_that_does_not_compile_tells_in_the_compilers_words(go, tree, local, tmp_path):
    (tree / "beta" / "beta.c").write_text("#include <only_there.h>\nint main(void){return 0;}\n")
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "only_there.h").write_text("int there;\n")
    there = f"SetEnv C_INCLUDE_PATH={tmp_path / 'include'}"
    with running_sshd(tmp_path / "server", options=(there,)) as server:
        guest = guest_on(server, tmp_path, server.host_key_line)
        results = go(local, guest)
        assert (results["guest"].ok, results["guest"].error) == (True, None)
        guest.close()
    here = results["here"]
    assert not here.ok
    assert here.error.where == "here"
    assert here.error.message == "beta cannot be compiled with cc"
    assert "only_there.h: No such file" in here.error.detail
    assert '"rc"' not in here.error.detail
    assert sorted(here.builds) == ["alpha"]  # what compiles is there all the same
    assert is_current(local, ["alpha"], workloads_dir=tree)
    assert not is_current(local, NAMES, workloads_dir=tree)


def test_machines_that_cannot_be_used_do_not_stop_the_others(go, local, tmp_path):
    with running_sshd(tmp_path / "server") as server:
        busy = server.target("busy", workdir=str(tmp_path / "busy"))
        off = server.target("off", port=1)
        full = server.target("full", workdir="/proc/labctl")
        with claim(local.__class__("x", busy.workdir), "run-9"):
            results = go(busy, off, local, full)
        for target in (busy, full):
            target.close()
    assert results["here"].ok
    assert list(results) == ["busy", "off", "here", "full"]
    errors = {name: result.error for name, result in results.items() if not result.ok}
    assert "refused the connection" in errors["off"].message
    assert "cannot be written" in errors["full"].message
    assert "run run-9" in errors["busy"].message


def test_nothing_is_compiled_beside_a_measurement(go, local):
    with claim(local.__class__("other", local.workdir), "run-9"):
        result = go(local)["here"]
    assert "run run-9" in result.error.message
    assert go.runs() == 0


def test_an_unknown_workload_is_a_configuration_error(go, local):
    result = go(local, names=["alfa"])["here"]
    assert isinstance(result.error, ConfigError)
    assert result.error.hint == "did you mean alpha?"


def test_ansible_itself_refuses_a_changed_host_key(tmp_path):
    """The first contact is labctl's own; this one would be missed if Ansible's check were off."""
    other = make_key(tmp_path / "other").with_suffix(".pub").read_text()
    with (
        running_sshd(tmp_path / "server") as server,
        tempfile.TemporaryDirectory(dir="/tmp") as short,  # a socket's path must be short
    ):
        guest = guest_on(server, tmp_path, other)
        private = paths.private_dir(tmp_path / "private")
        variables = host_vars(guest, private, Path(short)) | {
            "labctl_archive": str(tmp_path / "other"),
            "labctl_force": False,
            "labctl_workdir": guest.workdir,
        }
        outcome = run_playbook(
            paths.data_dir("playbooks") / "deploy.yml",
            {"guest": variables},
            private_dir=private,
            on_task=lambda *_: None,
            timeout=60,
        )["guest"]
    assert outcome.unreachable
    assert "ost key verification failed" in outcome.reason
    assert not (tmp_path / "guest").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_ansible_and_what_it_started(tree, tmp_path, number):
    (tree / "build.sh").write_text('echo $$ >"$1.pid"; sleep 300; :\n')
    with running_sshd(tmp_path / "server") as server:
        code = f"""
import signal
from pathlib import Path
from labctl.cli import _end
from labctl.deploy import deploy
from labctl.errors import InterruptedByUser
from labctl.targets.local import LocalTarget
from labctl.targets.ssh import SSHTarget
signal.signal(signal.SIGTERM, _end)  # as `labctl` itself does
local = LocalTarget("here", "{tmp_path}/local")
box = SSHTarget("box", "127.0.0.1", port={server.port}, user="{server.user}", machine="x",
                identity=Path("{server.identity}"), known_hosts=Path("{server.known_hosts}"),
                workdir="{tmp_path}/box")
try:
    deploy([local, box], ["alpha"], workloads_dir=Path("{tree}"),
           private_dir=Path("{tmp_path}/private"), progress=print)
except InterruptedByUser:
    raise SystemExit(130)
"""
        env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        files = [tmp_path / "local" / "bin.pid", tmp_path / "box" / "bin.pid"]
        with subprocess.Popen(
            [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE
        ) as process:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not all(file.exists() for file in files):
                time.sleep(0.05)
            inventory = (tmp_path / "private/inventory/hosts.json").read_text()
            sockets = json.loads(inventory)["all"]["hosts"]["box"]["ansible_control_path"]
            control_dir = Path(sockets["__ansible_unsafe"]).parent
            assert control_dir.is_dir()
            process.send_signal(number)
            assert process.wait(timeout=30) == 130
            assert not control_dir.exists()
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert f"{tmp_path}/local" not in listing.stdout
    assert f"{tmp_path}/box" not in listing.stdout
    assert f"{tmp_path}/private/inventory" not in listing.stdout  # no worker of Ansible's is left
    for file in files:
        assert ended(int(file.read_text()))
    assert not (tmp_path / "local" / "lock").exists()
    assert not (tmp_path / "box" / "lock").exists()
