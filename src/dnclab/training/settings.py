"""Configurations from text and files: ``--set model.cells=32``, ``config.json``, ``--help``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

from dnclab.training.config import RunConfig

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser


def with_settings(config: RunConfig, settings: Sequence[str]) -> RunConfig:
    """The configuration with some of its values replaced: ``["model.cells=32", ...]``."""
    for setting in settings:
        if "=" not in setting or setting.startswith("-"):
            raise ValueError(f"--set: expected NAME=VALUE, as model.cells=32, got {setting!r}")
    parser = _parser(config)
    return _instantiate(parser, parser.parse_args([f"--{setting}" for setting in settings]))


def to_dict(config: RunConfig) -> dict[str, Any]:
    """The configuration for JSON."""
    return asdict(config)


def from_dict(values: Mapping[str, Any]) -> RunConfig:
    """The configuration that `to_dict` gave; unknown names and wrong types are refused."""
    parser = _parser(RunConfig())
    return _instantiate(parser, parser.parse_object(dict(values)))


def help_text(config: RunConfig) -> str:
    """Every setting with its type, its value in this configuration and what it means."""
    text: str = _parser(config).format_help()
    lines = text.partition("options:")[2].splitlines()[2:]
    return "\n".join(line for line in lines if "CONFIG" not in line and "Path to a" not in line)


def _parser(config: RunConfig) -> ArgumentParser:
    try:
        import jsonargparse
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'training needs jsonargparse and others: pip install "dnclab[train]"'
        ) from error

    class Parser(jsonargparse.ArgumentParser):
        """Says what is wrong in an exception, and leaves the rest to the caller."""

        def error(self, message: str, ex: Exception | None = None) -> NoReturn:
            del ex
            words = " ".join(message.split()).replace("Parser key ", "")
            raise ValueError(words.replace("unrecognized arguments: --", "no such setting: "))

    jsonargparse.set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = Parser(prog="", default_env=False, allow_abbrev=False)
    parser.add_class_arguments(RunConfig, None, as_group=True)
    parser.set_defaults(asdict(config))
    return parser


def _instantiate(parser: ArgumentParser, namespace: Any) -> RunConfig:
    values = vars(parser.instantiate(namespace))
    return RunConfig(**values)
