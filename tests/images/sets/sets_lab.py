"""A release of three sets and one more, and a supply of it that is looked at closely."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import random
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from labctl.images.builder import Source
from labctl.images.sets import SetFile, SetsSpec, Supply
from labctl.images.sets.web import Patience

PATH = "NetBSD-6.1.5/amd64/binary/sets"
BELOW = f"/pub/archive/{PATH}"
QUICK = Patience(connect_s=10, read_s=1.5, attempts=3, pause_s=0.01)


def tar(name: str, version: int = 1, suffix: str = ".tgz", size: int = 300_000) -> bytes:
    """An archive with one file of bytes that do not compress. The same call, the same bytes."""
    content = random.Random(f"{name} {version}").randbytes(size)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        member = tarfile.TarInfo(f"./{name}/file")
        member.size = size
        archive.addfile(member, io.BytesIO(content))
    if suffix.endswith("xz"):
        return lzma.compress(raw.getvalue(), preset=0)
    return gzip.compress(raw.getvalue(), compresslevel=1, mtime=0)


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def sha512_list(files: dict[str, bytes]) -> bytes:
    lines = [f"SHA512 ({n}) = {hashlib.sha512(c).hexdigest()}\n" for n, c in files.items()]
    weak = [f"MD5 ({n}) = {hashlib.md5(c).hexdigest()}\n" for n, c in files.items()]
    return "".join(weak + lines).encode()


def manifest(files: dict[str, bytes]) -> bytes:
    lines = [
        f'{name}\t{sha256(content)[7:]}\t12\t{name.split(".")[0]}\t"a set (MANDATORY)"\ton\n'
        for name, content in files.items()
    ]
    return "".join(lines).encode()


RELEASE = {f"{name}.tgz": tar(name) for name in ("base", "etc", "kern-GENERIC", "comp")}


@dataclass
class Lab:
    """Makes supplies of one recipe and notes what they say."""

    root: Path
    url: str
    said: list[tuple[str, float | None, str]] = field(default_factory=list)
    changes: dict[str, object] = field(default_factory=dict)
    patience: Patience | None = QUICK

    @property
    def keep(self) -> Path:
        return self.root / "netbsd-6.1.5"

    def supply(self, **changes: object) -> Supply:
        fields: dict[str, object] = {
            "mirror": f"{self.url}/pub/archive",
            "path": PATH,
            "required": ["base", "etc", "kern-GENERIC"],
            "optional": ["comp"],
            "checksums": "SHA512",
        }
        spec = SetsSpec.model_validate({**fields, **self.changes, **changes})
        return Supply("netbsd-6.1.5", spec, self.root, patience=self.patience)

    def obtain(self, sets: object = "", mirror: str = "", **changes: object) -> dict[str, SetFile]:
        source = Source(sets=str(sets), mirror=mirror)
        return self.supply(**changes).obtain(source, self.progress)

    def progress(self, stage: str, fraction: float | None, detail: str) -> None:
        self.said.append((stage, fraction, detail))

    @property
    def words(self) -> str:
        return "\n".join(detail for _, _, detail in self.said)
