"""What a Linux kernel image for x86 says of itself, from the header that boot loaders read.

Source: Documentation/arch/x86/boot.rst of the kernel, "The Real-Mode Kernel Header".
"""

from __future__ import annotations

from pathlib import Path

from labctl.errors import ConfigError

_BOOT_FLAG = (0x1FE, b"\x55\xaa")
_MAGIC = (0x202, b"HdrS")
_VERSION_POINTER = 0x20E
_LOAD_FLAGS, _LOADED_HIGH = 0x211, 1
_SETUP = 0x200
_HEAD = 0x10000  # the setup code, with the version's text in it, is at most 32 KiB
_HINT = "name the file that the build left as arch/x86/boot/bzImage, or a package's vmlinuz"


def release_of(path: Path) -> str:
    """The kernel's release, as ``uname -r`` gives it once it runs.

    Raises:
        ConfigError: there is no such file, or it is no bzImage.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise ConfigError(
            f"the kernel {path} cannot be read: {error.strerror}", hint="check the path"
        ) from None
    if head[:4] == b"\x7fELF":
        raise ConfigError(f"{path} is an ELF file (a vmlinux?), not a bzImage", hint=_HINT)
    if any(head[at : at + len(mark)] != mark for at, mark in (_BOOT_FLAG, _MAGIC)):
        raise ConfigError(f"{path} is not a Linux kernel for x86", hint=_HINT)
    if not head[_LOAD_FLAGS] & _LOADED_HIGH:
        raise ConfigError(f"{path} is a zImage, which is loaded below 1 MiB", hint=_HINT)
    start = int.from_bytes(head[_VERSION_POINTER : _VERSION_POINTER + 2], "little") + _SETUP
    words = head[start : start + 256].partition(b"\0")[0].decode("ascii", "replace").split()
    if start == _SETUP or not words:
        raise ConfigError(f"{path} does not say which kernel it is", hint=_HINT)
    return words[0]
