"""What a run says of itself: a step's row of metrics, and the result at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verlcli.engine.run_directory import RunDirectory
    from verlcli.engine.stages import StepState


@dataclass(frozen=True, slots=True)
class TrainResult:
    """The figures of `schemas/train.schema.json`; rates are tokens over seconds of the whole run, all attempts."""

    run_dir: Path
    steps: int
    eval_before: float | None  # greedy accuracy, 0-1
    eval_after: float | None
    reward_first: float | None
    reward_last: float | None
    generated_per_second: float
    trained_per_second: float
    end_to_end_per_second: float
    step_time_s: float
    peak_memory_gib: float
    checkpoint: Path
    model: Path  # loads in plain transformers

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "ok": True,
            "run_dir": str(self.run_dir),
            "steps": self.steps,
            "eval": {"before": self.eval_before, "after": self.eval_after},
            "reward": {"first": self.reward_first, "last": self.reward_last},
            "tokens_per_second": {
                "generated": round(self.generated_per_second, 1),
                "trained": round(self.trained_per_second, 1),
                "end_to_end": round(self.end_to_end_per_second, 1),
            },
            "step_time_s": round(self.step_time_s, 4),
            "peak_memory_gib": round(self.peak_memory_gib, 3),
            "checkpoint": str(self.checkpoint),
            "model": str(self.model),
        }


def metrics_row(state: StepState, seconds: dict[str, float]) -> dict[str, Any]:
    """One line of `metrics.jsonl`. `metrics` and `tokens` repeat bit for bit on the same machine; seconds do not."""
    generated = state.generated_tokens
    # Dynamic sampling generates in its own stage too.
    rollout = seconds["rollout"] + seconds.get("filter_groups", 0.0)
    update = seconds.get("update_actor", 0.0) + seconds.get("update_critic", 0.0)
    return {
        "step": state.step,
        "metrics": state.metrics,
        "tokens": {"generated": generated, "trained": state.trained_tokens},
        "seconds": {name: round(value, 6) for name, value in seconds.items()},
        "tokens_per_second": {
            "generated": _rate(generated, rollout),
            "trained": _rate(state.trained_tokens, update),
            "end_to_end": _rate(generated, seconds["step"]),
        },
    }


def summarize(run: RunDirectory, *, checkpoint: Path, model: Path, peak_gib: float) -> TrainResult:
    """The result of a run from its `metrics.jsonl`."""
    rows = run.rows()
    steps = [row for row in rows if "metrics" in row]
    evals = [row["eval"].get("accuracy") for row in rows if "eval" in row]
    generated = sum(row["tokens"]["generated"] for row in steps)
    trained = sum(row["tokens"]["trained"] for row in steps)
    seconds = [row["seconds"] for row in steps]
    total = sum(s["step"] for s in seconds)
    return TrainResult(
        run_dir=run.path,
        steps=steps[-1]["step"] if steps else 0,
        eval_before=evals[0] if evals else None,
        eval_after=evals[-1] if evals else None,
        reward_first=steps[0]["metrics"]["reward"] if steps else None,
        reward_last=steps[-1]["metrics"]["reward"] if steps else None,
        generated_per_second=_rate(generated, sum(s["rollout"] + s.get("filter_groups", 0.0) for s in seconds)),
        trained_per_second=_rate(
            trained, sum(s.get("update_actor", 0.0) + s.get("update_critic", 0.0) for s in seconds)
        ),
        end_to_end_per_second=_rate(generated, total),
        step_time_s=total / max(1, len(seconds)),
        peak_memory_gib=peak_gib,
        checkpoint=checkpoint,
        model=model,
    )


def _rate(tokens: int, seconds: float) -> float:
    return round(tokens / seconds, 1) if seconds > 0 else 0.0
