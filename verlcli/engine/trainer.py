"""`PPOTrainer`: runs the stages step after step, with evaluation, checkpoints, resume and a clean stop."""

from __future__ import annotations

import shlex
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from verlcli.config import Loaded, as_loaded
from verlcli.engine import checkpoint, run_directory
from verlcli.engine.data import load_datasets
from verlcli.engine.dataflow import run_in_turn
from verlcli.engine.evaluate import evaluate
from verlcli.engine.failures import explain
from verlcli.engine.manifest import Manifest
from verlcli.engine.memory import peak_memory_gib
from verlcli.engine.observer import Observer
from verlcli.engine.prompts import PromptFeed, check_lengths, encode_rows
from verlcli.engine.randomness import derive_seed
from verlcli.engine.rewards import RewardError, load_reward
from verlcli.engine.roles import Roles, build_roles, load_run_tokenizer
from verlcli.engine.run_directory import RunDirectory, open_run, redacted
from verlcli.engine.schedule import learning_rate
from verlcli.engine.signals import StopRequest
from verlcli.engine.stages import StepState, build_stages, sampling_of
from verlcli.engine.summary import TrainResult, metrics_row, summarize
from verlcli.errors import ConfigError, InterruptedRunError, TrainingFailedError, VerlCliError
from verlcli.plan import Plan, make_plan, require_devices, require_local, this_machine
from verlcli.plan.report import plan_document

if TYPE_CHECKING:
    from verlcli.engine.batch import Batch
    from verlcli.engine.rollout import Rollout
    from verlcli.engine.training import TorchEngine, UpdateResult

MAX_FAILED_UPDATES = 3  # in a row


