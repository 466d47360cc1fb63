"""Key-value retrieval: read pairs, then keys, and say the values; then values, and say the keys.

Three pairs of 2 + 2 bits, then the keys in another order, then the values in yet another; a flag
before each phase of questions, both at the end. Time runs from left to right, ``#`` is a set bit,
``.`` one that is not, ``^`` a step at which an answer is due (seed 3 of ``DRAWN``)::

     answer |    ^^^ ^^^ |

      input |##...##.##..|
            |.##.#.#..#..|
            |#.#.........|
            |..#.........|
            |...#.......#|
            |.......#...#|

     target |....##..#.#.|
            |....#....##.|
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dnclab.checks import check_flag, check_size
from dnclab.tasks.bitmap import (
    BitmapBatch,
    blank_inputs,
    check_enough_words,
    check_range,
    draw_bits,
    draw_distinct,
    draw_number,
    draw_orders,
    finish,
    range_beyond,
)


@dataclass(frozen=True, kw_only=True)
class KeyValue:
    """Sizes of the task; the defaults are the paper's."""

    bits: int = 8
    """Bits in a key, and in a value."""
    min_pairs: int = 2
    """Fewest pairs in a sequence."""
    max_pairs: int = 16
    """Most pairs in a sequence."""
    two_way: bool = True
    """Whether values are asked back to their keys in a second phase."""
    batch_size: int = 16
    """Samples in a batch."""

    def __post_init__(self) -> None:
        check_size("bits", self.bits)
        check_range("pairs", self.min_pairs, self.max_pairs)
        check_enough_words("max_pairs", self.max_pairs, self.bits)
        check_flag("two_way", self.two_way)
        check_size("batch_size", self.batch_size)

    @property
    def input_size(self) -> int:
        """Key, value, a flag for each phase of questions."""
        return 2 * self.bits + 1 + self.two_way

    @property
    def output_size(self) -> int:
        """A value, or a key."""
        return self.bits

    def make_batch(self, source: np.random.Philox) -> BitmapBatch:
        """The pairs; a flag; the keys in another order; a flag; the values in yet another; flags.

        No two keys of a sequence are the same. Two values may be only where nobody asks them back.
        """
        pairs = draw_number(source, self.min_pairs, self.max_pairs)
        bits, samples = self.bits, self.batch_size
        everyone = np.arange(samples)
        keys = draw_distinct(source, samples, pairs, bits)
        if self.two_way:
            values = draw_distinct(source, samples, pairs, bits)
        else:
            values = draw_bits(source, pairs, samples, bits)

        phases = 2 + self.two_way
        steps = phases * (pairs + 1)
        inputs = blank_inputs(steps, samples, self.input_size)
        targets = np.zeros((steps, samples, bits), dtype=np.float32)
        answers = np.zeros(steps, dtype=np.bool_)
        inputs[:pairs, :, :bits] = 2.0 * keys - 1
        inputs[:pairs, :, bits : 2 * bits] = 2.0 * values - 1
        for phase, (questions, replies) in enumerate(
            [(keys, values), (values, keys)][: phases - 1], start=1
        ):
            start = phase * (pairs + 1)
            order = draw_orders(source, samples, pairs)
            inputs[start - 1, :, 2 * bits + phase - 1] = 1
            inputs[start : start + pairs, :, :bits] = 2.0 * questions[order, everyone] - 1
            targets[start : start + pairs] = replies[order, everyone]
            answers[start : start + pairs] = True
        inputs[-1, :, 2 * bits :] = 1
        return finish(inputs, targets, answers)

    def longer(self, factor: float) -> KeyValue:
        """More pairs than in any sequence of this task, up to `factor` times as many."""
        least, most = range_beyond("pairs", self.max_pairs, factor)
        return replace(self, min_pairs=least, max_pairs=most)


PAPER = KeyValue()
"""What the paper ran: values are asked back."""

ONE_WAY = KeyValue(two_way=False)
"""The same without the way back."""

DRAWN = KeyValue(bits=2, min_pairs=3, max_pairs=3)
"""The small task of the picture on top."""
