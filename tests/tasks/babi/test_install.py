"""Installing: archives that attack, checksums, atomicity, and servers with every fault."""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from dnclab.tasks.babi import download as download_module
from dnclab.tasks.babi import install
from dnclab.tasks.babi.checksums import digest, edition_files, published
from dnclab.tasks.babi.download import Mirror, download
from dnclab.tasks.babi.install import (
    BabiInstallError,
    cache_folder,
    install_from,
    installed_folder,
    is_installed,
)
from dnclab.tasks.babi.reader import TOP_FOLDER

small_is_published = pytest.mark.usefixtures("_small_is_published")


def pack(path: Path, members: list[tuple[str | tarfile.TarInfo, bytes]]) -> Path:
    """An archive of these members, with whatever names and kinds they have."""
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            if isinstance(member, str):
                member = tarfile.TarInfo(member)
            member.size = member.size or len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def in_top(files: dict[str, bytes]) -> list[tuple[str | tarfile.TarInfo, bytes]]:
    return [(f"{TOP_FOLDER}/{name}", content) for name, content in files.items()]


def left_behind(cache: Path) -> list[str]:
    """Every file below a cache."""
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


def installed_files(cache: Path) -> dict[str, bytes]:
    top = installed_folder(cache)
    return {
        path.relative_to(top).as_posix(): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "a cache"


def test_the_list_of_checksums() -> None:
    assert len(published()) == 80
    assert {f"{edition}/{name}" for edition in ("en", "en-10k") for name in edition_files()} == set(
        published()
    )
    assert {len(sha256) for sha256 in published().values()} == {64}
    assert (
        published()["en-10k/qa1_single-supporting-fact_test.txt"]
        == published()["en/qa1_single-supporting-fact_test.txt"]
        == "55acf66cef2f6d798e2aa1d056e1ec8f24e910ea9215b639450574321132959b"
    )


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DNCLAB_CACHE", str(tmp_path / "by variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(tmp_path / "by argument") == tmp_path / "by argument"
    assert cache_folder() == tmp_path / "by variable"
    assert cache_folder("~/x") == Path.home() / "x"
    monkeypatch.setenv("DNCLAB_CACHE", "")
    if sys.platform.startswith("linux"):
        assert cache_folder() == tmp_path / "xdg" / "dnclab"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder() == Path.home() / ".cache" / "dnclab"


def test_without_its_library_a_cache_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.setenv("DNCLAB_CACHE", "named")
    assert cache_folder() == Path("named")
    monkeypatch.delenv("DNCLAB_CACHE")
    with pytest.raises(
        BabiInstallError, match=r'pip install "dnclab\[babi\]", or name a folder in'
    ):
        cache_folder()


def test_the_published_files_are_installed_as_they_are(
    real_archive: Path, real_folder: Path, tmp_path: Path
) -> None:
    found = {name: digest((real_folder / name).read_bytes()) for name in published()}
    assert found == published()
    assert install_from(real_folder, tmp_path) == installed_folder(tmp_path)
    assert is_installed("en-10k", tmp_path)
    assert is_installed("en", tmp_path)
    damaged = installed_folder(tmp_path) / "en" / edition_files()[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert not is_installed("en", tmp_path)
    install_from(real_archive, tmp_path)
    assert is_installed("en", tmp_path)


@small_is_published
@pytest.mark.parametrize("prefix", ["", "./", f"{TOP_FOLDER}/", f"./{TOP_FOLDER}/", "other/"])
def test_archives_are_read_whatever_their_top_folder(
    prefix: str, small_files: dict[str, bytes], tmp_path: Path, cache: Path
) -> None:
    archive = pack(tmp_path / "a.tgz", [(prefix + name, its) for name, its in small_files.items()])
    install_from(archive, cache)
    assert installed_files(cache) == small_files
    assert left_behind(cache) == sorted(f"babi/{TOP_FOLDER}/{name}" for name in small_files)


@small_is_published
def test_only_the_expected_files_are_taken(
    small_files: dict[str, bytes], tmp_path: Path, cache: Path
) -> None:
    extra: list[tuple[str | tarfile.TarInfo, bytes]] = [
        (f"{TOP_FOLDER}/README.txt", b"read me"),
        (f"{TOP_FOLDER}/hn/qa1_single-supporting-fact_train.txt", b"other"),
        (f"{TOP_FOLDER}/en/qa21_more_train.txt", b"more"),
        (f"{TOP_FOLDER}/a/b/en/qa1_single-supporting-fact_train.txt", b"deep"),
        (f"{TOP_FOLDER}/en/._qa1_single-supporting-fact_train.txt", b"resource fork"),
    ]
    install_from(pack(tmp_path / "a.tgz", extra + in_top(small_files)), cache)
    assert installed_files(cache) == small_files


@small_is_published
@pytest.mark.parametrize("level", ["top", "above"])
def test_folders_are_installed(
    level: str, small_folder: Path, small_files: dict[str, bytes], cache: Path
) -> None:
    install_from(small_folder if level == "top" else small_folder.parent, cache)
    assert installed_files(cache) == small_files
    install_from(installed_folder(cache), cache)
    assert installed_files(cache) == small_files


@small_is_published
def test_one_edition_alone_leaves_the_other_where_it_is(
    small_files: dict[str, bytes], tmp_path: Path, cache: Path
) -> None:
    for edition in ("en", "en-10k"):
        files = {name: its for name, its in small_files.items() if name.startswith(f"{edition}/")}
        install_from(pack(tmp_path / f"{edition}.tgz", in_top(files)), cache)
        assert is_installed(edition, cache)
    assert installed_files(cache) == small_files


def link(name: str, kind: bytes, target: str = "/etc/passwd") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member


QA1 = "en/qa1_single-supporting-fact_train.txt"


@small_is_published
@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ("../outside.txt", "../outside.txt: expected a path inside the archive"),
        (f"{TOP_FOLDER}/../../{QA1}", "expected a path inside the archive"),
        ("/tmp/outside.txt", "/tmp/outside.txt: expected a path inside"),
        ("..\\outside.txt", "expected a path inside"),
        ("C:/outside.txt", "C:/outside.txt: expected a path inside"),
        (link(f"{TOP_FOLDER}/en/x", tarfile.SYMTYPE), "en/x: expected a file or a folder"),
        (link(f"{TOP_FOLDER}/{QA1}", tarfile.SYMTYPE), f"{QA1}: expected a file or a folder"),
        (link(f"{TOP_FOLDER}/{QA1}", tarfile.LNKTYPE), "expected a file or a folder"),
        (link("device", tarfile.CHRTYPE), "device: expected a file or a folder"),
        (link("pipe", tarfile.FIFOTYPE), "pipe: expected a file or a folder"),
        (link("holes", tarfile.GNUTYPE_SPARSE), "holes: expected a file or a folder"),
    ],
)
def test_archives_that_lead_out_are_refused(
    member: str | tarfile.TarInfo,
    expected: str,
    small_files: dict[str, bytes],
    tmp_path: Path,
    cache: Path,
) -> None:
    archive = pack(tmp_path / "attack.tgz", [*in_top(small_files), (member, b"")])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BabiInstallError) as caught:
        install_from(archive, cache)
    assert expected in str(caught.value)
    assert left_behind(cache) == []
    assert [path for path in sorted(tmp_path.rglob("*")) if cache not in path.parents] == sorted(
        [*before, cache]
    )


