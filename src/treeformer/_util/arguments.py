"""Arguments of the programs that do without the packages of the command line."""

from __future__ import annotations

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """A parser that reports wrong arguments in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit with code 2."""
        self.exit(2, f"treeformer: {message}. See {self.prog} --help\n")
