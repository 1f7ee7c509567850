"""The persistent shell over real shells and real channels: local pipes and SSH."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from labctl.errors import MeasurementError, UnavailableError
from labctl.targets import shell as shells
from labctl.targets.channel import PipeChannel
from labctl.targets.local import LocalTarget
from labctl.targets.shell import PersistentShell

SHELLS = {"dash": "dash", "bash": "bash", "busybox": "busybox", "mksh": "mksh", "sh": "/bin/sh"}
BATCH = '{"type":"batch","index":%d}'


def kill_group(pgid: int) -> bool:
    os.killpg(pgid, signal.SIGKILL)
    return True


def open_shell(name: str, tmp_path: Path) -> PersistentShell:
    """A shell of the kind ``name``; it both reads the bootstrap and runs the loop."""
    program = shutil.which(SHELLS[name])
    if program is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    if name == "busybox":  # its applet is chosen by the name it is called by
        link = tmp_path / "sh"
        link.symlink_to(program)
        program = str(link)
    channel = PipeChannel([program])
    return PersistentShell(channel, where=name, kill_group=kill_group, shell=program)


@pytest.fixture(params=list(SHELLS))
def shell(request, tmp_path):
    made = open_shell(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["local", "ssh"])
def target(request, tmp_path):
    if request.param == "ssh":
        return request.getfixturevalue("ssh_target")
    made = LocalTarget("here", str(tmp_path / "work"))
    request.addfinalizer(made.close)
    return made


def gone(pid: int) -> bool:
    """Whether a process has ended, within some seconds (a zombie has)."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return str(path)


def stepper(path: Path, batches: int, after: str = "") -> str:
    """A program that prints batch lines and waits for a line after each, noting what it reads."""
    return script(
        path,
        f"""echo '{{"type":"start"}}'
index=0
while [ $index -lt {batches} ]; do
  printf '{{"type":"batch","index":%d}}\\n' $index
  read -r leave || exit 75
  echo "$leave" >>{path}.read
  index=$((index + 1))
done
{after}
echo '{{"type":"end"}}'
""",
    )


# -- run: framing ------------------------------------------------------------------------


