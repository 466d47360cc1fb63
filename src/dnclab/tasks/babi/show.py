"""A generated bAbI story as text: as it stands in a file, and as the model reads it."""

from __future__ import annotations

import textwrap

from dnclab.tasks.babi.encoding import BLANK_WORD, EncodingOptions, split_answer, split_text
from dnclab.tasks.babi.format import Story, write_story
from dnclab.tasks.babi.stories import generate_stories


def show_story(task: int, seed: int, options: EncodingOptions | None = None) -> str:
    """A story of the task, and below it its sequence."""
    [story] = generate_stories(task, 1, seed)
    sequence = " ".join(story_words(story, options or EncodingOptions()))
    return (
        f"{write_story(story, task)}\n"
        f"What the model reads; {BLANK_WORD} is the blank, one in brackets wants a word:\n\n"
        f"{textwrap.fill(sequence, 96, break_on_hyphens=False)}\n"
    )


def story_words(story: Story, options: EncodingOptions) -> list[str]:
    """The steps of the sequence; ``[-:kitchen]`` is a blank at which the answer is due."""
    words: list[str] = []
    for line in story:
        words += split_text(line)
        if line.answer:
            words += [BLANK_WORD] * options.think_steps
            words += [f"[{BLANK_WORD}:{word}]" for word in split_answer(line, options)]
    return words
