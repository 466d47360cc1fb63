"""The model on a GPU: golden numbers, the CPU's outputs, splits, packed input, autocast, files.

``python tests/scripts/on_gpu.py`` on a machine that has one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch.testing import assert_close

import dnclab

F64 = torch.float64
GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "memory_unit.npz", allow_pickle=False)


def check_golden_numbers() -> None:
    """Reads and gradients of the authors' implementation, to 1e-10.

    The cells may be numbered otherwise: rounding decides between cells that are alike.
    """
    for case in json.loads(str(GOLDEN["meta"])):
        unit = dnclab.MemoryUnit(
            cells=case["cells"],
            word_size=case["word"],
            read_heads=case["heads"],
            mask=case["mask"],
            dealloc=case["dealloc"],
            sharpen=case["sharp"],
            mask_min=case["mask_min"],
        )
        golden = {
            name: torch.from_numpy(GOLDEN[f"{case['name']}/{name}"]).cuda()
            for name in ("controls", "reads", "upstream", "controls_grad")
        }
        controls = golden["controls"].requires_grad_()
        state = unit.initial_state(controls.shape[1], dtype=F64, device="cuda")
        steps = []
        for step_controls in controls:
            reads, state = unit(step_controls, state)
            steps.append(reads)
        reads = torch.stack(steps)
        [gradient] = torch.autograd.grad((reads * golden["upstream"]).sum(), controls)
        assert_close(reads, golden["reads"], rtol=0, atol=1e-10)
        assert_close(gradient, golden["controls_grad"], rtol=0, atol=1e-10)


def check_the_layer(variant: str, controller: str) -> None:
    """The outputs of the CPU, in every form of input."""
    model = dnclab.DNC(9, 5, cells=16, word_size=16, variant=variant, controller=controller)
    model.double()
    x = torch.randn(20, 4, 9, dtype=F64)
    expected, _ = model(x)
    model.cuda()
    y, state = model(x.cuda())
    assert_close(y.cpu(), expected, rtol=0, atol=1e-10)
    assert state.memory.links.is_cuda

    first, middle = model(x[:7].cuda())
    second, _ = model(x[7:].cuda(), middle)
    assert_close(torch.cat([first, second]), y, rtol=0, atol=1e-12)

    packed = pack_sequence([x[:5, 0].cuda(), x[:, 1].cuda()], enforce_sorted=False)
    ours, _ = model(packed)
    padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(ours)
    assert lengths.tolist() == [5, 20]
    assert_close(padded[:, 1], y[:, 1], rtol=0, atol=1e-10)
    assert_close(padded[:5, 0], y[:5, 0], rtol=0, atol=1e-10)
    assert_close(model.trace(x.cuda()).output, y, rtol=0, atol=1e-12)

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = dnclab.DNC.from_pretrained(folder, device="cuda")
    assert_close(loaded(x.cuda())[0], y, rtol=0, atol=1e-12)


def check_precision_and_refusals() -> None:
    """Autocast, compiling, a tensor on the wrong device."""
    model = dnclab.DNC(9, 5, device="cuda")
    x = torch.randn(3, 2, 9, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        y, state = model(x)
    assert y.dtype == torch.bfloat16
    assert state.memory.memory.dtype == torch.float32
    y.float().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())

    compiled, _ = torch.compile(model, fullgraph=True)(x)
    assert_close(compiled, model(x)[0], rtol=0, atol=1e-5)

    with pytest.raises(ValueError, match="inputs: expected device cuda:0, got cpu"):
        model(x.cpu())


if __name__ == "__main__":
    torch.manual_seed(0)
    check_golden_numbers()
    for variant in ("dnc", "md", "mds"):
        for controller in ("lstm", "feedforward"):
            check_the_layer(variant, controller)
    check_precision_and_refusals()
    sys.stdout.write(
        f"cuda: the same on {torch.cuda.get_device_name()}, torch {torch.__version__}\n"
    )
