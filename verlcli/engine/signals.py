"""Ctrl-C and SIGTERM: at once while nothing can be saved; in training the first one lets the step finish."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """Context manager for SIGINT and SIGTERM; inert outside the main thread.

    While `graceful` is False a signal raises KeyboardInterrupt. While it is True the first one sets `requested`, and
    only a second Ctrl-C raises.
    """

    def __init__(self) -> None:
        self.graceful = False
        self.requested: str | None = None  # name of the signal
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.graceful or (self.requested is not None and number == signal.SIGINT):
            raise KeyboardInterrupt
        self.requested = signal.Signals(number).name
