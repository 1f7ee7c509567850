"""SSH key pairs: ECDSA P-256 in PEM, which every server from OpenSSH 5.7 on can read.

Servers up to OpenSSH 6.4 know neither Ed25519 nor the newer private key format.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from labctl.errors import ConfigError
from labctl.paths import write_atomic


def ensure_keypair(path: Path, comment: str) -> str:
    """The public line of the key pair at ``path`` (and ``path``.pub), made once.

    The private key is written as "BEGIN EC PRIVATE KEY" with mode 0600.

    Raises:
        ConfigError: there is a file that is not such a key.
    """
    if not path.exists():
        _create(path)
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, OSError) as error:
        raise ConfigError(
            "this is no private key that can be read",
            where=str(path),
            hint="move it away; a new one is made",
            detail=str(error),
        ) from None
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    line = f"{public.decode()} {comment}"
    public_path = path.with_name(f"{path.name}.pub")
    if not public_path.exists() or public_path.read_text().strip() != line:
        write_atomic(public_path, line + "\n")
    return line


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    # Linked into place, not renamed: of two processes that make it at once, the first
    # one's key stays, and both read that one.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    write_atomic(temporary, pem, mode=0o600)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
