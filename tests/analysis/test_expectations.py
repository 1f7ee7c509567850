"""What is expected of the shipped workloads, and what targets answer; and a file's errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labctl.analysis.expectations import Expectation, evaluate, load, read_file
from labctl.analysis.kernels import kernel_of
from labctl.errors import ConfigError
from labctl.stats.effects import Family
from labctl.workloads import Workload, load_workloads
from tests.analysis.families import family

WORKLOADS = load_workloads()
LOCKED, PARALLEL = {2: 1.02, 4: 1.2, 8: 1.3}, {2: 0.51, 4: 0.5, 8: 0.5}
HERD, LEVEL = {2: 1.4, 4: 4.3, 8: 24.0}, {2: 1.1, 4: 1.2, 8: 1.4}
STEP = {2: 4.1, 4: 4.0, 8: 4.2}


def facts(kernel: str, built: str = "#1 SMP", system: str = "linux", **more: Any) -> dict[str, Any]:
    """A machine of two CPUs and one node."""
    common = {"cpus_online": 2, "cpus_allowed": 2, "numa_nodes": 1, "libc": "glibc 2.36"}
    return common | {"system": system, "kernel": kernel, "kernel_version": built} | more


def answers(
    name: str, machine: dict[str, Any], growth: Family, ratio: Family | None = None, **params: Any
) -> dict[str, Any]:
    workload = WORKLOADS[name]
    chosen = {key: param.default for key, param in workload.params.items()} | params
    found = evaluate(load(workload), "t", machine, chosen, growth, ratios=lambda other: ratio)
    return {answer.expectation: answer for answer in found}


# Each shipped row: a machine it is stated for, parameters, what agrees, what contradicts.
MODERN = {"libc": "glibc 2.41"}
SHIPPED: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[int, float], dict[int, float]]] = {
    "one-is-woken": ("eptest", facts("6.1.5"), {}, LEVEL, HERD),
    "all-are-woken": ("kqtest", facts("9.3-RELEASE", system="freebsd"), {}, HERD, LEVEL),
    "broadcast-under-the-kernel-lock": ("kqtest", facts("6.1.5", system="netbsd"), {}, STEP, HERD),
    "sleeping-writers": ("mmapsem", facts("3.2.78"), {}, {2: 30.0}, {2: 1.1}),
    "lock-stealing": ("mmapsem", facts("3.13.0"), {}, {2: 4.0}, {2: 30.0}),
    "optimistic-spinning": ("mmapsem", facts("6.1.5"), {}, {2: 1.1}, {2: 30.0}),
    "write-side-of-per-vma-locks": ("mmapsem", facts("6.4.0"), {}, LOCKED, PARALLEL),
    "one-pool": ("urandom", facts("3.16.7"), {}, LOCKED, PARALLEL),
    "state-per-node": ("urandom", facts("5.10.46"), {}, LOCKED, PARALLEL),
    "key-per-cpu": ("urandom", facts("6.1.5"), {}, PARALLEL, LOCKED),
    "getrandom-in-vdso": ("urandom", facts("6.12.0", **MODERN), {"source": "getrandom"}, {2: 0.3}, {2: 1.0}),
}  # fmt: skip


@pytest.mark.parametrize("row", SHIPPED)
def test_every_shipped_row_can_agree_and_be_contradicted(row: str) -> None:
    name, machine, params, good, bad = SHIPPED[row]
    for values, verdict in ((good, "agrees"), (bad, "contradicts")):
        answer = answers(name, machine, family(values), family(values), **params)[row]
        assert answer.verdict == verdict, answer.sentence
        assert answer.sentence.endswith(" was expected.")
        assert answer.expected and answer.mechanism and answer.source


def test_no_shipped_row_is_left_out_above() -> None:
    rows = {row.name for workload in WORKLOADS.values() for row in load(workload)}
    assert rows == set(SHIPPED)


URANDOM = [row for row in load(WORKLOADS["urandom"]) if "device" in row.params["source"]]


@pytest.mark.parametrize(
    ("release", "built", "row"),
    [
        ("4.7.10", "#1", "one-pool"),
        ("4.8.0", "#1", "state-per-node"),
        ("4.9.319", "#1", "state-per-node"),
        ("4.9.320", "#1", "key-per-cpu"),
        ("4.14.284", "#1", "state-per-node"),
        ("4.19.249", "#1", "key-per-cpu"),
        ("5.4.199", "#1", "state-per-node"),
        ("5.10.0-13-amd64", "#1 SMP Debian 5.10.106-1 (2022-03-17)", "state-per-node"),
        ("5.10.0-46-cloud-amd64", "#1 SMP Debian 5.10.262-1 (2026-07-31)", "key-per-cpu"),
        ("5.15.43", "#1", "state-per-node"),
        ("5.15.44", "#1", "key-per-cpu"),
        ("5.18.0", "#1", "key-per-cpu"),
    ],
)
def test_the_generator_of_each_stable_series_is_known(release: str, built: str, row: str) -> None:
    kernel = kernel_of(facts(release, built))
    assert kernel is not None
    params = {"source": "device", "size": 4096, "workers": "threads"}
    assert [r.name for r in URANDOM if r.is_for(kernel, params) == "yes"] == [row]


def test_a_kernel_that_hides_its_stable_release_is_not_judged() -> None:
    told = answers("urandom", facts("5.15.0-105-generic", "#115-Ubuntu SMP"), family(PARALLEL))
    assert {name: a.verdict for name, a in told.items()} == {
        "state-per-node": "not testable",
        "key-per-cpu": "not testable",
    }
    assert told["key-per-cpu"].sentence.startswith("Linux 5.15.x of Ubuntu does not tell whether")


def test_nothing_is_stated_for_vendors_and_systems_that_no_row_names() -> None:
    assert answers("urandom", facts("3.10.0-1160.el7.x86_64"), family(LOCKED)) == {}
    assert answers("urandom", facts("9.3-RELEASE", system="freebsd"), family(LOCKED)) == {}
    assert answers("urandom", facts("6.1.5"), family(LOCKED), source="file") == {}
    assert answers("urandom", {"system": "linux"}, family(LOCKED)) == {}


@pytest.mark.parametrize(
    ("row", "change", "values", "words"),
    [
        ("key-per-cpu", {"cpus_allowed": 1}, PARALLEL, "it takes 2 CPUs, and the target has 1"),
        ("key-per-cpu", {"cpu_quota": 1.5}, PARALLEL, "it takes 2 CPUs, and the target has 1"),
        ("key-per-cpu", {"cpus_online": None, "cpus_allowed": None}, PARALLEL, "how many CPUs it has"),
        ("key-per-cpu", {}, {}, "at one thread count alone"),
        ("state-per-node", {"numa_nodes": 2}, LOCKED, "stated for 1 NUMA node, and the target has 2"),
        ("state-per-node", {"numa_nodes": None}, LOCKED, "how many NUMA nodes it has"),
        ("all-are-woken", {}, {2: 1.4}, "it takes 8 threads, and 2 were measured"),
        ("sleeping-writers", {"accelerator": "tcg"}, {2: 30.0}, "about times, and the target runs under TCG"),
        ("getrandom-in-vdso", {"libc": "glibc 2.36"}, {2: 1.0}, "it takes glibc 2.41, and the target has 2.36"),
        ("getrandom-in-vdso", {"libc": "musl 1.2.5"}, {2: 1.0}, "the target has musl 1.2.5"),
        ("getrandom-in-vdso", {"libc": None}, {2: 1.0}, "a library that is not told"),
    ],
)  # fmt: skip
def test_what_cannot_be_seen_there_is_said(
    row: str, change: dict[str, Any], values: dict[int, float], words: str
) -> None:
    name, machine, params, _, _ = SHIPPED[row]
    answer = answers(name, machine | change, family(values), family(values), **params)[row]
    assert answer.verdict == "not testable"
    assert words in answer.sentence


def test_a_comparison_needs_the_other_variant() -> None:
    answer = answers("mmapsem", facts("6.1.5"), family(LOCKED))["optimistic-spinning"]
    assert answer.verdict == "not testable"
    assert answer.sentence == "the run has no samples with lock=mutex beside these."


def test_the_other_variant_is_asked_for_by_all_its_parameters() -> None:
    asked: list[dict[str, Any]] = []
    params = {"lock": "nolock", "touch": "touch", "size": 4096}
    rows = load(WORKLOADS["mmapsem"])
    evaluate(
        rows, "t", facts("6.1.5"), params, family(LOCKED),
        ratios=lambda other: asked.append(dict(other)),
    )  # fmt: skip
    assert asked == [{"lock": "mutex", "touch": "touch", "size": 4096}]


def test_under_tcg_a_shape_is_judged_and_it_is_said() -> None:
    machine = facts("6.1.5", accelerator="tcg")
    answer = answers("urandom", machine, family(PARALLEL))["key-per-cpu"]
    assert answer.verdict == "agrees"
    assert answer.sentence.endswith("; under TCG only the shape means something.")


def test_under_tcg_threads_that_get_no_more_done_do_not_contradict() -> None:
    machine = facts("6.1.5", accelerator="tcg")
    answer = answers("urandom", machine, family(LOCKED))["key-per-cpu"]
    assert answer.verdict == "not testable"
    assert "want of a CPU to each vCPU" in answer.sentence
    older = answers("urandom", facts("3.16.7", accelerator="tcg"), family(PARALLEL))["one-pool"]
    assert older.verdict == "contradicts"


ROW = """\
expectations:
  - name: one
    system: linux
    versions: [">=5"]
    params: {rearm: [oneshot]}
    shape: {kind: flat}
    mechanism: It is so.
    source: a book
