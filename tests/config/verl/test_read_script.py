"""A launch script becomes launches of verl with every override's place, and problems of the script itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config.context import Context
from verlcli.config.problems import Problem
from verlcli.config.verl.launch_codes import LAUNCH_TEXTS
from verlcli.config.verl.read_script import read_script_runs
from verlcli.config.verl.run import UNKNOWN, VerlRun
from verlcli.config.verl.shell_codes import SHELL_CODES, SHELL_TEXTS

MAIN = "python3 -m verl.trainer.main_ppo"


def read(text: str, version: str | None = None, path: str = "run.sh") -> tuple[list[VerlRun], list[Problem]]:
    return read_script_runs(path, text, Context(verl_version=version))


def one(text: str, version: str | None = None) -> VerlRun:
    runs, problems = read(text, version)
    assert not [problem for problem in problems if problem.severity == "error"]
    assert len(runs) == 1
    return runs[0]


def test_literal_overrides_have_their_own_places() -> None:
    run = one(f"{MAIN} \\\n  trainer.nnodes=2 \\\n  +trainer.x='a b'\n")
    first, second = run.settings
    assert (first.key, first.value, first.prefix) == ("trainer.nnodes", 2, "")
    assert (first.place.line, first.place.column, first.value_place.column) == (2, 3, 18)
    assert (second.key, second.value, second.prefix, second.raw) == ("trainer.x", "a b", "+", "a b")
    assert (second.place.line, second.place.column) == (3, 3)
    assert run.place.line == 1


def test_value_of_a_variable_stands_where_the_variable_is_set() -> None:
    setting = one(f"NODES=4\n\n{MAIN} trainer.nnodes=$NODES\n").settings[0]
    assert (setting.value, setting.variable) == (4, "NODES")
    assert (setting.place.line, setting.value_place.line, setting.value_place.column) == (3, 1, 7)


def test_arrays_of_overrides_keep_their_lines_and_the_last_one_holds() -> None:
    run = one(f'A=(\n  trainer.nnodes=1\n)\nB=(trainer.nnodes=2)\n{MAIN} "${{A[@]}}" "${{B[@]}}"\n')
    assert [setting.place.line for setting in run.settings] == [2, 4]
    assert [setting.via for setting in run.settings] == ["A", "B"]
    assert run.get("trainer.nnodes") == 2


@pytest.mark.parametrize(
    ("value", "known", "reason"),
    [
        ("$SLURM_NNODES", UNKNOWN, "SLURM_NNODES"),
        ("$(date +%s)", UNKNOWN, "date"),
        ("run-$USER", UNKNOWN, "USER"),
        ("$HOME/models/Qwen2.5-7B-Instruct", "$HOME/models/Qwen2.5-7B-Instruct", "HOME"),
        ("$(hostname)/x/y", "$(...)/x/y", "hostname"),
    ],
)
def test_what_only_a_run_can_tell_is_unknown_but_a_path_keeps_its_end(value: str, known: object, reason: str) -> None:
    setting = one(f"{MAIN} trainer.experiment_name={value}\n").settings[0]
    assert setting.value is known or setting.value == known
    assert reason in setting.reason


def test_a_list_of_paths_keeps_its_ends_too() -> None:
    run = one(f"{MAIN} data.train_files=\"['$HOME/a.parquet','/b.parquet']\" trainer.logger=\"['$LOGNAME']\"\n")
    assert run.settings[0].value == ["$HOME/a.parquet", "/b.parquet"]
    assert run.settings[1].value is UNKNOWN


def test_home_is_no_part_of_what_the_model_table_needs() -> None:
    run = one(f"M=$HOME/models/Qwen2.5-7B-Instruct\n{MAIN} actor_rollout_ref.model.path=$M\n")
    assert run.shape().hidden_size == 3584


def test_groups_choose_the_engine() -> None:
    run = one(f"{MAIN} model_engine=megatron actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2\n")
    assert (run.engine, run.version) == ("megatron", "0.9.1")
    assert run.tree.has("actor_rollout_ref.actor.megatron.tensor_model_parallel_size")


@pytest.mark.parametrize(
    "option",
    ["--config-name=ppo_megatron_trainer", "--config-name ppo_megatron_trainer.yaml", "-cn ppo_megatron_trainer"],
)
def test_config_name_chooses_the_engine(option: str) -> None:
    run = one(f"{MAIN} {option} trainer.nnodes=2\n", "0.7.1")
    assert (run.engine, run.version) == ("megatron", "0.7.1")
    assert [setting.key for setting in run.settings] == ["trainer.nnodes"]


@pytest.mark.parametrize(
    ("command", "entry"),
    [
        ("python3 -m verl.trainer.main_ppo", "main_ppo"),
        ("python -u -m verl.trainer.main_ppo", "main_ppo"),
        ("python3 verl/trainer/main_ppo.py", "main_ppo"),
        ("nohup python3 -m verl.trainer.main_ppo", "main_ppo"),
        ("python3 -m verl.experimental.fully_async_policy.fully_async_main", "fully_async"),
        ("python3 -m verl.experimental.one_step_off_policy.main_ppo", "one_step_off"),
        ("torchrun --standalone --nproc_per_node=8 -m verl.trainer.sft_trainer", "sft"),
        ("python3 -m verl.trainer.main_generation_server", "generation_server"),
    ],
)
def test_programs_and_their_entry_points(command: str, entry: str) -> None:
    assert one(f"{command} trainer.nnodes=1\n").entry == entry


def test_every_launch_of_a_script_is_read_with_its_condition() -> None:
    text = f'if [ "$NODE_RANK" = 0 ]; then\n  {MAIN} trainer.nnodes=1\nelse\n  {MAIN} trainer.nnodes=2\nfi\n'
    runs, _ = read(text)
    assert [run.get("trainer.nnodes") for run in runs] == [1, 2]
    assert all("NODE_RANK" in run.condition for run in runs)


def test_environment_directives_and_arguments() -> None:
    run = one(f"#!/bin/bash\n#SBATCH --nodes=2\nexport VLLM_X=1\nWANDB_MODE=offline {MAIN} trainer.nnodes=2 $@\n")
    assert run.environment["VLLM_X"].value == "1"
    assert run.environment["VLLM_X"].place.line == 3
    assert run.environment["WANDB_MODE"].value == "offline"
    assert run.directives["nodes"].value == "2"
    assert run.takes_arguments


def test_a_job_that_is_submitted_knows_its_runtime_environment(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("env_vars:\n  NCCL_DEBUG: INFO\n")
    script = str(tmp_path / "run.sh")
    runs, _ = read(f"ray job submit --runtime-env=env.yaml -- {MAIN} trainer.nnodes=2\n", path=script)
    facts = runs[0].script
    assert facts is not None
    assert facts.submitted
    assert "NCCL_DEBUG" in (facts.runtime_env or "")
    missing, _ = read(f"ray job submit --runtime-env=/none.yaml -- {MAIN} trainer.nnodes=2\n", path=script)
    assert missing[0].script is not None
    assert missing[0].script.runtime_env is None


def test_version_that_the_script_installs_counts_unless_somebody_names_one() -> None:
    text = f"pip install verl==0.7.0\n{MAIN} trainer.nnodes=2\n"
    assert one(text).version == "0.7.1"
    assert one(text, "0.9.1").version == "0.9.1"


@pytest.mark.parametrize(
    ("words", "code", "severity", "message"),
    [
        ("data.train_files=~/x.parquet", "VRL333", "error", "starts with ~"),
        ("trainer.logger=console,wandb", "VRL334", "error", "'trainer.logger=[console,wandb]'"),
        ("trainer.nnodes", "VRL335", "error", "neither key=value"),
        ("--trainer.nnodes=2", "VRL335", "error", "write trainer.nnodes=2"),
        ("trainer.nnodes=2 --config-name=ppo_trainer trainer.save_freq=1", "VRL336", "error", "before the first"),
        ("--config-name=mine trainer.nnodes=2", "VRL337", "warning", "'mine' is not one of verl"),
    ],
)
def test_command_lines_that_hydra_refuses(words: str, code: str, severity: str, message: str) -> None:
    runs, problems = read(f"{MAIN} {words}\n")
    found = [problem for problem in problems if problem.code == code]
    assert [(problem.severity, problem.line) for problem in found] == [(severity, 1)]
    assert message in found[0].sentence
    assert len(runs) == 1


def test_a_sweep_is_fine_with_multirun() -> None:
    runs, problems = read(f"{MAIN} --multirun trainer.nnodes=1,2\n")
    assert not problems
    assert len(runs) == 1


def test_a_config_that_is_here_is_read_below_the_overrides(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("defaults: [ppo_trainer, _self_]\ntrainer:\n  nnodes: 3\n  save_freq: 7\n")
    script = str(tmp_path / "run.sh")
    runs, problems = read(f"{MAIN} --config-path={tmp_path} --config-name=mine trainer.nnodes=4\n", path=script)
    assert not problems
    assert (runs[0].get("trainer.nnodes"), runs[0].get("trainer.save_freq"), runs[0].unseen) == (4, 7, "")


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("python3 -m verl.trainer.main config=examples/config.yaml", "VRL331", "EasyR1"),
        ("python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1", "VRL331", "OpenRLHF"),
        ("python3 -m verl.trainer.main_ppo_sync trainer.nnodes=2", "VRL332", "verl 0.8.0 is the last"),
    ],
)
def test_other_programs_are_named_and_not_checked(command: str, code: str, message: str) -> None:
    runs, problems = read(f"{command}\n", "0.9.1")
    assert not runs
    assert [problem.code for problem in problems] == [code]
    assert message in problems[0].message
    assert "not checked" in problems[0].message


def test_a_program_is_checked_as_the_last_version_that_had_it_when_nobody_names_one() -> None:
    runs, problems = read("python3 -m verl.trainer.main_ppo_sync trainer.nnodes=2\n")
    assert [run.version for run in runs] == ["0.8.0"]
    assert [(problem.code, problem.severity) for problem in problems] == [("VRL332", "error")]


def test_somebodys_own_program_with_verls_keys_is_checked_as_main_ppo() -> None:
    keys = " ".join(f"actor_rollout_ref.{key}=1" for key in ("rollout.n", "actor.ppo_epochs", "model.lora_rank"))
    runs, problems = read(f"python3 my/main.py {keys}\n")
    assert [(run.entry, run.tree.entry) for run in runs] == [("my/main.py", "main_ppo")]
    assert [problem.code for problem in problems] == ["VRL338"]
    assert "my/main.py" in runs[0].unseen


@pytest.mark.parametrize("text", ["", "echo hello\n", "python3 examples/data_preprocess/gsm8k.py --local_dir x\n"])
def test_a_script_without_a_launch_says_so(text: str) -> None:
    runs, problems = read(text)
    assert not runs
    assert [problem.code for problem in problems] == ["VRL330"]


def test_findings_of_the_shell_reader_have_codes_of_their_own() -> None:
    _, problems = read(f"MODEL_PATH=x\n{MAIN} actor_rollout_ref.model.path=$MODEL_PTH\n")
    assert [(problem.code, problem.line) for problem in problems if problem.severity != "note"] == [("VRL301", 2)]
    assert "MODEL_PATH" in problems[0].sentence


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("['console','wandb']", False),
        ('["console","wandb"]', False),
        ("{a:'b',c:\"d\"}", False),
        ('["$LOGGER","$LOGGER"]', False),
        ("['console','1']", True),
        ("['1e-6']", True),
        ("['true']", True),
        ("['a,b']", True),
        ("['a:b','c d']", False),
        ("['a(b']", True),
    ],
)
def test_inner_quotes_are_missed_only_where_hydra_needs_them(value: str, said: bool) -> None:
    _, problems = read(f"LOGGER=console\n{MAIN} trainer.logger={value}\n")
    assert [problem.code for problem in problems if problem.code == "VRL311"] == ["VRL311"] * said


def test_lost_words_are_settings_of_the_launch() -> None:
    runs, problems = read(f"{MAIN} trainer.nnodes=2 \\ \n  trainer.save_freq=7 \\\n  trainer.logger=a,b\n")
    assert runs[0].get("trainer.save_freq") == 7
    assert runs[0].value_place("trainer.save_freq").line == 2
    assert not runs[0].takes_arguments
    assert [(problem.code, problem.line) for problem in problems] == [("VRL305", 1), ("VRL334", 3)]


def test_spaces_around_the_sign_do_not_hide_the_value() -> None:
    runs, problems = read(f"{MAIN} trainer.nnodes = 2 trainer.save_freq= 7\n")
    assert [(setting.key, setting.value) for setting in runs[0].settings][-2:] == [
        ("trainer.nnodes", 2),
        ("trainer.save_freq", 7),
    ]
    assert [problem.code for problem in problems] == ["VRL307", "VRL307"]


@pytest.mark.parametrize(("value", "default"), [("${NNODES:-2}", True), ("2", False)])
def test_a_default_of_the_script_is_known_as_one(value: str, default: bool) -> None:
    assert one(f"N={value}\n{MAIN} trainer.nnodes=$N\n").settings[0].default is default


def test_every_shell_code_is_explained_and_no_two_kinds_share_one() -> None:
    assert len(set(SHELL_CODES.values())) == len(SHELL_CODES)
    assert set(SHELL_CODES.values()) < set(SHELL_TEXTS)


@pytest.mark.parametrize(("code", "text"), [*SHELL_TEXTS.items(), *LAUNCH_TEXTS.items()])
def test_explanations_have_the_common_form(code: str, text: str) -> None:
    lines = text.splitlines()
    assert lines[0].startswith(f"{code}: ")
    parts = [line.strip().partition(":")[0] for line in lines[2:] if line[4:5].strip() and line.startswith("    ")]
    assert [part for part in parts if part] == ["Why", "Example", "Instead", "Source"]
