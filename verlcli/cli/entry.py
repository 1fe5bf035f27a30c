"""Where the console scripts start: from here on Ctrl-C ends them in one line, also while the rest is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """The console script `verl`."""
    try:
        from verlcli.cli.app import main as verl

        verl()
    except KeyboardInterrupt:
        _interrupted()


def tune_main() -> None:
    """The console script `verl-tune`."""
    try:
        from verlcli.cli.tune import main as verl_tune

        verl_tune()
    except KeyboardInterrupt:
        _interrupted()


def _interrupted() -> None:
    sys.stderr.write("interrupted\n")
    sys.exit(130)
