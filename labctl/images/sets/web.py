"""HTTP for release sets: is it there, what does the list say, download it, resumed if need be.

TLS is verified against the system's certificates, and proxies are taken from the
environment. What the bytes should be is decided elsewhere.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from labctl.errors import UnavailableError
from labctl.images.sets.part import Part, Range, length, validator

if TYPE_CHECKING:  # at runtime imported where they are used: every verb imports this module
    import httpx
    import tenacity

Report = Callable[[int, int | None], None]
"""Called with the bytes that are here, and how many it will be (None: not known)."""

T = TypeVar("T")

_LIST_BYTES = 4 << 20
_MOST_ATTEMPTS = 1000  # of one file, even when each brings a little
_MISSING = (403, 404, 410)  # archives on object stores answer 403 for what is not there
_BUSY = (408, 425, 429)


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server.

    Attributes:
        connect_s, read_s: time limits for a connection, and for a silence in it.
        attempts: how many in a row may fail without bringing anything.
        pause_s: before the second attempt; doubles with each that brings nothing.
        least_bytes_s: bytes a second that it must bring, over each ``window_s``.
    """

    connect_s: float = 10.0
    read_s: float = 30.0
    attempts: int = 4
    pause_s: float = 0.5
    least_bytes_s: float = 2048.0
    window_s: float = 60.0


class MissingError(UnavailableError):
    """The server answers, and does not have it or does not give it away."""


class TooLongError(UnavailableError):
    """What the server sends is larger than any that is wanted."""


class _RefusedError(UnavailableError):
    """The server answers that it will not do that."""


class _InterruptedError(Exception):
    """This attempt failed; another one may not."""


class _Pace:
    """Sees that a body comes to an end: in time, and before it has filled the disk."""

    def __init__(self, patience: Patience, url: str, most: int, begin: int = 0) -> None:
        self._patience, self._url, self._most = patience, url, most
        self._since, self._then, self._done = time.monotonic(), begin, begin

    def take(self, count: int) -> None:
        """So many bytes more have come.

        Raises:
            UnavailableError: they come too slowly, or are too many.
        """
        self._done += count
        if self._done > self._most:
            raise TooLongError(f"it does not end after {self._most} bytes", where=self._url)
        passed = time.monotonic() - self._since
        if passed < self._patience.window_s:
            return
        if self._done - self._then < self._patience.least_bytes_s * passed:
            raise UnavailableError(
                f"it is too slow: {self._done - self._then} bytes in {passed:.0f} s",
                where=self._url,
                hint="try again later, or --mirror; what has come stays",
            )
        self._since, self._then = time.monotonic(), self._done


