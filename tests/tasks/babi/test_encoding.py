"""Encoding by hand, against the text, and from a cache that knows when it is stale."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnclab.tasks.babi import encoding
from dnclab.tasks.babi.encoding import (
    BLANK,
    IGNORE,
    BabiData,
    EncodedStories,
    EncodingOptions,
    encode_stories,
    load_folder,
    load_installed,
    make_vocabulary,
)
from dnclab.tasks.babi.format import Line, file_name
from dnclab.tasks.babi.install import BabiInstallError, install_from, installed_folder
from dnclab.tasks.babi.reader import BabiFormatError, parse_stories

FIRST = (Line("Mary went home."), Line("Where is Mary?", ("home",), (1,)))
PATH = (Line("The hall is n of home."), Line("How to go?", ("s", "N"), (1,)), Line("Mary went."))


def words(vocabulary: tuple[str, ...], ids: np.ndarray) -> str:
    return " ".join("_" if number == IGNORE else vocabulary[number] for number in ids)


def same_stories(first: EncodedStories, second: EncodedStories) -> bool:
    return all(
        np.array_equal(getattr(first, field), getattr(second, field))
        for field in ("tokens", "targets", "offsets", "tasks")
    )


def same_data(first: BabiData, second: BabiData) -> bool:
    return (
        first.vocabulary == second.vocabulary
        and first.key == second.key
        and same_stories(first.train, second.train)
        and same_stories(first.test, second.test)
    )


def test_two_stories_by_hand() -> None:
    options = EncodingOptions()
    vocabulary = make_vocabulary([FIRST, PATH], options)
    assert " ".join(vocabulary) == "- . ? go hall home how is mary n of s the to went where"
    encoded = encode_stories({1: [FIRST], 19: [PATH]}, vocabulary, options)
    assert words(vocabulary, encoded.tokens) == (
        "mary went home . where is mary ? - - - - "
        "the hall is n of home . how to go ? - - - - - mary went ."
    )
    assert words(vocabulary, encoded.targets) == (
        "_ _ _ _ _ _ _ _ _ _ _ home _ _ _ _ _ _ _ _ _ _ _ _ _ _ s n _ _ _"
    )
    assert encoded.offsets.tolist() == [0, 12, 31]
    assert encoded.lengths.tolist() == [12, 19]
    assert encoded.tasks.tolist() == [1, 19]
    assert len(encoded) == 2


@pytest.mark.parametrize("think_steps", [0, 1, 5])
def test_think_steps(think_steps: int) -> None:
    options = EncodingOptions(think_steps=think_steps)
    vocabulary = make_vocabulary([FIRST], options)
    encoded = encode_stories({1: [FIRST]}, vocabulary, options)
    assert encoded.tokens[8:].tolist() == [BLANK] * (think_steps + 1)
    assert encoded.targets[8:].tolist() == [IGNORE] * think_steps + [vocabulary.index("home")]


def test_joined_answers() -> None:
    options = EncodingOptions(joined_answers=True)
    vocabulary = make_vocabulary([PATH], options)
    assert "s,n" in vocabulary
    assert "s" not in vocabulary
    encoded = encode_stories({19: [PATH]}, vocabulary, options)
    assert words(vocabulary, encoded.targets[11:]) == "_ _ _ s,n _ _ _"


def test_words_of_the_test_files_alone_are_refused() -> None:
    vocabulary = make_vocabulary([FIRST], EncodingOptions())
    with pytest.raises(BabiFormatError, match=r"qa19\.txt: expected words of the training.*'the'"):
        encode_stories({19: [PATH]}, vocabulary, EncodingOptions(), {19: "qa19.txt"})


def test_options_and_arrays_are_checked() -> None:
    with pytest.raises(ValueError, match="think_steps: expected 0 or more, got -1"):
        EncodingOptions(think_steps=-1)
    ids, offsets, tasks = np.zeros(3, np.int16), np.array([0, 1, 3]), np.array([1, 1])
    EncodedStories(ids, ids, offsets, tasks)
    with pytest.raises(ValueError, match="3 tokens, 2 targets, 2 stories, 2 tasks"):
        EncodedStories(ids, ids[:2], offsets, tasks)
    for wrong in ([0, 1, 2], [1, 2, 3], [0, 3, 3], [0, 4, 3]):
        with pytest.raises(ValueError, match="offsets: expected to rise from 0"):
            EncodedStories(ids, ids, np.array(wrong), tasks)
    with pytest.raises(ValueError, match="read-only"):
        ids[0] = 1


lines = st.sampled_from([*FIRST, *PATH, Line("Is it?", ("yes", "no", "yes"), (1,)), Line("A b.")])


@given(st.lists(st.lists(lines, min_size=1, max_size=5), min_size=1, max_size=5), st.integers(0, 4))
def test_every_word_has_its_place(stories: list[list[Line]], think_steps: int) -> None:
    options = EncodingOptions(think_steps=think_steps)
    told = [tuple(story) for story in stories]
    vocabulary = make_vocabulary(told, options)
    encoded = encode_stories({7: told}, vocabulary, options)
    for number, story in enumerate(told):
        start, end = encoded.offsets[number : number + 2]
        tokens, targets = encoded.tokens[start:end], encoded.targets[start:end]
        text = " ".join(line.text.lower().replace(".", " .").replace("?", " ?") for line in story)
        assert words(vocabulary, tokens[tokens != BLANK]) == text
        answers = [word.lower() for line in story for word in line.answer]
        assert words(vocabulary, targets[targets != IGNORE]) == " ".join(answers)
        assert (tokens[targets != IGNORE] == BLANK).all()
        questions = sum(bool(line.answer) for line in story)
        assert (tokens == BLANK).sum() == questions * think_steps + len(answers)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were parsed."""
    parsed: list[str] = []

    def count(content: bytes, name: str) -> object:
        parsed.append(name)
        return parse_stories(content, name)

    monkeypatch.setattr(encoding, "parse_stories", count)
    return parsed


