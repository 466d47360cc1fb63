"""The solvers: right on the real files, and on small stories made by hand for their finer rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from dnclab.tasks.babi import solvers
from dnclab.tasks.babi.format import SPLITS, TASK_NAMES, Line, file_name, write_story
from dnclab.tasks.babi.reader import find_edition, parse_stories, read_file, read_folder
from dnclab.tasks.babi.solvers import questions, solve, support_is_valid
from dnclab.tasks.babi.solvers.reading import UnanswerableError

# --- the real files ------------------------------------------------------------------------------


def test_real_answers_and_supports_are_found_but_for_22_ambiguous_ones(real_folder: Path) -> None:
    asked: Counter[str] = Counter()
    wrong_answers: Counter[tuple[int, str]] = Counter()
    wrong_supports: Counter[tuple[int, str]] = Counter()
    for split in SPLITS:
        for task, stories in read_folder(find_edition(real_folder), split).items():
            for story in stories:
                for question in questions(story):
                    asked[split] += 1
                    right = solve(task, story, question).answer == story[question - 1].answer
                    wrong_answers[task, split] += not right
                    valid = support_is_valid(task, story, question)
                    wrong_supports[task, split] += not valid
                    assert right == valid
    assert asked == {"train": 200_000, "test": 20_000}
    assert +wrong_answers == +wrong_supports == {(5, "train"): 20, (5, "test"): 2}
    assert asked.total() - wrong_answers.total() == 219_978


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task", TASK_NAMES)
def test_real_files_are_written_again_byte_for_byte(
    task: int, split: str, real_folder: Path
) -> None:
    path = find_edition(real_folder) / file_name(task, split)
    written = "".join(write_story(story, task) for story in read_file(path))
    assert written.encode() == path.read_bytes()


# --- stories made by hand ------------------------------------------------------------------------


def solved(task: int, *texts: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Answer and support of the last sentence, the question."""
    return solve(task, [Line(text) for text in texts], len(texts))


def test_only_what_stands_before_the_question_counts() -> None:
    story = [
        Line("Mary went to the office."),
        Line("Where is Mary?", ("office",), (1,)),
        Line("Mary moved to the garden."),
        Line("Where is Mary?", ("garden",), (3,)),
    ]
    assert solve(1, story, 2) == (("office",), (1,))
    assert solve(1, story, 4) == (("garden",), (3,))


@pytest.mark.parametrize("task", TASK_NAMES)
def test_the_given_answers_are_not_looked_at(task: int) -> None:
    """Solved with all answers falsified: the same."""
    example = EXAMPLES[task]
    false = tuple(Line(line.text, ("false",), (99,)) if line.answer else line for line in example)
    assert [solve(task, false, question) for question in questions(false)] == [
        (example[question - 1].answer, example[question - 1].support)
        for question in questions(example)
    ]


