"""How far a sweep is, on a terminal."""

from __future__ import annotations

import sys
import time

#: Seconds of work that show no line.
_PATIENCE = 1.5

#: Seconds between two lines.
_BEAT = 0.2


class Progress:
    """A line on standard error with the cells done and the time left. It shows only on a terminal and if the work takes long."""

    def __init__(self) -> None:
        self.began = self.drawn = time.monotonic()
        self.shown = sys.stderr.isatty()
        self.is_there = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_there:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def set(self, done: int, total: int) -> None:
        """So many of the cells are done."""
        now = time.monotonic()
        if not self.shown or not done or now - self.began < _PATIENCE or now - self.drawn < _BEAT:
            return
        left = _duration((now - self.began) / done * (total - done))
        print(f"\r{done} of {total} cells, {left} left\x1b[K", end="", file=sys.stderr, flush=True)
        self.drawn, self.is_there = now, True


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
