"""The generated stories beside the real ones: ``python -m dnclab.tasks.babi.compare PLACE``.

``PLACE`` is the archive ``tasks_1-20_v1-2.tar.gz`` or a folder with ``en-10k`` in it. Prints
Markdown; ``docs/babi-generated.md`` is its output. Only the train files are compared.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from dnclab.tasks.babi.format import TASK_NAMES, Story
from dnclab.tasks.babi.install import install_from
from dnclab.tasks.babi.reader import find_edition, read_folder
from dnclab.tasks.babi.stories import generate_stories, words


def real_stories(place: Path, split: str) -> dict[int, list[Story]]:
    """The stories of each task in a folder of any bAbI files, or in the published archive."""
    if place.is_dir():
        return read_folder(find_edition(place), split)
    with tempfile.TemporaryDirectory() as cache:
        return read_folder(find_edition(install_from(place, cache)), split)


# --- the classes of words that templates are made of ---------------------------------------------

CLASSES = {
    "person": (
        *words.PEOPLE,
        *words.GIVERS,
        *words.TOWNSPEOPLE,
        *words.FEARFUL,
        *words.COLOURED,
        *words.MOTIVATED,
    ),
    "room": (*words.ROOMS, *words.TOWN_ROOMS),
    "thing": (*words.THINGS, *(thing for _, thing in words.MOTIVES.values())),
    "animals": tuple(words.PLURALS.values()),
    "animal": (*words.PLURALS, *words.ANIMALS),
    "shape": words.SHAPES,
    "colour": words.COLOURS,
    "container": (*words.SMALL_THINGS, *words.CONTAINERS),
}
"""What is replaced in a template. Of a word in two classes the first counts (``sheep``)."""

CLASS_OF = {word.lower(): name for name in reversed(CLASSES) for word in CLASSES[name]}
LONGEST_FIRST = sorted(CLASS_OF, key=lambda word: (-len(word), word))
CLASS_WORD = re.compile(rf"\b(?:{'|'.join(LONGEST_FIRST)})\b", re.IGNORECASE)


def placeholder(word: re.Match[str]) -> str:
    """``<person>`` for a name, ``<Person>`` if it is capitalised."""
    name = CLASS_OF[word[0].lower()]
    return f"<{name.capitalize() if word[0][0].isupper() else name}>"


@cache
def template(text: str) -> str:
    """``<Person> went to the <room>.``"""
    return CLASS_WORD.sub(placeholder, text)


@cache
def tokens(text: str) -> tuple[str, ...]:
    """A sentence's words in lower case, and its stop."""
    return tuple(re.findall(r"[a-z]+|[.?]", text.lower()))


# --- counting ------------------------------------------------------------------------------------


@dataclass
class Counts:
    """What is counted of a task's stories."""

    stories: int = 0
    questions: int = 0
    statements: int = 0
    lengths: list[int] = field(default_factory=list)
    """Tokens of each story: words, full stops and question marks."""
    answers: Counter[str] = field(default_factory=Counter)
    vocabulary: set[str] = field(default_factory=set)
    templates: set[str] = field(default_factory=set)

    def questions_per_story(self) -> float:
        """Mean number of questions of a story."""
        return self.questions / self.stories

    def statements_per_story(self) -> float:
        """Mean number of statements of a story."""
        return self.statements / self.stories

    def mean_length(self) -> float:
        """Mean number of tokens of a story."""
        return sum(self.lengths) / self.stories

    def share(self, answer: str) -> float:
        """How many per cent of the questions have that answer."""
        return 100 * self.answers[answer] / self.questions


def count(stories: Iterable[Story]) -> Counts:
    """Count what the tables show."""
    counts = Counts()
    for story in stories:
        read = [token for line in story for token in tokens(line.text)]
        counts.stories += 1
        counts.lengths.append(len(read))
        counts.vocabulary.update(read)
        for line in story:
            counts.templates.add(template(line.text))
            if line.answer:
                counts.questions += 1
                counts.answers[",".join(line.answer)] += 1
                counts.vocabulary.update(line.answer)
            else:
                counts.statements += 1
    counts.vocabulary = {word.lower() for word in counts.vocabulary}
    return counts


# --- the tables ----------------------------------------------------------------------------------


def both(real: object, generated: object) -> str:
    """``real | generated`` in one cell."""
    return f"{real} / {generated}"


def coverage(some: set[str], others: set[str]) -> str:
    """How many of some stand among the others too: ``28 of 28``."""
    return f"{len(some & others)} of {len(some)}"


