"""torch.compile of the whole model, no graph breaks: outputs, state and gradients are the same.

A process of its own: the tests check the shapes in the equations with wrappers that a compiler
need not see through. AOTAutograd without a code generator, so that no C++ compiler is needed.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.nn.utils.rnn import pack_sequence
from torch.testing import assert_close

import dnclab

torch.manual_seed(0)
for variant, controller in (("dnc", "feedforward"), ("dnc-mds", "lstm")):
    model = dnclab.DNC(
        3, 2, hidden_size=6, cells=5, word_size=4, read_heads=2, variant=variant,
        controller=controller, dtype=torch.float64,
    )  # fmt: skip
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 2, 3, dtype=torch.float64)
    results = []
    for run in (model, compiled):
        model.zero_grad()
        first, state = run(x)
        second, state = run(x, state.detach())
        (first.square().sum() + second.sum()).backward()
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        assert len(gradients) == len(list(model.parameters()))
        results.append((first, second, tuple(state.memory), gradients))
    assert_close(results[1], results[0], rtol=0, atol=1e-12)
# Every form of input; a packed one runs uncompiled, as data decides how many samples run.
inputs: Any
x = torch.randn(2, 3, 3, dtype=torch.float64)
for batch_first, inputs, fullgraph in (
    (False, x[:, 0], True),
    (True, x, True),
    (False, pack_sequence([x[0, :1], x[1]], enforce_sorted=False), False),
):
    model = dnclab.DNC(3, 2, cells=5, batch_first=batch_first, dtype=torch.float64)
    compiled = torch.compile(model, fullgraph=fullgraph, backend="aot_eager")
    (y, _), (expected, _) = compiled(inputs), model(inputs)
    if not fullgraph:
        y, expected = y.data, expected.data
    assert_close(y, expected, rtol=0, atol=1e-12)
sys.stdout.write("compiled: the same\n")
