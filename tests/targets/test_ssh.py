"""SSH targets against real servers: host keys, authentication, login shells, reboots."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest

from labctl.errors import ConfigError, UnavailableError
from labctl.targets import KINDS, check, check_all, hostkeys, target_class
from labctl.targets.local import LocalTarget
from labctl.targets.posix import HostKeyError
from labctl.targets.vm import VMTarget
from tests.sshd import Sshd, make_key, running_sshd


def run(target):
    try:
        return target.run("echo on").stdout
    finally:
        target.close()


def fingerprint(key: Path) -> str:
    done = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


@pytest.fixture
def known(tmp_path):
    return tmp_path / "known_hosts"


# -- commands and files ------------------------------------------------------------------


def test_run_status_output_and_input(ssh_target):
    result = ssh_target.run("cat; echo err >&2; exit 4", input=b"in\xff")
    assert (result.status, result.stdout, result.stderr) == (4, "in\\xff", "err\n")
    assert ssh_target.run("exit 5").status == 5
    assert ssh_target.run("echo on").stdout == "on\n"


def test_put_writes_whole_files_with_their_mode(ssh_target, tmp_path):
    data = os.urandom(400_000)
    (tmp_path / "data").write_bytes(data)
    goal = tmp_path / "a dir" / "it's $HOME"
    ssh_target.put(tmp_path / "data", str(goal), mode=0o750)
    assert goal.read_bytes() == data
    assert goal.stat().st_mode & 0o777 == 0o750
    assert [path.name for path in goal.parent.iterdir()] == [goal.name]
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="cannot be written") as raised:
        ssh_target.put(tmp_path / "data", f"{tmp_path}/file/x")
    assert raised.value.detail


def test_get_reads_every_byte_and_says_why_it_cannot(ssh_target, tmp_path):
    data = bytes(range(256)) * 2000 + b"no newline at the end"
    for name, content in (("it's a $HOME", data), ("empty", b""), ("newlines", b"\n\n\n")):
        (tmp_path / name).write_bytes(content)
        assert ssh_target.get(f"{tmp_path}/{name}") == content
    with pytest.raises(UnavailableError, match="cannot be read") as raised:
        ssh_target.get(f"{tmp_path}/none")
    assert raised.value.where == "box"
    assert "No such file" in raised.value.detail


def test_a_file_that_is_damaged_on_the_way_is_not_taken(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    tools = tmp_path / "tools"
    tools.mkdir()
    lying = tools / "cksum"
    lying.write_text("#!/bin/sh\necho 1 7\n")
    lying.chmod(0o755)
    path = f"SetEnv PATH={tools}:/usr/bin:/bin"
    with running_sshd(tmp_path / "server", options=(path,)) as server:
        target = server.target()
        with pytest.raises(UnavailableError, match="damaged on the way"):
            target.get(f"{tmp_path}/file")
        lying.write_text("#!/bin/sh\nexit 127\n")  # as where there is none
        assert target.get(f"{tmp_path}/file") == b"content"
        target.close()


def test_commands_from_several_threads_do_not_wait_for_a_long_one(ssh_target, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    ssh_target.connect()
    thread = threading.Thread(target=ssh_target.run, args=(f"cat {fifo}",))
    thread.start()
    # The first command ends only when a second one has run.
    assert ssh_target.run(f"echo x >{fifo}", timeout=20).ok
    thread.join(20)
    assert not thread.is_alive()


def test_a_lost_connection_is_an_error_once_and_a_new_one_after(sshd, ssh_target):
    ssh_target.connect()
    ssh_target._client.get_transport().sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(UnavailableError, match=r"lost|no session") as raised:
        ssh_target.run("echo on", timeout=10)
    assert raised.value.where == "box"
    assert ssh_target.run("echo on").stdout == "on\n"


@pytest.mark.slow
def test_a_connection_that_died_unnoticed_is_replaced_before_anything_is_asked(ssh_target):
    ssh_target.connect()
    for _ in range(8):  # Paramiko's thread notices some time later, or sooner
        ssh_target._client.get_transport().sock.shutdown(socket.SHUT_RDWR)
        with contextlib.closing(ssh_target.shell()) as shell:
            assert shell.run("echo on", timeout=10).stdout == "on\n"


@pytest.mark.slow
def test_a_machine_that_stands_still_is_told_from_a_server_that_refuses(sshd):
    target = sshd.target(connect_timeout=1.0)
    target.connect()
    stopped = [sshd.process.pid, *(p.pid for p in psutil.Process(sshd.process.pid).children(True))]
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(UnavailableError, match="does not answer") as raised:
            target.shell()
        assert "console" in raised.value.hint
        # A new connection is taken by the kernel, in its place.
        with pytest.raises(UnavailableError, match="did not answer as an SSH server in time"):
            sshd.target(connect_timeout=1.0).connect()
        patient = VMTarget(
            "guest", sshd.port, host_key=sshd.host_key_line, identity=sshd.identity, workdir="/x"
        )
        with pytest.raises(UnavailableError, match="did not answer as an SSH server in time"):
            patient.connect()
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert run(target) == "on\n"


def test_boot_id_is_the_kernels(ssh_target, tmp_path):
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert ssh_target.boot_id() == kernel
    local = LocalTarget("here", str(tmp_path))
    assert local.boot_id() == kernel
    local.close()


# -- host keys -----------------------------------------------------------------------------


def test_an_unknown_host_key_is_refused_with_all_that_is_needed(sshd, known):
    with pytest.raises(HostKeyError, match="not known") as raised:
        run(sshd.target(known_hosts=known))
    error = raised.value
    assert fingerprint(sshd.host_key) in error.message
    assert str(known) in error.message
    # The remedy works as it is printed.
    remedy = error.hint.rpartition(": ")[2]
    assert remedy.startswith("ssh-keyscan")
    subprocess.run(["sh", "-c", remedy], check=True, capture_output=True)
    assert run(sshd.target(known_hosts=known)) == "on\n"


def test_a_changed_host_key_is_refused_and_says_both_fingerprints(sshd, known, tmp_path):
    other = make_key(tmp_path / "other")
    name = f"[127.0.0.1]:{sshd.port}"
    known.write_text(f"{name} {' '.join(other.with_suffix('.pub').read_text().split()[:2])}\n")
    with pytest.raises(HostKeyError, match="HAS CHANGED") as raised:
        run(sshd.target(known_hosts=known))
    error = raised.value
    assert fingerprint(sshd.host_key) in error.message
    assert fingerprint(other) in error.detail
    assert str(known) in error.detail
    remedy = error.hint.partition("Ask; then: ")[2]
    subprocess.run(["sh", "-c", remedy], check=True, capture_output=True)
    assert run(sshd.target(known_hosts=known)) == "on\n"


def test_hashed_names_count(sshd, known):
    known.write_bytes(sshd.known_hosts.read_bytes())
    subprocess.run(["ssh-keygen", "-H", "-f", known], check=True, capture_output=True)
    assert "127.0.0.1" not in known.read_text()
    assert run(sshd.target(known_hosts=known)) == "on\n"


def test_a_key_of_another_port_does_not_count(sshd, known):
    key = " ".join(sshd.host_key_line.split()[:2])
    known.write_text(f"[127.0.0.1]:{sshd.port + 1} {key}\n127.0.0.1 {key}\n")
    with pytest.raises(HostKeyError, match="not known"):
        run(sshd.target(known_hosts=known))


def test_a_revoked_key_is_refused_although_it_is_listed(sshd, known):
    line = sshd.known_hosts.read_text()
    known.write_text(f"{line}@revoked {line}")
    with pytest.raises(HostKeyError, match="revoked"):
        run(sshd.target(known_hosts=known))


def test_the_server_is_asked_for_the_kind_of_key_on_record(tmp_path):
    """A server has several keys; the one that is known need not be the preferred one."""
    ed25519 = make_key(tmp_path / "ed25519", kind="ed25519")
    with running_sshd(tmp_path / "server", options=(f"HostKey {ed25519}",)) as server:
        for key in (server.host_key, ed25519):
            server.trust(key.with_suffix(".pub").read_text())
            assert run(server.target()) == "on\n"


def test_a_guest_is_pinned_to_its_planted_key(sshd, tmp_path):
    def guest(line):
        return VMTarget(
            "guest",
            sshd.port,
            host_key=line,
            identity=sshd.identity,
            user=sshd.user,
            workdir=str(tmp_path),
        )

    assert run(guest(f"{sshd.host_key_line} a comment")) == "on\n"
    other = make_key(tmp_path / "other").with_suffix(".pub").read_text()
    with pytest.raises(HostKeyError, match="HAS CHANGED") as raised:
        run(guest(other))
    assert "rebuilt" in raised.value.hint
    with pytest.raises(ConfigError, match="not a public key"):
        guest("nonsense")


# -- authentication and reaching ---------------------------------------------------------------


def test_another_key_is_refused_with_user_key_and_remedy(sshd, tmp_path):
    other = make_key(tmp_path / "other")
    with pytest.raises(UnavailableError, match="does not accept the key") as raised:
        run(sshd.target(identity=other))
    assert str(other) in raised.value.message
    assert "authorized_keys" in raised.value.hint


def test_identity_files_that_cannot_work_are_configuration_errors(sshd, tmp_path):
    loose = make_key(tmp_path / "loose")
    loose.chmod(0o644)
    locked = make_key(tmp_path / "locked", passphrase="secret")
    locked_pem = tmp_path / "pem"
    pem = ["-m", "PEM", "-t", "ecdsa", "-N", "secret", "-f", locked_pem]
    subprocess.run(["ssh-keygen", "-q", *pem], check=True)
    public = tmp_path / "loose.pub"
    public.chmod(0o600)
    cases = {
        loose: "others can read",
        locked: "passphrase",
        locked_pem: "passphrase",
        public: "not a private key",
        tmp_path / "missing": "cannot be read",
        tmp_path: "cannot be read|others can read",
    }
    for path, message in cases.items():
        with pytest.raises(ConfigError, match=message) as raised:
            run(sshd.target(identity=path))
        assert str(path) in raised.value.where
        assert raised.value.hint


def test_nobody_listening_is_told_at_once(sshd):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(UnavailableError, match="refused the connection") as raised:
        run(sshd.target(port=port))
    assert "sshd" in raised.value.hint


def test_a_name_that_does_not_exist(sshd, tmp_path):
    target = target_class("ssh")(
        "box", "no-such-host.invalid", workdir="/tmp", machine="x", connect_timeout=5.0
    )
    with pytest.raises(UnavailableError, match="cannot be resolved"):
        target.connect()


def test_a_listener_that_says_nothing_costs_one_deadline(sshd):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = sshd.target(port=silent.getsockname()[1], connect_timeout=1.0)
        with pytest.raises(UnavailableError, match=r"SSH server in time|broke off"):
            target.connect()


def test_something_else_than_ssh_on_the_port(sshd):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(UnavailableError, match=r"broke off|SSH server in time"):
            run(sshd.target(port=listener.getsockname()[1], connect_timeout=3.0))
        thread.join()


def test_an_old_server_is_reached_only_where_the_lab_says_so(tmp_path):
    rsa = tmp_path / "rsa"
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", rsa], check=True)
    old = ("KexAlgorithms diffie-hellman-group14-sha1", "HostKeyAlgorithms ssh-rsa")
    with running_sshd(tmp_path / "server", options=(*old, f"HostKey {rsa}")) as server:
        server.trust(rsa.with_suffix(".pub").read_text())
        with pytest.raises(UnavailableError, match="too old") as raised:
            run(server.target())
        assert "legacy_ssh" in raised.value.hint
        target = server.target(legacy_algorithms=True)
        assert target.run("cat; exit 3", input=b"abc").stdout == "abc"
        shell = target.shell()
        assert list(shell.stream("echo a; exit 2", timeout=10)) == ["a"]
        assert shell.last.status == 2
        target.close()
        # The host key is verified on this way as well.
        server.trust(server.host_key_line)
        with pytest.raises(UnavailableError, match="no POSIX shell") as raised:
            run(server.target(legacy_algorithms=True))
        assert "erification failed" in raised.value.detail


# -- login shells --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["csh", "tcsh"])
def test_a_csh_account_works_like_any(name, tmp_path):
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    with running_sshd(tmp_path / "server", login_shell=program) as server:
        target = server.target()
        text = "x='a!b'; for i in 1 2; do\n  echo \"$i $x\"\ndone; echo é >&2"
        assert target.run(text).stdout == "1 a!b\n2 a!b\n"
        assert target.run("cat", input=b"!!\n").stdout == "!!\n"
        shell = target.shell()
        with pytest.raises(UnavailableError, match="no reply"):
            shell.run("sleep 300; :", timeout=1)
        check(target)
        target.close()


def test_a_login_shell_that_chatters_does_no_harm(tmp_path):
    noisy = tmp_path / "noisy"
    noisy.write_text('#!/bin/sh\necho Welcome; echo "stty: no tty" >&2; eval "$2"; exit $?\n')
    noisy.chmod(0o755)
    with running_sshd(tmp_path / "server", login_shell=str(noisy)) as server:
        target = server.target()
        result = target.run("echo on; exit 3")
        assert (result.status, result.stdout, result.stderr) == (3, "on\n", "")
        target.close()


def test_an_account_that_may_not_log_in(tmp_path):
    refusal = tmp_path / "nologin"
    refusal.write_text("#!/bin/sh\necho This account is currently not available.\nexit 1\n")
    refusal.chmod(0o755)
    with running_sshd(tmp_path / "server", login_shell=str(refusal)) as server:
        with pytest.raises(UnavailableError, match="no POSIX shell answered") as raised:
            run(server.target())
        assert "not available" in raised.value.detail


# -- reboot ----------------------------------------------------------------------------------------


def test_a_target_is_rebooted_only_if_the_lab_allows_it(ssh_target, tmp_path):
    with pytest.raises(ConfigError, match="may not reboot"):
        ssh_target.reboot(timeout=1)
    with pytest.raises(ConfigError, match="may not reboot"):
        LocalTarget("here", str(tmp_path)).reboot(timeout=1)


def test_a_reboot_command_that_is_refused_says_why(sshd, tmp_path):
    target = sshd.target(can_reboot=True, reboot_command="echo must be root >&2; exit 1")
    with pytest.raises(ConfigError, match="failed on the target") as raised:
        target.reboot(timeout=10)
    assert raised.value.detail == "must be root"
    target.close()


def test_a_machine_that_does_not_go_down_is_not_taken_for_rebooted(sshd):
    target = sshd.target(can_reboot=True, reboot_command=":")
    with pytest.raises(UnavailableError, match="did not come back"):
        target.reboot(timeout=2)
    target.close()


def test_a_reboot_has_happened_when_a_new_boot_identity_answers(tmp_path):
    """A server in a mount namespace with a boot identity of its own stands for the machine:
    its "reboot" changes that and ends the server, which comes back a little later."""
    identity = tmp_path / "boot_id"
    identity.write_text("first\n")
    mount = f"mount --bind {identity} /proc/sys/kernel/random/boot_id"
    probe = subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("mount namespaces are not allowed here (not root)")
    wrapper = tmp_path / "in_namespace"
    wrapper.write_text(f'#!/bin/sh\nunshare -m sh -c \'{mount} && eval "$1"\' sh "$2"\n')
    wrapper.chmod(0o755)
    with running_sshd(tmp_path / "server", login_shell=str(wrapper)) as server:
        command = f"echo second >{identity}; kill {server.process.pid}"
        target = server.target(can_reboot=True, reboot_command=command)
        assert target.boot_id() == "first"

        def come_back():
            server.process.wait()
            time.sleep(0.5)
            server.restart()

        thread = threading.Thread(target=come_back)
        thread.start()
        target.reboot(timeout=60)
        thread.join()
        assert target.boot_id() == "second"
        target.close()


# -- checks and the registry -----------------------------------------------------------------------


def test_an_unwritable_directory_is_found_at_the_start(sshd, ssh_target, tmp_path):
    check(ssh_target)
    assert (tmp_path / "work").is_dir()
    assert list((tmp_path / "work").iterdir()) == []
    (tmp_path / "file").touch()
    bad = sshd.target("bad", workdir=f"{tmp_path}/file/work")
    found = check_all({"box": ssh_target, "bad": bad})
    assert found["box"] is None
    assert "cannot be written" in found["bad"].message
    assert found["bad"].where == "bad"
    assert "workdir" in found["bad"].hint
    with pytest.raises(UnavailableError, match=r"MiB are free .* are needed"):
        check(ssh_target, free_mib=10**9)
    bad.close()


def test_the_registry_knows_every_kind():
    assert {kind: target_class(kind).kind for kind in KINDS} == {k: k for k in KINDS}
    with pytest.raises(ConfigError, match="no kind"):
        target_class("cloud")


def test_a_lab_without_ssh_loads_no_ssh_library():
    code = (
        "import sys; from labctl.targets import LocalTarget, check; "
        "check(LocalTarget('here', sys.argv[1])); assert 'paramiko' not in sys.modules"
    )
    root = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-c", code, folder]
        subprocess.run(argv, check=True, env=os.environ | {"PYTHONPATH": str(root)})


def test_known_hosts_lines_that_are_damaged_are_passed_over(sshd: Sshd, known):
    known.write_text(f"[127.0.0.1]:{sshd.port} ssh-ed25519 %%%\n{sshd.known_hosts.read_text()}")
    keys = hostkeys.known_keys("127.0.0.1", sshd.port, [known])
    assert [key.kind for key in keys] == ["ecdsa-sha2-nistp256"]
    assert run(sshd.target(known_hosts=known)) == "on\n"


def test_a_connection_is_reused(ssh_target):
    ssh_target.connect()
    client = ssh_target._client
    for _ in range(20):
        ssh_target.run(":")
    ssh_target.shell()
    assert ssh_target._client is client


def test_no_wake_up_is_lost_when_both_outputs_come_at_once(ssh_target):
    """Threads are switched as often as can be, so that one output is emptied while the other
    is being filled: what Paramiko's descriptor then fails to say (``ssh_channel``)."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(500):
            result = ssh_target.run("echo a; echo b >&2; echo c; echo d >&2", timeout=10.0)
            assert (result.stdout, result.stderr) == ("a\nc\n", "b\nd\n")
    finally:
        sys.setswitchinterval(before)