def sizes_table(real: dict[int, Counts], made: dict[int, Counts]) -> Iterator[str]:
    """How many and how long."""
    yield (
        "| task | stories | questions per story | statements per story "
        "| mean tokens per story | longest story in tokens |"
    )
    yield "|---|---|---|---|---|---|"
    for task, theirs in real.items():
        ours = made[task]
        cells = (
            both(theirs.stories, ours.stories),
            both(f"{theirs.questions_per_story():.2f}", f"{ours.questions_per_story():.2f}"),
            both(f"{theirs.statements_per_story():.2f}", f"{ours.statements_per_story():.2f}"),
            both(f"{theirs.mean_length():.1f}", f"{ours.mean_length():.1f}"),
            both(max(theirs.lengths), max(ours.lengths)),
        )
        yield f"| {task} {TASK_NAMES[task]} | {' | '.join(cells)} |"


def coverage_table(real: dict[int, Counts], made: dict[int, Counts]) -> Iterator[str]:
    """Words and templates of the one that stand in the other, in both directions."""
    yield (
        "| task | real words generated | generated words real "
        "| real templates generated | generated templates real |"
    )
    yield "|---|---|---|---|---|"
    for task, theirs in real.items():
        ours = made[task]
        cells = (
            coverage(theirs.vocabulary, ours.vocabulary),
            coverage(ours.vocabulary, theirs.vocabulary),
            coverage(theirs.templates, ours.templates),
            coverage(ours.templates, theirs.templates),
        )
        yield f"| {task} | {' | '.join(cells)} |"


def missing(real: dict[int, Counts], made: dict[int, Counts]) -> Iterator[str]:
    """Every word and template that stands on one side only."""
    for task, theirs in real.items():
        ours = made[task]
        for what, one, other in (
            ("word", theirs.vocabulary, ours.vocabulary),
            ("template", theirs.templates, ours.templates),
        ):
            yield from (
                f"* task {task}, real {what} only: `{each}`" for each in sorted(one - other)
            )
            yield from (
                f"* task {task}, generated {what} only: `{each}`" for each in sorted(other - one)
            )


def answers_table(real: dict[int, Counts], made: dict[int, Counts]) -> Iterator[str]:
    """Each answer's share, the frequent first, and the largest difference."""
    yield "| task | largest difference | answers |"
    yield "|---|---|---|"
    for task, theirs in real.items():
        ours = made[task]
        answers = sorted(
            theirs.answers | ours.answers, key=lambda each: (-theirs.share(each), each)
        )
        largest = max(abs(theirs.share(answer) - ours.share(answer)) for answer in answers)
        shares = (
            f"{answer} {both(f'{theirs.share(answer):.1f}', f'{ours.share(answer):.1f}')}"
            for answer in answers
        )
        yield f"| {task} | {largest:.1f} | {' · '.join(shares)} |"


def report(place: Path, seed: int, stories: int | None) -> Iterator[str]:
    """The page, line by line. Without a number of stories, as many as each real file holds."""
    options = f"--seed {seed}" + (f" --stories {stories}" if stories else "")
    real = {task: count(stories) for task, stories in real_stories(place, "train").items()}
    made = {
        task: count(generate_stories(task, stories or theirs.stories, seed))
        for task, theirs in real.items()
    }
    yield f"Made by `python -m dnclab.tasks.babi.compare path/to/{place.name} {options}`"
    yield ""
    yield "# Generated bAbI stories beside the real ones"
    yield ""
    yield "The train files of `en-10k` (bAbI tasks v1.2). In each cell: real / generated."
    yield ""
    yield "## Number and length"
    yield ""
    yield from sizes_table(real, made)
    yield ""
    yield "Tokens are words, full stops and question marks; answers are not counted."
    yield ""
    yield "## Words and sentences"
    yield ""
    yield "A template is a sentence whose people, rooms, things, animals, shapes, colours and"
    yield "containers are replaced by the name of their class: `<Person> went to the <room>.`"
    yield ""
    yield from coverage_table(real, made)
    yield ""
    yield from list(missing(real, made)) or ["Nothing stands on one side only."]
    yield ""
    yield "## Answers"
    yield ""
    yield "Per cent of the questions, and the largest difference in percentage points."
    yield ""
    yield from answers_table(real, made)


def main(arguments: Sequence[str]) -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(prog="python -m dnclab.tasks.babi.compare")
    parser.add_argument("place", type=Path, help="tasks_1-20_v1-2.tar.gz, or a folder with en-10k")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated stories")
    parser.add_argument("--stories", type=int, help="stories per task (default: as many as real)")
    options = parser.parse_args(arguments)
    for line in report(options.place, options.seed, options.stories):
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
