"""The embedded trainer: from a plan to a trained policy. Torch is first imported here."""

from __future__ import annotations

import os

# OpenMP threads that spin while they wait take the cores from each other when the machine does other work too:
# with 3 busy loops on 2 cores a quickstart step takes 3.1 s by default and 1.7 s so; alone, the same within 2 %.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")