def cached(cache: Path) -> list[Path]:
    return sorted((cache / "babi" / "encoded").iterdir())


def test_the_second_time_comes_from_the_cache(
    small_folder: Path, tmp_path: Path, counted: list[str]
) -> None:
    first = load_folder(small_folder, cache=tmp_path / "c")
    assert len(counted) == 40
    assert (len(first.train), len(first.test)) == (80, 40)
    assert not first.published
    second = load_folder(small_folder, cache=tmp_path / "c")
    assert len(counted) == 40
    assert same_data(first, second)
    assert len(cached(tmp_path / "c")) == 1


def test_other_files_or_options_are_other_entries(
    small_folder: Path, tmp_path: Path, counted: list[str]
) -> None:
    cache = tmp_path / "c"
    data = load_folder(small_folder, cache=cache)
    thinking = load_folder(small_folder, options=EncodingOptions(think_steps=1), cache=cache)
    joined = load_folder(small_folder, options=EncodingOptions(joined_answers=True), cache=cache)
    fewer = load_folder(small_folder, tasks=(1, 2), cache=cache)
    path = small_folder / "en-10k" / file_name(1, "train")
    path.write_bytes(path.read_bytes().replace(b"Mary", b"Zoe"))
    changed = load_folder(small_folder, cache=cache)
    assert len({each.key for each in (data, thinking, joined, fewer, changed)}) == 5
    assert len(counted) == 4 * 40 + 4
    assert "zoe" in changed.vocabulary
    assert "zoe" not in data.vocabulary
    assert len(cached(cache)) == 5


@pytest.mark.parametrize(
    "damage", ["cut", "flipped", "empty", "no archive", "another key", "pickled"]
)
def test_a_damaged_or_foreign_entry_is_made_anew(
    damage: str, small_folder: Path, tmp_path: Path, counted: list[str]
) -> None:
    data = load_folder(small_folder, cache=tmp_path)
    (path,) = cached(tmp_path)
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        place = content.index(data.train.tokens.tobytes())
        path.write_bytes(content[:place] + b"\x7f" + content[place + 1 :])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "no archive":
        path.write_bytes(b"not an archive")
    else:
        with np.load(path) as stored:
            arrays = dict(stored)
        if damage == "pickled":
            arrays["key"] = np.array([data.key], dtype=object)
        else:
            arrays["key"] = np.array("0" * 64)
        np.savez(path, **arrays)
    again = load_folder(small_folder, cache=tmp_path)
    assert same_data(data, again)
    assert len(counted) == 80
    load_folder(small_folder, cache=tmp_path)
    assert len(counted) == 80, "the new entry is whole"


