from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# The same examples every time: a test that fails must fail again.
settings.register_profile("dnclab", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("dnclab")


@pytest.fixture(autouse=True)
def _one_thread_and_a_seed() -> Iterator[None]:
    """Sums are in the same order every time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)
