"""Every workload and mode under the thread, address and undefined-behaviour sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import built, run_program
from .test_protocol import MODES, name_of, options


@pytest.fixture(scope="module", params=["thread", "address,undefined"])
def sanitized(request, tmp_path_factory) -> Path:
    """Directory of a build with the sanitizer; skips where the compiler has none."""
    out = tmp_path_factory.mktemp("sanitized")
    flags = f"-O1 -g -fsanitize={request.param} -fno-sanitize-recover=all"
    (out / "probe.c").write_text("int main(void) { return 0; }\n")
    probe = subprocess.run(
        ["cc", *flags.split(), str(out / "probe.c"), "-o", str(out / "probe")], capture_output=True
    )
    if probe.returncode != 0:
        pytest.skip(f"no -fsanitize={request.param} here")
    return built(out, cflags=flags)


@pytest.mark.parametrize(("name", "params"), MODES, ids=name_of)
def test_clean(sanitized, tmp_path, name, params):
    result = run_program(
        sanitized / name,
        *("--threads=4", "--ops=400", "--batches=3"),
        *options(params),
        TMPDIR=str(tmp_path),
    )
    assert (result.status, result.stderr, result.ended) == (0, "", True)
