"""Boot code of our own, file systems by makefs, and QEMU to boot what the layouts make."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from labctl.images.process import require

BOOT = Path(__file__).parent / "boot"

Assemble = Callable[..., bytes]


def tool(*command: str | Path, package: str = "") -> str:
    """What a program that is not ours says, which must be content."""
    program = require(str(command[0]), package or str(command[0]))
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Assemble:
    """``assemble("mbr", at=0x600, SIZE=1)``: the bytes of ``boot/mbr.S``, linked for ``at``."""
    if shutil.which("gcc") is None or shutil.which("ld") is None:
        pytest.skip("no gcc and ld")
    directory = tmp_path_factory.mktemp("boot")

    def made(name: str, at: int = 0x7C00, **defines: int) -> bytes:
        built, image = directory / f"{name}.o", directory / f"{name}.bin"
        flags = [f"-D{key}={value}" for key, value in defines.items()]
        subprocess.run(["gcc", *flags, "-c", "-o", built, BOOT / f"{name}.S"], check=True)
        subprocess.run(
            ["ld", f"-Ttext={at:#x}", "--oformat=binary", "-o", image, built], check=True
        )
        return image.read_bytes()

    return made


@pytest.fixture(scope="session")
def mbr(assemble: Assemble) -> bytes:
    return assemble("mbr", at=0x600)


@pytest.fixture(scope="session")
def bootxx(assemble: Assemble) -> bytes:
    return assemble("bootxx")


@pytest.fixture(scope="session")
def pmbr(assemble: Assemble) -> bytes:
    return assemble("pmbr", at=0x600)


def make_ufs(directory: Path, mib: int = 8, version: int = 1) -> Path:
    """A file system with one file in it, ``hello``, made by makefs."""
    tree, image = directory / "tree", directory / f"ufs{version}.img"
    tree.mkdir(exist_ok=True)
    (tree / "hello").write_text("found by others\n")
    options = f"version={version},bsize=16384,fsize=2048,density=8192"
    tool("makefs", "-t", "ffs", "-B", "le", "-o", options, "-s", f"{mib}m", image, tree)
    return image


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A UFS1 of 8 MiB. Not to be changed."""
    return make_ufs(tmp_path_factory.mktemp("root"))


def sectors(disk: Path, first: int, count: int = 1) -> bytes:
    with disk.open("rb") as stream:
        stream.seek(first * 512)
        return stream.read(count * 512)


def boot(disk: Path) -> list[str]:
    """Lines on the serial port of a PC that boots from ``disk``, until the code ends it."""
    command = [
        *("qemu-system-x86_64", "-accel", "tcg", "-machine", "pc", "-m", "32", "-vga", "none"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-net", "none"),
        *("-device", "isa-debug-exit,iobase=0x501,iosize=1", "-serial", "stdio"),
        *("-drive", f"file={disk},if=ide,format=raw,readonly=off"),
    ]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, (done.stdout, done.stderr)  # what writing 0 to 0x501 gives
    return done.stdout.splitlines()
