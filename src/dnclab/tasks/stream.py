"""Streams of batches: numbered from 0, each made from the seed and its number alone.

So the batches are the same in one process or in many, the position in the stream is one number,
and a run goes on wherever it stopped. The random numbers come from Philox, a generator that can
begin at any place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from dnclab.checks import check_int

Batch = TypeVar("Batch")


def random_source(seed: int, number: int, *, held_out: bool = False) -> np.random.Philox:
    """The source of batch `number`; held-out batches share no place with those for training.

    Take raw numbers from it: what NumPy makes of them may change between its versions.
    """
    key = np.array([seed, int(held_out)], dtype=np.uint64)
    counter = np.array([0, 0, 0, number], dtype=np.uint64)
    return np.random.Philox(key=key, counter=counter)


def check_seed(seed: int) -> None:
    """A seed is an int that fills one word of the generator's key; 1.5 would become 1."""
    check_int("seed", seed)
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: expected 0 to 2^64 - 1, got {seed}")


class BatchStream(ABC, Generic[Batch]):
    """Numbered batches, handed out in order; knows how many were, and can be set to any place."""

    def __init__(self) -> None:
        self.drawn = 0

    @abstractmethod
    def numbered_batch(self, number: int) -> Batch:
        """The batch of a number, from 0, whatever was drawn before."""

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """What the sequence of batches depends on, for JSON."""

    def batch(self) -> Batch:
        """The next batch."""
        self.drawn += 1
        return self.numbered_batch(self.drawn - 1)

    def batches(self, count: int, *, workers: int = 0) -> Iterator[Batch]:
        """The next `count` batches, made by worker processes if there are any.

        A batch counts as drawn when it is handed out, whatever workers have made in advance.
        """
        loader = DataLoader(
            _NumberedBatches(self),
            sampler=range(self.drawn, self.drawn + count),
            batch_size=None,
            num_workers=workers,
            generator=torch.Generator(),  # else the loader draws from torch's global one
        )
        for batch in loader:
            self.drawn += 1
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """The position in the stream and what the stream is, for JSON."""
        return {"drawn": self.drawn, **self.identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was taken; refuses the state of another stream."""
        expected = self.state_dict() | {"drawn": state.get("drawn")}
        if state != expected:
            raise ValueError(f"state: expected one of the same batches, {expected}, got {state}")
        drawn = state["drawn"]
        if type(drawn) is not int or drawn < 0:
            raise ValueError(f"state: expected a count of batches as 'drawn', got {drawn!r}")
        self.drawn = drawn


class _NumberedBatches(Dataset[Batch]):
    """The form in which a DataLoader takes batches."""

    def __init__(self, stream: BatchStream[Batch]) -> None:
        self._stream = stream

    def __getitem__(self, number: int) -> Batch:
        return self._stream.numbered_batch(number)
