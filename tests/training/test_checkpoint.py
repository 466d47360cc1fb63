"""Checkpoints: equal bit for bit when whole, noticed when not, never lost."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from io import IOBase
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from scripts.keeps_saving import is_consistent, numbered_checkpoint
from support import wait_for_the_end_of
from torch import Tensor

from dnclab import runs
from dnclab.runs import MetricsLog, RunError, read_metrics
from dnclab.training import checkpoint as checkpoints
from dnclab.training.checkpoint import (
    Checkpoint,
    CheckpointWarning,
    join_state,
    load_best,
    load_newest,
    save,
    split_state,
)

SCRIPTS = Path(__file__).parent.parent / "scripts"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    runs.create(tmp_path / "run", {})
    return tmp_path / "run"


def small(step: int) -> Checkpoint:
    return Checkpoint(step, {"a": torch.full((3,), float(step))}, {"step": step, "rate": 0.1})


def assert_same_checkpoint(actual: Checkpoint | None, expected: Checkpoint) -> None:
    assert actual is not None
    assert actual.step == expected.step
    assert actual.data == expected.data
    assert json.dumps(actual.data) == json.dumps(expected.data)
    assert actual.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert_same_bits(actual.tensors[name], tensor)


def assert_same_bits(actual: Tensor, expected: Tensor) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    ours, theirs = (part.detach().contiguous().reshape(-1) for part in (actual, expected))
    assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def steps(folder: Path) -> list[int]:
    return [int(name.removeprefix("step-")) for name in names(folder)]


def test_tensors_of_any_kind_come_back_bit_for_bit(folder: Path) -> None:
    base = torch.randn(4, 6)
    odd = torch.tensor([float("nan"), float("-inf"), -0.0, 1e-45])
    payload = torch.tensor([0x7FC00001, -1], dtype=torch.int32).view(torch.float32)
    i = torch.ones(2, 2, dtype=torch.complex64) * 1j
    tensors = {
        "whole": base,
        "alias": base,
        "row": base[1],
        "transposed": base.t(),
        "every second": base[:, ::2],
        "expanded": torch.ones(1).expand(5),
        "0-dim": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "odd": odd,
        "payload": payload,
        "bfloat16": base.bfloat16(),
        "half": base.half(),
        "int64": torch.tensor([-(2**63), 2**63 - 1]),
        "bool": torch.tensor([True, False]),
        "random state": torch.get_rng_state(),
        "parameter": torch.nn.Parameter(torch.randn(3)),
        "with history": torch.nn.Parameter(torch.randn(3)) * 2,
        "conjugate": (i + 1).conj().resolve_conj(),
        "é / ~ \n": torch.ones(1),
        "": torch.ones(1),
    }
    data = {"é": [1, -0.0, 1e308, 5e-324, None, True, {"b": 1, "a": 2}], "large": 2**200}
    written = Checkpoint(7, tensors, data)
    path = save(folder, written)
    assert path == folder / "checkpoints" / "step-00000007"
    loaded = load_newest(folder)
    assert_same_checkpoint(loaded, written)
    assert loaded is not None
    for tensor in loaded.tensors.values():
        tensor.zero_()  # they are its own
    assert base.abs().sum() > 0
    again = load_newest(folder)
    assert_same_checkpoint(again, written)


def test_lazily_conjugated_tensors_are_saved_as_they_read(folder: Path) -> None:
    i = torch.ones(2, dtype=torch.complex64) * 1j
    save(folder, Checkpoint(1, {"conjugate": i.conj(), "negative": i.conj().imag}, {}))
    loaded = load_newest(folder)
    assert loaded is not None
    assert torch.equal(loaded.tensors["conjugate"], torch.full((2,), -1j, dtype=torch.complex64))
    assert torch.equal(loaded.tensors["negative"], torch.full((2,), -1.0))


def test_an_optimiser_goes_on_from_a_checkpoint_as_if_never_stopped(folder: Path) -> None:
    def model_and_optimiser() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
        torch.manual_seed(3)
        model = torch.nn.Linear(4, 2)
        return model, torch.optim.Adam(model.parameters(), lr=0.1, betas=(0.8, 0.9))

    def update(model: torch.nn.Linear, optimiser: torch.optim.Optimizer, times: int) -> None:
        for _ in range(times):
            optimiser.zero_grad()
            model(torch.randn(5, 4)).square().mean().backward()
            optimiser.step()

    model, optimiser = model_and_optimiser()
    update(model, optimiser, 3)
    tensors, data = split_state(
        {
            "model": model.state_dict(),
            "optimiser": optimiser.state_dict(),
            "rng": torch.get_rng_state(),
        }
    )
    save(folder, Checkpoint(3, tensors, {"state": data}))
    update(model, optimiser, 3)

    loaded = load_newest(folder)
    assert loaded is not None
    state = join_state(loaded.tensors, loaded.data["state"])
    resumed, resumed_optimiser = model_and_optimiser()
    resumed.load_state_dict(state["model"])
    resumed_optimiser.load_state_dict(state["optimiser"])
    torch.set_rng_state(state["rng"])
    update(resumed, resumed_optimiser, 3)
    assert_same_bits(resumed.weight, model.weight)
    assert_same_bits(resumed.bias, model.bias)


@pytest.mark.parametrize(
    ("checkpoint", "kind", "message"),
    [
        (Checkpoint(-1, {}, {}), ValueError, "step: expected at least 0"),
        (Checkpoint(True, {}, {}), TypeError, "step: expected an int"),
        (
            Checkpoint(1, {"a": torch.eye(2).to_sparse()}, {}),
            TypeError,
            r"tensors\['a'\]: expected",
        ),
        (Checkpoint(1, {"__metadata__": torch.ones(1)}, {}), ValueError, "any name but"),
        (Checkpoint(1, {"a": torch.ones(1, dtype=torch.complex128)}, {}), TypeError, "complex128"),
        (Checkpoint(1, {}, {"a": float("nan")}), ValueError, "data: expected what JSON can hold"),
        (Checkpoint(1, {}, {"a": {1}}), TypeError, "data: expected what JSON can hold"),
        (Checkpoint(1, {}, {"a": (1, 2)}), TypeError, "data: JSON would give it back changed"),
        (Checkpoint(1, {}, {"a": {1: 2}}), TypeError, "data: JSON would give it back changed"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(
    checkpoint: Checkpoint, kind: type[Exception], message: str, folder: Path
) -> None:
    with pytest.raises(kind, match=message):
        save(folder, checkpoint)
    assert names(folder) == []
    assert load_newest(folder) is None


def test_bad_settings_and_folders_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep_last: expected at least 1, got 0"):
        save(folder, small(1), keep_last=0)
    with pytest.raises(TypeError, match="best: expected a bool, got 1"):
        save(folder, small(1), best=1)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="checkpoint of step 1: No such file"):
        save(tmp_path / "absent", small(1))
    assert load_newest(tmp_path / "absent") is None
    assert load_best(tmp_path / "absent") is None


def test_the_last_few_and_the_best_are_kept(folder: Path) -> None:
    kept = []
    for step in range(1, 10):
        save(folder, small(step), keep_last=2, best=step in (2, 5))
        kept.append(steps(folder))
    assert kept == [[1], [1, 2], [2, 3], [2, 3, 4], [4, 5], [5, 6], [5, 6, 7], [5, 7, 8], [5, 8, 9]]
    assert_same_checkpoint(load_best(folder), small(5))
    assert_same_checkpoint(load_newest(folder), small(9))


def test_a_step_saved_again_is_replaced_and_stays_the_best(folder: Path) -> None:
    save(folder, small(1), best=True)
    again = Checkpoint(1, {"b": torch.ones(2)}, {"again": True})
    save(folder, again)
    save(folder, small(2))
    assert steps(folder) == [1, 2]
    assert_same_checkpoint(load_best(folder), again)


def test_with_no_best_one_the_newest_is_used_and_it_is_said(folder: Path) -> None:
    assert load_best(folder) is None
    save(folder, small(1))
    with pytest.warns(CheckpointWarning, match="none is marked as best; using the newest"):
        assert_same_checkpoint(load_best(folder), small(1))


def damaged_files(content: bytes, seed: int) -> Iterator[bytes]:
    """Cut at every length, each bit flipped once, one byte more."""
    for length in range(len(content)):
        yield content[:length]
    for place in range(len(content)):
        for bit in range(8):
            yield content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
    yield content + b"\n"
    yield content + b"\0"
    yield random.Random(seed).randbytes(len(content))


@pytest.mark.parametrize("name", ["state.json", "tensors.safetensors"])
def test_any_damage_is_noticed_and_the_one_before_is_used(name: str, folder: Path) -> None:
    save(folder, small(100))
    path = save(folder, small(200)) / name
    whole = path.read_bytes()
    pattern = r"checkpoint \S*step-00000200 is damaged: .*; using step-00000100$"
    for content in damaged_files(whole, seed=len(name)):
        path.write_bytes(content)
        with pytest.warns(CheckpointWarning, match=pattern) as caught:
            assert_same_checkpoint(load_newest(folder), small(100))
        assert len(caught) == 1
    path.unlink()
    with pytest.warns(CheckpointWarning, match=f"damaged: {name}: No such file"):
        assert_same_checkpoint(load_newest(folder), small(100))
    path.write_bytes(whole)
    assert_same_checkpoint(load_newest(folder), small(200))


def damage(folder: Path, step: int) -> None:
    path = folder / "checkpoints" / f"step-{step:08d}" / "tensors.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_files_of_another_step_are_noticed(folder: Path) -> None:
    older, newer = save(folder, small(100)), save(folder, small(200))
    shutil.copy(older / "tensors.safetensors", newer)
    with pytest.warns(CheckpointWarning, match="tensors.safetensors: its content and its SHA-256"):
        assert_same_checkpoint(load_newest(folder), small(100))
    shutil.copy(older / "state.json", newer)
    with pytest.warns(CheckpointWarning, match="state.json: is of step 100"):
        assert_same_checkpoint(load_newest(folder), small(100))


def test_another_version_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(folder, small(100))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "CHECKPOINT_VERSION", 2)
        save(folder, small(200))
    with pytest.warns(CheckpointWarning, match="expected checkpoint_version 1, got 2; using"):
        assert_same_checkpoint(load_newest(folder), small(100))


def test_each_damaged_one_is_named_and_all_damaged_is_an_error(folder: Path) -> None:
    for step in (100, 200, 300):
        save(folder, small(step))
    damage(folder, 300)
    damage(folder, 200)
    with pytest.warns(CheckpointWarning) as caught:
        assert_same_checkpoint(load_newest(folder), small(100))
    assert ["step-00000300" in str(w.message) for w in caught] == [True, False]
    assert ["step-00000200" in str(w.message) for w in caught] == [False, True]
    assert all(w.filename == __file__ for w in caught)
    damage(folder, 100)
    with pytest.raises(
        RunError, match=r"none of 3 can be used; the first, step-00000300: "
    ) as error:
        load_newest(folder)
    assert "\n" not in str(error.value)


def test_a_damaged_best_gives_way(folder: Path) -> None:
    for step in (100, 200, 300, 400):
        save(folder, small(step), best=step < 300, keep_last=4)
    damage(folder, 200)
    with pytest.warns(CheckpointWarning, match="step-00000200 is damaged.* using step-00000100"):
        assert_same_checkpoint(load_best(folder), small(100))
    damage(folder, 100)
    with pytest.warns(CheckpointWarning, match="using step-00000400"):
        assert_same_checkpoint(load_best(folder), small(400))


def test_a_run_that_goes_on_from_before_a_damaged_one_keeps_what_it_saves(folder: Path) -> None:
    for step in (100, 200, 300):
        save(folder, small(step), keep_last=1 if step < 200 else 2, best=step == 300)
    damage(folder, 300)
    with pytest.warns(CheckpointWarning, match="using step-00000200"):
        load_newest(folder)
    save(folder, small(250), keep_last=1)
    assert steps(folder) == [250, 300]
    with pytest.warns(CheckpointWarning, match="using step-00000250"):
        assert_same_checkpoint(load_newest(folder), small(250))
    save(folder, small(300), keep_last=1)
    assert steps(folder) == [300]
    assert_same_checkpoint(load_newest(folder), small(300))


def test_loading_while_the_run_removes_what_is_being_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, small(1))
    read = checkpoints._read

    def read_after_removal(path: Path) -> Checkpoint:
        if path.name == "step-00000001":
            save(folder, small(2), keep_last=1)
        return read(path)

    monkeypatch.setattr(checkpoints, "_read", read_after_removal)
    assert_same_checkpoint(load_newest(folder), small(2))


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours handles it."""