class Web:
    """An HTTP client; a context manager. Every error is an UnavailableError that names the URL."""

    def __init__(self, patience: Patience | None = None, most_bytes: int = 1 << 40) -> None:
        """``most_bytes``: of a file; what is longer cannot be what is wanted."""
        self._patience = patience or Patience()
        self._most_bytes = most_bytes
        self._answered: set[str] = set()
        self._opened: httpx.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._opened:
            self._opened.close()

    @property
    def _client(self) -> httpx.Client:
        if self._opened is None:
            import httpx

            patience = self._patience
            self._opened = httpx.Client(
                follow_redirects=True,
                timeout=httpx.Timeout(patience.read_s, connect=patience.connect_s),
                verify=ssl.create_default_context(),
                # Archives are wanted as they are; a server must not pack them once more.
                headers={"Accept-Encoding": "identity", "User-Agent": "labctl"},
            )
        return self._opened

    def exists(self, url: str) -> bool:
        """Whether the server has it."""

        def ask() -> bool:
            try:
                with self._answer("HEAD", url):
                    return True
            except MissingError:
                return False
            except _RefusedError:
                # Some servers know no HEAD; the body of this answer is not read.
                with self._answer("GET", url):
                    return True

        try:
            return self._insist(url, ask)
        except MissingError:
            return False

    def text(self, url: str) -> str | None:
        """A small text; None when the server has none.

        What is read here may be trusted from now on, so a redirection from https to http,
        where anybody could answer, is an error.
        """

        def read() -> str:
            with self._answer("GET", url) as response:
                if url.startswith("https:") and response.url.scheme != "https":
                    raise UnavailableError(
                        f"https leads to {response.url}, which is not protected", where=url
                    )
                pace = _Pace(self._patience, url, _LIST_BYTES)
                content = bytearray()
                for chunk in response.iter_raw():
                    pace.take(len(chunk))
                    content += chunk
                return content.decode("utf-8", "replace")

        try:
            return self._insist(url, read)
        except MissingError:
            return None

    def download(self, url: str, part: Path, report: Report) -> bool:
        """Bring ``url`` to the file ``part``, going on where an earlier download ended.

        Returns:
            Whether anything was resumed: if the file is not what it should be, beginning anew
            may help.

        Raises:
            MissingError: the server does not have it.
            UnavailableError: it cannot be had, or not be written. What is here stays.
        """
        held = Part(part, url)
        resumed = False

        def transfer() -> None:
            nonlocal resumed
            resumed |= self._transfer(held, url, report)

        self._insist(url, transfer, lambda: held.size)
        return resumed

    def _transfer(self, held: Part, url: str, report: Report) -> bool:
        """One attempt. Returns whether it went on from something."""
        version = held.version
        ranged = {"Range": f"bytes={held.size}-", "If-Range": version}
        headers = ranged if version and held.size else {}
        with self._answer("GET", url, headers) as response:
            begin, total = 0, length(response.headers.get("content-length", ""))
            if headers and response.status_code in (206, 416):
                given = Range.parse(response.headers.get("content-range", ""))
                begin, total = held.size, given.total
                if response.status_code == 416 and total == begin:
                    return True
                if given.start != begin or validator(response.headers) not in ("", version):
                    held.discard()
                    raise _InterruptedError("the rest that it sends does not fit what is here")
            elif response.status_code != 200:
                raise UnavailableError(f"unexpected answer: {_status(response)}", where=url)
            pace = _Pace(self._patience, url, self._most_bytes, begin)
            # Closing a file writes too.
            with _writing(held.path):
                if not begin:
                    held.begin(validator(response.headers))
                with held.path.open("ab") as file:
                    for chunk in response.iter_raw():
                        try:
                            pace.take(len(chunk))
                        except TooLongError:
                            held.discard()
                            raise
                        file.write(chunk)
                        file.flush()
                        report(held.size, total)
        if total is not None and held.size != total:
            raise _InterruptedError(f"it ended after {held.size} of {total} bytes")
        return begin > 0

    @contextmanager
    def _answer(
        self, method: str, url: str, headers: Mapping[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """An answer whose body can be read; errors in words, those worth it as interruptions."""
        import httpx

        host = url.split("/")[2]
        try:
            with self._client.stream(method, url, headers=headers) as response:
                self._answered.add(host)
                code = response.status_code
                if code in _MISSING:
                    raise MissingError(f"the server answers {_status(response)}", where=url)
                if (code >= 500 and code != 501) or code in _BUSY:
                    raise _InterruptedError(f"the server answers {_status(response)}")
                if code >= 400 and code != 416:
                    raise _RefusedError(f"the server answers {_status(response)}", where=url)
                yield response
        except (httpx.ConnectError, httpx.TimeoutException, httpx.ProxyError) as error:
            if host not in self._answered:
                # No network, no such name, a wrong proxy or certificate: waiting helps nobody.
                what = "no secure connection" if _is_tls(error) else "nothing answers"
                raise UnavailableError(f"{what}: {_words(error)}", where=url) from None
            raise _InterruptedError(_words(error)) from None
        except (
            httpx.UnsupportedProtocol,
            httpx.TooManyRedirects,
            httpx.InvalidURL,
            UnicodeError,  # a host's name that none can have
        ) as error:
            raise UnavailableError(f"it cannot be followed: {_words(error)}", where=url) from None
        except httpx.RequestError as error:
            raise _InterruptedError(_words(error)) from None

    def _insist(
        self, url: str, attempt: Callable[[], T], advanced: Callable[[], int] = lambda: 0
    ) -> T:
        """Try until it works, or until several attempts in a row have brought nothing.

        Args:
            advanced: how far it is; only what goes beyond all before counts as something.
        """
        import tenacity

        furthest, fruitless = advanced(), 0

        def stop(state: tenacity.RetryCallState) -> bool:
            nonlocal furthest, fruitless
            fruitless = 0 if advanced() > furthest else fruitless + 1
            furthest = max(furthest, advanced())
            return fruitless >= self._patience.attempts or state.attempt_number >= _MOST_ATTEMPTS

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_InterruptedError),
            stop=stop,
            wait=lambda state: self._patience.pause_s * 2**fruitless,
            reraise=True,
        )
        try:
            return retrying(attempt)
        except _InterruptedError as error:
            raise UnavailableError(
                f"it failed {fruitless} times in a row, last: {error}", where=url
            ) from None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"it cannot be written: {error.strerror}",
            where=str(path),
            hint="make room; what has been downloaded stays, and the next attempt goes on from it",
        ) from None


def _status(response: httpx.Response) -> str:
    return f"{response.status_code} {response.reason_phrase}".strip()


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__


def _is_tls(error: BaseException | None) -> bool:
    """Whether a TLS error is what is behind ``error``."""
    if error is None or isinstance(error, ssl.SSLError):
        return error is not None
    return _is_tls(error.__cause__ or error.__context__)