"""
RATIO = "shape: {kind: ratio, against: {lock: mutex}}"


def changed(old: str, new: str) -> str:
    assert old in ROW
    return ROW.replace(old, new)


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("- x\n", 1, "these are no expectations", "the key expectations"),
        ("expectations: []\n", 1, "there is nothing here", "at least 1"),
        ("expectation: []\n", 1, "there is no such key", "did you mean expectations?"),
        (changed("system: linux", "system: linus"), 3, "'linus' is not possible here", "linux"),
        (changed("system: linux", "system: freebsd"), 3, "eptest does not run on freebsd", "linux"),
        (changed('">=5"', "5.10"), 4, "a text is wanted here, not 5.1", ""),
        (changed('">=5"', '"5.10"'), 4, "'5.10' is not a range of versions", "'>=5.11 <5.15.44'"),
        (changed("[oneshot]", "[oneshoot]"), 5, "'oneshoot' is not one of oneshot, edge", "own values"),
        (changed("[oneshot]", "[clear]"), 5, "'clear' is another name of 'edge'", "write 'edge'"),
        (changed("rearm:", "rearms:"), 5, "eptest has no parameter 'rearms'", "did you mean rearm?"),
        (changed("kind: flat", "kind: flatt"), 6, "the kind 'flatt' is not known", "near-flat"),
        (changed("kind: flat", "within: 1"), 6, "the key kind is missing", "near-flat"),
        (changed("kind: flat", "kind: flat, withn: 1"), 6, "there is no such key", "did you mean within?"),
        (changed("shape: {kind: flat}", RATIO), 6, "eptest has no parameter 'lock'", "rearm"),
        (changed("    mechanism: It is so.\n", ""), 2, "mechanism: this key is missing", "add it"),
        (changed("    source:", "    vendors: [suze]\n    source:"), 8, "the vendor 'suze' is not known", "suse"),
        (changed("    source:", "    needs: {cpu: 2}\n    source:"), 8, "there is no such key", "did you mean cpus?"),
        (ROW + ROW.partition("\n")[2], 9, "this name stands here a second time", "rename"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_and_remedy(
    tmp_path: Path, text: str, line: int, message: str, hint: str
) -> None:
    path = tmp_path / "expectations.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_file(path, WORKLOADS["eptest"])
    assert caught.value.where == f"{path}:{line}", caught.value
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_workload_without_the_file_expects_nothing(tmp_path: Path) -> None:
    bare: Workload = WORKLOADS["eptest"].model_copy(update={"directory": tmp_path})
    assert load(bare) == ()
    (tmp_path / "expectations.yaml").write_text(ROW)
    (row,) = load(bare)
    assert isinstance(row, Expectation)
