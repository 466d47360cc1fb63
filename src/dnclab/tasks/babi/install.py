"""Putting the published bAbI files into the cache, from an archive or a folder: all or nothing.

An archive from the net is taken for hostile. Its members are read one by one into memory, never
unpacked by their own names: only content whose checksum is that of a published file is written,
under the name that the file has here.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from dnclab.tasks.babi.checksums import digest, edition_files, published
from dnclab.tasks.babi.reader import EDITIONS, TOP_FOLDER

MAX_MEMBERS = 5_000
"""Members of an archive; the published one has a few hundred."""

MAX_FILE_BYTES = 32 * 2**20
"""Bytes of one file; the largest published one has 5.3 million."""

MAX_TOTAL_BYTES = 2**30
"""Bytes of an archive when unpacked; the published one has some 200 million."""

MAX_HEADER_BYTES = 2**20
"""Bytes between two members: long names and comments, which are read into memory."""


class BabiInstallError(ValueError):
    """A source that cannot be installed; the message names it and says what is wrong."""


def cache_folder(cache: str | Path | None = None) -> Path:
    """Where dnclab keeps data: the argument, or ``DNCLAB_CACHE``, or the platform's place.

    On Linux the platform's place is ``$XDG_CACHE_HOME/dnclab``, or ``~/.cache/dnclab``.
    """
    chosen = cache or os.environ.get("DNCLAB_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    try:
        import platformdirs
    except ImportError as error:
        raise BabiInstallError(
            'the place of the cache needs platformdirs: pip install "dnclab[babi]", '
            "or name a folder in DNCLAB_CACHE"
        ) from error
    return platformdirs.user_cache_path("dnclab", appauthor=False)


def installed_folder(cache: str | Path | None = None) -> Path:
    """The folder in the cache that holds the folders ``en-10k`` and ``en`` once installed."""
    return cache_folder(cache) / "babi" / TOP_FOLDER


def install_from(source: str | Path, cache: str | Path | None = None) -> Path:
    """Install the editions found in a ``.tar.gz`` archive or a folder; give their folder.

    Each edition must have its 40 files, each with the checksum of the published one. Nothing is
    in place before all has been checked.
    """
    source = Path(source).expanduser()
    if source.is_dir():
        files = _folder_files(source)
    elif source.is_file():
        files = _archive_files(source)
    else:
        raise BabiInstallError(f"{source}: expected the bAbI archive or its folder, found nothing")
    target = installed_folder(cache)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".install-", dir=target.parent) as temporary:
        staging = Path(temporary)
        for edition in _stage(files, staging, source):
            _put_in_place(staging / edition, target / edition, staging / f"old-{edition}")
    return target


def is_installed(edition: str, cache: str | Path | None = None) -> bool:
    """Whether the cache holds all 40 files of an edition, undamaged."""
    folder = installed_folder(cache) / edition
    paths = {name: folder / name for name in edition_files()}
    return all(
        path.is_file() and digest(path.read_bytes()) == published()[f"{edition}/{name}"]
        for name, path in paths.items()
    )


def _stage(files: Iterable[tuple[str, bytes]], staging: Path, source: Path) -> list[str]:
    """Write the checked files; give the editions, each of them complete."""
    staged: set[str] = set()
    for name, content in files:
        if name in staged:
            raise BabiInstallError(f"{source}: {name}: expected once, found twice")
        if digest(content) != published()[name]:
            raise BabiInstallError(
                f"{source}: {name}: expected SHA-256 {published()[name]} of bAbI v1.2, got "
                f"{digest(content)}; it is damaged, or generated "
                "(generated files are read where they are, by load_folder)"
            )
        path = staging / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        staged.add(name)
    editions = [edition for edition in EDITIONS if (staging / edition).is_dir()]
    if not editions:
        raise BabiInstallError(f"{source}: expected folders {' or '.join(EDITIONS)}, found neither")
    for name in (f"{edition}/{name}" for edition in editions for name in edition_files()):
        if name not in staged:
            raise BabiInstallError(f"{source}: {name}: expected with the other files, found none")
    return editions


def _put_in_place(new: Path, target: Path, old: Path) -> None:
    """Rename into place; a folder that was there gives way, and returns if the renaming fails."""
    replaced = target.exists()
    if replaced:
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        if replaced:
            old.rename(target)
        raise


def _folder_files(source: Path) -> Iterator[tuple[str, bytes]]:
    top = source / TOP_FOLDER if (source / TOP_FOLDER).is_dir() else source
    for name in published():
        path = top / name
        if path.is_file():
            if path.stat().st_size > MAX_FILE_BYTES:
                raise _too_large(source, name, "bytes in a file", MAX_FILE_BYTES)
            yield name, path.read_bytes()


def _archive_files(source: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with gzip.open(source) as unpacked:
            stream = _Metered(unpacked, source)
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                yield from _wanted_members(archive, stream, source)
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise BabiInstallError(
            f"{source}: expected a whole .tar.gz archive; it is cut short or damaged: {error}"
        ) from error


def _wanted_members(
    archive: tarfile.TarFile, stream: _Metered, source: Path
) -> Iterator[tuple[str, bytes]]:
    for count, member in enumerate(archive, start=1):
        path = _safe_path(member, source)
        if count > MAX_MEMBERS:
            raise _too_large(source, member.name, "members in an archive", MAX_MEMBERS)
        if not 0 <= member.size <= MAX_FILE_BYTES:
            raise _too_large(source, member.name, "bytes in a file", MAX_FILE_BYTES)
        if member.offset_data + member.size > MAX_TOTAL_BYTES:
            raise _too_large(source, member.name, "bytes in an archive", MAX_TOTAL_BYTES)
        stream.allowed = member.offset_data + member.size + MAX_HEADER_BYTES
        name = "/".join(path.parts[-2:])
        if member.isfile() and len(path.parts) <= 3 and name in published():
            content = archive.extractfile(member)
            assert content is not None  # a regular file has content
            yield name, content.read()


def _safe_path(member: tarfile.TarInfo, source: Path) -> PurePosixPath:
    """The path of a file or folder inside the archive; refuses every other kind of member."""
    path = PurePosixPath(member.name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in member.name:
        raise BabiInstallError(
            f"{source}: {member.name}: expected a path inside the archive, got one leading out"
        )
    if member.issparse() or not (member.isfile() or member.isdir()):
        raise BabiInstallError(
            f"{source}: {member.name}: expected a file or a folder, got a link, device or the like"
        )
    return path


def _too_large(source: Path, name: str, what: str, limit: int) -> BabiInstallError:
    return BabiInstallError(f"{source}: {name}: expected at most {limit:,} {what}, found more")


class _Metered(io.RawIOBase):
    """An unpacked archive that gives no more than ``allowed`` bytes: headers can be bombs too."""

    def __init__(self, unpacked: gzip.GzipFile, source: Path) -> None:
        self.allowed = MAX_HEADER_BYTES
        self._unpacked = unpacked
        self._source = source
        self._given = 0

    def read(self, size: int = -1, /) -> bytes:
        content = self._unpacked.read(size)
        self._given += len(content)
        if self._given > self.allowed:
            raise _too_large(self._source, "a header", "bytes in it", MAX_HEADER_BYTES)
        return content
