"""What a guest's record says of its kernel, against what the lab file asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labctl.guests import GuestPlan, GuestRecord, kernels
from labctl.images.builder import GuestSettings
from labctl.images.catalogue import find_recipe
from labctl.images.digest import content_digest
from labctl.images.kernels import KernelChoice

OWN = "the image's own"


@pytest.fixture
def plan() -> GuestPlan:
    return GuestPlan(find_recipe("debian-12").hardware, GuestSettings(), "minimal", 2, 512)


def record(**values: str) -> GuestRecord:
    made = dict.fromkeys(("domain", "image", "image_key", "user", "host_key", "accel"), "x")
    made |= dict.fromkeys(("asked_accel", "accel_reason", "cpu_model_virtual", "init"), "x")
    return GuestRecord.model_validate(made | {"port": 1, "vcpus": 1, "memory_mib": 1} | values)


def test_kernels_are_compared_by_what_was_asked_for(plan: GuestPlan) -> None:
    bullseye = replace(plan, kernel=KernelChoice("debian/bullseye", suite="bullseye"))
    assert kernels.compared(record(), plan) == (OWN, OWN)
    assert kernels.compared(record(), bullseye) == (OWN, "debian/bullseye")
    assert kernels.compared(record(kernel_spec="debian/sid"), plan) == ("debian/sid", OWN)


def test_a_kernel_of_ones_own_that_was_built_anew_is_another(
    plan: GuestPlan, tmp_path: Path
) -> None:
    image = tmp_path / "bzImage"
    image.write_bytes(b"built once")
    plan = replace(plan, kernel=KernelChoice("./bzImage", image=image))
    runs = record(kernel_spec="./bzImage", kernel_digest=content_digest(image))
    assert kernels.compared(runs, plan) == ("./bzImage", "./bzImage")
    image.write_bytes(b"built again")
    assert kernels.compared(runs, plan) == ("./bzImage as it was", "./bzImage as it is now")
    image.unlink()  # it runs on; the next start will tell
    assert kernels.compared(runs, plan) == ("./bzImage", "./bzImage")
