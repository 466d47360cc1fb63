"""When a loss or a gradient is not finite: what to keep, and which quantity was the first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from dnclab.model import DNC
from dnclab.training.checkpoint import Checkpoint

if TYPE_CHECKING:
    from dnclab.training.tasks import Trainable


def place(folder: Path, step: int) -> Path:
    """Where what is kept of a step lies in a run."""
    return folder / "trouble" / f"step-{step:08d}"


def keep(
    where: Path, culprit: str, snapshot: Checkpoint, model: nn.Module, batches: Sequence[Any]
) -> None:
    """Write the batches of the step, its gradients, and all else that it began with."""
    where.mkdir(parents=True, exist_ok=True)
    tensors = dict(snapshot.tensors)
    for number, batch in enumerate(batches):
        for name, part in batch._asdict().items():
            tensors[f"batch/{number}/{name}"] = part
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            tensors[f"gradient/{name}"] = parameter.grad
    apart = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    save_file(apart, where / "tensors.safetensors")
    report = {"step": snapshot.step, "first_not_finite": culprit}
    (where / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def first_not_finite(task: Trainable, model: nn.Module, batches: Sequence[Any]) -> str:
    """The name of the first: a parameter, a batch, something inside the model, the loss, a
    gradient, the norm of them all.
    """
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return f"parameter {name}"
    for batch in batches:
        for name, part in batch._asdict().items():
            if not part.isfinite().all():
                return f"the batch's {name}"
        inside = _first_inside(model, task.inputs(batch))
        if inside is not None:
            return inside
        if not _loss(task, model, batch).isfinite():
            return "the loss"
    # Gradients are computed from the outputs backwards.
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            return f"gradient of {name}"
    return "the norm of the gradient"


@torch.no_grad()
def _loss(task: Trainable, model: nn.Module, batch: Any) -> Tensor:
    outputs, _ = model(task.inputs(batch).to(next(model.parameters()).device))
    return task.loss(outputs.cpu(), batch)


IN_ORDER = (
    "hidden", "read_keys", "write_key", "write_vector", "read_strengths", "write_strength",
    "retention", "usage", "allocation", "write_content", "write_weighting", "memory", "links",
    "precedence", "forwards", "backwards", "read_contents", "read_weightings", "reads", "output",
)  # fmt: skip
"""Quantities of a trace in the order in which a step computes them."""


def _first_inside(model: nn.Module, inputs: Tensor) -> str | None:
    """The first quantity inside the DNC, and when, if its inputs are plain or embedded words."""
    dnc = next((module for module in model.modules() if isinstance(module, DNC)), None)
    if dnc is None:
        return None
    device = next(model.parameters()).device
    with torch.no_grad():
        embedding = getattr(model, "embedding", None)
        read = inputs.to(device) if embedding is None else embedding(inputs.to(device))
        trace = dnc.trace(read)._asdict()
    found = []
    for order, name in enumerate(IN_ORDER):
        broken = ~trace[name].flatten(1).isfinite().all(dim=1)
        if broken.any():
            found.append((int(broken.nonzero()[0]), order, name))
    if not found:
        return None
    time, _, name = min(found)
    return f"{name} at time step {time}"