EXAMPLES = {
    task: parse_stories(f"{text}\n", f"example {task}")[0]
    for task, text in {
        1: "1 Mary went to the office.\n2 Where is Mary? \toffice\t1",
        2: "1 Mary got the milk there.\n2 Mary went to the office.\n"
        "3 Where is the milk? \toffice\t1 2",
        3: "1 John took the apple.\n2 John went to the office.\n3 John went to the garden.\n"
        "4 Where was the apple before the garden? \toffice\t1 3 2",
        4: "1 The office is north of the garden.\n2 What is the garden south of?\toffice\t1",
        5: "1 Bill gave the milk to Fred.\n2 Who received the milk? \tFred\t1",
        6: "1 Mary went to the office.\n2 Is Mary in the garden? \tno\t1",
        7: "1 Mary got the milk there.\n2 How many objects is Mary carrying? \tone\t1",
        8: "1 Mary got the milk there.\n2 What is Mary carrying? \tmilk\t1",
        9: "1 Mary is not in the office.\n2 Is Mary in the office? \tno\t1",
        10: "1 Bill is in the park.\n2 Is Bill in the park? \tyes\t1",
        11: "1 Mary went to the office.\n2 Then she moved to the garden.\n"
        "3 Where is Mary? \tgarden\t1 2",
        12: "1 Mary and John went to the office.\n2 Where is John? \toffice\t1",
        13: "1 Mary and John went to the office.\n2 Then they moved to the garden.\n"
        "3 Where is John? \tgarden\t1 2",
        14: "1 Bill went to the park this morning.\n2 Yesterday Bill went to the school.\n"
        "3 Where was Bill before the park? \tschool\t1 2",
        15: "1 Mice are afraid of cats.\n2 Emily is a mouse.\n3 What is emily afraid of?\tcat\t2 1",
        16: "1 Lily is a frog.\n2 Lily is gray.\n3 Greg is a frog.\n"
        "4 What color is Greg?\tgray\t3 1 2",
        17: "1 The triangle is above the red square.\n2 The red sphere is below the red square.\n"
        "3 Is the red sphere below the triangle?\tyes\t2 1",
        18: "1 The chocolate fits inside the box.\n2 The chest is bigger than the box.\n"
        "3 Does the chocolate fit in the chest?\tyes\t2 1",
        19: "1 The office is north of the garden.\n2 The hallway is east of the garden.\n"
        "3 How do you go from the office to the hallway?\ts,e\t1 2",
        20: "1 Yann is tired.\n2 Where will yann go?\tbedroom\t1",
    }.items()
}


def test_task_2_a_dropped_object_stays_when_its_holder_moves_on() -> None:
    story = (
        "Mary went to the office.",
        "Mary got the milk there.",
        "Mary went to the garden.",
        "Mary put down the milk there.",
        "Mary went to the kitchen.",
        "Where is the milk?",
    )
    assert solved(2, *story) == (("garden",), (4, 3))


def test_task_2_a_place_that_nobody_told_is_not_guessed() -> None:
    with pytest.raises(UnanswerableError):
        solved(2, "Mary got the milk there.", "John went to the office.", "Where is the milk?")


def test_task_3_the_last_visit_is_meant() -> None:
    story = (
        "Mary took the milk.",
        "Mary went to the office.",
        "Mary went to the garden.",
        "Mary went to the kitchen.",
        "Mary went to the garden.",
        "Mary went to the office.",
        "Where was the milk before the garden?",
    )
    assert solved(3, *story) == (("kitchen",), (1, 5, 4))


def test_task_3_what_a_person_does_after_the_drop_does_not_count() -> None:
    story = (
        "Mary took the milk.",
        "Mary went to the office.",
        "Mary went to the garden.",
        "Mary discarded the milk there.",
        "Mary went to the kitchen.",
        "Mary went to the garden.",
        "Where was the milk before the garden?",
    )
    assert solved(3, *story) == (("office",), (4, 3, 2))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is south of the kitchen?", "garden"),
        ("What is the kitchen north of?", "garden"),
        ("What is north of the kitchen?", "office"),
        ("What is the office north of?", "kitchen"),
    ],
)
def test_task_4_a_link_is_read_from_both_sides(question: str, answer: str) -> None:
    line = 1 if "office" in (answer, question.split()[3]) else 2
    links = ("The office is north of the kitchen.", "The garden is south of the kitchen.")
    assert solved(4, *links, question) == ((answer,), (line,))


@pytest.mark.parametrize(
    ("question", "answer", "line"),
    [
        ("Who gave the milk?", "Fred", 2),
        ("Who gave the milk to Bill?", "Fred", 2),
        ("Who received the milk?", "Bill", 2),
        ("Who did Fred give the milk to?", "Bill", 2),
        ("What did Bill give to Fred?", "apple", 3),
        ("Who received the apple?", "Fred", 3),
    ],
)
def test_task_5_the_last_give_counts(question: str, answer: str, line: int) -> None:
    """Bill gave Fred two things: ``What did Bill give to Fred?`` is ambiguous, the later counts."""
    story = (
        "Bill gave the milk to Fred.",
        "Fred passed the milk to Bill.",
        "Bill handed the apple to Fred.",
    )
    assert solved(5, *story, question) == ((answer,), (line,))


