"""Where the kernels' time goes: each stage of a step done twice, and what that costs.

Parts of kernels are compiled into those that call them, where no clock reaches. So a process of its
own puts in the place of one function another that calls it twice, compiles, and is timed against
one that does not. The numbers that come out are wrong; the work is that of the stage once more.
"""

from __future__ import annotations

import importlib
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numba
import torch

from dnclab.bench import environment
from dnclab.bench_kernels import SIZES, work
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


def seconds_per_step(name: str, doubled: Sequence[tuple[str, str]], repeats: int) -> float:
    """Of a pass there and back with one thread, with some functions doing their work twice."""
    with tempfile.TemporaryDirectory() as cache:
        numba.config.CACHE_DIR = cache
        for module_name, function_name in doubled:
            module = importlib.import_module(f"dnclab.kernels.{module_name}")
            setattr(module, function_name, _twice(getattr(module, function_name)))
        size = SIZES[name]
        with numerics(1):
            run = work(
                DNC.from_config(size.model).with_backend("fused"),
                "forward and back",
                torch.randn(size.steps, size.samples, size.model.input_size),
            )
            run()
            times = []
            for _ in range(repeats):
                start = time.perf_counter()
                run()
                times.append((time.perf_counter() - start) / size.steps)
    return statistics.median(times)


def _measured(name: str, doubled: Sequence[tuple[str, str]], repeats: int) -> float:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(seconds_per_step, name, doubled, repeats).result()


def stages_table(names: Sequence[str], *, repeats: int) -> Iterator[str]:
    """A table for each size, as Markdown."""
    yield (
        f"`dnclab bench stages`: {environment()}; float32, one thread, there and back, "
        f"medians of {repeats}."
    )
    for name in names:
        size = SIZES[name]
        layout = layout_for(size.model.cells, size.samples)
        whole = _measured(name, (), repeats)
        yield ""
        yield f"| {name}, {layout} | µs a step | share |"
        yield "|---|---|---|"
        left = whole
        for stage, doubled in STAGES[layout].items():
            more = _measured(name, doubled, repeats) - whole
            left -= more
            yield f"| {stage} | {1e6 * more:.1f} | {more / whole:.0%} |"
        yield f"| what is left | {1e6 * left:.1f} | {left / whole:.0%} |"
        yield f"| together | {1e6 * whole:.1f} | |"
