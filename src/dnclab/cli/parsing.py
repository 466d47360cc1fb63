"""What the commands share in reading their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

REFUSED = 2


class Parser(argparse.ArgumentParser):
    """argparse, with its complaints in one line and every option by its whole name."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """One line on stderr, exit code 2."""
        self.exit(REFUSED, f"{self.prog}: {message} (see {self.prog} --help)\n")


def whole_number(least: int) -> Callable[[str], int]:
    """A parser of whole numbers."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least}, got {text!r}")
        return int(text)

    return parse