def test_task_7_gifts_count_and_what_was_given_away_does_not() -> None:
    story = (
        "Mary got the milk there.",
        "Mary went to the office.",
        "John gave the apple to Mary.",
        "Mary took the football there.",
        "Mary passed the milk to John.",
        "John got the milk there.",
    )
    question = "How many objects is {} carrying?"
    assert solved(7, *story, question.format("Mary")) == (("two",), (1, 3, 4, 5))
    assert solved(7, *story[:1], question.format("Mary")) == (("one",), (1,))
    assert solved(7, *story[:3], question.format("John")) == (("none",), (3,))


def test_task_8_objects_stand_in_the_order_in_which_each_was_first_taken() -> None:
    story = (
        "Mary got the milk there.",
        "Mary got the apple there.",
        "Mary left the milk.",
        "Mary took the football there.",
        "Mary took the milk there.",
        "Mary dropped the apple.",
        "What is Mary carrying?",
    )
    assert solved(8, *story) == (("milk", "football"), (1, 3, 5, 2, 6, 4))


def test_task_8_nothing() -> None:
    story = ("Mary got the milk there.", "Mary left the milk.", "What is Mary carrying?")
    assert solved(8, *story) == (("nothing",), (1, 2))


@pytest.mark.parametrize("denial", ["is not in", "is no longer in"])
def test_task_9_a_denial_hides_what_was_known_before(denial: str) -> None:
    story = ("Mary is in the office.", f"Mary {denial} the office.", "Is Mary in the office?")
    assert solved(9, *story) == (("no",), (2,))


@pytest.mark.parametrize(
    ("rooms", "asked", "answer"),
    [
        ("park or the school", "park", "maybe"),
        ("park or the school", "school", "maybe"),
        ("park or the school", "cinema", "no"),
        ("park or the park", "park", "maybe"),
        ("park or the park", "school", "no"),
    ],
)
def test_task_10_either_is_a_maybe_even_for_one_room_named_twice(
    rooms: str, asked: str, answer: str
) -> None:
    story = ("Bill is in the cinema.", f"Bill is either in the {rooms}.")
    assert solved(10, *story, f"Is Bill in the {asked}?") == ((answer,), (2,))


def test_task_13_the_last_pair_that_names_him() -> None:
    story = (
        "Mary and John went to the office.",
        "Then they moved to the garden.",
        "Mary and Daniel went to the kitchen.",
        "After that they went back to the hallway.",
    )
    assert solved(13, *story, "Where is Mary?") == (("hallway",), (3, 4))
    assert solved(13, *story, "Where is John?") == (("garden",), (1, 2))


def test_task_14_times_order_the_moves_and_the_last_visit_is_meant() -> None:
    story = (
        "This evening Bill went back to the cinema.",
        "Bill moved to the park this afternoon.",
        "Yesterday Bill went to the cinema.",
        "Mary went to the office this morning.",
        "This morning Bill travelled to the school.",
    )
    assert solved(14, *story, "Where was Bill before the cinema?") == (("park",), (1, 2))
    assert solved(14, *story, "Where was Bill before the school?") == (("cinema",), (5, 3))


def test_task_16_the_mate_whose_animal_was_told_last_not_whose_colour_was() -> None:
    story = (
        "Lily is a swan.",
        "Greg is a swan.",
        "Greg is gray.",
        "Lily is white.",
        "Julius is a frog.",
        "Julius is green.",
        "Brian is a swan.",
        "Bernhard is a swan.",
        "Bernhard is yellow.",
    )
    assert solved(16, *story, "What color is Brian?") == (("yellow",), (7, 8, 9))
    assert solved(16, *story[:7], "What color is Brian?") == (("gray",), (7, 2, 3))


