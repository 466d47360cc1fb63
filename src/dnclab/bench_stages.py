"""Where the kernels' time goes: each stage of a step done twice, and what that costs.

Parts of kernels are compiled into those that call them, where no clock reaches. So a process of its
own puts in the place of one function another that calls it twice, and is timed in turns with one
that does not. What comes out is wrong; the work is that of the stage once more.
"""

from __future__ import annotations

import importlib
import multiprocessing
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import numba
import numpy as np
import torch

from dnclab.bench import environment, median_seconds
from dnclab.bench_kernels import SIZES, Size
from dnclab.fused import call_of, weights_of
from dnclab.kernels import layout_for
from dnclab.kernels.problem import FOR_BACKWARD, Weights
from dnclab.kernels.sequence import denormals_flushed
from dnclab.model import DNC

PAPER = ["repeat-copy", "key-value", "associative-recall", "babi"]
"""The paper's sizes."""

Stages = Mapping[str, Sequence[tuple[str, str]]]

STAGES: dict[str, Stages] = {
    "lanes": {
        "products with weights": [("lanes", "multiply")],
        "gradients of weights": [("lanes", "sum_outer")],
        "gates, there and back": [("lanes", "_controller"), ("lanes", "_controller_back")],
        "interface, there and back": [
            ("lanes_memory", "squash"),
            ("lanes", "squash"),
            ("lanes_adjoints", "squash_back"),
        ],
        "allocation, there and back": [
            ("lanes_memory", "products_before"),
            ("lanes_adjoints", "products_before_back"),
        ],
        "look-ups": [("lanes_memory", "look_up")],
        "look-ups, back": [("lanes_adjoints", "look_up_back")],
        "writing, there, again and back": [
            ("lanes_memory", "write"),
            ("lanes", "write"),
            ("lanes_adjoints", "write_back"),
        ],
        "links, there and again": [("lanes_memory", "link_and_follow"), ("lanes", "relink")],
        "links, back": [("lanes_adjoints", "link_and_follow_back")],
        "sharpening, there and back": [
            ("lanes_memory", "sharpen"),
            ("lanes_adjoints", "sharpen"),
            ("lanes_adjoints", "sharpen_back"),
        ],
        "reading, there and back": [("lanes_memory", "read"), ("lanes_adjoints", "read_back")],
    },
    "rows": {
        "packing weights": [("rows", "pack_forward"), ("rows", "pack_back")],
        "products with weights": [("rows", "add_product"), ("rows", "products")],
        "gradients of weights": [("rows_weights", "add_outer")],
        "gates, there and back": [("rows", "_controller"), ("rows", "_controller_back")],
        "interface, there and back": [
            ("rows_memory", "squash"),
            ("rows", "squash"),
            ("rows_adjoints", "squash_back"),
        ],
        "allocation, there and back": [
            ("rows_memory", "products_before"),
            ("rows_adjoints", "products_before_back"),
        ],
        "look-ups": [("rows_memory", "look_up")],
        "look-ups, back": [("rows_adjoints", "look_up_back")],
        "writing, there and back": [("rows", "write"), ("rows_adjoints", "write_back")],
        "links": [("rows_links", "link_and_follow")],
        "links, back": [("rows_links", "link_and_follow_back")],
        "keeping links": [("rows", "keep_links"), ("rows", "amplify")],
        "sharpening, there and back": [
            ("rows_memory", "sharpen"),
            ("rows_adjoints", "sharpen"),
            ("rows_adjoints", "sharpen_back"),
        ],
        "reading, there and back": [("rows_memory", "read"), ("rows_adjoints", "read_back")],
    },
}
"""By layout: what each stage is made of, as module and name where it is called."""


def _twice(function: Callable[..., Any]) -> Callable[..., Any]:
    if not hasattr(function, "py_func"):
        raise TypeError(f"{function}: expected a part of kernels")

    def both(*arguments: Any) -> Any:
        function(*arguments)
        return function(*arguments)

    compiled: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", boundscheck=False)(
        both
    )
    return compiled


_layouts: list[ModuleType] = []
"""Of a process that is timed: the one."""