@small_is_published
@pytest.mark.parametrize("second", [f"{TOP_FOLDER}/{QA1}", f"other/{QA1}", f"./{TOP_FOLDER}/{QA1}"])
def test_a_file_that_comes_twice_is_refused(
    second: str, small_files: dict[str, bytes], tmp_path: Path, cache: Path
) -> None:
    members = [*in_top(small_files), (second, small_files[QA1])]
    with pytest.raises(BabiInstallError, match=f"{QA1}: expected once, found twice"):
        install_from(pack(tmp_path / "a.tgz", members), cache)
    assert left_behind(cache) == []


def test_a_claim_of_a_huge_member_is_refused_before_it_is_read(tmp_path: Path, cache: Path) -> None:
    huge = tarfile.TarInfo(f"{TOP_FOLDER}/{QA1}")
    huge.size = 2**40
    path = tmp_path / "a.tgz"
    path.write_bytes(gzip.compress(huge.tobuf(tarfile.GNU_FORMAT)))
    with pytest.raises(BabiInstallError, match=f"{QA1}: expected at most 33,554,432 bytes in a"):
        install_from(path, cache)


def test_too_many_members_and_bytes_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    archive = pack(tmp_path / "a.tgz", [(f"file{number}", b"." * 5000) for number in range(20)])
    monkeypatch.setattr(install, "MAX_MEMBERS", 12)
    with pytest.raises(BabiInstallError, match="file12: expected at most 12 members"):
        install_from(archive, cache)
    monkeypatch.setattr(install, "MAX_MEMBERS", 100)
    monkeypatch.setattr(install, "MAX_TOTAL_BYTES", 20_000)
    with pytest.raises(BabiInstallError, match="file3: expected at most 20,000 bytes in an arch"):
        install_from(archive, cache)