class PPOTrainer:
    """Trains one policy with PPO or GRPO in this process.

    Args:
        config: a YAML file, a preset's name, a mapping of config keys, or a `Loaded` config.
        overrides: `KEY=VALUE` strings, as `-o` on the command line.
        observer: is told of every step.

    Raises:
        ConfigError: the config, its data or its reward is wrong.
        DoesNotFitError: the batch arithmetic or the devices do not work out.
        MissingDependencyError: a package or device is absent.
    """

    def __init__(
        self,
        config: str | Path | Mapping[str, Any] | Loaded,
        *,
        overrides: Sequence[str] = (),
        observer: Observer | None = None,
        argv: Sequence[str] = (),
    ) -> None:
        self.loaded = as_loaded(config, overrides)
        self.config = self.loaded.require()
        self.observer = observer or Observer()
        machine = this_machine()
        self.plan: Plan = make_plan(
            self.config,
            name=self.loaded.name,
            machine=machine,
            argv=argv or [self.loaded.name],
            origins=self.loaded.origins,
        )
        require_local(self.plan)
        require_devices(self.plan, machine)
        self.step = 0  # finished steps
        self._applied = 0  # updates of this attempt
        self._trained = False
        self._failed_in_a_row: dict[str, int] = {}
        self._carried: dict[str, float] = {}  # what one step hands to the next
        self._run: RunDirectory | None = None
        self._train_data, self._val_data = load_datasets(self.config.data)

    @cached_property
    def tokenizer(self) -> Any:
        """The policy's tokenizer."""
        return load_run_tokenizer(self.config)

    @cached_property
    def roles(self) -> Roles:
        """All models, loaded at first use."""
        log = self._run.path / "logs" / "reward.log" if self._run else None
        wanted = self.plan.role("reward") is not None
        rewarder = load_reward(self.config.reward, log=log) if wanted else None
        left = self.config.trainer.total_steps - self.step
        return build_roles(self.config, self.plan, self.tokenizer, rewarder, steps=left, on_notice=self._warn)

    @property
    def actor_model(self) -> TorchEngine:
        """The actor's training engine; `get_sharding_info()` tells where its weights are."""
        return self.roles.actor

    @cached_property
    def _feed(self) -> PromptFeed:
        data = self.config.data
        seed = self.config.trainer.seed if data.seed is None else data.seed
        feed = PromptFeed(self._train_data, data, self.tokenizer, seed=seed)
        check_lengths(self._train_data, data, self.tokenizer, key="data.train_files")
        return feed

    @cached_property
    def _val_prompts(self) -> tuple[list[Any], list[list[int]]] | None:
        if self._val_data is None or len(self._val_data) == 0:
            return None
        check_lengths(self._val_data, self.config.data, self.tokenizer, key="data.val_files")
        rows = [self._val_data[i] for i in range(len(self._val_data))]
        ids, cut = encode_rows(rows, self.config.data, self.tokenizer)
        if cut:
            self._warn(f"{cut} of {len(rows)} held-out prompts are cut to data.max_prompt_length")
        return rows, ids

    @cached_property
    def _stages(self) -> Any:
        return build_stages(self.config, self.plan, self.roles)

    def rollout(self) -> Rollout:
        """Sample responses to the next step's prompts, without training on them."""
        state = self._state(self.step + 1)
        self._stages[0].run(state)
        assert state.rollout is not None
        return state.rollout

    def train_step(self) -> dict[str, Any]:
        """Run the next step through all stages; returns its row of `metrics.jsonl`."""
        state = self._state(self.step + 1)
        started = time.perf_counter()
        wait = torch.cuda.synchronize if self.plan.device == "cuda" else _nothing
        seconds = run_in_turn(self._stages, state, synchronize=wait)
        seconds["step"] = time.perf_counter() - started
        self.step += 1
        self._report_errors(state.reward_errors, "")
        return metrics_row(state, seconds)

    def _report_errors(self, errors: Sequence[RewardError], where: str) -> None:
        if errors:
            first = errors[0].message
            self._warn(f"the reward failed on {len(errors)} sample(s){where}, scored 0; the first: {first}")

    def _state(self, step: int) -> StepState:
        rows, ids, truncated = self._feed.step(step)
        total = self.config.trainer.total_steps
        state = StepState(
            step=step,
            rows=rows,
            prompt_ids=ids,
            lr=learning_rate(self.config.actor.optim, step, total),
            critic_lr=learning_rate(self.config.critic.optim, step, total),
            on_update=self._after_update,
            more_prompts=partial(self._feed.more, step),
            carried=self._carried,
        )
        if truncated:
            state.metrics["prompts_truncated"] = float(truncated)
        return state

    def train(self) -> TrainResult:
        """Train to `trainer.total_steps`, from the last checkpoint where there is one.

        Raises:
            InterruptedRunError: Ctrl-C or SIGTERM; the checkpoint is written.
            TrainingFailedError: training could not go on; what was saved stays.
            VerlCliError: any other error a user can act on.
        """
        trainer = self.config.trainer
        if self.step or self._trained:
            raise ConfigError(
                "this trainer has made steps already, and its run would not start from the model's weights",
                where="PPOTrainer.train",
                fix="make a new PPOTrainer; it goes on from the run's last checkpoint",
            )
        self._trained = True
        run = self._run = open_run(
            Path(self.plan.run_dir),
            self.loaded.values,
            explicit=trainer.output_dir is not None,
            resume=trainer.resume,
            total_steps=trainer.total_steps,
        )
        manifest: Manifest | None = None
        try:
            with StopRequest() as stop:
                self._write_inputs(run)
                manifest = Manifest(run, self.config, self.plan, from_step=_step_of(run.checkpoint))
                result = self._run_to_the_end(run, stop)
                manifest.finish(
                    status="finished", exit_code=0, last_step=self.step, peak_memory_gib=self._peak(), error=None
                )
            return result
        except BaseException as error:
            raise self._record_failure(run, manifest, error) from error
        finally:
            self.close()

    def close(self) -> None:
        """End the reward's processes and release the run directory."""
        if "roles" in self.__dict__ and self.roles.rewarder is not None:
            self.roles.rewarder.close()
        if self._run is not None:
            self._run.close()
            self._run = None
        self.observer.closed()

    def _write_inputs(self, run: RunDirectory) -> None:
        (run.path / "logs").mkdir(exist_ok=True)
        run_directory.write_text(run.path / run_directory.CONFIG, self.loaded.to_yaml())
        run.write_json(run_directory.ORIGINS, self.loaded.origins_json())
        plan = plan_document(self.plan)
        run.write_json(run_directory.PLAN, plan | {"command": shlex.join(redacted(shlex.split(plan["command"])))})

    def _run_to_the_end(self, run: RunDirectory, stop: StopRequest) -> TrainResult:
        self._feed, self._val_prompts  # noqa: B018  (data errors come before models are loaded)
        self._go_on_from(run)
        self._stages  # noqa: B018  (models are loaded)
        self.observer.started(self.plan, run.path, self.step)
        for notice in (*run.notices, *self._schedule_notices(run)):
            self._warn(notice)
        self._baseline(run)
        stop.graceful = True  # from here on there is something to save
        self._train_steps(run, stop)
        if self.step < self.config.trainer.total_steps:
            raise InterruptedRunError(
                f"stopped by {stop.requested} after step {self.step}"
                + ("; its checkpoint is written" if self.step else ""),
                where=str(run.path),
                fix="run the same command again to go on",
            )
        model = self.roles.export_merged(run.path / "model") if self.roles.lora else self._folder(run) / "actor"
        return summarize(run, checkpoint=self._folder(run), model=model, peak_gib=self._peak())

    def _train_steps(self, run: RunDirectory, stop: StopRequest) -> None:
        first, saved = self.step, self.step
        while self.step < self.config.trainer.total_steps and stop.requested is None:
            row = self.train_step()
            if self._due(self.config.trainer.test_freq) and self._val_prompts is not None:
                row["eval"] = self._evaluate()
            run.append_metrics(row)
            self.observer.stepped(row)
            if self._due(self.config.trainer.save_freq):
                self._save(run)
                saved = self.step
        if stop.requested is not None:
            self.observer.stopping(stop.requested)
        if saved != self.step:
            self._save(run)
        if self.step > first and not self._applied:
            raise TrainingFailedError(
                f"no update of {self.step - first} steps was applied: loss or gradient was never finite",
                where=str(run.path),
                fix="lower actor.optim.lr and algorithm.kl_coef, and look at the rewards",
            )

    def _schedule_notices(self, run: RunDirectory) -> list[str]:
        """Going on with another `total_steps` stretches a decaying learning rate."""
        total, before = self.config.trainer.total_steps, run.planned_steps
        decays = {self.config.actor.optim.lr_scheduler, self.config.critic.optim.lr_scheduler} != {"constant"}
        if self.step == 0 or before in (None, total) or not decays:
            return []
        return [f"the learning rate's decay now ends at step {total} instead of {before}, so the rate jumps here"]

    def _peak(self) -> float:
        return peak_memory_gib(self.plan.device)

    def _due(self, every: int) -> bool:
        return self.step == self.config.trainer.total_steps or (every > 0 and self.step % every == 0)

    def _folder(self, run: RunDirectory) -> Path:
        return run.checkpoints / f"step_{self.step}"

    def _go_on_from(self, run: RunDirectory) -> None:
        if run.checkpoint is None:
            run.forget_after(-1)
            return
        state = checkpoint.read_state(run.checkpoint)
        self.step = state["step"]
        self.roles.load(run.checkpoint)
        self._failed_in_a_row = state["failed_in_a_row"]
        self._carried = state.get("carried", {})
        run.forget_after(self.step)
        run.event("resumed", step=self.step)

    def _baseline(self, run: RunDirectory) -> None:
        if self.step == 0 and self._val_prompts is not None:
            run.append_metrics({"step": 0, "eval": self._evaluate()})

    def _evaluate(self) -> dict[str, float]:
        assert self._val_prompts is not None
        rows, ids = self._val_prompts
        figures, judged = evaluate(
            self.roles,
            rows,
            ids,
            sampling=sampling_of(self.config),
            chunk=self.config.rollout.batch_size,
            seed=derive_seed(self.config.trainer.seed, self.step, "eval"),
        )
        self._report_errors(judged.errors, " of the evaluation")
        self.observer.evaluated(self.step, figures)
        return figures

    def _save(self, run: RunDirectory) -> None:
        def write(folder: Path) -> None:
            self.roles.save(folder)
            checkpoint.write_state(
                folder,
                {
                    "step": self.step,
                    "seed": self.config.trainer.seed,  # randomness and data position are functions of seed and step
                    "failed_in_a_row": self._failed_in_a_row,
                    "carried": self._carried,
                },
            )

        path = checkpoint.save_checkpoint(run.checkpoints, self.step, write, keep=self.config.trainer.keep_checkpoints)
        run.event("checkpoint", step=self.step)
        self.observer.saved(path)

    def _after_update(self, role: str, result: UpdateResult, mini: Batch) -> None:
        if result.applied:
            self._applied += 1
            self._failed_in_a_row[role] = 0
            return
        count = self._failed_in_a_row[role] = self._failed_in_a_row.get(role, 0) + 1
        self._warn(
            f"step {self.step + 1}: {role} update skipped, its loss ({result.loss}) or gradient norm "
            f"({result.grad_norm}) is not finite ({count} in a row, the run stops at {MAX_FAILED_UPDATES})"
        )
        if count >= MAX_FAILED_UPDATES:
            kept = self._keep_batch(mini)
            raise TrainingFailedError(
                f"{count} {role} updates in a row were not finite" + (f"; the batch is kept in {kept}" if kept else ""),
                where=f"step {self.step + 1}",
                fix=f"lower {role}.optim.lr, try model.dtype: fp32, and look at the batch's rewards and responses",
            )

    def _keep_batch(self, mini: Batch) -> Path | None:
        if self._run is None:
            return None
        from safetensors.torch import save_file

        file = self._run.path / "failed_batch.safetensors"
        save_file(mini.tensors(), file)
        return file

    def _warn(self, message: str) -> None:
        if self._run is not None:
            self._run.event("warning", step=self.step, message=message)
        self.observer.warned(message)

    def _record_failure(self, run: RunDirectory, manifest: Manifest | None, error: BaseException) -> BaseException:
        """Keep the traceback and the exit code; returns the error to raise."""
        shown = explain(error, run.path, self.step)
        status = "interrupted" if isinstance(shown, InterruptedRunError) else "failed"
        exit_code = shown.exit_code if isinstance(shown, VerlCliError) else 1
        try:
            if status == "failed":
                text = "".join(traceback.format_exception(error))
                (run.path / "logs" / f"error-{int(time.time())}.txt").write_text(text)
            run.event(status, step=self.step, error=str(shown))
            if manifest is not None:
                manifest.finish(
                    status=status,
                    exit_code=exit_code,
                    last_step=self.step,
                    peak_memory_gib=self._peak(),
                    error=str(shown),
                )
        except OSError:
            pass  # the disk that cannot take this is what `shown` is about
        return shown


def _nothing() -> None:
    """A CPU's work is done when its call returns."""


def _step_of(folder: Path | None) -> int:
    return 0 if folder is None else int(checkpoint.read_state(folder)["step"])
