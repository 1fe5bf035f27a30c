"""What verl's own launch scripts brought to light, each in its smallest form."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config.check_file import check_file
from verlcli.config.context import Context
from verlcli.config.problems import Problem

SOUND = """\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.rollout.max_model_len=1024 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \\
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \\
    algorithm.adv_estimator=grpo trainer.save_freq=-1"""


def said(folder: Path, text: str, version: str | None = None) -> list[Problem]:
    """What is said of a script that stands three folders below the top of a repository."""
    file = folder / "examples" / "grpo" / "run.sh"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return [problem for problem in check_file(str(file), (), Context(verl_version=version)) if not problem.unchecked]


def launch(*words: str, module: str = "verl.trainer.main_ppo") -> str:
    return f"python3 -m {module} {' '.join(words)} \\\n{SOUND}\n"


def codes(problems: list[Problem]) -> list[tuple[int, str, str]]:
    return [(problem.line, problem.severity, problem.code) for problem in problems]


@pytest.mark.parametrize(
    ("override", "advice"),
    [
        ("+algorithm.filter_groups.enable=True", "algorithm.filter_groups.enable=True"),
        ("+actor_rollout_ref.model.lora.merge=True", "actor_rollout_ref.model.lora.merge=True"),
        ("+algorithm.filter_groups.max_num_gen_batches=10", "algorithm.filter_groups.max_num_gen_batches=10"),
    ],
)
def test_plus_before_a_key_whose_default_is_false_or_0(tmp_path: Path, override: str, advice: str) -> None:
    found = [problem for problem in said(tmp_path, launch(override)) if problem.code == "VRL250"]
    assert codes(found) == [(1, "error", "VRL250")]
    assert found[0].suggestion == f"write {advice}"


def test_what_is_added_below_an_ignored_section_is_ignored(tmp_path: Path) -> None:
    (problem,) = said(tmp_path, launch("+reward_model.reward_kwargs.overlong_buffer_cfg.len=4096"), "0.9.1")
    assert (problem.code, problem.severity, problem.path) == (
        "VRL227",
        "error",
        "reward_model.reward_kwargs.overlong_buffer_cfg.len",
    )
    assert problem.suggestion == "write +reward.reward_kwargs.overlong_buffer_cfg.len=4096"
    assert said(tmp_path, launch("+reward_model.reward_kwargs.overlong_buffer_cfg.len=4096"), "0.8.0") == []


def test_minus_1_generations_are_a_slice(tmp_path: Path) -> None:
    assert said(tmp_path, launch("trainer.log_val_generations=-1")) == []
    assert codes(said(tmp_path, launch("trainer.log_val_generations=-2"))) == [(1, "error", "VRL256")]


@pytest.mark.parametrize(
    ("module", "severity"),
    [("verl.trainer.main_ppo", "error"), ("recipe.spin.main_spin", "warning")],
)
def test_recipes_may_do_otherwise(tmp_path: Path, module: str, severity: str) -> None:
    wrong = launch("data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=128", module=module)
    assert [problem.severity for problem in said(tmp_path, wrong) if problem.code == "VRL207"] == [severity]


@pytest.mark.parametrize(
    ("module", "severity"),
    [("verl.trainer.main_ppo", "error"), ("recipe.spin.main_spin", "warning"), ("mine.main", "warning")],
)
def test_other_peoples_programs_may_know_other_choices(tmp_path: Path, module: str, severity: str) -> None:
    mode = launch("actor_rollout_ref.rollout.mode=sync", module=module)
    assert [problem.severity for problem in said(tmp_path, mode) if problem.code == "VRL255"] == [severity]


@pytest.mark.parametrize(("more", "severity"), [("", "error"), (' "$@"', "warning")])
def test_what_is_missing_may_come_from_the_caller(tmp_path: Path, more: str, severity: str) -> None:
    words = "actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=8 algorithm.adv_estimator=grpo"
    text = f"python3 -m verl.trainer.main_ppo {words} actor_rollout_ref.model.path=/m{more}\n"
    assert {problem.severity for problem in said(tmp_path, text) if problem.code == "VRL210"} == {severity}


def test_words_that_get_lost_are_not_missed_again(tmp_path: Path) -> None:
    text = launch("data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=64").replace(
        "n=8 \\\n", "n=8 \\ \n"
    )
    found = said(tmp_path, text)
    assert (3, "error", "VRL305") in codes(found)
    assert [problem.code for problem in found if problem.severity == "error"] == ["VRL305"]


def test_spaces_around_the_equals_sign_are_one_mistake(tmp_path: Path) -> None:
    found = said(tmp_path, launch("data.train_batch_size = 512"))
    assert codes(found) == [(1, "error", "VRL307")]


@pytest.mark.parametrize("written", ["data.train_batch_size = 64", "data.train_batch_size= 64"])
def test_a_wrong_value_behind_a_space_is_seen(tmp_path: Path, written: str) -> None:
    found = said(tmp_path, launch(written))
    assert codes(found) == [(1, "error", "VRL307"), (1, "error", "VRL207")]
    assert "checked as if they were one" in found[0].message
    assert found[1].message.startswith("the step has 64 prompts")


def test_a_wrong_value_among_lost_words_is_seen_at_its_line(tmp_path: Path) -> None:
    text = launch("actor_rollout_ref.actor.ppo_mini_batch_size=64").replace("n=8 \\\n", "n=8 \\ \n")
    found = said(tmp_path, text.rstrip("\n") + " \\\n  data.train_batch_size=32 trainer.total_epoch=3\n")
    # VRL207 points at the mini-batch, which is larger than the step of 32.
    assert sorted(codes(found)) == [(1, "error", "VRL207"), (3, "error", "VRL305"), (8, "error", "VRL240")]
    assert any("the rest is checked as if they did" in problem.message for problem in found)
    assert any("the step has 32 prompts" in problem.message for problem in found)


@pytest.mark.parametrize(
    ("name", "severity"),
    [("$MODEL_PTH", "error"), ("$CHECKPOINTS", "warning"), ("$MODEL_DIR", "warning")],
)
def test_a_variable_that_nobody_sets_may_come_from_the_caller(tmp_path: Path, name: str, severity: str) -> None:
    text = f"MODEL_PATH=/m\n{launch(f'trainer.default_local_dir={name} critic.model.path=$MODEL_PATH')}"
    assert [problem.severity for problem in said(tmp_path, text) if problem.code == "VRL301"] == [severity]


CONFIG = """\
hydra:
  searchpath: [file://verl/trainer/config]
defaults: [ppo_trainer, _self_]
data: {train_batch_size: 64}
mine: {depth: 3}
"""


@pytest.mark.parametrize("path", ['"$PWD/config"', '"$(pwd)/config"'])
def test_a_config_of_ones_own_is_found_from_the_top_of_the_repository(tmp_path: Path, path: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "mine.yaml").write_text(CONFIG, encoding="utf-8")
    options = f"--config-path={path} --config-name=mine"
    words = "actor_rollout_ref.actor.ppo_mini_batch_size=128 mine.depth=4 trainer.total_epoch=3"
    found = said(tmp_path, launch(options, words))
    # The batch of 64 is the file's; mine.depth is a key there, trainer.total_epoch nowhere.
    assert sorted(problem.code for problem in found) == ["VRL207", "VRL240"]
    assert next(problem for problem in found if problem.code == "VRL240").severity == "error"


def test_the_engine_of_a_config_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    text = CONFIG.replace("ppo_trainer", "ppo_megatron_trainer")
    (tmp_path / "config" / "mine.yaml").write_text(text, encoding="utf-8")
    options = "--config-path=$PWD/config --config-name=mine"
    key = "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2"
    assert said(tmp_path, launch(options, key, "actor_rollout_ref.actor.ppo_mini_batch_size=64")) == []


@pytest.mark.parametrize(
    ("options", "severity"),
    [("--config-name=mine", "warning"), ("--config-path=elsewhere --config-name=mine", "note")],
)
def test_a_config_that_is_not_there(tmp_path: Path, options: str, severity: str) -> None:
    found = [problem for problem in said(tmp_path, launch(options)) if problem.code == "VRL337"]
    assert codes(found) == [(1, severity, "VRL337")]


@pytest.mark.parametrize(
    ("override", "advice"),
    [
        (
            "reward_model.overlong_buffer.len=4096",
            "write +reward.reward_kwargs.overlong_buffer_cfg.len=4096",
        ),
        ("reward_model.sandbox_fusion.url=http://sandbox", "write reward.sandbox_fusion.url"),
    ],
)
def test_old_reward_keys_lead_to_the_new_ones(tmp_path: Path, override: str, advice: str) -> None:
    (problem,) = [each for each in said(tmp_path, launch(override), "0.9.1") if each.severity != "note"]
    assert (problem.code, problem.severity, problem.suggestion) == ("VRL263", "error", advice)


def test_a_program_that_is_gone_has_a_successor(tmp_path: Path) -> None:
    text = "torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer data.train_files=a.parquet\n"
    (problem,) = said(tmp_path, text, "0.9.1")
    assert (problem.line, problem.code) == (1, "VRL332")
    assert "write verl.trainer.sft_trainer, or check it with --verl-version 0.6.1" in problem.message