@pytest.mark.parametrize("before", [0, 3])
def test_a_bomb_in_a_header_is_not_unpacked(before: int, tmp_path: Path, cache: Path) -> None:
    """A long name is read into memory before any member can be looked at: 256 MB, in 250 KB."""
    name = tarfile.TarInfo("././@LongLink")
    name.type = tarfile.GNUTYPE_LONGNAME
    name.size = 2**28
    path = tmp_path / "bomb.tgz"
    with gzip.open(path, "wb") as packed:
        for number in range(before):
            packed.write(tarfile.TarInfo(f"file{number}").tobuf(tarfile.GNU_FORMAT))
        packed.write(name.tobuf(tarfile.GNU_FORMAT))
        for _ in range(2**8):
            packed.write(bytes(2**20))
    assert path.stat().st_size < 2**20
    tracemalloc.start()
    with pytest.raises(BabiInstallError, match="a header: expected at most 1,048,576 bytes"):
        install_from(path, cache)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**23


@small_is_published
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98])
def test_archives_cut_short_are_refused(
    share: float, small_files: dict[str, bytes], tmp_path: Path, cache: Path
) -> None:
    path = pack(tmp_path / "a.tgz", in_top(small_files))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(BabiInstallError, match=r"a\.tgz: "):
        install_from(path, cache)
    assert left_behind(cache) == []


def test_what_is_no_archive_is_refused(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "text").write_text("text")
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"no tar at all" * 100))
    for name in ("text", "text.gz"):
        with pytest.raises(BabiInstallError, match=r"expected a whole \.tar\.gz archive"):
            install_from(tmp_path / name, cache)
    with pytest.raises(BabiInstallError, match="expected the bAbI archive or its folder"):
        install_from(tmp_path / "absent", cache)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BabiInstallError, match="expected folders en-10k or en, found neither"):
        install_from(tmp_path / "empty", cache)


@small_is_published
def test_a_missing_file_and_a_changed_byte_are_refused_by_name(
    small_folder: Path, cache: Path
) -> None:
    path = small_folder / QA1
    content = path.read_bytes()
    path.write_bytes(content.replace(b"Mary", b"Nary", 1))
    with pytest.raises(BabiInstallError, match=f"{QA1}: expected SHA-256 .* it is damaged, or"):
        install_from(small_folder, cache)
    path.unlink()
    with pytest.raises(BabiInstallError, match=f"{QA1}: expected with the other files, found none"):
        install_from(small_folder, cache)
    assert left_behind(cache) == []


@small_is_published
def test_a_huge_file_of_a_folder_is_not_read(
    monkeypatch: pytest.MonkeyPatch, small_folder: Path, cache: Path
) -> None:
    monkeypatch.setattr(install, "MAX_FILE_BYTES", (small_folder / QA1).stat().st_size - 1)
    with pytest.raises(BabiInstallError, match=r"\.txt: expected at most \d+ bytes in a file"):
        install_from(small_folder, cache)


@small_is_published
def test_a_failure_while_writing_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, small_folder: Path, cache: Path
) -> None:
    write, written = Path.write_bytes, []

    def fail_at_the_tenth(path: Path, content: bytes) -> int:
        written.append(path)
        if len(written) == 10:
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", fail_at_the_tenth)
    with pytest.raises(OSError, match="No space left"):
        install_from(small_folder, cache)
    assert left_behind(cache) == []
    assert not (installed_folder(cache) / "en").exists()
    assert not (installed_folder(cache) / "en-10k").exists()


