"""Where the kernels' time goes: each stage of a step done twice, and what that costs.

Parts of kernels are compiled into those that call them, where no clock reaches. So a process of its
own puts in the place of one function another that calls it twice, compiles, and is timed against
one that does not. The numbers that come out are wrong; the work is that of the stage once more.
"""

from __future__ import annotations

import importlib
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numba
import torch

from dnclab.bench import environment, median_seconds
from dnclab.bench_kernels import SIZES, Size, work
from dnclab.kernels import layout_for
from dnclab.model import DNC
from dnclab.training.loop import numerics

PAPER = ["repeat-copy", "key-value", "associative-recall", "babi"]
"""The paper's sizes."""

Stages = Mapping[str, Sequence[tuple[str, str]]]

STAGES: dict[str, Stages] = {
    "lanes": {
        "products with weights": [("lanes", "multiply")],
        "gates": [("lanes", "_controller")],
        "squashing": [("lanes_memory", "squash"), ("lanes", "squash")],
        "allocation": [("lanes_memory", "products_before")],
        "look-ups": [("lanes_memory", "look_up")],
        "writing": [("lanes_memory", "write"), ("lanes", "write")],
        "links": [("lanes_memory", "link_and_follow"), ("lanes", "relink")],
        "sharpening": [("lanes_memory", "sharpen"), ("lanes_adjoints", "sharpen")],
        "reading": [("lanes_memory", "read")],
        "gates, back": [("lanes", "_controller_back")],
        "squashing, back": [("lanes_adjoints", "squash_back")],
        "allocation, back": [("lanes_adjoints", "products_before_back")],
        "look-ups, back": [("lanes_adjoints", "look_up_back")],
        "writing, back": [("lanes_adjoints", "write_back")],
        "links, back": [("lanes_adjoints", "link_and_follow_back")],
        "sharpening, back": [("lanes_adjoints", "sharpen_back")],
        "reading, back": [("lanes_adjoints", "read_back")],
        "gradients of weights": [("lanes", "sum_outer")],
    },
    "rows": {
        "products with weights": [("rows", "add_product"), ("rows", "products")],
        "gates": [("rows", "_controller")],
        "squashing": [("rows_memory", "squash"), ("rows", "squash")],
        "allocation": [("rows_memory", "products_before")],
        "look-ups": [("rows_memory", "look_up")],
        "writing": [("rows_memory", "write"), ("rows", "write")],
        "links": [("rows", "link_and_follow"), ("rows", "relink")],
        "keeping links": [("rows", "keep_links"), ("rows", "amplify")],
        "sharpening": [("rows_memory", "sharpen"), ("rows_adjoints", "sharpen")],
        "reading": [("rows_memory", "read")],
        "gates, back": [("rows", "_controller_back")],
        "squashing, back": [("rows_adjoints", "squash_back")],
        "allocation, back": [("rows_adjoints", "products_before_back")],
        "look-ups, back": [("rows_adjoints", "look_up_back")],
        "writing, back": [("rows_adjoints", "write_back")],
        "links, back": [("rows_adjoints", "link_and_follow_back")],
        "sharpening, back": [("rows_adjoints", "sharpen_back")],
        "reading, back": [("rows_adjoints", "read_back")],
        "gradients of weights": [("rows_weights", "add_outer")],
        "packing weights": [("rows", "pack_forward"), ("rows", "pack_back")],
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


def seconds_per_step(
    names: Sequence[str], doubled: Sequence[tuple[str, str]], repeats: int
) -> list[float]:
    """Of a pass there and back with one thread, with some functions doing their work twice."""
    for module_name, function_name in doubled:
        module = importlib.import_module(f"dnclab.kernels.{module_name}")
        setattr(module, function_name, _twice(getattr(module, function_name)))
    with tempfile.TemporaryDirectory() as cache, numerics(1):
        numba.config.CACHE_DIR = cache
        return [_median(SIZES[name], repeats) for name in names]


def _median(size: Size, repeats: int) -> float:
    run = work(
        DNC.from_config(size.model).with_backend("fused"),
        "forward and back",
        torch.randn(size.steps, size.samples, size.model.input_size),
    )
    return median_seconds(run, repeats) / size.steps


def _measured(
    names: Sequence[str], doubled: Sequence[tuple[str, str]], repeats: int
) -> list[float]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(seconds_per_step, names, doubled, repeats).result()


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
        whole = _measured(own, (), repeats)
        yield ""
        yield f"| {layout} | " + " | ".join(own) + " |"
        yield "|---|" + "---|" * len(own)
        left = list(whole)
        for stage, doubled in stages.items():
            times = _measured(own, doubled, repeats)
            more = [longer - time for longer, time in zip(times, whole, strict=True)]
            left = [rest - time for rest, time in zip(left, more, strict=True)]
            yield _row(stage, more, whole)
        yield _row("what is left", left, whole)
        yield _row("together", whole, whole)


def _row(stage: str, times: Sequence[float], whole: Sequence[float]) -> str:
    cells = (
        f"{1e6 * time:.1f} ({time / all_of_it:.0%})"
        for time, all_of_it in zip(times, whole, strict=True)
    )
    return f"| {stage} | " + " | ".join(cells) + " |"
