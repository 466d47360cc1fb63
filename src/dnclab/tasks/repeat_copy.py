"""Repeat copy: read some rows, repeat them, then the next ones; several times in a sequence.

A sequence of two instances, of 3 and 2 rows of 4 bits; the fifth row is the marker that asks for
the repetition in the input and ends it in the target. Time runs from left to right, ``#`` is a set
bit, ``.`` one that is not, ``^`` a step at which an answer is due (seed 1 of ``DRAWN``)::

     answer |    ^^^^   ^^^|

      input |###.....#.....|
            |.#............|
            |##.......#....|
            |..#.....##....|
            |...#......#...|

     target |....###....#..|
            |.....#........|
            |....##......#.|
            |......#....##.|
            |.......#.....#|
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dnclab.checks import check_size
from dnclab.tasks.bitmap import (
    BitmapBatch,
    blank_inputs,
    check_range,
    draw_bits,
    draw_number,
    finish,
    range_beyond,
)


@dataclass(frozen=True, kw_only=True)
class RepeatCopy:
    """Sizes of the task; the defaults are those of the paper's experiments."""

    bits: int = 8
    """Bits in a row, the marker not counted."""
    min_length: int = 2
    """Fewest rows of an instance."""
    max_length: int = 14
    """Most rows of an instance; each instance draws its own."""
    min_repeats: int = 1
    """Fewest instances in a sequence."""
    max_repeats: int = 8
    """Most instances in a sequence."""
    batch_size: int = 16
    """Samples in a batch."""

    def __post_init__(self) -> None:
        check_size("bits", self.bits)
        check_range("length", self.min_length, self.max_length)
        check_range("repeats", self.min_repeats, self.max_repeats)
        check_size("batch_size", self.batch_size)

    @property
    def input_size(self) -> int:
        """The bits and the marker."""
        return self.bits + 1

    @property
    def output_size(self) -> int:
        """The bits and the marker."""
        return self.bits + 1

    def make_batch(self, source: np.random.Philox) -> BitmapBatch:
        """For an instance of L rows: L rows, the marker, L + 1 steps to answer."""
        repeats = draw_number(source, self.min_repeats, self.max_repeats)
        span = self.max_length - self.min_length + 1
        lengths = self.min_length + (source.random_raw(repeats) % span).astype(np.int64)
        ends = np.cumsum(2 * lengths + 2)
        markers = ends - lengths - 2
        rows = np.arange(lengths.sum()) + np.repeat(markers - np.cumsum(lengths), lengths)
        repeated = rows + np.repeat(lengths + 1, lengths)

        inputs = blank_inputs(ends[-1], self.batch_size, self.input_size)
        targets = np.zeros_like(inputs)
        answers = np.zeros(ends[-1], dtype=np.bool_)
        words = draw_bits(source, len(rows), self.batch_size, self.bits)
        targets[repeated, :, :-1] = words
        inputs[rows, :, :-1] = 2 * targets[repeated, :, :-1] - 1
        inputs[markers, :, -1] = 1
        targets[ends - 1, :, -1] = 1
        answers[repeated] = answers[ends - 1] = True
        return finish(inputs, targets, answers)

    def longer(self, factor: float) -> RepeatCopy:
        """Instances with more rows than any of this task, up to `factor` times as many."""
        least, most = range_beyond("length", self.max_length, factor)
        return replace(self, min_length=least, max_length=most)

    def more_repeats(self, factor: float) -> RepeatCopy:
        """Sequences of more instances than any of this task, up to `factor` times as many."""
        least, most = range_beyond("repeats", self.max_repeats, factor)
        return replace(self, min_repeats=least, max_repeats=most)


PAPER = RepeatCopy()
"""What the paper's experiments ran: 2 to 14 rows, 1 to 8 instances."""

APPENDIX = RepeatCopy(min_length=1, max_length=8, min_repeats=2, max_repeats=14)
"""What the paper's appendix says, the two ranges exchanged."""

DRAWN = RepeatCopy(bits=4, min_length=2, max_length=3, min_repeats=2, max_repeats=2)
"""The small task of the picture on top."""