@small_is_published
def test_a_failure_while_renaming_keeps_what_was_there(
    monkeypatch: pytest.MonkeyPatch, small_folder: Path, small_files: dict[str, bytes], cache: Path
) -> None:
    install_from(small_folder, cache)
    rename = Path.rename

    def fail_into_place(path: Path, target: Path) -> Path:
        if path.parent.name.startswith(".install-") and path.name == "en":
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_into_place)
    with pytest.raises(OSError, match="Input/output"):
        install_from(small_folder, cache)
    assert installed_files(cache) == small_files


# --- The download, from servers on this machine --------------------------------------------------

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


class Server:
    """Serves one archive; ``answers`` are used up request by request, the last one stays."""

    def __init__(self, content: bytes, *answers: Answer) -> None:
        self.asked: list[str | None] = []
        """The Range header of each request."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the library's name
                answer = answers[min(len(server.asked), len(answers) - 1)]
                server.asked.append(self.headers["Range"])
                answer(self, content)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/babi.tar.gz"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def whole(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """A server without Range."""
    request.send_response(200)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)


def ranged(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """A server with Range."""
    asked = request.headers["Range"]
    if asked is None:
        return whole(request, content)
    start = int(asked.removeprefix("bytes=").removesuffix("-"))
    if start >= len(content):
        request.send_response(416)
        request.send_header("Content-Range", f"bytes */{len(content)}")
        return request.end_headers()
    request.send_response(206)
    request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    request.send_header("Content-Length", str(len(content) - start))
    request.end_headers()
    request.wfile.write(content[start:])
    return None


def cut(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """Breaks off in the middle of what it promised."""
    request.send_response(200)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content[: len(content) // 2])


def overlapping(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """Sends a little more than the missing rest, from an earlier byte on, as it may."""
    start = int(request.headers["Range"].removeprefix("bytes=").removesuffix("-")) - 10
    request.send_response(206)
    request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    request.end_headers()
    request.wfile.write(content[start:])


def rest_cut(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """Promises the rest and sends but half of it, without a length that would tell."""
    start = int(request.headers["Range"].removeprefix("bytes=").removesuffix("-"))
    request.send_response(206)
    request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    request.end_headers()
    request.wfile.write(content[start : (start + len(content)) // 2])


def skipping(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """Sends a part that does not join what was asked for."""
    start = int(request.headers["Range"].removeprefix("bytes=").removesuffix("-")) + 10
    request.send_response(206)
    request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    request.end_headers()
    request.wfile.write(content[start:])


def unknown_length(request: BaseHTTPRequestHandler, content: bytes) -> None:
    request.send_response(200)
    request.end_headers()
    request.wfile.write(content)


def absent(request: BaseHTTPRequestHandler, content: bytes) -> None:
    request.send_error(404)


def stalled(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """Promises, sends the half, and then nothing more."""
    cut(request, content)
    request.wfile.flush()
    time.sleep(1.5)


def trickling(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """Never silent for long, never done."""
    request.send_response(200)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    for place in range(60):
        try:
            request.wfile.write(content[place : place + 1])
            request.wfile.flush()
        except OSError:
            return
        time.sleep(0.05)


def endless(request: BaseHTTPRequestHandler, content: bytes) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        while True:
            request.wfile.write(bytes(2**16))
    except OSError:
        return


@pytest.fixture
def archive(tmp_path: Path, small_files: dict[str, bytes]) -> bytes:
    return pack(tmp_path / "served.tar.gz", in_top(small_files)).read_bytes()


Serve = Callable[..., Server]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    servers = []

    def start(content: bytes, *answers: Answer) -> Server:
        servers.append(Server(content, *answers))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def fetch(cache: Path, content: bytes, *servers: Server) -> Path:
    """Download with a short patience; each server is known to have this very archive."""
    mirrors = tuple(Mirror(server.url, digest(content)) for server in servers)
    return download(cache, mirrors=mirrors, timeout=0.4, progress=False)


@contextmanager
def refusal(*expected: str) -> Iterator[None]:
    with pytest.raises(BabiInstallError) as caught:
        yield
    assert "\n" not in str(caught.value)
    for part in expected:
        assert part in str(caught.value)


@small_is_published
@pytest.mark.parametrize("answer", [whole, ranged, unknown_length])
def test_a_good_server(
    answer: Answer, serve: Serve, archive: bytes, small_files: dict[str, bytes], cache: Path
) -> None:
    server = serve(archive, answer)
    assert fetch(cache, archive, server) == installed_folder(cache)
    assert installed_files(cache) == small_files
    assert all(name.startswith(f"babi/{TOP_FOLDER}/") for name in left_behind(cache))
    assert fetch(cache, archive, server) == installed_folder(cache)
    assert server.asked == [None], "what is there is not fetched again"


@small_is_published
@pytest.mark.parametrize("then", [ranged, whole, overlapping])
def test_a_broken_download_is_taken_up_again(
    then: Answer, serve: Serve, archive: bytes, small_files: dict[str, bytes], cache: Path
) -> None:
    server = serve(archive, cut, then)
    fetch(cache, archive, server)
    assert installed_files(cache) == small_files
    assert server.asked == [None, f"bytes={len(archive) // 2}-"]


@small_is_published
def test_the_next_call_takes_up_what_the_last_one_left(
    serve: Serve, archive: bytes, small_files: dict[str, bytes], cache: Path
) -> None:
    server = serve(archive, cut, absent, ranged)
    with refusal("404"):
        fetch(cache, archive, server)
    assert not (installed_folder(cache) / "en").exists()
    fetch(cache, archive, server)
    half = f"bytes={len(archive) // 2}-"
    assert server.asked == [None, half, half]
    assert installed_files(cache) == small_files


def part_of(cache: Path, server: Server) -> Path:
    """Where a server's unfinished archive lies."""
    name = digest(server.url.encode())[:16]
    path = cache / "babi" / "downloads" / f"{name}.tar.gz.part"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@small_is_published
