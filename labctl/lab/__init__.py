"""The lab file: what ``lab.yaml`` declares, as a typed and validated model."""

from labctl.lab.load import load_lab, locate
from labctl.lab.model import (
    KernelPair,
    Lab,
    LocalSpec,
    Pair,
    SimSpec,
    SSHSpec,
    TargetSpec,
    VMSpec,
)

__all__ = [
    "KernelPair",
    "Lab",
    "LocalSpec",
    "Pair",
    "SSHSpec",
    "SimSpec",
    "TargetSpec",
    "VMSpec",
    "load_lab",
    "locate",
]