@pytest.mark.parametrize(
    ("direction", "answer"),
    [
        ("above", "yes"),
        ("below", "no"),
        ("to the left of", "yes"),
        ("to the right of", "no"),
    ],
)
def test_task_17_round_a_corner_two_directions_hold(direction: str, answer: str) -> None:
    story = (
        "The red square is to the right of the triangle.",
        "The red square is above the blue square.",
    )
    question = f"Is the triangle {direction} the blue square?"
    assert solved(17, *story, question) == ((answer,), (1, 2))


@pytest.mark.parametrize("direction", ["to the left of", "to the right of"])
def test_task_17_on_a_line_the_crosswise_directions_do_not_hold(direction: str) -> None:
    story = ("The red square is above the triangle.", "The red sphere is above the red square.")
    question = f"Is the triangle {direction} the red sphere?"
    assert solved(17, *story, question) == (("no",), (1, 2))


BOXES = (
    "The chocolate fits inside the box.",
    "The chest is bigger than the box.",
    "The chocolate fits inside the box.",
    "The box is bigger than the box of chocolates.",
)


@pytest.mark.parametrize(
    ("question", "answer", "supports"),
    [
        ("Does the chocolate fit in the chest?", "yes", [(2, 1), (2, 3)]),
        ("Is the chest bigger than the chocolate?", "yes", [(2, 1), (2, 3)]),
        ("Does the chest fit in the chocolate?", "no", [(1, 2), (3, 2)]),
        ("Is the box of chocolates bigger than the chest?", "no", [(4, 2)]),
    ],
)
def test_task_18_any_chain_of_two_facts_will_do(
    question: str, answer: str, supports: Sequence[tuple[int, ...]]
) -> None:
    assert solved(18, *BOXES, question) == ((answer,), supports[0])
    lines = [Line(text) for text in BOXES]
    every = [(first, second) for first in range(1, 5) for second in range(1, 5)]
    valid = [
        pair for pair in every if support_is_valid(18, [*lines, Line(question, (answer,), pair)], 5)
    ]
    assert valid == supports


def test_task_18_a_right_chain_does_not_make_a_wrong_answer_valid() -> None:
    lines = [Line(text) for text in BOXES]
    question = "Does the chocolate fit in the chest?"
    assert support_is_valid(18, [*lines, Line(question, ("yes",), (2, 1))], 5)
    assert not support_is_valid(18, [*lines, Line(question, ("no",), (2, 1))], 5)


def test_task_18_a_chain_of_three_facts_is_not_followed() -> None:
    story = (
        "The chocolate fits inside the box.",
        "The box fits inside the chest.",
        "The chest fits inside the suitcase.",
        "Does the chocolate fit in the suitcase?",
    )
    with pytest.raises(UnanswerableError):
        solved(18, *story)


def test_task_19_links_are_walked_both_ways() -> None:
    story = (
        "The office is east of the hallway.",
        "The kitchen is north of the office.",
        "The garden is west of the bedroom.",
        "The office is west of the garden.",
        "The bathroom is north of the garden.",
    )
    path = "How do you go from the {} to the {}?"
    assert solved(19, *story, path.format("kitchen", "garden")) == (("s", "e"), (2, 4))
    assert solved(19, *story, path.format("garden", "kitchen")) == (("w", "n"), (4, 2))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where will jason go?", "kitchen"),
        ("Why did jason go to the kitchen?", "thirsty"),
        ("Why did yann go to the kitchen?", "hungry"),
        ("Why did yann get the apple?", "hungry"),
    ],
)
def test_task_20_a_motive_leads_to_a_room(question: str, answer: str) -> None:
    story = ("Yann is hungry.", "Jason is thirsty.", "Jason went to the kitchen.")
    line = 1 if "yann" in question else 2
    assert solved(20, *story, question) == ((answer,), (line,))


def test_solvers_import_nothing_of_the_generator() -> None:
    """Else their agreement would prove less."""
    for path in Path(solvers.__file__).parent.glob("*.py"):
        imports = [
            line
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.startswith(("import ", "from "))
        ]
        assert imports
        assert not any("stories" in line for line in imports)