def test_a_new_version_does_not_read_the_old_entries(
    monkeypatch: pytest.MonkeyPatch, small_folder: Path, tmp_path: Path, counted: list[str]
) -> None:
    load_folder(small_folder, cache=tmp_path)
    monkeypatch.setattr(encoding, "CACHE_VERSION", encoding.CACHE_VERSION + 1)
    load_folder(small_folder, cache=tmp_path)
    assert len(counted) == 80


def test_a_cache_that_cannot_be_written_costs_a_warning(small_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="the encoded stories could not be kept"):
        data = load_folder(small_folder, cache=tmp_path / "file")
    assert same_data(data, load_folder(small_folder, cache=tmp_path / "c"))


def test_folders_are_read_at_any_place_and_ids_do_not_depend_on_it(
    small_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(small_folder / "en-10k", tmp_path / "elsewhere")
    here, there = load_folder(small_folder), load_folder(tmp_path / "elsewhere")
    assert same_data(here, there)


def test_errors_name_the_file(small_folder: Path) -> None:
    with pytest.raises(ValueError, match=r"tasks: expected some of 1 to 20, got \(0, 1\)"):
        load_folder(small_folder, tasks=(0, 1))
    path = small_folder / "en" / file_name(3, "test")
    path.write_text("1 Mary went nowhere.\n")
    with pytest.raises(BabiFormatError, match=r"qa3_.*_test\.txt: expected words of.*'nowhere'"):
        load_folder(small_folder, "en")
    path.unlink()
    with pytest.raises(BabiFormatError, match=r"qa3_.*_test\.txt: expected a bAbI file"):
        load_folder(small_folder, "en")


@pytest.mark.usefixtures("_small_is_published")
def test_installed_data_are_published_data_or_refused(small_folder: Path) -> None:
    with pytest.raises(BabiInstallError, match="is not installed there; install it by `dnclab"):
        load_installed()
    install_from(small_folder)
    data = load_installed()
    assert data.published
    assert same_data(data, load_folder(small_folder))
    path = installed_folder() / "en-10k" / file_name(1, "train")
    path.write_bytes(path.read_bytes().replace(b"Mary", b"Zoe"))
    with pytest.raises(BabiInstallError, match="a file differs from the published one"):
        load_installed()


def test_the_published_data(real_folder: Path, tmp_path: Path) -> None:
    """62,661 stories into arrays within 5 s, and from the cache within 0.3 s, on one core.

    The first takes 1.6 s and the second 0.1 s on the machine where the bounds were set.
    """
    start = time.process_time()
    data = load_folder(real_folder, cache=tmp_path)
    first_time = time.process_time() - start
    start = time.process_time()
    again = load_folder(real_folder, cache=tmp_path)
    second_time = time.process_time() - start
    assert data.published
    assert same_data(data, again)
    assert (len(data.train), len(data.test)) == (62_661, 6_267)
    assert len(data.vocabulary) == 159
    assert data.vocabulary[:4] == ("-", ".", "?", "a")
    answers = 180_000 + 20_000 + 9_363 + 2 * 587 + 3 * 50
    assert (data.train.targets != IGNORE).sum() == answers
    # 3 think steps for each of the 200,000 questions, and the words of the text.
    assert len(data.train.tokens) == 5_512_848 + 3 * 200_000 + answers
    assert first_time < 5
    assert second_time < 0.3


def test_published_answers_joined(real_folder: Path, tmp_path: Path) -> None:
    data = load_folder(
        real_folder, "en", EncodingOptions(joined_answers=True), tasks=(19,), cache=tmp_path
    )
    targets = data.train.targets
    assert (targets != IGNORE).sum() == 1_000
    answers = {data.vocabulary[number] for number in np.unique(targets[targets != IGNORE])}
    assert len(answers) == 12
    assert all(len(answer) == 3 and answer[1] == "," for answer in answers)
