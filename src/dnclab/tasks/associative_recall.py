"""Associative recall: read blocks of rows, then one of them again, and say the one that followed.

Three blocks of 2 rows of 4 bits; a flag ends each block, another one the last block and the
question. Time runs from left to right, ``#`` is a set bit, ``.`` one that is not, ``^`` a step at
which an answer is due (seed 3 of ``DRAWN``)::

     answer |            ^^|

      input |#..#...#.#....|
            |...##.#.......|
            |##.#.....##...|
            |#.....##.#....|
            |..#..#........|
            |........#..#..|

     target |............#.|
            |............##|
            |............#.|
            |..............|
            |..............|
            |..............|
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dnclab.checks import check_size
from dnclab.tasks.bitmap import (
    BitmapBatch,
    blank_inputs,
    check_enough_words,
    check_range,
    draw_distinct,
    draw_number,
    finish,
    range_beyond,
)


@dataclass(frozen=True, kw_only=True)
class AssociativeRecall:
    """Sizes of the task; the defaults are the paper's."""

    bits: int = 8
    """Bits in a row, the two flags not counted."""
    block_length: int = 3
    """Rows in a block."""
    min_blocks: int = 2
    """Fewest blocks in a sequence."""
    max_blocks: int = 16
    """Most blocks in a sequence."""
    batch_size: int = 16
    """Samples in a batch."""

    def __post_init__(self) -> None:
        check_size("bits", self.bits)
        check_size("block_length", self.block_length)
        check_range("blocks", self.min_blocks, self.max_blocks)
        if self.min_blocks < 2:
            raise ValueError(
                f"min_blocks: expected at least 2, for one to follow the other, "
                f"got {self.min_blocks}"
            )
        check_enough_words("max_blocks", self.max_blocks, self.bits * self.block_length)
        check_size("batch_size", self.batch_size)

    @property
    def input_size(self) -> int:
        """The bits and two flags."""
        return self.bits + 2

    @property
    def output_size(self) -> int:
        """As wide as the inputs; the flags are never asked for."""
        return self.bits + 2

    def make_batch(self, source: np.random.Philox) -> BitmapBatch:
        """B blocks, each with its end row; a block and its end row; the answer."""
        count = draw_number(source, self.min_blocks, self.max_blocks)
        rows, bits, samples = self.block_length, self.bits, self.batch_size
        blocks = draw_distinct(source, samples, count, rows * bits)
        blocks = blocks.reshape(count, samples, rows, bits).swapaxes(1, 2)
        asked = (source.random_raw(samples) % (count - 1)).astype(np.int64)
        steps = (count + 2) * (rows + 1) - 1

        inputs = blank_inputs(steps, samples, bits + 2)
        targets = np.zeros_like(inputs)
        answers = np.zeros(steps, dtype=np.bool_)
        shown = inputs[: (count + 1) * (rows + 1)].reshape(count + 1, rows + 1, samples, bits + 2)
        everyone = np.arange(samples)
        shown[:count, :rows, :, :bits] = 2.0 * blocks - 1
        shown[count, :rows, :, :bits] = 2.0 * blocks[asked, :, everyone].swapaxes(0, 1) - 1
        shown[: count - 1, rows, :, bits] = 1
        shown[count - 1 :, rows, :, bits + 1] = 1
        targets[-rows:, :, :bits] = blocks[asked + 1, :, everyone].swapaxes(0, 1)
        answers[-rows:] = True
        return finish(inputs, targets, answers)

    def longer(self, factor: float) -> AssociativeRecall:
        """More blocks than in any sequence of this task, up to `factor` times as many."""
        least, most = range_beyond("blocks", self.max_blocks, factor)
        return replace(self, min_blocks=least, max_blocks=most)


PAPER = AssociativeRecall()
"""What the paper ran."""

DRAWN = AssociativeRecall(bits=4, block_length=2, min_blocks=3, max_blocks=3)
"""The small task of the picture on top."""