def _prepare(layout: str, doubled: Sequence[tuple[str, str]], cache: str) -> None:
    if doubled:
        numba.config.CACHE_DIR = cache
    for module_name, function_name in doubled:
        part = importlib.import_module(f"dnclab.kernels.{module_name}")
        setattr(part, function_name, _twice(getattr(part, function_name)))
    _layouts.append(importlib.import_module(f"dnclab.kernels.{layout}"))


def _seconds(name: str) -> float:
    """For a step of a size, there and back with one thread: the median of three."""
    run = _run(SIZES[name], _layouts[0])
    with denormals_flushed():
        return median_seconds(run, 3) / SIZES[name].steps


def plain_and_doubled(
    names: Sequence[str], layout: str, doubled: Sequence[tuple[str, str]], repeats: int
) -> list[tuple[float, float]]:
    """Seconds a step for each size: of the kernels as they are, and of those in which some
    functions do their work twice. Two processes take turns.
    """
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as cache, ExitStack() as stack:
        processes = [
            stack.enter_context(
                ProcessPoolExecutor(
                    1, context, initializer=_prepare, initargs=(layout, parts, cache)
                )
            )
            for parts in ((), doubled)
        ]
        found = []
        for name in names:
            turns = [
                [process.submit(_seconds, name).result() for process in processes]
                for _ in range(repeats)
            ]
            plain, longer = (statistics.median(times) for times in zip(*turns, strict=True))
            found.append((plain, longer))
    return found


def _run(size: Size, layout: ModuleType) -> Callable[[], object]:
    """There and back through a layout, as training does it."""
    model = DNC.from_config(size.model)
    call = call_of(model, layout, torch.full((size.samples,), size.steps))
    problem, lengths = call.problem, call.lengths
    options = call.options._replace(threads=1, need_inputs=False, need_initial=False)
    weights = Weights(*(weight.detach().numpy() for weight in weights_of(model)))
    draw = np.random.default_rng(0)
    inputs = draw.normal(size=(size.steps, size.samples, problem.inputs)).astype(np.float32)
    upstream = draw.normal(size=(size.steps, size.samples, problem.outputs)).astype(np.float32)

    def run() -> None:
        _, _, tape = layout.forward(problem, options, weights, None, inputs, lengths, FOR_BACKWARD)
        layout.backward(problem, options, weights, tape, upstream, None)

    return run


def stages_table(names: Sequence[str], *, repeats: int) -> Iterator[str]:
    """A table for each layout, as Markdown."""
    yield (
        f"`dnclab bench stages`: {environment()}; float32, one thread, there and back, "
        f"microseconds a step, medians of {repeats}."
    )
    for layout, stages in STAGES.items():
        own = [
            name for name in names
            if layout_for(SIZES[name].model.cells, SIZES[name].samples) == layout
        ]  # fmt: skip
        if not own:
            continue
        yield ""
        yield f"| {layout} | " + " | ".join(own) + " |"
        yield "|---|" + "---|" * len(own)
        shares, wholes = [0.0] * len(own), [0.0] * len(own)
        for stage, doubled in stages.items():
            pairs = plain_and_doubled(own, layout, doubled, repeats)
            stage_shares = [(longer - plain) / plain for plain, longer in pairs]
            shares = [sum(both) for both in zip(shares, stage_shares, strict=True)]
            wholes = [
                whole + plain / len(stages) for whole, (plain, _) in zip(wholes, pairs, strict=True)
            ]
            times = [longer - plain for plain, longer in pairs]
            yield _row(stage, times, stage_shares)
        rest = [1 - share for share in shares]
        left = [whole * share for whole, share in zip(wholes, rest, strict=True)]
        yield _row("what is left", left, rest)
        yield _row("together", wholes, [1.0] * len(own))


def _row(stage: str, times: Sequence[float], shares: Sequence[float]) -> str:
    cells = (f"{1e6 * time:.1f} ({share:.0%})" for time, share in zip(times, shares, strict=True))
    return f"| {stage} | " + " | ".join(cells) + " |"