DISK_OPERATIONS = [
    (Path, "mkdir"),
    (Path, "rename"),
    (Path, "open"),
    (Path, "unlink"),
    (os, "fsync"),
    (shutil, "rmtree"),
]


def stop_at(
    operation: int, error: BaseException, patch: pytest.MonkeyPatch, *, half: bool
) -> Callable[[], int]:
    """Raise in the disk operation of a number, done or not; returns a count of them."""
    done = 0

    def stopping(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            nonlocal done
            done += 1
            if done != operation:
                return function(*arguments, **settings)
            if half and isinstance(result := function(*arguments, **settings), IOBase):
                result.close()
            raise error

        return call

    for owner, name in DISK_OPERATIONS:
        patch.setattr(owner, name, stopping(getattr(owner, name)))
    return lambda: done


@pytest.mark.parametrize("half", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", [200, 300], ids=["the same step again", "a new step"])
@pytest.mark.parametrize("full", [False, True], ids=["killed", "disk full"])
def test_stopped_at_any_disk_operation_nothing_is_lost(
    step: int, full: bool, half: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = RunError if full else Killed
    for operation in range(1, 100):
        shutil.rmtree(folder / "checkpoints")
        save(folder, small(100), best=True)
        save(folder, small(200))
        new = Checkpoint(step, {"b": torch.ones(2)}, {"new": True})
        error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if full else Killed()
        with monkeypatch.context() as patch:
            count = stop_at(operation, error, patch, half=half)
            try:
                save(folder, new, keep_last=1)
            except kind as caught:
                if full:
                    message = str(caught)
                    assert f"checkpoint of step {step}: No space left on device; " in message
                    assert "\n" not in message
            else:
                assert count() < operation
                break
        if full:
            last = message.rpartition("/")[2]
            assert last in ("step-00000200", f"step-{step:08d}")
            assert not [name for name in names(folder) if not name[-1].isdigit()]
        found = load_newest(folder)
        assert_same_checkpoint(found, new if found and "new" in found.data else small(200))
        assert_same_checkpoint(load_best(folder), small(100))
        save(folder, small(400), keep_last=5)
        assert steps(folder) in ([100, 200, 400], [100, 300, 400], [100, 200, 300, 400])
    assert operation > 10


def test_killed_at_twenty_random_moments_nothing_is_lost(folder: Path) -> None:
    moments = random.Random(4)
    interrupted = 0
    command = [sys.executable, str(SCRIPTS / "keeps_saving.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        first = 1
        for _ in range(20):
            (folder / "saved.txt").write_text("")
            starter.stdin.write(f"{folder} {first}\n")
            starter.stdin.flush()
            saving = int(starter.stdout.readline())
            while not (folder / "saved.txt").read_text():
                time.sleep(0.002)
            time.sleep(moments.uniform(0, 0.1))
            os.kill(saving, signal.SIGKILL)
            wait_for_the_end_of(saving)

            interrupted += any(not name[-1].isdigit() for name in names(folder))
            saved = [int(line) for line in (folder / "saved.txt").read_text().split()]
            newest, best = load_newest(folder), load_best(folder) if first > 5 else None
            assert newest is not None
            assert is_consistent(newest)
            assert saved[-1] <= newest.step <= saved[-1] + 1
            if best is not None:
                assert is_consistent(best)
                assert best.step == newest.step // 5 * 5
            first = (newest.step // 5 + 1) * 5
            save(folder, numbered_checkpoint(first), keep_last=2, best=True)
            assert steps(folder) == sorted({newest.step, first})
            first += 1
        starter.stdin.close()
    assert interrupted >= 1


def test_a_disk_that_is_really_full_loses_nothing(small_disk: Path) -> None:
    folder = small_disk / "run"
    runs.create(folder, {})
    large = [Checkpoint(n, {"a": torch.full((200_000,), float(n))}, {}) for n in range(4)]
    for n in (1, 2):
        save(folder, large[n])
    with pytest.raises(RunError, match=r"step 3: No space left on device; .*/step-00000002$"):
        save(folder, large[3])
    assert steps(folder) == [1, 2]
    assert_same_checkpoint(load_newest(folder), large[2])
    damage(folder, 2)
    with pytest.warns(CheckpointWarning, match="using step-00000001"):
        assert_same_checkpoint(load_newest(folder), large[1])

    with MetricsLog(folder) as log, pytest.raises(RunError, match="not written: No space left"):
        log_until_full(log)
    found = read_metrics(folder)
    assert len(found) > 100
    assert [record["step"] for record in found] == list(range(len(found)))
    assert (folder / "metrics.jsonl").read_bytes().endswith(b'"}\n')

    shutil.rmtree(folder / "checkpoints" / "step-00000002")
    save(folder, large[3])
    assert_same_checkpoint(load_newest(folder), large[3])


def log_until_full(log: MetricsLog) -> None:
    for step in range(10_000):
        log.append({"step": step, "note": "x" * 1000})


FLOATS = st.floats(allow_nan=True, allow_infinity=True)
TENSORS = st.builds(
    lambda values, dtype: torch.tensor(values).to(dtype),
    st.lists(st.integers(-100, 100), max_size=3) | st.integers(0, 9),
    st.sampled_from([torch.float32, torch.bfloat16, torch.int64, torch.float64]),
)
KEYS = st.integers() | st.text(max_size=3) | st.sampled_from(["0", "1", "a/b", "a", "__metadata__"])
NESTS = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text(max_size=4) | TENSORS,
    lambda parts: (
        st.lists(parts, max_size=4)
        | st.lists(parts, max_size=3).map(tuple)
        | st.dictionaries(KEYS, parts, max_size=4)
        | st.dictionaries(st.sampled_from(["tensor", "dict", "tuple", "float"]), parts, max_size=2)
    ),
    max_leaves=12,
)


def assert_same_nest(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, Tensor):
        assert_same_bits(actual, expected)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        assert [type(key) for key in actual] == [type(key) for key in expected]
        assert_same_nest(list(actual.values()), list(expected.values()))
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            assert_same_nest(ours, theirs)
    else:
        assert repr(actual) == repr(expected)  # tells -0.0 from 0.0, and nan is nan


@given(NESTS)
def test_any_nest_comes_back_equal_through_both_files(nest: Any) -> None:
    tensors, data = split_state(nest)
    text = json.dumps(data, allow_nan=False)
    dense = {name: tensor.clone() for name, tensor in tensors.items()}
    loaded = safetensors.torch.load(safetensors.torch.save(dense))
    assert_same_nest(join_state(loaded | {"another": torch.ones(1)}, json.loads(text)), nest)


def test_tensors_are_named_by_their_path() -> None:
    one, two, three = torch.ones(1), torch.ones(2), torch.ones(3)
    tensors, data = split_state({"state": {0: {"step": one}, "0": {"step": two}}, "b": (three,)})
    assert tensors == {"state/0/step": one, "state/0/step+": two, "b/0": three}
    assert data["dict"][1] == ["b", {"tuple": [{"tensor": "b/0"}]}]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": [1, {2}]}, "state: a/1: expected a dict, .* got set"),
        ({"a": torch.zeros(3).size()}, "state: a: expected a dict, .* got Size"),
        ({"a": {None: 1}}, "state: a: expected str or int keys, got None"),
        ({True: 1}, "state: top: expected str or int keys, got True"),
        (1j, "state: top: expected a dict, .* got complex"),
    ],
)
def test_what_a_state_may_not_hold_is_named(state: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        split_state(state)


def test_what_does_not_join_is_refused() -> None:
    with pytest.raises(ValueError, match="tensors: expected one named 'a'"):
        join_state({}, {"tensor": "a"})
    for data in ({}, {"other": 1}, {"tensor": "a", "tuple": []}):
        with pytest.raises(ValueError, match="data: expected what split_state gives"):
            join_state({"a": torch.ones(1)}, data)


def test_an_undamaged_folder_gives_no_warning(folder: Path) -> None:
    save(folder, small(1), best=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_newest(folder)
        load_best(folder)
