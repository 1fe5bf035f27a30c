"""`python -m verlcli` is `verl`."""

from __future__ import annotations

from verlcli.cli.entry import main

if __name__ == "__main__":
    main()
