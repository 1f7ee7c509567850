"""What a machine may be called."""

from __future__ import annotations

import pytest

from labctl.analysis.roles import SIMULATED, role_of


@pytest.mark.parametrize(
    ("kind", "facts", "role", "functional"),
    [
        ("local", {"hypervisor": ("none",)}, "bare metal", False),
        ("ssh", {"hypervisor": ("none",)}, "bare metal", False),
        ("local", {"hypervisor": ("kvm",)}, "host (itself a guest of kvm)", False),
        ("local", {"hypervisor": ("qemu",)}, "host (itself a guest of qemu)", False),
        ("local", {"hypervisor": ("none", "kvm")}, "host (itself a guest of kvm)", False),
        (
            "local",
            {"hypervisor": ("unknown",)},
            "host (itself a guest of an unknown hypervisor)",
            False,
        ),
        ("local", {"hypervisor": ("tcg",)}, "host (itself a guest of tcg)", True),
        ("local", {}, "host (not known to be bare metal)", False),
        ("vm", {"accelerator": ("tcg",), "hypervisor": ("none",)}, "guest, TCG", True),
        ("vm", {"accelerator": ("kvm",)}, "guest, KVM", False),
        ("vm", {"accelerator": ("kvm", "tcg")}, "guest, KVM and TCG mixed", True),
        ("vm", {"hypervisor": ("none",)}, "guest, accelerator unknown", False),
        ("", {"accelerator": ("tcg",)}, "guest, TCG", True),
        ("", {"hypervisor": ("none",)}, "bare metal", False),
    ],
)
def test_role_follows_from_facts(kind, facts, role, functional):
    found = role_of(kind, facts)
    assert (found.text, found.functional, found.simulated) == (role, functional, False)


@pytest.mark.parametrize("facts", [{}, {"hypervisor": ("unknown",)}, {"hypervisor": ("xen",)}])
def test_a_doubtful_baseline_carries_a_note(facts):
    assert role_of("ssh", facts).note


@pytest.mark.parametrize(
    ("facts", "role", "virtual"),
    [
        ({"hypervisor": ("none",)}, "simulated bare metal", False),
        ({"hypervisor": ("kvm",), "accelerator": ("kvm",)}, "simulated guest, KVM", True),
        ({"hypervisor": ("kvm",)}, "simulated guest, KVM", True),
    ],
)
def test_a_simulated_target_says_so_whatever_its_facts(facts, role, virtual):
    found = role_of("sim", facts)
    assert (found.text, found.virtual) == (role, virtual)
    assert found.simulated and found.note == SIMULATED
