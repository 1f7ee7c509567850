"""What a workload is expected to show on a kernel, and whether a target showed it.

``workloads/<name>/expectations.yaml`` says for systems, vendors and versions which shape
growth has there, by what mechanism and by which source (docs/workloads.md). That a target
contradicts is a prompt to look, not an error: distributors backport, hosts interfere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from labctl.analysis.kernels import VENDORS, Holds, Kernel, kernel_of, parse_range, within
from labctl.analysis.shapes import Parallel, Ratio, Shape, Verdict, weigh
from labctl.analysis.sides import usable_cpus
from labctl.errors import ConfigError
from labctl.lab.findings import explain, nearest
from labctl.lab.yaml_lines import Keys, read
from labctl.stats.effects import Family
from labctl.workloads import ParamValue, Workload

FILE = "expectations.yaml"
Params = Mapping[str, ParamValue]
Ratios = Callable[[Params], Family | None]
"""Asked for the times of this variant against those of another, given by all of its
parameters, as a family over the thread counts; None where the run does not have it."""

SHAPES_ONLY = "; under TCG only the shape means something"
EMULATED_CPUS = "under TCG that may be for want of a CPU to each vCPU, not for a lock of the kernel"


def _range(text: str) -> str:
    parse_range(text)
    return text


def _vendor(name: str) -> str:
    if name not in VENDORS:
        raise ValueError(f"the vendor {name!r} is not known; {nearest(name, VENDORS)}")
    return name


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Needs(_Model):
    """What a target and a run need for the shape to be looked for.

    Attributes:
        cpus: CPUs that the target may use, at least.
        threads: the greatest thread count measured, at least.
        most_numa_nodes: NUMA nodes, at most; None: any number.
        glibc: the GNU C library's version, at least; "": any, or another library.
        times: whether it takes a target whose times mean something: not one under TCG.
    """

    cpus: int = Field(default=1, ge=1)
    threads: int = Field(default=2, ge=2)
    most_numa_nodes: int | None = Field(default=None, ge=1)
    glibc: str = Field(default="", pattern=r"^([0-9]+\.[0-9]+)?$")
    times: bool = False


class Expectation(_Model):
    """One row of an ``expectations.yaml``.

    Attributes:
        name: unique in the file.
        system: "linux", "freebsd" ...
        vendors: whose kernels it is stated for; none: all (see ``kernels.VENDORS``).
        versions: ranges of which one has to hold; none: all versions.
        params: values, by parameter, of the variants it is stated for; none: all.
        shape: what is expected.
        mechanism, source: why, and where that is to be read; sentences.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    system: Literal["linux", "freebsd", "netbsd", "openbsd", "dragonfly"]
    vendors: tuple[Annotated[str, AfterValidator(_vendor)], ...] = ()
    versions: tuple[Annotated[str, AfterValidator(_range)], ...] = ()
    params: dict[str, tuple[ParamValue, ...]] = {}
    shape: Shape
    needs: Needs = Needs()
    mechanism: str = Field(min_length=1)
    source: str = Field(min_length=1)

    def is_for(self, kernel: Kernel, params: Params) -> Holds:
        """Whether it is stated for this kernel and variant; "open": the kernel's account of
        itself is too coarse to tell."""
        if self.system != kernel.system:
            return "no"
        if self.vendors and kernel.vendor not in self.vendors:
            return "no"
        if any(params.get(name) not in values for name, values in self.params.items()):
            return "no"
        return within(kernel, self.versions)


