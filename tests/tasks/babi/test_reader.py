"""The reader: every story of the real files, and one clear error for anything else."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dnclab.tasks.babi.format import TASK_NAMES, Line, Story, file_name, write_story
from dnclab.tasks.babi.reader import (
    BabiFormatError,
    find_edition,
    parse_stories,
    read_file,
    read_folder,
)

# What the published en-10k holds: task: (train stories, test stories, longest train story,
# longest test story, words of the training file, answer words). Tokens count words, full stops
# and question marks of the text, not the answers.
PUBLISHED = {
    1: (2000, 200, 88, 85, 21, 6),
    2: (2000, 200, 447, 577, 35, 6),
    3: (2000, 200, 1915, 1388, 36, 6),
    4: (10000, 1000, 23, 23, 16, 6),
    5: (2000, 200, 815, 612, 41, 7),
    6: (2000, 200, 186, 116, 37, 2),
    7: (2000, 200, 356, 248, 45, 4),
    8: (2000, 200, 334, 383, 37, 4),
    9: (2000, 200, 104, 103, 25, 2),
    10: (2000, 200, 119, 114, 26, 3),
    11: (2000, 200, 95, 96, 28, 6),
    12: (2000, 200, 107, 106, 22, 6),
    13: (2000, 200, 106, 104, 28, 6),
    14: (2000, 200, 151, 148, 27, 6),
    15: (2500, 250, 68, 68, 19, 4),
    16: (10000, 1000, 46, 46, 19, 4),
    17: (1250, 125, 120, 118, 20, 2),
    18: (1978, 199, 241, 205, 20, 2),
    19: (10000, 1000, 51, 51, 25, 4),
    20: (933, 93, 149, 148, 37, 7),
}
SMALL_TRAIN = {4: 1000, 15: 250, 16: 1000, 17: 125, 18: 198, 19: 1000, 20: 94}
"""Training stories of ``en``, where not 200."""

TWO_STORIES = (
    "1 Mary moved to the bathroom.\n"
    "2 John went to the hallway.\n"
    "3 Where is Mary? \tbathroom\t1\n"
    "1 The office is east of the hallway.\n"
    "2 How do you go from the office to the hallway?\tn,w\t1 1\n"
)


def tokens(story: Story) -> int:
    return sum(len(line.text.split()) + 1 for line in story)


def questions(stories: list[Story]) -> int:
    return sum(bool(line.answer) for story in stories for line in story)


def test_two_stories_by_hand() -> None:
    first, second = parse_stories(TWO_STORIES, "file")
    assert first == (
        Line("Mary moved to the bathroom."),
        Line("John went to the hallway."),
        Line("Where is Mary?", ("bathroom",), (1,)),
    )
    assert second == (
        Line("The office is east of the hallway."),
        Line("How do you go from the office to the hallway?", ("n", "w"), (1, 1)),
    )
    assert parse_stories(TWO_STORIES.encode(), "file") == [first, second]


def test_a_file_may_end_inside_a_story() -> None:
    cut = TWO_STORIES.rpartition("2 How")[0]
    assert [len(story) for story in parse_stories(cut, "file")] == [3, 1]


GOOD = "1 Mary went home.\n"


@pytest.mark.parametrize(
    ("text", "number", "expected"),
    [
        (GOOD + "2 Mary went home\n", 2, "a '.' at the end"),
        (GOOD + "2  Mary went home.\n", 2, "one space between"),
        (GOOD + "2 Mary went  home.\n", 2, "one space between"),
        (GOOD + "2 Mary, went home.\n", 2, "one space between"),
        (GOOD + "2 \n", 2, "words"),
        (GOOD + "2\n", 2, "words"),
        (GOOD + "\n", 2, "ID 2"),
        (GOOD + "3 John went home.\n", 2, "ID 2, the next line of the story, or ID 1"),
        (GOOD + "02 John went home.\n", 2, "ID 2"),
        (GOOD + "-2 John went home.\n", 2, "ID 2"),
        (GOOD + "two John went home.\n", 2, "ID 2"),
        ("2 John went home.\n", 1, "ID 1, the first line of a story"),
        ("0 John went home.\n", 1, "ID 1"),
        (GOOD + "2 Where is Mary?\n", 2, "an answer and supporting IDs"),
        (GOOD + "2 Where is Mary? \thome\n", 2, "tab, supporting IDs"),
        (GOOD + "2 Where is Mary? \thome\t\n", 2, "tab, supporting IDs"),
        (GOOD + "2 Where is Mary? \t\t1\n", 2, "answer words"),
        (GOOD + "2 Where is Mary? \thome,\t1\n", 2, "answer words"),
        (GOOD + "2 Where is Mary? \thome sweet\t1\n", 2, "answer words"),
        (GOOD + "2 Where is Mary?  \thome\t1\n", 2, "'words?', tab"),
        (GOOD + "2 Mary went home.\thome\t1\n", 2, "'words?', tab"),
        (GOOD + "2 Where is Mary? \thome\t0\n", 2, "supporting IDs"),
        (GOOD + "2 Where is Mary? \thome\tone\n", 2, "supporting IDs"),
        (GOOD + "2 Where is Mary? \thome\t1\t1\n", 2, "supporting IDs"),
        (GOOD + "2 Where is Mary? \thome\t2\n", 2, "earlier lines of the story (1 to 1), got '2'"),
        (GOOD + "2 Where is Mary? \thome\t1 9\n", 2, "(1 to 1), got '1 9'"),
        ("1 Where is Mary? \thome\t1\n", 1, "earlier lines"),
        (GOOD + "2 Where is Mary? \thome\t" + "9" * 5000 + "\n", 2, "supporting IDs"),
        (GOOD + "2 Mary\x00went home.\n", 2, "words"),
        (GOOD + "2 Mary went home.\r\n", 2, "LF line ends, got a CR"),
        (GOOD + "2 Mary\u2028went home.\n", 2, "expected ASCII only, got '\\u2028'"),
        (GOOD + "2 Mary went home.", 2, "a newline at the end"),
    ],
)
def test_what_is_not_bAbI_is_refused_by_line(text: str, number: int, expected: str) -> None:  # noqa: N802
    with pytest.raises(BabiFormatError) as caught:
        parse_stories(text, "qa1.txt")
    assert str(caught.value).startswith(f"qa1.txt, line {number}: expected ")
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 300


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(BabiFormatError, match=r"qa1, line 2: expected ASCII only, got b'\\xff'"):
        parse_stories(GOOD.encode() + b"2 Mary \xff.\n", "qa1")


def test_a_support_is_checked_wherever_the_same_question_stands() -> None:
    late = "1 A b.\n2 A b.\n3 Is it? \tyes\t2\n1 A b.\n2 Is it? \tyes\t2\n"
    with pytest.raises(BabiFormatError, match=r"line 5: .*1 to 1"):
        parse_stories(late, "file")


def test_empty_and_missing_files(tmp_path: Path) -> None:
    empty = tmp_path / "qa1.txt"
    empty.write_bytes(b"")
    with pytest.raises(BabiFormatError, match=r"qa1\.txt: expected stories, got an empty file"):
        read_file(empty)
    with pytest.raises(BabiFormatError, match=r"none\.txt: expected a bAbI file, there is none"):
        read_file(tmp_path / "none.txt")
    with pytest.raises(BabiFormatError, match="cannot be read"):
        read_file(tmp_path)
    with pytest.raises(BabiFormatError, match="expected bAbI files or a folder en-10k"):
        find_edition(tmp_path)
    with pytest.raises(ValueError, match="edition: expected one of en-10k, en, got 'hn'"):
        find_edition(tmp_path, "hn")


def test_editions_are_found_from_each_level(small_folder: Path) -> None:
    inner = small_folder / "en"
    assert find_edition(small_folder.parent, "en") == inner
    assert find_edition(small_folder, "en") == inner
    assert find_edition(inner, "en") == inner
    assert len(read_folder(inner, "train", tasks=(1, 4))[4]) == 3


def stories_or_error(content: str | bytes) -> list[Story] | str:
    try:
        return parse_stories(content, "file")
    except BabiFormatError as error:
        return str(error)


@given(st.one_of(st.binary(), st.text()))
def test_any_content_is_read_or_refused(content: str | bytes) -> None:
    result = stories_or_error(content)
    assert result.startswith("file") if isinstance(result, str) else result


@given(st.lists(st.sampled_from([*"12 .?,\t\n\r", "1 A b.\n", "2 Is it? \ty\t1\n", "é", "Ab"])))
def test_any_content_of_near_misses_is_read_or_refused(pieces: list[str]) -> None:
    content = "".join(pieces)
    result = stories_or_error(content)
    if isinstance(result, str):
        assert result.startswith("file")
    else:
        assert sum(map(len, result)) == content.count("\n")


words = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9'-]{0,9}", fullmatch=True)
sentences = st.lists(words, min_size=1, max_size=6).map(" ".join)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    lines = [Line(draw(sentences) + ".")]
    for number in range(1, draw(st.integers(1, 6))):
        if draw(st.booleans()):
            lines.append(Line(draw(sentences) + "."))
            continue
        answer = draw(st.lists(words, min_size=1, max_size=3))
        support = draw(st.lists(st.integers(1, number), min_size=1, max_size=4))
        lines.append(Line(draw(sentences) + "?", tuple(answer), tuple(support)))
    return tuple(lines)


@given(st.lists(stories(), min_size=1, max_size=4), st.sampled_from(sorted(TASK_NAMES)))
def test_what_is_written_is_read_back(written: list[Story], task: int) -> None:
    content = "".join(write_story(story, task) for story in written)
    assert parse_stories(content, "file") == written


def test_a_long_bad_line_takes_no_longer_than_it_is() -> None:
    """A pattern that goes back and forth would need hours for this."""
    start = time.perf_counter()
    for sentence in ("a " * 500_000, "a" * 1_000_000, "a?" + "\ta" * 300_000, "a," * 500_000):
        with pytest.raises(BabiFormatError):
            parse_stories(f"1 {sentence}!\n", "file")
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("task", TASK_NAMES)
def test_published_stories_are_all_there(task: int, real_folder: Path) -> None:
    train, test = (
        read_file(real_folder / "en-10k" / file_name(task, split)) for split in ("train", "test")
    )
    vocabulary = {
        word.lower()
        for story in train
        for line in story
        for word in (*line.text[:-1].split(), line.text[-1], *line.answer)
    }
    answers = {word for story in train for line in story for word in line.answer}
    assert (
        len(train),
        len(test),
        max(map(tokens, train)),
        max(map(tokens, test)),
        len(vocabulary),
        len(answers),
    ) == PUBLISHED[task]
    assert (questions(train), questions(test)) == (10_000, 1_000)


@pytest.mark.parametrize("task", TASK_NAMES)
def test_published_files_are_written_back_to_the_byte(task: int, real_folder: Path) -> None:
    path = real_folder / "en-10k" / file_name(task, "test")
    written = "".join(write_story(story, task) for story in read_file(path))
    assert written.encode() == path.read_bytes()


def test_the_small_edition(real_folder: Path) -> None:
    train = read_folder(real_folder / "en", "train")
    assert {task: len(its) for task, its in train.items()} == {
        task: SMALL_TRAIN.get(task, 200) for task in TASK_NAMES
    }
    assert {questions(its) for its in train.values()} == {1_000}
    assert read_folder(real_folder / "en", "test") == read_folder(real_folder / "en-10k", "test")


def test_answers_of_several_words(real_folder: Path) -> None:
    found = read_folder(real_folder / "en-10k", "train", tasks=(8, 19))
    sizes = {
        task: Counter(len(line.answer) for story in its for line in story if line.answer)
        for task, its in found.items()
    }
    assert sizes == {8: {1: 9_363, 2: 587, 3: 50}, 19: {2: 10_000}}
