"""Fetching the published bAbI archive: mirrors in turn, interrupted downloads taken up again.

The libraries used here come with ``pip install "dnclab[babi]"``.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dnclab.tasks.babi.checksums import digest
from dnclab.tasks.babi.install import (
    BabiInstallError,
    cache_folder,
    install_from,
    installed_folder,
    is_installed,
)
from dnclab.tasks.babi.reader import EDITIONS

if TYPE_CHECKING:
    import requests
    import urllib3

MAX_ARCHIVE_BYTES = 64 * 2**20
"""More than any known archive of bAbI v1.2; a server that sends more is not believed."""

ATTEMPTS = 3
"""How often a mirror is asked, each time for what is still missing."""

MIN_BYTES_PER_SECOND = 512
"""Below this, measured over a whole ``timeout``, a server counts as stalled."""

BLOCK_BYTES = 2**16


@dataclass(frozen=True)
class Mirror:
    """An address of the archive."""

    url: str
    sha256: str | None = None
    """Of the archive; None where unknown, so that the checksums of its files alone decide."""


MIRRORS = (
    Mirror(
        "http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz",
        "0364ebde659f14d11bc21744516c5ec49d3d06cb692733f66680771244998898",
    ),
    # An earlier packing of the same files, without en-valid: another archive, another checksum.
    Mirror("https://s3.amazonaws.com/text-datasets/babi_tasks_1-20_v1-2.tar.gz"),
)
"""The authors' own address and the copy that Keras has used."""


class _MirrorError(Exception):
    """A mirror failed; the message says how."""


class _InterruptedError(_MirrorError):
    """The mirror broke off, so that asking it for the rest may help."""


def download(
    cache: str | Path | None = None,
    *,
    mirrors: tuple[Mirror, ...] = MIRRORS,
    timeout: float = 30.0,
    progress: bool = True,
) -> Path:
    """Install the published files from the first mirror that gives them; give their folder.

    Nothing is fetched if they are there already. What a broken download has brought is kept for
    the next call. ``timeout`` is in seconds, for each wait; ``progress`` shows a bar on a terminal.
    """
    if all(is_installed(edition, cache) for edition in EDITIONS):
        return installed_folder(cache)
    _require_libraries()
    folder = cache_folder(cache) / "babi" / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    failures = []
    for mirror in mirrors:
        part = folder / f"{digest(mirror.url.encode())[:16]}.tar.gz.part"
        try:
            _fetch(mirror, part, timeout, progress)
            installed = install_from(part, cache)
        except _MirrorError as error:
            failures.append(f"{mirror.url}: {error}")
        except BabiInstallError as error:
            failures.append(f"{mirror.url}: {str(error).removeprefix(f'{part}: ')}")
            part.unlink(missing_ok=True)
        else:
            part.unlink()
            return installed
    raise BabiInstallError(
        f"bAbI could not be downloaded: {'; '.join(failures)}; "
        "or fetch the archive by other means and install it by `dnclab data babi --from PATH`"
    )


def _fetch(mirror: Mirror, part: Path, timeout: float, progress: bool) -> None:
    """Fill ``part`` with the mirror's whole archive, or raise ``_MirrorError``."""
    for attempt in range(1, ATTEMPTS + 1):
        held = _size(part)
        try:
            _fetch_rest(mirror.url, part, timeout, progress)
        except _InterruptedError:
            if attempt == ATTEMPTS or _size(part) == held:
                raise
            continue
        sha256 = digest(part.read_bytes())
        if mirror.sha256 in (None, sha256):
            return
        part.unlink()
        # What was held from an earlier call may be to blame: then the whole is asked for again.
        if held == 0 or attempt == ATTEMPTS:
            raise _MirrorError(f"expected an archive of SHA-256 {mirror.sha256}, got {sha256}")


def _fetch_rest(url: str, part: Path, timeout: float, progress: bool) -> None:
    """Append what ``part`` lacks; start anew if the server will not send just that."""
    import requests
    import urllib3

    held = _size(part)
    # The authors' server has been seen to answer 403 to the names that Python's libraries bear.
    headers = {"User-Agent": f"dnclab/{version('dnclab')}", "Accept-Encoding": "identity"}
    if held:
        headers["Range"] = f"bytes={held}-"
    try:
        with requests.get(url, headers=headers, stream=True, timeout=timeout) as response:
            extent = _extent(response, held)
            if extent.start is None:
                part.unlink()
                raise _InterruptedError("the server has no rest to what was fetched before")
            if extent.start != extent.total:
                _append(response.raw, part, extent, timeout, progress)
    except (requests.Timeout, urllib3.exceptions.TimeoutError) as error:
        raise _InterruptedError(f"no answer within {timeout:g} s") from error
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise _InterruptedError(f"the connection failed: {_root(error)}") from error
    if extent.total not in (None, _size(part)):
        raise _InterruptedError(f"expected {extent.total:,} bytes, got {_size(part):,}")


@dataclass(frozen=True)
class _Extent:
    """What a server is about to send."""

    start: int | None
    """The first byte; None if nothing that fits to what is held."""
    total: int | None
    """The size of the whole archive, where the server tells."""


def _extent(response: requests.Response, held: int) -> _Extent:
    status = response.status_code
    said = response.headers.get("Content-Range", "")
    if status == 200:
        length = response.headers.get("Content-Length", "")
        return _Extent(0, int(length) if length.isdecimal() else None)
    if status == 206 and (match := re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", said)):
        start = int(match[1]) if int(match[1]) <= held else None
        return _Extent(start, None if match[2] == "*" else int(match[2]))
    if status == 416 and held:
        return _Extent(held if said == f"bytes */{held}" else None, held)
    raise _MirrorError(f"expected the archive, got {status} {response.reason}")


def _append(
    stream: urllib3.HTTPResponse, part: Path, extent: _Extent, timeout: float, progress: bool
) -> None:
    """Write what comes as it comes; a server that sends too much or too slowly is left."""
    from tqdm import tqdm

    start = extent.start or 0
    with (
        part.open("r+b" if start else "wb") as file,
        tqdm(
            desc="bAbI",
            total=extent.total,
            initial=start,
            unit="B",
            unit_scale=True,
            disable=None if progress else True,
        ) as bar,
    ):
        file.seek(start)
        file.truncate()
        window_start, window_bytes = time.monotonic(), 0
        while block := stream.read1(BLOCK_BYTES):
            file.write(block)
            bar.update(len(block))
            window_bytes += len(block)
            if file.tell() > MAX_ARCHIVE_BYTES:
                file.truncate(0)
                raise _MirrorError(f"sent more than {MAX_ARCHIVE_BYTES:,} bytes")
            passed = time.monotonic() - window_start
            if passed > timeout:
                if window_bytes < MIN_BYTES_PER_SECOND * passed:
                    raise _InterruptedError(
                        f"sent {window_bytes / passed:.0f} bytes a second, too slow to go on"
                    )
                window_start, window_bytes = time.monotonic(), 0


def _require_libraries() -> None:
    missing = [name for name in ("requests", "tqdm", "urllib3") if find_spec(name) is None]
    if missing:
        raise BabiInstallError(
            f'downloading needs {", ".join(missing)}: pip install "dnclab[babi]"'
        )


def _root(error: BaseException) -> BaseException:
    """What began it: ``Connection refused`` rather than the layers of libraries around it."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
