"""What a recipe says about its release's sets. Reads nothing but the recipe's own words."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

SUFFIXES = (".tgz", ".tar.xz", ".txz", ".tar.gz")
"""Every ending of a set that is known."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


SetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#]+$")]
Suffix = Annotated[str, StringConstraints(pattern=r"^\.(tgz|txz|tar\.gz|tar\.xz)$")]
Pin = Annotated[
    str, StringConstraints(pattern=r"^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$", to_lower=True)
]


class SetsSpec(BaseModel):
    """Where a release's sets are, and how one knows that they are the right ones.

    Attributes:
        mirrors: URLs of the archives that have the release, tried in order. A single one may
            be given as ``mirror``.
        path: directory of the sets below any of them.
        required: names of the sets without suffix, in the order in which they are unpacked.
        optional: sets that are used where they are there.
        suffixes: endings of the files, tried in this order.
        checksums: name of the list published beside the sets (``MANIFEST``, ``SHA512``).
        digests: set name to ``"sha256:hex"`` (or sha512), pinned by the recipe.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mirrors: Annotated[tuple[Url, ...], BeforeValidator(_as_list)] = Field(
        min_length=1, validation_alias=AliasChoices("mirrors", "mirror")
    )
    path: str = Field(pattern=r"^[A-Za-z0-9._+/-]+$")
    required: tuple[SetName, ...] = Field(min_length=1)
    optional: tuple[SetName, ...] = ()
    suffixes: tuple[Suffix, ...] = Field(default=SUFFIXES[:2], min_length=1)
    checksums: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    digests: dict[SetName, Pin] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> SetsSpec:
        parts = self.path.split("/")
        if not all(parts) or {".", ".."} & set(parts):
            raise ValueError(f"path {self.path!r} is not a plain relative path")
        names = self.names
        if len(set(names)) != len(names):
            raise ValueError("a set is named twice in `required` and `optional`")
        unknown = sorted(set(self.digests) - set(names))
        if unknown:
            raise ValueError(f"digests of sets that are not used: {', '.join(unknown)}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """All sets, in the order in which they are unpacked."""
        return self.required + self.optional

    @property
    def all_suffixes(self) -> tuple[str, ...]:
        """The recipe's suffixes, then the others that a user's own sets may have."""
        return self.suffixes + tuple(s for s in SUFFIXES if s not in self.suffixes)

    def tails(self) -> tuple[str, ...]:
        """Where the sets may lie below a mirror, which may begin anywhere in the archives' own
        paths: the whole path of each archive, then without its first parts, at last ``""``."""
        found: dict[str, None] = {}
        for mirror in self.mirrors:
            parts = [part for part in urlsplit(f"{mirror}/{self.path}").path.split("/") if part]
            found |= {"/".join(parts[start:]): None for start in range(len(parts))}
        return (*sorted(found, key=lambda tail: -tail.count("/")), "")
