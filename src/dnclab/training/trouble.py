"""When a loss or a gradient is not finite: what to keep, and which quantity was the first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from dnclab.model import DNC
from dnclab.runs import RunError

if TYPE_CHECKING:
    from dnclab.training.tasks import Trainable


def report_and_raise(
    folder: Path, step: int, task: Trainable, model: nn.Module, batch: Any
) -> NoReturn:
    """Write batch, parameters and gradients beside the run, and stop it with a name."""
    culprit = first_not_finite(task, model, batch)
    place = folder / "trouble" / f"step-{step:08d}"
    place.mkdir(parents=True, exist_ok=True)
    leaves = pytree.tree_leaves(batch)
    tensors = {f"batch.{index}": leaf.contiguous() for index, leaf in enumerate(leaves)}
    for name, parameter in model.named_parameters():
        tensors[f"parameter.{name}"] = parameter.detach().cpu().contiguous()
        if parameter.grad is not None:
            tensors[f"gradient.{name}"] = parameter.grad.cpu().contiguous()
    save_file(tensors, place / "tensors.safetensors")
    report = {"step": step, "first_not_finite": culprit}
    (place / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    raise RunError(
        f"step {step}: the first quantity that is not finite is {culprit}; "
        f"batch, parameters and gradients are in {place}"
    )


def first_not_finite(task: Trainable, model: nn.Module, batch: Any) -> str:
    """The name of the first: a parameter, the batch, something inside the model, a gradient."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            return f"parameter {name}"
    for name, part in zip(getattr(batch, "_fields", ()), batch, strict=False):
        if isinstance(part, Tensor) and not part.isfinite().all():
            return f"the batch's {name}"
    inside = _first_inside(model, task.inputs(batch))
    if inside is not None:
        return inside
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            return f"gradient of {name}"
    return "the loss"


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
