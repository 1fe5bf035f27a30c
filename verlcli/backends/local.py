"""Backend `local`: the embedded trainer in this process, on the CPU or one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verlcli.plan import require_devices, require_local

if TYPE_CHECKING:
    from verlcli.config import Loaded
    from verlcli.plan import Machine, Plan


class LocalBackend:
    """Runs `verlcli.engine` here."""

    name = "local"

    def check(self, plan: Plan, machine: Machine) -> None:
        """See `Backend.check`."""
        require_local(plan)
        require_devices(plan, machine)

    def run(self, loaded: Loaded, *, argv: Sequence[str], observer: Any) -> dict[str, Any]:
        """See `Backend.run`."""
        from verlcli.engine.trainer import PPOTrainer

        return PPOTrainer(loaded, argv=argv, observer=observer).train().to_json()