def test_outputs_and_status_are_told_apart(shell):
    result = shell.run("echo out; echo err >&2; exit 3", timeout=10)
    assert (result.status, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert not result.ok
    assert shell.run(":", timeout=10).ok


def test_output_without_a_final_newline_comes_as_it_is(shell):
    result = shell.run("printf abc; printf xyz >&2", timeout=10)
    assert (result.stdout, result.stderr) == ("abc", "xyz")


def test_every_byte_value_passes(shell, tmp_path):
    data = bytes(range(256)) * 40
    (tmp_path / "data").write_bytes(data)
    result = shell.run(f"cat {tmp_path}/data; cat {tmp_path}/data >&2", timeout=10)
    expected = data.decode("utf-8", "backslashreplace")
    assert result.stdout == expected
    assert result.stderr == expected


def test_two_megabytes_on_both_outputs(shell):
    command = "yes 0123456789abcdef | head -n 120000 | tee /dev/stderr"
    result = shell.run(command, timeout=60)
    assert len(result.stdout) == len(result.stderr) == 17 * 120000


def test_commands_do_not_leak_into_each_other(shell, tmp_path):
    shell.run(f"cd {tmp_path}; x=1; set -e; umask 077; exec >/dev/null", timeout=10)
    result = shell.run('echo "$PWD ${x-unset} $-"; false; echo on', timeout=10)
    where, x, flags = result.stdout.splitlines()[0].split(" ")
    assert where != str(tmp_path)
    assert x == "unset"
    assert "e" not in flags
    assert result.stdout.endswith("on\n")


def test_a_syntax_error_is_a_status_and_the_shell_lives(shell):
    result = shell.run("if then ( &&", timeout=10)
    assert result.status not in (0, None)
    assert result.stderr
    assert shell.run("echo on", timeout=10).stdout == "on\n"


def test_what_shows_the_shells_own_state_does_not_fake_a_reply(shell):
    for command in ("set", "set -x; echo a", "ps -ef", "cat /proc/$$/cmdline; echo", "env"):
        assert shell.run(command, timeout=10).status in (0, 127)
    assert shell.run("echo on", timeout=10).stdout == "on\n"


def test_commands_of_many_lines_quotes_and_here_documents(shell):
    result = shell.run("cat <<'X'\nit's \"$HOME\" \\n !\n  two\nX\necho \\\n  é\n", timeout=10)
    assert result.stdout == 'it\'s "$HOME" \\n !\n  two\né\n'


def test_a_command_that_wants_input_finds_none(shell):
    assert shell.run("cat; wc -c", timeout=10).stdout.strip() == "0"


def test_a_killed_program_is_told_by_its_status(shell):
    assert shell.run("sh -c 'kill -9 $$'", timeout=10).status == 128 + signal.SIGKILL


def test_a_nul_byte_is_refused_before_anything_is_sent(shell):
    with pytest.raises(ValueError, match="NUL"):
        shell.run("echo \0", timeout=10)
    assert shell.run("echo on", timeout=10).stdout == "on\n"


def test_environment_is_that_of_scripts(shell):
    result = shell.run('echo "$LC_ALL"; echo ":$PATH:"', timeout=10)
    assert result.stdout.startswith("C\n")
    assert ":/sbin:" in result.stdout
    assert ":/usr/sbin:" in result.stdout


def test_the_shell_tells_its_process_group(shell):
    assert shell.run("echo $$", timeout=10).stdout == f"{shell.pid}\n"
    assert shell.pgid == os.getpgid(shell.pid)


# -- stream: leave between steps -----------------------------------------------------------


def test_a_batch_waits_until_its_line_has_been_dealt_with(shell, tmp_path):
    program = stepper(tmp_path / "program", 3)
    read = tmp_path / "program.read"
    seen = []
    for line in shell.stream(program, timeout=20):
        record = json.loads(line)
        seen.append(record["type"])
        if record["type"] == "batch":
            # While we hold the line, leave was given for the earlier batches only.
            assert len(read.read_text().split() if read.exists() else []) == record["index"]
    assert seen == ["start", "batch", "batch", "batch", "end"]
    assert read.read_text() == "go\n" * 3
    assert shell.last.ok


def test_only_batch_lines_are_answered(shell, tmp_path):
    text = """echo '{"type":"warmup","x":"batch"}'; echo 'batch'; echo '{"type":"batch"'
printf '{"type":"batch"}\\n'; read -r a; echo "got $a"; echo bad >&2; exit 70"""
    lines = list(shell.stream(script(tmp_path / "p", text), timeout=20))
    assert lines[3:] == ['{"type":"batch"}', "got go"]
    assert (shell.last.status, shell.last.stderr, shell.last.stdout) == (70, "bad\n", "")


def test_leave_that_nobody_reads_is_never_run_as_a_command(shell, tmp_path):
    # A program on PATH called "go", as somebody with a Go compiler has it, tells if it is run.
    script(tmp_path / "go", f"touch {tmp_path}/ran\n")
    never_reads = script(
        tmp_path / "never", f"for i in 1 2 3; do echo '{BATCH % 1}'; sleep 0.02; done\n"
    )
    in_blocks = script(
        tmp_path / "blocks", f"echo '{BATCH % 1}'; dd bs=1 count=1 2>/dev/null; echo\n"
    )
    for program in (never_reads, in_blocks, never_reads):
        list(shell.stream(f"PATH={tmp_path}:$PATH {program}", timeout=20))
        assert shell.last.ok
        assert shell.run("echo on", timeout=10).stdout == "on\n"
    assert not (tmp_path / "ran").exists()


def test_last_lines_without_newline_are_lines_too(shell):
    assert list(shell.stream("printf 'a\\n\\nb'", timeout=10)) == ["a", "", "b"]
    assert list(shell.stream(":", timeout=10)) == []


def test_a_program_killed_between_batches_ends_the_stream(shell, tmp_path):
    program = script(
        tmp_path / "p", f"echo $$ >{tmp_path}/pid; echo '{BATCH % 0}'; read -r x; echo never\n"
    )
    lines = []
    for line in shell.stream(program, timeout=20):
        lines.append(line)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert lines == [BATCH % 0]
    assert shell.last.status == 128 + signal.SIGKILL
    assert shell.run("echo on", timeout=10).stdout == "on\n"


def test_a_stream_that_is_dropped_leaves_nothing_running(shell, tmp_path):
    program = script(tmp_path / "p", f"echo $$ >{tmp_path}/pid; echo one; exec sleep 300\n")
    stream = shell.stream(program, timeout=20)
    assert next(stream) == "one"
    stream.close()
    assert gone(int((tmp_path / "pid").read_text()))
    assert shell.closed


# -- ends: timeouts, losses, closing; over pipes and SSH ---------------------------------------


def test_a_timeout_kills_what_runs_and_says_so(target, tmp_path):
    shell = target.shell()
    command = f"echo early >&2; sh -c 'echo $$ >{tmp_path}/pid; sleep 300; :'"
    with pytest.raises(UnavailableError, match=r"no reply within 0.5 s") as raised:
        shell.run(command, timeout=0.5)
    assert raised.value.where == target.name
    assert "killed" in raised.value.hint
    assert "early" in raised.value.detail
    assert gone(int((tmp_path / "pid").read_text()))
    with pytest.raises(UnavailableError, match="closed"):
        shell.run(":", timeout=5)
    assert target.run("echo on").stdout == "on\n"


def test_a_stream_past_its_time_is_killed(target, tmp_path):
    shell = target.shell()
    program = script(tmp_path / "p", f"echo $$ >{tmp_path}/pid; echo one; exec sleep 300\n")
    with pytest.raises(UnavailableError, match=r"no reply within 0.5 s"):
        list(shell.stream(program, timeout=0.5))
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_killed_shell_is_a_lost_connection_and_nothing_is_retried(target, tmp_path):
    shell = target.shell()
    with pytest.raises(UnavailableError, match="connection was lost"):
        shell.run(f"echo x >>{tmp_path}/count; kill -9 {shell.pid}", timeout=10)
    assert (tmp_path / "count").read_text() == "x\n"
    assert shell.closed


def test_an_error_does_not_show_a_whole_script(target):
    shell = target.shell()
    with pytest.raises(UnavailableError) as raised:
        shell.run(f"a=1\n\nkill -9 {shell.pid}\n", timeout=10)
    assert raised.value.message == "the connection was lost while running: a script of 3 lines"


def test_closing_from_another_thread_ends_a_command(target, tmp_path):
    shell = target.shell()
    failure = []

    def work():
        try:
            shell.run(f"echo $$ >{tmp_path}/pid; sleep 300; :", timeout=60)
        except UnavailableError as error:
            failure.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not (tmp_path / "pid").exists():
        time.sleep(0.01)
    shell.close()
    thread.join(20)
    assert failure
    assert gone(shell.pid)


def test_closing_ends_what_was_left_in_the_background(target, tmp_path):
    shell = target.shell()
    shell.run(f"sleep 300 >/dev/null 2>&1 & echo $! >{tmp_path}/pid", timeout=10)
    shell.close()
    shell.close()
    assert gone(int((tmp_path / "pid").read_text()))


def test_two_shells_are_independent(target):
    one, two = target.shell(), target.shell()
    assert one.pgid != two.pgid
    stream = one.stream("echo a; sleep 0.2; echo b", timeout=10)
    assert next(stream) == "a"
    assert two.run("echo c", timeout=10).stdout == "c\n"
    assert list(stream) == ["b"]
    with pytest.raises(RuntimeError, match="already running"):
        stream = one.stream("echo a; sleep 1", timeout=10)
        next(stream)
        one.run(":", timeout=1)


def test_input_reaches_the_command_whole_and_only_the_command(target, tmp_path):
    data = os.urandom(3_000_000)
    result = target.run(f"cat >{tmp_path}/copy; wc -c <{tmp_path}/copy", input=data)
    assert result.stdout.strip() == "3000000"
    assert (tmp_path / "copy").read_bytes() == data
    # Input that looks like a header of the loop's own, left unread by the command.
    evil = b"run a b 1 null\ntouch %s/ran\n" % bytes(tmp_path) * 1000
    assert target.run("head -c 1 >/dev/null", input=evil).ok
    assert not (tmp_path / "ran").exists()


def test_a_controller_killed_hard_leaves_no_idle_shell(tmp_path):
    code = """
import os, time
from labctl.targets.local import LocalTarget
shell = LocalTarget("here", "/tmp").shell()
print(shell.pid, flush=True)
time.sleep(60)
"""
    argv = [sys.executable, "-c", code]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, text=True) as controller:
        pid = int(controller.stdout.readline())
        controller.kill()
    assert gone(pid)


@pytest.mark.parametrize("program", ["/bin/false", "/bin/cat"])
def test_something_that_is_no_shell_is_named(program):
    with pytest.raises(UnavailableError, match="no POSIX shell answered"):
        PersistentShell(PipeChannel([program]), where="box", kill_group=kill_group, timeout=1)


@pytest.mark.parametrize("where", ["", " >&2"])
@pytest.mark.parametrize("how", ["run", "stream"])
def test_endless_output_is_ended_and_named(target, monkeypatch, how, where):
    monkeypatch.setattr(shells, "MAX_OUTPUT", 1 << 20)
    shell = target.shell()
    endless = f"exec dd if=/dev/zero bs=64k{where}"
    with pytest.raises(MeasurementError, match="more than 1 MiB of output"):
        if how == "run":
            shell.run(endless, timeout=60)
        else:
            list(shell.stream(endless, timeout=60))
    assert shell.closed
    assert gone(shell.pid)
