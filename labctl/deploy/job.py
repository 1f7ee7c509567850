"""One target that is being deployed to: what is there, what is to be there, how it went."""

from __future__ import annotations

from dataclasses import dataclass, field

from labctl.deploy.sources import Source
from labctl.deploy.state import Deployed
from labctl.errors import LabctlError
from labctl.targets.base import Target
from labctl.targets.lock import Lease


@dataclass
class DeployResult:
    """How deployment went on one target.

    Attributes:
        ok: all workloads that its system can run are there and current.
        changed: something was copied or compiled.
        error: why not ``ok``; its ``detail`` holds the compiler's own output.
        builds: keys compiler, flags, link, source_sha, origin and sha256 of each workload,
            by name.
    """

    target: str
    ok: bool
    changed: bool
    error: LabctlError | None = None
    builds: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass
class Job:
    """A target, and what deployment has to do there.

    Attributes:
        force: even what is current is made or copied again.
        changed, error: of what was done so far.
    """

    target: Target
    state: Deployed
    sources: list[Source]
    force: bool = False
    lease: Lease | None = None
    changed: bool = False
    error: LabctlError | None = None

    @property
    def todo(self) -> list[Source]:
        """What is to be made or copied."""
        return self.sources if self.force else self.state.stale(self.sources)

    @property
    def to_compile(self) -> list[Source]:
        """What its own compiler is to make."""
        return [s for s in self.todo if not s.given] if self.state.compiler else []

    @property
    def to_bring(self) -> list[Source]:
        """What has to come from elsewhere."""
        return [s for s in self.todo if s.given or not self.state.compiler]

    def current(self) -> DeployResult:
        """The result where nothing is to be done."""
        builds = self.state.builds(self.sources)
        return DeployResult(self.target.name, True, False, None, builds)
