"""Which wrong keys and values of our own YAML carry a fix, which do not, and what the fix makes of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from verlcli.config.check_file import check_file
from verlcli.config.fix import fix_file
from verlcli.config.problems import Fix, Place

Write = Callable[..., Path]
Load = Callable[..., Any]

BASE = "model: {path: a/b}\ndata: {source: arithmetic}\n"


def fixes(load: Load, text: str, *overrides: str, **more: Any) -> list[tuple[str, str, Any]]:
    problems = load(BASE + dedent(text), *overrides, **more).problems
    return [(problem.fix.action, problem.fix.key, problem.fix.to) for problem in problems if problem.fix]


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        # another spelling, a slip
        ("training: {ppoEpochs: 2}", ("rename", "training.ppoEpochs", "training.ppo_epochs")),
        ("training: {ppo-epochs: 2}", ("rename", "training.ppo-epochs", "training.ppo_epochs")),
        ("algorithm: {clip_rato: 0.2}", ("rename", "algorithm.clip_rato", "algorithm.clip_ratio")),
        ("rollout: {tempreatur: 0.7}", ("rename", "rollout.tempreatur", "rollout.temperature")),
        ("trainr: {seed: 1}", ("rename", "trainr", "trainer")),
        # short forms stay
        ("fsdp_config: {param_ofload: true}", ("rename", "fsdp_config.param_ofload", "fsdp_config.param_offload")),
        # the wrong level, where there is one right one
        ("rollout: {kl_coef: 0.1}", ("rename", "rollout.kl_coef", "algorithm.kl_coef")),
        ("gamma: 1.0", ("rename", "gamma", "algorithm.gamma")),
        # names of verl, TRL and others
        ("algorithm: {adv_estimator: grpo}", ("rename", "algorithm.adv_estimator", "algorithm.name")),
        ("trainer: {n_gpus_per_node: 4}", ("rename", "trainer.n_gpus_per_node", "distributed.gpus_per_node")),
        ("actor: {optim: {lr_warmup_steps: 5}}", ("rename", "actor.optim.lr_warmup_steps", "actor.optim.warmup_steps")),
        (
            "critic: {optim: {lr_warmup_steps: 5}}",
            ("rename", "critic.optim.lr_warmup_steps", "critic.optim.warmup_steps"),
        ),
        ("rollout: {num_generations: 8}", ("rename", "rollout.num_generations", "rollout.n")),
        ("actor: {kl_loss_type: low_var_kl}", ("rename", "actor.kl_loss_type", "algorithm.kl_estimator")),
        # values
        ("training: {use_dynamic_bsz: yes}", ("set", "training.use_dynamic_bsz", True)),
        ("training: {use_dynamic_bsz: 'False'}", ("set", "training.use_dynamic_bsz", False)),
        ("rollout: {n: '8'}", ("set", "rollout.n", 8)),
        ("rollout: {n: '8.0'}", ("set", "rollout.n", 8)),
        ("actor: {optim: {lr: '1e-6'}}", ("set", "actor.optim.lr", 1e-6)),
        ("trainer: {keep_checkpoints: None}", ("set", "trainer.keep_checkpoints", None)),
        ("algorithm: {name: GRPO}", ("set", "algorithm.name", "grpo")),
        ("algorithm: {name: reinforce_plusplus}", ("set", "algorithm.name", "reinforce_plus_plus")),
        ("algorithm: {kl_estimator: low_var_kl}", ("set", "algorithm.kl_estimator", "k3")),
        ("model: {path: a/b, dtype: torch.bfloat16}", ("set", "model.dtype", "bf16")),
    ],
)
def test_mechanical(load: Load, text: str, fix: tuple[str, str, Any]) -> None:
    text = f"data: {{source: arithmetic}}\n{text}\n" if text.startswith("model") else BASE + text
    problems = load(text).problems
    assert [(each.fix.action, each.fix.key, each.fix.to) for each in problems if each.fix] == [fix]


@pytest.mark.parametrize(
    "text",
    [
        "rollout: {lr: 1e-6}",  # of the actor's optimizer, or of the critic's
        "algorithm: {nuum: 3}",  # like nothing
        "rollout: {top_x: 1}",  # top_p or top_k
        "algorithm: {clip_ratio_lo: 2}",  # out of range under its right name
        "algorithm: {use_kl_loss: true}",  # another type of value
        "trainer: {total_epochs: 3}",  # another unit
        "data: {source: arithmetic, gen_batch_size: 96}",  # another meaning
        "critic: {model_name: a/b}",  # another role's
        "custom_reward_function: {path: r.py}",  # a section where a word is meant
        "rollout: {num_generations: many}",
        "rollout: {n: eight}",
        "rollout: {n: '8.5'}",
        "rollout: {n: '0'}",  # out of range
        "rollout: {n: '1,000'}",
        "training: {use_dynamic_bsz: 1}",
        "training: {use_dynamic_bsz: '1'}",
        "algorithm: {name: gae}",  # ours is called after the whole algorithm
        "algorithm: {name: qqq}",
        "trainer: {loggers: [jsonl, 7]}",  # an item of a list
    ],
)
def test_somebody_must_decide(load: Load, text: str) -> None:
    text = BASE.replace("data: {source: arithmetic}\n", "") + text if text.startswith("data") else BASE + text
    problems = load(text).problems
    assert problems
    assert [problem.fix for problem in problems] == [None] * len(problems)


def test_the_fix_has_the_place_of_the_file(load: Load) -> None:
    (problem,) = (each for each in load(BASE + "algorithm:\n  clip_rato: 0.2\n").problems if each.fix)
    assert problem.fix is not None
    assert (problem.fix.place.line, problem.fix.place.column) == (4, 3)
    assert problem.fix.place.file == problem.file


def test_what_stands_in_no_file_has_no_fix(load: Load) -> None:
    assert fixes(load, "", "algorithm.clip_rato=0.2") == []
    assert fixes(load, "", "rollout.n=yes") == []
    assert fixes(load, "", env={"VERL_CFG__ALGORITHM__CLIP_RATO": "0.2"}) == []


def test_keys_under_verl_are_mended_there(write: Write) -> None:
    path = str(
        write(
            """\
            backend: verl
            model: {path: Qwen/Qwen2.5-7B-Instruct}
            data: {train_files: a.parquet}
            training: {use_dynamic_bsz: true}
            verl:
              reward_model:
                reward_manager: dapo  # overlong
            """
        )
    )
    problem = next(each for each in check_file(path) if each.code == "VRL227")
    assert problem.path == "verl.reward_model.reward_manager"
    assert problem.fix == Fix(
        "rename", problem.path, "verl.reward.reward_manager.name", Place(path, 7, 5), "++reward_model.reward_manager"
    )
    fixed = fix_file(path, check_file(path))
    assert fixed is not None
    assert fixed.text.endswith("verl:\n  reward:\n    reward_manager:\n      name: dapo  # overlong\n")


def test_only_the_named_file_changes(write: Write) -> None:
    text = """\
        extends: ./base.yaml
        backend: verl
        verl:
          reward_model:
            reward_manager: dapo
        """
    write("model: {path: a/b}\ndata: {train_files: a.parquet}\nalgorithm: {clip_rato: 0.2}\n", "base.yaml")
    path = write(text)
    problems = check_file(str(path))
    files = {problem.fix.place.file for problem in problems if problem.fix}
    assert files == {str(path), str(path.parent / "base.yaml")}
    fixed = fix_file(str(path), problems)
    assert fixed is not None
    assert "clip_rato" not in fixed.text  # the base is another file, which the user did not name
    assert [problem.code for problem in fixed.made] == ["VRL227"]
