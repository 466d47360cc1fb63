"""The paper's equations, one pure function each: no state, no branch on configuration.

Shapes and names are those of the legend in :mod:`dnclab.memory.types`. The tag in brackets is the
row of ``docs/equations.md``, where each departure from the paper stands with its reason.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import softplus

from dnclab.memory.types import (
    AnyShape,
    Gate,
    HeadMemories,
    HeadModes,
    HeadScalars,
    HeadWords,
    Links,
    Memory,
    ReadWeightings,
    Usage,
    Weighting,
    Word,
)

EPSILON = 1e-6
"""ε, the one small number of the paper: in the cosine, the sharpening and the allocation."""


# --- squashing -----------------------------------------------------------------------------------


def oneplus(x: AnyShape) -> AnyShape:
    """oneplus(x) = 1 + log(1 + e^x)    [I3]"""
    return 1 + softplus(x)


def bounded_mask(raw: AnyShape, minimum: float) -> AnyShape:
    """m = σ(m̂) (1 - δ) + δ    [I4]"""
    return torch.sigmoid(raw) * (1 - minimum) + minimum


# --- look-up by content --------------------------------------------------------------------------


def similarity(memory: HeadMemories, keys: HeadWords) -> ReadWeightings:
    """D(k, M)[n] = k·M[n] / (|k| |M[n]| + ε)    [C1]

    An empty cell has similarity 0, and gives no gradient through its length.
    """
    lengths: Tensor = vector_norm(keys, dim=-1)[:, :, None] * vector_norm(memory, dim=-1)
    return (memory * keys[:, :, None]).sum(-1) / (lengths + EPSILON)


def masked_similarity(memory: HeadMemories, keys: HeadWords, masks: HeadWords) -> ReadWeightings:
    """D(k ⊙ m, M ⊙ 1mᵀ), so that the lengths are masked too    [C2]"""
    return similarity(memory * masks[:, :, None], keys * masks)


def content_weighting(similarities: ReadWeightings, strengths: HeadScalars) -> ReadWeightings:
    """C = softmax(β D)    [C3]"""
    return torch.softmax(similarities * strengths[:, :, None], dim=-1)


# --- which cells are free ------------------------------------------------------------------------


def retention(free_gates: HeadScalars, read_weightings: ReadWeightings) -> Usage:
    """ψ_t = ∏_i (1 - f_t^i w_{t-1}^{r,i})    [U1]"""
    return (1 - free_gates[:, :, None] * read_weightings).prod(dim=1)


def update_usage(usage: Usage, write_weighting: Weighting, retained: Usage) -> Usage:
    """u_t = (u_{t-1} + w_{t-1}^w - u_{t-1} w_{t-1}^w) ψ_t    [U2]

    Computed as u + w (1 - u) in one multiply-add: it never exceeds 1, and rounds as the authors'
    code does. Untouched cells are so close in usage that the rounding decides which comes first.
    """
    return torch.addcmul(usage, write_weighting, 1 - usage) * retained


def allocation(usage: Usage) -> Weighting:
    """a_t[φ_j] = (1 - x[φ_j]) ∏_{i<j} x[φ_i], x = ε + (1 - ε) u_t in ascending order φ    [U3]

    The order is stable: among equals the cell with the lower index comes first.
    """
    ascending, order = torch.sort(EPSILON + (1 - EPSILON) * usage, dim=-1, stable=True)
    taken = torch.cumprod(ascending, dim=-1)
    before_taken = torch.cat([torch.ones_like(usage[:, :1]), taken[:, :-1]], dim=-1)
    return torch.zeros_like(usage).scatter(-1, order, (1 - ascending) * before_taken)


# --- writing -------------------------------------------------------------------------------------


def write_weighting(
    write_gate: Gate, allocation_gate: Gate, allocated: Weighting, content: Weighting
) -> Weighting:
    """w_t^w = g_t^w (g_t^a a_t + (1 - g_t^a) c_t^w)    [W1]"""
    return write_gate * (allocation_gate * allocated + (1 - allocation_gate) * content)


def wipe(memory: Memory, retained: Usage) -> Memory:
    """M_{t-1} ⊙ ψ_t 1ᵀ: a freed cell is emptied    [D1]"""
    return memory * retained[:, :, None]


def write(memory: Memory, weighting: Weighting, erase: Word, vector: Word) -> Memory:
    """M_t = M_{t-1} ⊙ (E - w_t^w e_tᵀ) + w_t^w v_tᵀ    [W2]"""
    share = weighting[:, :, None]
    return memory * (1 - share * erase[:, None, :]) + share * vector[:, None, :]


# --- the order of writing ------------------------------------------------------------------------


def update_links(links: Links, precedence: Weighting, weighting: Weighting) -> Links:
    """L_t[i,j] = (1 - w_t^w[i] - w_t^w[j]) L_{t-1}[i,j] + w_t^w[i] p_{t-1}[j]    [L1]

    No cell follows itself: L_t[i,i] = 0.
    """
    later, earlier = weighting[:, :, None], weighting[:, None, :]
    updated = (1 - later - earlier) * links + later * precedence[:, None, :]
    itself = torch.eye(links.shape[-1], dtype=torch.bool, device=links.device)
    return updated.masked_fill(itself, 0)


def update_precedence(precedence: Weighting, weighting: Weighting) -> Weighting:
    """p_t = (1 - Σ_i w_t^w[i]) p_{t-1} + w_t^w    [L2]"""
    return (1 - weighting.sum(dim=-1, keepdim=True)) * precedence + weighting


def follow_forwards(links: Links, read_weightings: ReadWeightings) -> ReadWeightings:
    """f_t^i = L_t w_{t-1}^{r,i}    [L3]"""
    return read_weightings @ links.mT


def follow_backwards(links: Links, read_weightings: ReadWeightings) -> ReadWeightings:
    """b_t^i = L_tᵀ w_{t-1}^{r,i}    [L4]"""
    return read_weightings @ links


def sharpen(distributions: ReadWeightings, sharpness: HeadScalars) -> ReadWeightings:
    """S(d, s)[n] = ((d[n] + ε) / max(d + ε))^s / Σ_j ((d[j] + ε) / max(d + ε))^s    [S1]

    Written as softmax(s log(d + ε)), which is the same number: the maximum cancels, and the softmax
    subtracts its own.
    """
    return torch.softmax(sharpness[:, :, None] * torch.log(distributions + EPSILON), dim=-1)


# --- reading -------------------------------------------------------------------------------------


def read_weightings(
    modes: HeadModes, backwards: ReadWeightings, contents: ReadWeightings, forwards: ReadWeightings
) -> ReadWeightings:
    """w_t^{r,i} = π_t^i[1] b_t^i + π_t^i[2] c_t^{r,i} + π_t^i[3] f_t^i    [R1]"""
    backward_share, content_share, forward_share = modes[..., None].unbind(dim=2)
    return backward_share * backwards + content_share * contents + forward_share * forwards


def read(memory: Memory, weightings: ReadWeightings) -> HeadWords:
    """r_t^i = M_tᵀ w_t^{r,i}    [R2]"""
    return weightings @ memory
