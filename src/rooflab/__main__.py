"""`python -m rooflab`, and the command `rooflab`."""

from __future__ import annotations

import sys

from rooflab.observe.running import early


def main() -> None:
    """Run what `sys.argv` asks for, by `rooflab.cli.main`; a plain command of `rooflab run` begins at once."""
    early.begin(sys.argv[1:])
    try:
        from rooflab.cli import main as command_line

        command_line()
    finally:
        early.abandon()


if __name__ == "__main__":
    main()
