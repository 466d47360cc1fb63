"""Batches from seeds, states that go on exactly, loss and metrics by hand."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dnclab.tasks.babi.encoding import (
    BLANK,
    IGNORE,
    EncodedStories,
    EncodingOptions,
    encode_stories,
    load_folder,
    load_installed,
    make_vocabulary,
)
from dnclab.tasks.babi.format import Line
from dnclab.tasks.babi.task import (
    NO_ANSWERS,
    PAPER,
    POOL_BATCHES,
    AnswerCounts,
    BabiBatch,
    BabiTask,
    BatchConfig,
    answer_loss,
    count_answers,
    every_story,
    gather,
    score,
)

FIRST = (Line("Mary went home."), Line("Where is Mary?", ("home",), (1,)))
SECOND = (
    Line("John ran."),
    Line("How to go?", ("s", "n"), (1,)),
    Line("Who ran?", ("John",), (1,)),
)
OPTIONS = EncodingOptions(think_steps=1)


@pytest.fixture
def stories() -> EncodedStories:
    """A story of each of two tasks, 10 and 18 steps long."""
    vocabulary = make_vocabulary([FIRST, SECOND], OPTIONS)
    return encode_stories({1: [FIRST], 19: [SECOND]}, vocabulary, OPTIONS)


@pytest.fixture
def many(small_folder: Path) -> EncodedStories:
    """80 stories of 20 tasks, of four lengths."""
    return load_folder(small_folder).train


def same(first: list[BabiBatch], second: list[BabiBatch]) -> bool:
    return len(first) == len(second) and all(
        all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
        for one, other in zip(first, second, strict=True)
    )


def take(task: BabiTask, count: int) -> list[BabiBatch]:
    return [task.batch() for _ in range(count)]


def drawn_stories(batches: list[BabiBatch]) -> Counter[tuple[int, ...]]:
    """The stories of batches, whatever their order and padding."""
    return Counter(
        (int(batch.tasks[b]), *batch.inputs[: batch.lengths[b], b].tolist())
        for batch in batches
        for b in range(len(batch.tasks))
    )


def test_a_batch_by_hand(stories: EncodedStories) -> None:
    batch = gather(stories, np.array([1, 0]))
    # - . ? go home how is john mary n ran s to went where who
    # 0 1 2 3  4    5   6  7    8    9 10  11 12 13  14    15
    ran = [7, 10, 1, 5, 12, 3, 2, 0, 0, 0, 15, 10, 2, 0, 0]
    went = [8, 13, 4, 1, 14, 6, 8, 2, 0, 0, 0, 0, 0, 0, 0]
    assert batch.inputs.T.tolist() == [ran, went]
    none = IGNORE
    assert batch.targets.T.tolist() == [
        [none] * 8 + [11, 9] + [none] * 4 + [7],
        [none] * 9 + [4] + [none] * 5,
    ]
    assert batch.lengths.tolist() == [15, 10]
    assert batch.tasks.tolist() == [19, 1]
    assert {each.dtype for each in batch} == {torch.int64}


@pytest.mark.parametrize(
    ("group_lengths", "tasks", "lengths"),
    [
        (
            False,
            [[18, 4, 15], [7, 15, 17], [3, 10, 17], [20, 1, 8]],
            [[29, 29, 24], [24, 14, 19], [14, 14, 14], [24, 19, 19]],
        ),
        (
            True,
            [[16, 6, 10], [12, 18, 12], [3, 8, 13], [8, 3, 9]],
            [[24, 24, 24], [24, 24, 24], [14, 14, 14], [19, 19, 19]],
        ),
    ],
)
def test_golden_batches(
    many: EncodedStories, group_lengths: bool, tasks: list[list[int]], lengths: list[list[int]]
) -> None:
    """The stories of seed 7; whatever changes them changes every training run."""
    config = BatchConfig(batch_size=3, seed=7, group_lengths=group_lengths)
    batches = take(BabiTask(many, config), 4)
    assert [batch.tasks.tolist() for batch in batches] == tasks
    assert [batch.lengths.tolist() for batch in batches] == lengths


def test_golden_ids(many: EncodedStories) -> None:
    batch = BabiTask(many, BatchConfig(batch_size=3, seed=7)).batch()
    mary_went = [27, 33, 32, 30, 28, 1]
    daniel_saw = [23, 29, 9, 31, 1]
    where = [34, 25, 27, 2, 0, 0, 0, 0]
    assert batch.inputs[:, 2].tolist() == [*mary_went, *daniel_saw, *daniel_saw, *where] + [0] * 5
    assert batch.targets[:, 2].tolist() == [IGNORE] * 23 + [28] + [IGNORE] * 5


def test_padding_is_blank_and_asks_nothing(many: EncodedStories) -> None:
    for batch in take(BabiTask(many, BatchConfig(batch_size=8)), 20):
        steps = torch.arange(len(batch.inputs))[:, None]
        outside = steps >= batch.lengths
        assert len(batch.inputs) == batch.lengths.max()
        assert (batch.inputs[outside] == BLANK).all()
        assert (batch.targets[outside] == IGNORE).all()
        assert ((batch.targets != IGNORE).sum(0) >= 1).all()


@pytest.mark.parametrize("group_lengths", [False, True])
def test_same_seed_same_batches(many: EncodedStories, group_lengths: bool) -> None:
    config = BatchConfig(batch_size=4, seed=1, group_lengths=group_lengths)
    batches = take(BabiTask(many, config), 10)
    assert same(batches, take(BabiTask(many, config), 10))
    other = BatchConfig(batch_size=4, seed=2, group_lengths=group_lengths)
    assert not same(batches, take(BabiTask(many, other), 10))


# From Python 3.12 on a fork warns wherever threads run, and torch has some.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_any_number_of_workers_gives_the_same_batches(many: EncodedStories, workers: int) -> None:
    before = torch.get_rng_state()
    task = BabiTask(many, BatchConfig(seed=3))
    first = list(task.batches(5, workers=workers))
    then = take(task, 1)
    assert same(first + then, take(BabiTask(many, BatchConfig(seed=3)), 6))
    assert torch.equal(torch.get_rng_state(), before), "the task draws from its own generator"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_counts_what_was_handed_out(many: EncodedStories, workers: int) -> None:
    """Workers have made more batches by then; a resumed run must not skip those."""
    whole = take(BabiTask(many, PAPER), 12)
    task = BabiTask(many, PAPER)
    coming = task.batches(12, workers=workers)
    first = [next(coming) for _ in range(5)]
    state = json.loads(json.dumps(task.state_dict()))
    resumed = BabiTask(many, PAPER)
    resumed.load_state_dict(state)
    assert same(first + list(resumed.batches(7, workers=workers)), whole)
    assert same(first + list(coming), whole)


@pytest.mark.parametrize("group_lengths", [False, True])
def test_states_go_on_at_any_place(many: EncodedStories, group_lengths: bool) -> None:
    config = BatchConfig(group_lengths=group_lengths)
    whole = take(BabiTask(many, config), POOL_BATCHES + 10)
    for place in (0, 1, POOL_BATCHES - 1, POOL_BATCHES, POOL_BATCHES + 3):
        resumed = BabiTask(many, config)
        resumed.load_state_dict({**resumed.state_dict(), "drawn": place})
        assert same(take(resumed, len(whole) - place), whole[place:])


def test_states_of_other_batches_are_refused(many: EncodedStories, small_folder: Path) -> None:
    task = BabiTask(many)
    task.batch()
    good = task.state_dict()
    others = [
        BabiTask(many, BatchConfig(seed=1)).state_dict(),
        BabiTask(many, BatchConfig(batch_size=3)).state_dict(),
        BabiTask(many, BatchConfig(tasks=(1, 2))).state_dict(),
        BabiTask(many, BatchConfig(group_lengths=True)).state_dict(),
        BabiTask(load_folder(small_folder).test).state_dict() | {"drawn": 1},
        {},
        {**good, "more": 1},
        {**good, "drawn": -1},
        {**good, "drawn": 1.0},
        {**good, "drawn": True},
    ]
    for state in others:
        with pytest.raises(ValueError, match="state: expected"):
            task.load_state_dict(state)
    assert task.state_dict() == good


def test_grouping_changes_the_order_alone_and_saves_padding(many: EncodedStories) -> None:
    plain = take(BabiTask(many, BatchConfig(batch_size=8)), POOL_BATCHES)
    grouped = take(BabiTask(many, BatchConfig(batch_size=8, group_lengths=True)), POOL_BATCHES)
    assert drawn_stories(plain) == drawn_stories(grouped)
    spread = [int(batch.lengths.max() - batch.lengths.min()) for batch in grouped]
    assert sum(spread) < 0.1 * sum(int(b.lengths.max() - b.lengths.min()) for b in plain)
    firsts = [int(batch.lengths[0]) for batch in grouped]
    assert firsts != sorted(firsts), "the batches themselves come in any order"


def test_stories_are_drawn_uniformly(many: EncodedStories) -> None:
    """80 stories drawn 16,000 times: chi squared has 79 degrees of freedom, 135 is its 0.01%."""
    task = BabiTask(many, BatchConfig(batch_size=100))
    counts = drawn_stories(take(task, 160))
    # Stories 0 and 3 of a task have the same words but for their filler, so all are distinct.
    assert len(counts) == 80
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 135


def test_only_the_chosen_tasks_are_drawn(many: EncodedStories) -> None:
    task = BabiTask(many, BatchConfig(tasks=(4, 19), batch_size=10))
    assert {int(number) for batch in take(task, 10) for number in batch.tasks} == {4, 19}


def test_what_cannot_be_drawn_is_refused(stories: EncodedStories) -> None:
    with pytest.raises(ValueError, match=r"tasks: expected tasks that have stories, got \[2\]"):
        BabiTask(stories, BatchConfig(tasks=(1, 2)))
    with pytest.raises(ValueError, match="batch_size: expected 1 or more, got 0"):
        BatchConfig(batch_size=0)
    with pytest.raises(ValueError, match=r"tasks: expected some of 1 to 20, got \(21,\)"):
        BatchConfig(tasks=(21,))
    with pytest.raises(ValueError, match=r"tasks: expected some of 1 to 20, got \(\)"):
        BatchConfig(tasks=())
    with pytest.raises(ValueError, match="seed: expected 0 to"):
        BatchConfig(seed=-1)
    with pytest.raises(ValueError, match="batch_size: expected 1 or more"):
        next(every_story(stories, 0))


def test_every_story_comes_once(many: EncodedStories) -> None:
    batches = list(every_story(many, 7))
    assert drawn_stories(batches) == Counter(
        (int(task), *many.tokens[start:end].tolist())
        for task, start, end in zip(many.tasks, many.offsets, many.offsets[1:], strict=False)
    )
    assert [len(batch.tasks) for batch in batches] == [7] * 11 + [3]
    assert sum(len(batch.tasks) for batch in every_story(many, 7, tasks=(3, 5))) == 8


def answering(batch: BabiBatch, *wrong: tuple[int, int], vocabulary: int = 16) -> Tensor:
    """Logits that answer everything rightly, but for the steps (t, b) given."""
    answers = batch.targets.clamp(min=0)
    for place in wrong:
        answers[place] = (answers[place] + 1) % vocabulary
    return torch.nn.functional.one_hot(answers, vocabulary).float() * 50


def test_loss_by_hand(stories: EncodedStories) -> None:
    batch = gather(stories, np.array([0, 1]))
    uniform = torch.zeros(15, 2, 16, dtype=torch.float64, requires_grad=True)
    loss = answer_loss(uniform, batch)
    # Four answer words, each with a cross entropy of log 16; two stories.
    torch.testing.assert_close(loss.item(), 4 * math.log(16) / 2)
    (gradient,) = torch.autograd.grad(loss, uniform)
    touched = gradient.abs().sum(-1) > 0
    assert torch.equal(touched, batch.targets != IGNORE)
    assert answer_loss(answering(batch), batch) < 1e-6


def test_metrics_by_hand(stories: EncodedStories) -> None:
    batch = gather(stories, np.array([0, 1]))
    assert count_answers(answering(batch), batch).wrong == (0,) * 20
    # Story 0 (task 1) answers at step 9; story 1 (task 19) at 8, 9 and 14. Step 3 asks nothing.
    counts = count_answers(answering(batch, (9, 1), (14, 1), (3, 0)), batch)
    assert counts.wrong == (0,) * 18 + (2, 0)
    assert counts.asked == (1,) + (0,) * 17 + (3, 0)
    result = score(counts)
    assert result.errors == {1: 0.0, 19: 2 / 3}
    assert result.mean_error == pytest.approx(1 / 3)
    assert result.solved == 1


def test_tasks_weigh_the_same_whatever_their_answers() -> None:
    wrong, asked = [0] * 20, [100] * 20
    wrong[0], wrong[1], wrong[2], asked[2] = 5, 6, 1000, 1000
    result = score(AnswerCounts(tuple(wrong), tuple(asked)))
    assert result.mean_error == pytest.approx((0.05 + 0.06 + 1) / 20)
    assert result.solved == 18, "5% is solved, 6% is not"


def test_counts_of_batches_add_up(many: EncodedStories) -> None:
    def wrong_at_first(batch: BabiBatch) -> Tensor:
        first = int((batch.targets[:, 0] != IGNORE).nonzero()[0])
        return answering(batch, (first, 0), vocabulary=60)

    total = NO_ANSWERS
    for batch in every_story(many, 3):
        total += count_answers(wrong_at_first(batch), batch)
    assert total.asked == (4,) * 18 + (8, 4)
    assert sum(total.wrong) == 27, "one of each of 80 / 3 batches"
    with pytest.raises(ValueError, match="counts: expected answers"):
        score(NO_ANSWERS)


def test_logits_of_another_shape_are_refused(stories: EncodedStories) -> None:
    batch = gather(stories, np.array([0, 1]))
    for wrong in (torch.zeros(2, 15, 16), torch.zeros(15, 2)):
        with pytest.raises(ValueError, match=r"logits: expected shape \[15, 2, words\], got \["):
            answer_loss(wrong, batch)
        with pytest.raises(ValueError, match="logits: expected shape"):
            count_answers(wrong, batch)


def test_the_published_stories_as_the_paper_draws_them(real_folder: Path) -> None:
    data = load_installed(cache=real_folder.parents[1])
    counts = sum(
        (count_answers(answering(b, vocabulary=159), b) for b in every_story(data.test, 64)),
        NO_ANSWERS,
    )
    assert counts.asked[:7] == (1_000,) * 7
    assert counts.asked[18] == 2_000
    assert score(counts).solved == 20
    tasks = Counter(int(t) for batch in take(BabiTask(data.train), 5_000) for t in batch.tasks)
    # 10,000 draws; a task's share is that of its stories: 10,000 of 62,661 for tasks 4, 16, 19.
    assert all(tasks[task] == pytest.approx(1_596, abs=150) for task in (4, 16, 19))
    assert tasks[1] == pytest.approx(319, abs=75)
    assert set(tasks) == set(range(1, 21))
