"""Digests taken over from a published list at the first use, and held to from then on."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from labctl import paths
from labctl.errors import UnavailableError


@dataclass(frozen=True)
class Pin:
    """What a list said of a set.

    Attributes:
        file: the file's name in the list.
        list_url: where the list was.
        at: when it was read, ISO 8601 (UTC).
    """

    digest: str
    file: str
    list_url: str
    at: str


class Pins:
    """The first-use pins of one recipe, in a file of the state directory."""

    def __init__(self, recipe_name: str) -> None:
        self._recipe_name = recipe_name

    @property
    def path(self) -> Path:
        """The file; it need not be there."""
        return paths.state_dir() / "pins" / f"{self._recipe_name}.json"

    def all(self) -> Mapping[str, Pin]:
        """Set name to pin.

        Raises:
            UnavailableError: the file is there and makes no sense; going on as if there were
                none would trust anything.
        """
        try:
            return {name: Pin(**pin) for name, pin in json.loads(self.path.read_text()).items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise UnavailableError(
                f"the digests that were pinned cannot be read: {error}",
                where=str(self.path),
                hint="remove the file to trust the published list again",
            ) from None

    def add(self, name: str, digest: str, file: str, list_url: str) -> None:
        """Hold a set to ``digest`` from now on."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        pins = {**self.all(), name: Pin(digest, file, list_url, now)}
        paths.private_dir(self.path.parent)
        content = {name: asdict(pin) for name, pin in sorted(pins.items())}
        paths.write_atomic(self.path, json.dumps(content, indent=1) + "\n")
