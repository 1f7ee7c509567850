"""Claims on a target, with controllers that are really killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from labctl.errors import UnavailableError
from labctl.targets.local import LocalTarget
from labctl.targets.lock import Owner, claim

ROOT = Path(__file__).resolve().parents[2]

# A controller of its own: claims, opens a shell, runs something long, and tells the pids.
CONTROLLER = """
import sys, threading
from labctl.targets.local import LocalTarget
from labctl.targets.lock import claim
target = LocalTarget("here", sys.argv[1])
lease = claim(target, sys.argv[2])
shell = target.shell()
lease.cover(shell)
print(shell.pid, flush=True)
for line in shell.stream("sh -c 'trap : HUP TERM PIPE; echo $$; sleep 300; sleep 300'", timeout=300):
    print(line, flush=True)
"""


@pytest.fixture(params=["local", "ssh"])
def target(request, tmp_path):
    if request.param == "ssh":
        return request.getfixturevalue("ssh_target")
    made = LocalTarget("here", str(tmp_path / "work"))
    request.addfinalizer(made.close)
    return made


@contextlib.contextmanager
def controller(workdir, run):
    """A second labctl that holds the claim and runs a workload; (process, shell, workload)."""
    with subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, workdir, run],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
    ) as process:
        shell, workload = int(process.stdout.readline()), int(process.stdout.readline())
        try:
            yield process, shell, workload
        finally:
            process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell, signal.SIGKILL)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def owner_of(target):
    return Owner.parse((Path(target.workdir) / "lock" / "owner").read_text())


def test_a_claim_is_made_recorded_and_released(target):
    with claim(target, "run-1") as lease:
        owner = owner_of(target)
        assert (owner.run, owner.pid) == ("run-1", os.getpid())
        assert owner.boot == target.boot_id()
        assert owner.controller_lives
        shell = target.shell()
        lease.cover(shell)
        assert owner_of(target).shells == ((shell.pid, shell.pgid, shell.token),)
    assert list(Path(target.workdir).iterdir()) == []


def test_another_run_is_told_who_holds_it_and_the_remedy(target):
    with (
        claim(target, "run-1"),
        pytest.raises(UnavailableError, match=r"run run-1 .* since 20") as e,
    ):
        claim(target, "run-2")
    assert str(os.getpid()) in e.value.message
    assert f"rm -r {target.workdir}/lock" in e.value.hint
    claim(target, "run-2").release()


def test_the_work_of_a_killed_controller_is_ended_before_going_on(target):
    with controller(target.workdir, "run-1") as (process, shell, workload):
        with pytest.raises(UnavailableError, match="run-1"):
            claim(target, "run-2")
        with pytest.raises(UnavailableError, match="run-1"):
            claim(target, "run-1")  # the same run resumed twice at the same time
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert alive(workload)
        lease = claim(target, "run-1")
        assert not alive(workload)
        assert not alive(shell)
        assert owner_of(target).pid == os.getpid()
        lease.release()


def test_a_dead_controllers_claim_is_taken_over_by_any_run(target):
    with controller(target.workdir, "run-1") as (process, _, workload):
        process.kill()
        process.wait()
        claim(target, "run-2").release()
        assert not alive(workload)


def test_the_same_process_claims_again_after_it_lost_its_connection(target):
    first = claim(target, "run-1")
    shell = target.shell()
    first.cover(shell)
    second = claim(target, "run-1")
    assert not alive(shell.pid)
    with pytest.raises(UnavailableError, match="connection was lost"):
        shell.run(":", timeout=5)
    first.release()  # not its claim any more: must not take the second's away
    assert owner_of(target).run == "run-1"
    with pytest.raises(UnavailableError, match="taken over"):
        first.cover(target.shell())
    second.release()
    assert not (Path(target.workdir) / "lock").exists()


def edit(target, **fields):
    file = Path(target.workdir) / "lock" / "owner"
    lines = [line for line in file.read_text().splitlines() if line.partition("=")[0] not in fields]
    file.write_text("\n".join([*lines, *(f"{k}={v}" for k, v in fields.items())]) + "\n")


def test_a_claim_from_before_a_reboot_is_stale_and_kills_nothing(target):
    with controller(target.workdir, "run-1") as (_, _, workload):
        edit(target, boot="another-boot")
        claim(target, "run-2").release()
        assert alive(workload)  # its pid means nothing any more


def test_a_controller_elsewhere_counts_as_alive_while_its_shell_is(target):
    with controller(target.workdir, "run-1") as (_, shell, _):
        edit(target, host="elsewhere/12345678", pid=1)
        with pytest.raises(UnavailableError, match=r"labctl on elsewhere/12345678"):
            claim(target, "run-2")
        os.killpg(shell, signal.SIGKILL)
        claim(target, "run-2").release()


def test_a_pid_that_was_given_away_since_is_not_killed(target):
    bystander = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        claim(target, "run-1")
        edit(target, shell=f"{bystander.pid} {bystander.pid} 0123456789abcdef")
        claim(target, "run-1").release()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_claim_cut_off_half_way_does_not_block_for_ever(target):
    (Path(target.workdir) / "lock").mkdir(parents=True)
    claim(target, "run-1").release()
    assert not (Path(target.workdir) / "lock").exists()


@pytest.mark.parametrize("left", [b"\0" * 200, b"run=old\nhost=x\0\0\n", b""])
def test_a_claim_that_a_power_cut_damaged_is_taken_over(target, left):
    target.connect()
    lock = Path(target.workdir) / "lock"
    lock.mkdir(parents=True)
    (lock / "owner").write_bytes(left)
    with claim(target, "run-1"):
        assert owner_of(target).run == "run-1"
    assert not lock.exists()


def test_an_unwritable_work_directory_is_named(target, tmp_path):
    (tmp_path / "file").touch()
    target.workdir = f"{tmp_path}/file/work"
    with pytest.raises(UnavailableError, match="cannot be written") as raised:
        claim(target, "run-1")
    assert raised.value.detail


def test_of_many_claimants_one_wins(tmp_path):
    """All find the same stale claim; whoever gets it, the others must see it."""
    workdir = str(tmp_path / "work")
    stale = LocalTarget("stale", workdir)
    claim(stale, "old")
    edit(stale, boot="another-boot")
    stale.close()
    won, lost, start = [], [], threading.Barrier(6)

    def compete(index):
        target = LocalTarget(f"t{index}", workdir)
        target.connect()
        start.wait()
        try:
            won.append(claim(target, f"run-{index}"))
        except UnavailableError as error:
            lost.append(str(error))
        target.close()

    threads = [threading.Thread(target=compete, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(won) == 1
    assert len(lost) == 5
    assert all(f"run {won[0].run_id} " in message for message in lost)


def test_release_raises_nothing_even_if_the_target_is_gone(sshd, tmp_path):
    target = sshd.target(workdir=str(tmp_path / "work"))
    lease = claim(target, "run-1")
    target.close()
    target.port = 1  # nobody listens there
    lease.release()
    assert owner_of(target).run == "run-1"
