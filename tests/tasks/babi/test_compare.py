"""The page that puts the generated stories beside the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from dnclab.tasks.babi.compare import (
    count,
    main,
    missing,
    real_stories,
    report,
    template,
    tokens,
)
from dnclab.tasks.babi.format import TASK_NAMES, Line, Story
from dnclab.tasks.babi.reader import BabiFormatError
from dnclab.tasks.babi.stories import generate_stories, write_files

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mary went back to the office.", "<Person> went back to the <room>."),
        ("Where will yann go?", "Where will <person> go?"),
        ("Mice are afraid of wolves.", "<Animals> are afraid of <animals>."),
        ("Lily is yellow.", "<Person> is <colour>."),
        ("The yellow square is above the triangle.", "The <shape> is above the <shape>."),
        ("Is the box bigger than the box of chocolates?",
         "Is the <container> bigger than the <container>?"),
        ("Jason is bored.", "<Person> is bored."),
    ],
)  # fmt: skip
def test_a_template_has_classes_for_words(text: str, expected: str) -> None:
    assert template(text) == expected


def test_tokens_are_words_and_stops() -> None:
    assert tokens("Where is Mary?") == ("where", "is", "mary", "?")


STORY: Story = (
    Line("Mary got the milk there."),
    Line("Mary took the apple there."),
    Line("What is Mary carrying?", ("milk", "apple"), (1, 2)),
)


def test_count() -> None:
    counts = count([STORY, STORY[:1]])
    assert (counts.stories, counts.questions, counts.statements) == (2, 1, 3)
    assert counts.lengths == [17, 6]
    assert counts.answers == {"milk,apple": 1}
    assert counts.templates == {
        "<Person> got the <thing> there.",
        "<Person> took the <thing> there.",
        "What is <Person> carrying?",
    }
    sentences = ("mary got the milk there .", "mary took the apple there .", "what is carrying ?")
    assert counts.vocabulary == {word for sentence in sentences for word in sentence.split()}


def test_what_stands_on_one_side_only_is_listed() -> None:
    assert list(missing({8: count([STORY])}, {8: count([STORY])})) == []
    assert list(missing({8: count([STORY])}, {8: count([(STORY[0], STORY[2])])})) == [
        "* task 8, real word only: `took`",
        "* task 8, real template only: `<Person> took the <thing> there.`",
    ]
    assert list(missing({8: count([STORY[:1]])}, {8: count([STORY[:2]])})) == [
        "* task 8, generated word only: `apple`",
        "* task 8, generated word only: `took`",
        "* task 8, generated template only: `<Person> took the <thing> there.`",
    ]


def test_stories_are_read_from_a_folder(tmp_path: Path) -> None:
    write_files(tmp_path, seed=5, stories_per_task=10)
    read = real_stories(tmp_path, "train")
    assert read == {task: list(generate_stories(task, 10, 5)) for task in TASK_NAMES}


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    write_files(tmp_path, seed=5, stories_per_task=1, tasks=[1])
    with pytest.raises(BabiFormatError, match="qa2_two-supporting-facts_test"):
        real_stories(tmp_path, "test")


def test_the_same_stories_on_both_sides_show_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path, seed=5, stories_per_task=10)
    main([str(tmp_path), "--seed", "5"])
    page = capsys.readouterr().out.splitlines()
    assert page[0] == (
        f"Made by `python -m dnclab.tasks.babi.compare path/to/{tmp_path.name} --seed 5`"
    )
    assert "Nothing stands on one side only." in page
    rows = [row.split(" | ") for row in page if row.startswith(("| 1 ", "| 8 ", "| 20 "))]
    assert len(rows) == 9
    pairs = [
        cell.strip(" |").split(" / ") for row in rows for cell in row if cell.count(" / ") == 1
    ]
    assert len(pairs) == 15
    assert all(real == generated for real, generated in pairs)


def test_the_page_in_the_documentation_is_up_to_date(real_archive: Path) -> None:
    page = (REPOSITORY / "docs" / "babi-generated.md").read_text(encoding="utf-8").splitlines()
    # The first line names the place, which may be called otherwise here.
    assert list(report(real_archive, seed=1, stories=None))[1:] == page[1:]