@pytest.mark.parametrize("known", [True, False])
def test_a_download_that_only_lacked_the_installing(
    known: bool, serve: Serve, archive: bytes, small_files: dict[str, bytes], cache: Path
) -> None:
    server = serve(archive, ranged)
    part_of(cache, server).write_bytes(archive)
    mirror = Mirror(server.url, digest(archive) if known else None)
    download(cache, mirrors=(mirror,), timeout=0.4, progress=False)
    assert server.asked == [f"bytes={len(archive)}-"]
    assert installed_files(cache) == small_files


@small_is_published
@pytest.mark.parametrize("held", ["a wrong beginning", "too much"])
def test_what_was_left_of_another_file_does_not_matter(
    held: str, serve: Serve, archive: bytes, small_files: dict[str, bytes], cache: Path
) -> None:
    server = serve(archive, ranged)
    part_of(cache, server).write_bytes(b"?" * 20 if held != "too much" else archive + b"more")
    fetch(cache, archive, server)
    assert installed_files(cache) == small_files
    assert server.asked[-1] is None


@small_is_published
def test_a_rest_cut_short_is_noticed(
    serve: Serve, archive: bytes, small_files: dict[str, bytes], cache: Path
) -> None:
    server = serve(archive, cut, rest_cut, ranged)
    fetch(cache, archive, server)
    assert installed_files(cache) == small_files
    half = len(archive) // 2
    assert server.asked == [None, f"bytes={half}-", f"bytes={(half + len(archive)) // 2}-"]


@small_is_published
def test_a_rest_that_does_not_join_is_not_taken(
    serve: Serve, archive: bytes, small_files: dict[str, bytes], cache: Path
) -> None:
    server = serve(archive, cut, skipping, ranged)
    download(cache, mirrors=(Mirror(server.url),), timeout=0.4, progress=False)
    assert installed_files(cache) == small_files
    assert server.asked == [None, f"bytes={len(archive) // 2}-", None]


@small_is_published
def test_a_bar_is_drawn_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, archive: bytes, tmp_path: Path
) -> None:
    def drawn(is_terminal: bool) -> str:
        screen = io.StringIO()
        monkeypatch.setattr(screen, "isatty", lambda: is_terminal)
        monkeypatch.setattr(sys, "stderr", screen)
        server = serve(archive, cut, ranged)
        download(tmp_path / str(is_terminal), mirrors=(Mirror(server.url),), timeout=0.4)
        return screen.getvalue()

    assert drawn(is_terminal=False) == ""
    assert "bAbI: 100%" in drawn(is_terminal=True)


