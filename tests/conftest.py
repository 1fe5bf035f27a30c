"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell starts background jobs with Ctrl-C ignored, and children inherit that: tests that send it would test nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
