"""Every equation: cases by hand, then what holds for any input. Tags as in docs/equations.md."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from support import weightings
from torch import Tensor
from torch.testing import assert_close

from dnclab.memory import equations


def one_hot(*positions: int, size: int = 3) -> Tensor:
    """A batch of distributions, each on one cell."""
    return torch.eye(size, dtype=torch.float64)[list(positions)]


def doubles(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --- squashing [I3, I4] --------------------------------------------------------------------------


def test_oneplus_by_hand() -> None:
    assert_close(
        equations.oneplus(doubles([0.0, 1.0, -800.0, 800.0])),
        doubles([1 + math.log(2), 1 + math.log(1 + math.e), 1.0, 801.0]),
    )


def test_bounded_mask_lies_between_its_minimum_and_one() -> None:
    raw = doubles([-800.0, 0.0, 800.0])
    assert_close(equations.bounded_mask(raw, 0.1), doubles([0.1, 0.55, 1.0]))
    assert_close(equations.bounded_mask(raw, 0.0), doubles([0.0, 0.5, 1.0]))


# --- look-up by content [C1, C2, C3] -------------------------------------------------------------


def test_similarity_by_hand() -> None:
    memory = doubles([[[3.0, 4.0], [-3.0, -4.0], [4.0, -3.0], [0.0, 0.0], [0.0, 2.0]]])
    keys = doubles([[[6.0, 8.0]]])
    expected = doubles([[[50 / (50 + 1e-6), -50 / (50 + 1e-6), 0.0, 0.0, 16 / (20 + 1e-6)]]])
    assert_close(equations.similarity(memory[:, None], keys), expected, rtol=0, atol=1e-15)


def test_an_empty_cell_or_key_gives_finite_gradients() -> None:
    memory = torch.zeros(1, 1, 2, 3, dtype=torch.float64, requires_grad=True)
    keys = torch.zeros(1, 2, 3, dtype=torch.float64)
    keys[0, 1] = 1.0
    keys.requires_grad_()
    similarities = equations.similarity(memory, keys)
    assert torch.equal(similarities, torch.zeros(1, 2, 2, dtype=torch.float64))
    similarities.sum().backward()
    assert memory.grad is not None
    assert keys.grad is not None
    # D = k·M/ε at an empty cell: the gradient is k/ε, and nothing comes through the length.
    assert_close(memory.grad, torch.full_like(memory, 1e6))
    assert torch.equal(keys.grad, torch.zeros_like(keys))


def test_masked_similarity_ignores_what_is_masked(generator: torch.Generator) -> None:
    memory = torch.randn(2, 1, 5, 4, generator=generator, dtype=torch.float64)
    keys = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    masks = torch.ones(2, 3, 4, dtype=torch.float64)
    masks[:, :, 2] = 0.0
    other_memory, other_keys = memory.clone(), keys.clone()
    other_memory[..., 2] += 7.0
    other_keys[..., 2] -= 5.0

    masked = equations.masked_similarity(memory, keys, masks)
    assert torch.equal(masked, equations.masked_similarity(other_memory, other_keys, masks))
    plain = equations.similarity(memory, keys)
    assert not torch.allclose(plain, equations.similarity(other_memory, other_keys))
    # The rest is compared as if the masked component did not exist, its share of lengths included.
    kept = [0, 1, 3]
    assert_close(masked, equations.similarity(memory[..., kept], keys[..., kept]))


def test_masked_similarity_with_an_open_mask_is_the_plain_one(generator: torch.Generator) -> None:
    memory = torch.randn(2, 1, 5, 4, generator=generator, dtype=torch.float64)
    keys = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    assert torch.equal(
        equations.masked_similarity(memory, keys, torch.ones_like(keys)),
        equations.similarity(memory, keys),
    )


def test_content_weighting_by_hand() -> None:
    weighting = equations.content_weighting(doubles([[[1.0, 0.0, -1.0]]]), doubles([[2.0]]))
    total = math.e**2 + 1 + math.e**-2
    assert_close(weighting, doubles([[[math.e**2 / total, 1 / total, math.e**-2 / total]]]))


# --- which cells are free [U1, U2, U3] -----------------------------------------------------------


def test_retention_by_hand() -> None:
    read_weightings = doubles([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]])
    assert_close(
        equations.retention(doubles([[1.0, 0.8]]), read_weightings),
        doubles([[0.5, 0.5 * 0.2, 1.0]]),
    )
    closed = equations.retention(doubles([[0.0, 0.0]]), read_weightings)
    assert torch.equal(closed, torch.ones(1, 3, dtype=torch.float64))


def test_usage_by_hand() -> None:
    usage = equations.update_usage(
        doubles([[0.5, 0.0, 1.0]]), doubles([[0.5, 0.25, 0.25]]), doubles([[1.0, 1.0, 0.5]])
    )
    assert_close(usage, doubles([[0.75, 0.25, 0.5]]))


def test_allocation_by_hand() -> None:
    x = [1e-6 + (1 - 1e-6) * u for u in (0.9, 0.1, 0.5)]
    expected = doubles([[(1 - x[0]) * x[1] * x[2], 1 - x[1], (1 - x[2]) * x[1]]])
    assert_close(equations.allocation(doubles([[0.9, 0.1, 0.5]])), expected)


def test_allocation_takes_the_lower_of_two_equal_cells() -> None:
    allocation = equations.allocation(torch.zeros(1, 4, dtype=torch.float64))
    assert_close(allocation, doubles([[1 - 1e-6, 1e-6, 1e-12, 1e-18]]), rtol=1e-5, atol=0)
    usage = doubles([[0.7, 0.2, 0.7, 0.2, 0.7]])
    order = equations.allocation(usage).argsort(descending=True)
    assert order.tolist() == [[1, 3, 0, 2, 4]]


def test_allocation_sums_to_one_less_the_product_of_usages(generator: torch.Generator) -> None:
    usage = torch.rand(50, 7, generator=generator, dtype=torch.float64)
    allocation = equations.allocation(usage)
    assert (allocation >= 0).all()
    assert_close(allocation.sum(-1), 1 - (1e-6 + (1 - 1e-6) * usage).prod(-1))


def test_a_full_memory_allocates_nothing() -> None:
    full = equations.allocation(torch.ones(1, 4, dtype=torch.float64))
    assert_close(full, torch.zeros(1, 4, dtype=torch.float64), rtol=0, atol=1e-15)


# --- writing [W1, D1, W2] ------------------------------------------------------------------------


def test_write_weighting_by_hand() -> None:
    weighting = equations.write_weighting(
        doubles([[0.5]]), doubles([[0.75]]), doubles([[1.0, 0.0]]), doubles([[0.2, 0.8]])
    )
    assert_close(weighting, doubles([[0.5 * (0.75 + 0.25 * 0.2), 0.5 * 0.25 * 0.8]]))


def test_wipe_by_hand() -> None:
    memory = doubles([[[1.0, 2.0], [3.0, 4.0]]])
    assert_close(equations.wipe(memory, doubles([[0.0, 0.5]])), doubles([[[0, 0], [1.5, 2.0]]]))


def test_write_by_hand() -> None:
    memory = doubles([[[1.0, 2.0], [3.0, 4.0]]])
    erase, vector = doubles([[1.0, 0.5]]), doubles([[10.0, 20.0]])
    written = equations.write(memory, doubles([[1.0, 0.0]]), erase, vector)
    assert_close(written, doubles([[[10.0, 21.0], [3.0, 4.0]]]))
    half = equations.write(memory, doubles([[0.5, 0.5]]), erase, vector)
    assert_close(half, doubles([[[0.5 + 5, 1.5 + 10], [1.5 + 5, 3.0 + 10]]]))


# --- the order of writing [L1, L2, L3, L4, S1] ---------------------------------------------------


def test_links_by_hand() -> None:
    """Cell 0 was written last; writing cell 2 makes it the one after 0."""
    none = torch.zeros(1, 3, 3, dtype=torch.float64)
    links = equations.update_links(none, precedence=one_hot(0), weighting=one_hot(2))
    assert links[0, 2, 0] == 1
    assert links.sum() == 1
    # Writing cell 0 anew takes it out of its old place.
    again = equations.update_links(links, precedence=one_hot(2), weighting=one_hot(0))
    assert again[0, 0, 2] == 1
    assert again.sum() == 1
    # Writing nothing changes nothing.
    nothing = torch.zeros(1, 3, dtype=torch.float64)
    assert torch.equal(equations.update_links(links, one_hot(1), nothing), links)


def test_links_with_soft_writes_by_hand() -> None:
    links = doubles([[[0.0, 0.3], [0.4, 0.0]]])
    updated = equations.update_links(links, doubles([[0.5, 0.1]]), doubles([[0.2, 0.6]]))
    expected = doubles([[[0.0, 0.2 * 0.3 + 0.2 * 0.1], [0.2 * 0.4 + 0.6 * 0.5, 0.0]]])
    assert_close(updated, expected)


def test_no_cell_follows_itself_and_rows_and_columns_sum_to_one_at_most(
    generator: torch.Generator,
) -> None:
    links = torch.zeros(4, 6, 6, dtype=torch.float64)
    precedence = torch.zeros(4, 6, dtype=torch.float64)
    for total in (0.3, 1.0, 0.9, 0.0, 0.5, 1.0, 0.7):
        weighting = weightings(4, 6, generator=generator, total=total)
        links = equations.update_links(links, precedence, weighting)
        precedence = equations.update_precedence(precedence, weighting)
        assert torch.equal(links.diagonal(dim1=1, dim2=2), torch.zeros_like(precedence))
        assert (links >= -1e-15).all()
        assert (links.sum(1) <= 1 + 1e-12).all()
        assert (links.sum(2) <= 1 + 1e-12).all()
        assert (precedence.sum(1) <= 1 + 1e-12).all()


def test_precedence_by_hand() -> None:
    precedence = equations.update_precedence(doubles([[0.6, 0.2]]), doubles([[0.1, 0.4]]))
    assert_close(precedence, doubles([[0.5 * 0.6 + 0.1, 0.5 * 0.2 + 0.4]]))
    sharp = equations.update_precedence(doubles([[0.6, 0.4]]), doubles([[0.0, 1.0]]))
    assert_close(sharp, doubles([[0.0, 1.0]]))


def test_following_the_links_by_hand() -> None:
    """Written in the order 0, 2, 1: forwards from 0 leads to 2, backwards from 1 to 2."""
    links = torch.zeros(1, 3, 3, dtype=torch.float64)
    links[0, 2, 0] = links[0, 1, 2] = 1.0
    at = one_hot(0, 1)[None]
    assert torch.equal(equations.follow_forwards(links, at)[0, 0], one_hot(2)[0])
    assert torch.equal(equations.follow_backwards(links, at)[0, 1], one_hot(2)[0])
    # Nothing comes before the first cell or after the last one.
    assert equations.follow_backwards(links, at)[0, 0].sum() == 0
    assert equations.follow_forwards(links, at)[0, 1].sum() == 0


def test_sharpness_one_leaves_a_distribution_as_it_is(generator: torch.Generator) -> None:
    distributions = weightings(2, 3, 5, generator=generator)
    same = equations.sharpen(distributions, torch.ones(2, 3, dtype=torch.float64))
    assert_close(same, (distributions + 1e-6) / (1 + 5e-6))


@pytest.mark.parametrize("sharpness", [1.0, 1.7, 5.0, 21.0])
def test_sharpen_is_the_papers_stabilised_formula(
    sharpness: float, generator: torch.Generator
) -> None:
    d = weightings(2, 3, 5, generator=generator, total=0.8) + 1e-6
    powers = (d / d.amax(-1, keepdim=True)) ** sharpness
    sharpened = equations.sharpen(d - 1e-6, torch.full((2, 3), sharpness, dtype=torch.float64))
    assert_close(sharpened, powers / powers.sum(-1, keepdim=True), rtol=1e-12, atol=0)


def test_sharpen_by_hand() -> None:
    sharpened = equations.sharpen(doubles([[[0.6, 0.3, 0.0]]]), doubles([[2.0]]))
    squares = [(0.6 + 1e-6) ** 2, (0.3 + 1e-6) ** 2, 1e-12]
    assert_close(sharpened, doubles([[[square / sum(squares) for square in squares]]]))
    nothing = equations.sharpen(torch.zeros(1, 1, 4, dtype=torch.float64), doubles([[3.0]]))
    assert_close(nothing, torch.full((1, 1, 4), 0.25, dtype=torch.float64))


# --- reading [R1, R2] ----------------------------------------------------------------------------


def test_read_weightings_by_hand() -> None:
    """The modes are backward links, content, forward links, in this order."""
    modes = doubles([[[0.5, 0.3, 0.2]]])
    backwards, contents, forwards = one_hot(0)[None], one_hot(1)[None], one_hot(2)[None]
    mixed = equations.read_weightings(modes, backwards, contents, forwards)
    assert_close(mixed, doubles([[[0.5, 0.3, 0.2]]]))


def test_read_by_hand() -> None:
    memory = doubles([[[1.0, 2.0], [3.0, 4.0]]])
    reads = equations.read(memory, doubles([[[0.0, 1.0], [0.5, 0.25]]]))
    assert_close(reads, doubles([[[3.0, 4.0], [1.25, 2.0]]]))


# --- gradients -----------------------------------------------------------------------------------

B, N, W, R = 2, 4, 3, 2
ARGUMENTS: dict[Callable[..., Tensor], tuple[tuple[int, ...], ...]] = {
    equations.oneplus: ((B, R),),
    equations.similarity: ((B, 1, N, W), (B, R, W)),
    equations.masked_similarity: ((B, 1, N, W), (B, R, W), (B, R, W)),
    equations.content_weighting: ((B, R, N), (B, R)),
    equations.retention: ((B, R), (B, R, N)),
    equations.update_usage: ((B, N), (B, N), (B, N)),
    equations.allocation: ((B, N),),
    equations.write_weighting: ((B, 1), (B, 1), (B, N), (B, N)),
    equations.wipe: ((B, N, W), (B, N)),
    equations.write: ((B, N, W), (B, N), (B, W), (B, W)),
    equations.update_links: ((B, N, N), (B, N), (B, N)),
    equations.update_precedence: ((B, N), (B, N)),
    equations.follow_forwards: ((B, N, N), (B, R, N)),
    equations.follow_backwards: ((B, N, N), (B, R, N)),
    equations.sharpen: ((B, R, N), (B, R)),
    equations.read_weightings: ((B, R, 3), (B, R, N), (B, R, N), (B, R, N)),
    equations.read: ((B, N, W), (B, R, N)),
}


@pytest.mark.parametrize("equation", ARGUMENTS, ids=lambda equation: equation.__name__)
def test_gradients_are_those_of_finite_differences(
    equation: Callable[..., Tensor], generator: torch.Generator
) -> None:
    arguments = [
        torch.rand(*shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in ARGUMENTS[equation]
    ]
    assert torch.autograd.gradcheck(equation, arguments)


def test_every_equation_stands_in_the_gradient_check() -> None:
    own = {
        function
        for name, function in vars(equations).items()
        if callable(function)
        and not name.startswith("_")
        and getattr(function, "__module__", "") == equations.__name__
    }
    assert {function.__name__ for function in own} == {
        *(function.__name__ for function in ARGUMENTS),
        "bounded_mask",
    }


def test_bounded_mask_gradient() -> None:
    raw = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: equations.bounded_mask(x, 0.1), raw)


def test_shapes_are_checked_while_the_tests_run() -> None:
    """Else the shapes written in the equations would prove nothing."""
    with pytest.raises(TypeError, match="memory"):
        equations.wipe(torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(TypeError, match="retained"):
        equations.wipe(torch.zeros(2, 3, 4), torch.zeros(2, 4))