@small_is_published
def test_bytes_beyond_the_end_are_cut_off(
    serve: Serve, archive: bytes, small_files: dict[str, bytes], cache: Path
) -> None:
    server = serve(archive, overlapping)
    part_of(cache, server).write_bytes(archive + b"more")
    fetch(cache, archive, server)
    assert installed_files(cache) == small_files
    assert len(server.asked) == 1


@small_is_published
def test_the_next_mirror_is_asked(
    serve: Serve, archive: bytes, small_files: dict[str, bytes], cache: Path
) -> None:
    first, second, third = serve(archive, absent), serve(b"wrong", whole), serve(archive, whole)
    fetch(cache, archive, first, second, third)
    assert installed_files(cache) == small_files
    assert (len(first.asked), len(second.asked), len(third.asked)) == (1, 1, 1)


@small_is_published
def test_a_wrong_archive_is_refused_and_not_kept(serve: Serve, archive: bytes, cache: Path) -> None:
    server = serve(archive + b"x", whole)
    with refusal(server.url, f"expected an archive of SHA-256 {digest(archive)}, got "):
        fetch(cache, archive, server)
    assert left_behind(cache) == []


@small_is_published
def test_a_mirror_without_a_checksum_is_judged_by_its_files(
    serve: Serve, tmp_path: Path, small_files: dict[str, bytes], cache: Path
) -> None:
    changed = small_files | {QA1: small_files[QA1].replace(b"Mary", b"Nary", 1)}
    bad = pack(tmp_path / "bad.tgz", in_top(changed)).read_bytes()
    server = serve(bad, whole)
    with refusal(f"{server.url}: {QA1}: expected SHA-256"):
        download(cache, mirrors=(Mirror(server.url),), timeout=0.4, progress=False)
    assert left_behind(cache) == []


@small_is_published
def test_every_mirror_and_its_fault_stand_in_one_line(
    serve: Serve, archive: bytes, cache: Path
) -> None:
    gone, broken = serve(archive, absent), serve(archive, cut)
    refusing = serve(archive, whole)
    refusing.stop()
    with refusal(
        f"{gone.url}: expected the archive, got 404 Not Found; ",
        f"{broken.url}: ",
        f"{refusing.url}: the connection failed: [Errno",
        "dnclab data babi --from PATH",
    ):
        fetch(cache, archive, gone, broken, refusing)
    assert len(gone.asked) == 1
    assert len(broken.asked) == 2, "the second time has brought nothing more"


@small_is_published
@pytest.mark.parametrize(
    ("answer", "fault"),
    [(stalled, "no answer within 0.4 s"), (trickling, "too slow to go on")],
)
def test_a_slow_server_is_left_in_time(
    answer: Answer, fault: str, serve: Serve, archive: bytes, cache: Path
) -> None:
    server = serve(archive, answer)
    start = time.monotonic()
    with refusal(fault):
        fetch(cache, archive, server)
    assert time.monotonic() - start < 3


@small_is_published
def test_an_endless_answer_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, archive: bytes, cache: Path
) -> None:
    monkeypatch.setattr(download_module, "MAX_ARCHIVE_BYTES", 2**20)
    with refusal("sent more than 1,048,576 bytes"):
        fetch(cache, archive, serve(archive, endless))
    assert sum((cache / name).stat().st_size for name in left_behind(cache)) == 0


def test_without_the_libraries_the_way_to_get_them_is_told(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    with refusal('downloading needs requests: pip install "dnclab[babi]"'):
        download(cache, progress=False)


def test_the_public_addresses() -> None:
    first, second = download_module.MIRRORS
    assert first.sha256 == "0364ebde659f14d11bc21744516c5ec49d3d06cb692733f66680771244998898"
    assert first.url.endswith("/jaseweston/babi/tasks_1-20_v1-2.tar.gz")
    assert second.url.endswith("/text-datasets/babi_tasks_1-20_v1-2.tar.gz")