class _File(_Model):
    expectations: tuple[Expectation, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Answer:
    """What a target says to one expectation.

    Attributes:
        target: the target's name.
        verdict: "agrees", "contradicts" or "not testable".
        expected: the shape, in words.
        mechanism, source: why it is expected, and where that is to be read.
        sentence: what was found, with its numbers; ends with a full stop.
        expectation: the row's name.
        params: the variant that it is about.
    """

    target: str
    verdict: Verdict
    expected: str
    mechanism: str
    source: str
    sentence: str
    expectation: str = ""
    params: tuple[tuple[str, ParamValue], ...] = ()


def load(workload: Workload) -> tuple[Expectation, ...]:
    """The expectations of a workload, from beside its manifest; () where it has none.

    Raises:
        ConfigError: the file is not valid; names file, line, key and remedy.
    """
    path = workload.directory / FILE
    return read_file(path, workload) if path.is_file() else ()


def read_file(path: Path, workload: Workload) -> tuple[Expectation, ...]:
    """The expectations in ``path``, checked against the workload's parameters.

    Raises:
        ConfigError: as ``load``.
    """
    raw, lines = read(path)
    if not isinstance(raw, dict):
        raise ConfigError(
            "these are no expectations", where=f"{path}:1", hint="the file has the key expectations"
        )
    try:
        rows = _File.model_validate(raw).expectations
    except ValidationError as error:
        raise explain(error, path, lines, raw, _File) from None
    for index, row in enumerate(rows):
        _check(row, ("expectations", index), path, lines, workload, rows[:index])
    return rows


def evaluate(
    expectations: Sequence[Expectation],
    target: str,
    facts: Mapping[str, Any],
    params: Params,
    growth: Family,
    *,
    base: int = 1,
    ratios: Ratios = lambda params: None,
) -> list[Answer]:
    """What one variant of a workload on one target says to what is expected there.

    Args:
        expectations: of the workload that ran (``load``).
        target: its name, for the answers.
        facts: the target's, as a run records them.
        params: the variant: all of its parameters.
        growth: T(N) / T(base) over the thread counts above ``base``.
        base: the least thread count.
        ratios: gives the times of this variant against another's, for shapes that compare.

    Returns:
        One answer for each expectation that is stated for this system and variant and may
        hold for this kernel; [] where nothing is stated.
    """
    kernel = kernel_of(facts)
    if kernel is None:
        return []
    answers = []
    for row in expectations:
        applies = row.is_for(kernel, params)
        if applies == "no":
            continue
        if applies == "open":
            verdict: Verdict = "not testable"
            sentence = f"{kernel} does not tell whether it is one of {' or '.join(row.versions)}"
        else:
            verdict, sentence = _look(row, kernel, facts, params, growth, base, ratios)
        answers.append(
            Answer(
                target=target,
                verdict=verdict,
                expected=row.shape.words,
                mechanism=row.mechanism,
                source=row.source,
                sentence=f"{sentence}.",
                expectation=row.name,
                params=tuple(sorted(params.items())),
            )
        )
    return answers


def _look(
    row: Expectation,
    kernel: Kernel,
    facts: Mapping[str, Any],
    params: Params,
    growth: Family,
    base: int,
    ratios: Ratios,
) -> tuple[Verdict, str]:
    """Verdict and sentence, without its full stop."""
    family = growth
    if isinstance(row.shape, Ratio):
        compared = ratios({**params, **row.shape.against})
        if compared is None:
            return "not testable", f"the run has no samples with {row.shape.other} beside these"
        family = compared
    lacking = _lacking(row.needs, facts, family)
    if lacking:
        return "not testable", f"It cannot be seen here: {lacking}"
    verdict, bound, why = weigh(row.shape.bounds(family, base, usable_cpus(facts) or 1))
    emulated = facts.get("accelerator") == "tcg"
    if verdict == "contradicts" and emulated and isinstance(row.shape, Parallel):
        verdict, why = "not testable", EMULATED_CPUS
    note = SHAPES_ONLY if emulated and not why else ""
    if bound is None:
        return verdict, why
    sentence = f"{kernel}: {bound}"
    return verdict, f"{sentence}, but {why}{note}" if why else f"{sentence}{note}"


def _lacking(needs: Needs, facts: Mapping[str, Any], family: Family) -> str:
    """What keeps the shape from being looked for, as a clause; "" if nothing does."""
    if not family.threads:
        return "it was measured at one thread count alone"
    if family.threads[-1] < needs.threads:
        return f"it takes {needs.threads} threads, and {family.threads[-1]} were measured"
    cpus = usable_cpus(facts)
    if needs.cpus > 1 and cpus is None:
        return "the target does not tell how many CPUs it has"
    if cpus is not None and cpus < needs.cpus:
        return f"it takes {needs.cpus} CPUs, and the target has {cpus}"
    if needs.most_numa_nodes is not None:
        nodes = facts.get("numa_nodes")
        if nodes is None:
            return "the target does not tell how many NUMA nodes it has"
        if nodes > needs.most_numa_nodes:
            return f"it is stated for {needs.most_numa_nodes} NUMA node, and the target has {nodes}"
    if needs.times and facts.get("accelerator") == "tcg":
        return "it is about times, and the target runs under TCG"
    return _older_glibc(needs.glibc, str(facts.get("libc") or "")) if needs.glibc else ""


def _older_glibc(wanted: str, libc: str) -> str:
    """Facts have ``glibc 2.36``."""
    name, _, version = libc.partition(" ")
    if name != "glibc" or not version:
        return f"it takes glibc {wanted}, and the target has {libc or 'a library that is not told'}"
    older = [int(n) for n in version.split(".")[:2]] < [int(n) for n in wanted.split(".")]
    return f"it takes glibc {wanted}, and the target has {version}" if older else ""


def _check(
    row: Expectation,
    at: Keys,
    path: Path,
    lines: Mapping[Keys, int],
    workload: Workload,
    before: Sequence[Expectation],
) -> None:
    """What one key says of another: names, parameters and their values."""

    def fail(keys: Keys, message: str, hint: str) -> None:
        place = next(lines[keys[:n]] for n in range(len(keys), -1, -1) if keys[:n] in lines)
        raise ConfigError(f"{row.name}: {message}", where=f"{path}:{place}", hint=hint)

    if any(row.name == other.name for other in before):
        fail((*at, "name"), "this name stands here a second time", "rename one of them")
    if row.system not in workload.systems:
        hint = f"it runs on {', '.join(workload.systems)}"
        fail((*at, "system"), f"{workload.name} does not run on {row.system}", hint)
    if row.vendors and row.system != "linux":
        fail((*at, "vendors"), f"{row.system} has no vendors", "remove the key")
    given: list[tuple[Keys, str, ParamValue]] = [
        ((*at, "params", name), name, value)
        for name, values in row.params.items()
        for value in values
    ]
    if isinstance(row.shape, Ratio):
        against = row.shape.against
        given += [((*at, "shape", "against", n), n, value) for n, value in against.items()]
    for keys, name, value in given:
        if name not in workload.params:
            what = f"{workload.name} has no parameter {name!r}"
            fail(keys, what, nearest(name, workload.params))
        try:
            meant = workload.params[name].parse(str(value))
        except ValueError as error:
            fail(keys, str(error), "write one of the workload's own values")
        else:
            if meant != value:
                fail(keys, f"{value!r} is another name of {meant!r}", f"write {meant!r}")
