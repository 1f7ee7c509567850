"""TLS: an unknown certificate is refused, one that the system trusts is not."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from archive_server import ArchiveServer
from sets_lab import BELOW, RELEASE, Lab, sha512_list

from labctl.errors import UnavailableError


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of 127.0.0.1 and its key, in one file."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    out = ["-keyout", f"{file}.key", "-out", f"{file}.crt"]
    command = ["openssl", "req", "-x509", "-days", "2", *key, *names, *out]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(Path(f"{file}.key").read_text() + Path(f"{file}.crt").read_text())
    return file


@pytest.fixture
def secure(certificate: Path) -> Iterator[ArchiveServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    served = ArchiveServer(context)
    for name, content in {**RELEASE, "SHA512": sha512_list(RELEASE)}.items():
        served.files[f"{BELOW}/{name}"] = content
    yield served
    served.close()


def test_an_unknown_certificate_is_refused(lab: Lab, secure: ArchiveServer):
    with pytest.raises(UnavailableError, match=r"no secure connection: .*certificate"):
        lab.obtain(mirror=f"{secure.url}/pub/archive")
    assert secure.log == []


def test_a_certificate_that_the_system_trusts_is_not(
    lab: Lab, secure: ArchiveServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert lab.obtain(mirror=f"{secure.url}/pub/archive")["base"].origin.startswith("https://")


def test_a_list_is_not_trusted_when_it_leaves_https(
    lab: Lab, secure: ArchiveServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    secure.redirects[f"{BELOW}/SHA512"] = f"{lab.url}{BELOW}/SHA512"
    with pytest.raises(UnavailableError, match="which is not protected"):
        lab.obtain(mirror=f"{secure.url}/pub/archive")
