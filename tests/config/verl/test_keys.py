"""Each setting against verl's keys: unknown, moved, prefix, type, choice, range; with its mechanical fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from verlcli.config.problems import Problem
from verlcli.config.verl.key_codes import KEY_TEXTS
from verlcli.config.verl.keys import check_keys
from verlcli.config.verl.run import UNKNOWN, Setting, VerlRun
from verlcli.facts.verl import VERSIONS

A = "actor_rollout_ref"
RunOf = Callable[..., VerlRun]


def found(run: VerlRun) -> list[Problem]:
    return [problem for _, problem in check_keys(run)]


def only(run: VerlRun) -> Problem:
    problems = found(run)
    assert len(problems) == 1, problems
    return problems[0]


def of_code(code: str, run: VerlRun) -> Problem:
    (problem,) = [problem for problem in found(run) if problem.code == code]
    return problem


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("engine", ["dp", "megatron"])
def test_a_sound_launch_is_silent(run_of: RunOf, version: str, engine: str) -> None:
    assert not found(run_of(version=version, engine=engine))


# override, code, severity, part of the text, fix (action, to)
WRONG: list[tuple[str, str, str, str, tuple[str, Any] | None]] = [
    # unknown and misspelt
    (
        "data.max_prompt_lenght=512",
        "VRL240",
        "error",
        "did you mean data.max_prompt_length?",
        ("rename", "data.max_prompt_length"),
    ),
    ("trainer.n-gpus-per-node=8", "VRL240", "error", "trainer.n_gpus_per_node?", ("rename", "trainer.n_gpus_per_node")),
    (
        f"{A}.rolout.temperature=1",
        "VRL240",
        "error",
        f"{A}.rollout.temperature?",
        ("rename", f"{A}.rollout.temperature"),
    ),
    (
        f"{A}.Actor.entropy_coeff=0",
        "VRL240",
        "error",
        f"{A}.actor.entropy_coeff?",
        ("rename", f"{A}.actor.entropy_coeff"),
    ),
    (
        "actor.optim.weight_decay=0",
        "VRL240",
        "error",
        f"{A}.actor.optim.weight_decay",
        ("rename", f"{A}.actor.optim.weight_decay"),
    ),
    (f"{A}.actor.lr=1e-6", "VRL240", "error", f"{A}.actor.optim.lr?", ("rename", f"{A}.actor.optim.lr")),
    (
        f"{A}.actor.fsdp_config.grad_offload=True",
        "VRL240",
        "error",
        "param_offload?",
        None,  # it would move the parameters too
    ),
    (f"{A}.actor.fsdp_config.grad_offload=False", "VRL240", "error", "param_offload?", ("remove", None)),
    (f"{A}.rollout.use_fire_sampling=True", "VRL263", "error", "no longer", None),
    ("reward_model.model.input_tokenizer=a/b", "VRL263", "error", "no longer", None),
    ("trainer.gpus_per_node=8", "VRL240", "error", "trainer.n_gpus_per_node?", ("rename", "trainer.n_gpus_per_node")),
    ("zzz.qqq=1", "VRL240", "error", "the launch stops at once", None),
    # of another version
    (
        "trainer.val_generations_to_log_to_wandb=1",
        "VRL263",
        "error",
        "since verl 0.4",
        ("rename", "trainer.log_val_generations"),
    ),
    (
        "critic.model.fsdp_config.param_offload=True",
        "VRL263",
        "error",
        "critic.fsdp.param_offload",
        ("rename", "critic.fsdp.param_offload"),
    ),
    (
        "ray_init.num_cpus=8",
        "VRL263",
        "error",
        "ray_kwargs.ray_init.num_cpus",
        ("rename", "ray_kwargs.ray_init.num_cpus"),
    ),
    (f"{A}.rollout.use_fire_sampling=False", "VRL263", "error", "no longer", ("remove", None)),
    ("trainer.use_legacy_worker_impl=auto", "VRL263", "error", "no longer has", ("remove", None)),
    (
        f"{A}.actor.optim.warmup_style=cosine",
        "VRL263",
        "note",
        "lr_scheduler_type",
        ("rename", f"{A}.actor.optim.lr_scheduler_type"),
    ),
    (f"{A}.actor.grad_clip=0.5", "VRL263", "error", "ignores it", ("rename", f"{A}.actor.optim.clip_grad")),
    # without effect
    (
        "custom_reward_function.path=r.py",
        "VRL227",
        "error",
        "reward.custom_reward_function.path=r.py",
        ("rename", "reward.custom_reward_function.path"),
    ),
    ("reward_model.reward_manager=dapo", "VRL227", "error", "default reward", ("rename", "reward.reward_manager.name")),
    # engines and forks
    (f"{A}.actor.megatron.tensor_model_parallel_size=2", "VRL262", "error", "add model_engine=megatron", None),
    (f"{A}.actor.strategy=megatron", "VRL262", "error", "add model_engine=megatron", None),
    ("worker.actor.global_batch_size=4", "VRL264", "error", "EasyR1", ("rename", f"{A}.actor.ppo_mini_batch_size")),
    ("ttrl.enable=True", "VRL264", "error", "TTRL", None),
    # prefixes
    (f"+{A}.rollout.temperature=0.9", "VRL250", "error", "Hydra refuses to add it again", ("prefix", "")),
    (f"+{A}.model.lora.merge=True", "VRL250", "error", "(false: verl's default)", ("prefix", "")),
    (f"+{A}.actor.strategy=fsdp2", "VRL250", "error", f"write {A}.actor.strategy=fsdp2", ("prefix", "")),
    (
        f"{A}.rollout.engine_kwargs.vllm.seed=1",
        "VRL251",
        "error",
        f"write +{A}.rollout.engine_kwargs.vllm.seed=1",
        ("prefix", "+"),
    ),
    (f"{A}.model.override_config.attn_implementation=sdpa", "VRL251", "error", "free mapping", ("prefix", "+")),
    (f"{A}.rollout.limit_images=2", "VRL251", "error", "does not list", ("prefix", "+")),
    (
        "data.apply_chat_template_kwargs={enable_thinking: False}",
        "VRL251",
        "error",
        "+data.apply_chat_template_kwargs",
        None,
    ),
    (f"+{A}.rollout.bogus=1", "VRL252", "error", "making a RolloutConfig", None),
    ("~trainer.foo", "VRL259", "error", "no key of verl 0.9.1", ("remove", None)),
    ("~data.seed", "VRL259", "error", "null by default", ("remove", None)),
    # engine arguments
    (
        f"+{A}.rollout.engine_kwargs.vllm.max_num_seq=4",
        "VRL253",
        "warning",
        "did you mean max_num_seqs?",
        ("rename", f"{A}.rollout.engine_kwargs.vllm.max_num_seqs"),
    ),
    # groups
    ("model_engine=megatorn", "VRL260", "error", "did you mean 'megatron'?", ("set", "megatron")),
    ("data={seed: 1}", "VRL260", "error", "a config group", None),
    ("modl/engine=dp", "VRL260", "error", "no config group", None),
    # types
    (f"{A}.rollout.n=five", "VRL254", "error", "'five' is not a whole number", None),
    (f"{A}.rollout.n='5'", "VRL254", "error", "write 5", ("set", 5)),
    (f"{A}.rollout.n=1.5", "VRL254", "error", "1.5 is not a whole number", None),
    ("data.train_batch_size=1e3", "VRL254", "warning", "write data.train_batch_size=1000", ("set", 1000)),
    ("trainer.balance_batch=yes", "VRL254", "error", "counts as true whatever it says", ("set", True)),
    ("trainer.val_before_train='False'", "VRL254", "error", "write false", ("set", False)),
    (f"{A}.actor.optim.lr=null", "VRL254", "error", "null is not a number", None),
    (f"{A}.actor=5", "VRL254", "error", "a section with keys of its own", None),
    # choices
    ("algorithm.adv_estimator=grop", "VRL255", "error", "did you mean 'grpo'?", ("set", "grpo")),
    (f"{A}.rollout.name=vlm", "VRL255", "error", "did you mean 'vllm'?", ("set", "vllm")),
    (f"{A}.rollout.name=my_engine", "VRL255", "warning", "one of: vllm, sglang, trtllm", None),
    (f"{A}.rollout.mode=sync", "VRL255", "error", "was removed in 0.7; write async", ("set", "async")),
    (f"{A}.rollout.load_format=dummy_dtensor", "VRL255", "error", "was removed in 0.6; write dummy", ("set", "dummy")),
    ("reward.reward_manager.name=MyManager", "VRL255", "warning", "one of: naive", None),
    (f"{A}.actor.loss_agg_mode=token_mean", "VRL255", "error", "token-mean", ("set", "token-mean")),
    ("trainer.logger=[console,wandbb]", "VRL255", "error", "'wandbb'", None),
    # ranges
    ("data.train_batch_size=0", "VRL256", "error", "is at least 1", None),
    (f"{A}.rollout.gpu_memory_utilization=1.7", "VRL256", "error", "1.7 is out of range", None),
    (f"{A}.rollout.n=0", "VRL256", "error", "at least 1", None),
    ("trainer.total_epochs=0", "VRL256", "error", "at least 1", None),
    (f"{A}.actor.optim.lr=1e6", "VRL257", "warning", "1e6 is legal, but hardly meant", None),
    # nothing
    ("trainer.nnodes=", "VRL258", "error", "an empty text", None),
    ("trainer.project_name=", "VRL258", "warning", "leave the key out", None),
]


@pytest.mark.parametrize(("override", "code", "severity", "text", "fix"), WRONG)
def test_wrong_setting(
    run_of: RunOf, override: str, code: str, severity: str, text: str, fix: tuple[str, Any] | None
) -> None:
    problem = next(problem for problem in found(run_of(override)) if problem.code == code)
    assert problem.severity == severity
    assert text in problem.sentence
    assert (problem.file, problem.line) == ("run.sh", 10)
    assert (problem.fix and (problem.fix.action, problem.fix.to)) == fix
    if fix:
        assert problem.fix is not None
        assert problem.fix.place.line == 10
        assert problem.fix.old


RIGHT = [
    f"+{A}.rollout.engine_kwargs.vllm.seed=1",
    f"++{A}.rollout.engine_kwargs.vllm.no_enable_prefix_caching=True",
    f"+{A}.model.override_config.attn_implementation=sdpa",
    f"+{A}.rollout.limit_images=2",
    "+data.seed=1",  # null by default, so that adding is legal
    f"++{A}.rollout.temperature=0.9",
    "+ray_kwargs.ray_init.address=auto",
    "+data.apply_chat_template_kwargs={enable_thinking: False}",
    "+trainer.my_own_flag=1",
    "+my.own.key=1",
    "~actor_rollout_ref.rollout.val_kwargs.n",
    "model_engine=dp",
    "hydra.run.dir=/tmp/x",
    "hydra/job_logging=disabled",
    "trainer.logger=console",
    "trainer.logger=[console,tensorboard]",
    "data.train_files=[/a.parquet,/b.parquet]",
    "trainer.total_training_steps=null",
    "trainer.default_local_dir=/x/${trainer.project_name}",
    f"{A}.actor.optim.lr=1",  # caught as hardly meant, see below
    f"{A}.actor.clip_ratio_high=0.28",
    "trainer.balance_batch=1",
    "data.train_files.0=/a.parquet",
    "+distillation.teacher_models.mine.model_path=x",
]


@pytest.mark.parametrize("override", RIGHT)
def test_right_setting_is_silent(run_of: RunOf, override: str) -> None:
    assert [problem.code for problem in found(run_of(override))] in ([], ["VRL257"] if "lr=1" in override else [])


def test_key_is_pointed_at_for_a_wrong_name_and_value_for_a_wrong_value(run_of: RunOf) -> None:
    assert only(run_of("trainer.n_gpu_per_node=8")).column == 3
    assert only(run_of("trainer.nnodes=two")).column == 3 + len("trainer.nnodes=")


def test_what_is_unknown_until_the_run_is_not_judged(run_of: RunOf) -> None:
    run = run_of()
    setting = Setting("trainer.nnodes", UNKNOWN, run.place, run.place, reason="$N")
    assert not found(VerlRun("script", run.tree, (*run.settings, setting), run.place))


def test_only_the_value_that_holds_is_judged(run_of: RunOf) -> None:
    problems = found(run_of("trainer.nnodes=two", "trainer.nnodes=2"))
    assert [(problem.code, problem.line) for problem in problems] == [("VRL325", 10)]
    assert "line 11 sets it to 2" in problems[0].message
    assert [related.place.line for related in problems[0].related] == [11]


def test_the_same_value_twice_is_no_matter(run_of: RunOf) -> None:
    assert not found(run_of("trainer.nnodes=2", "trainer.nnodes=2"))


def test_adding_twice_is_refused_as_hydra_does(run_of: RunOf) -> None:
    problems = found(run_of("+my.key=1", "+my.key=1"))
    assert [(problem.code, problem.line, problem.fix and problem.fix.to) for problem in problems] == [
        ("VRL250", 11, "++")
    ]


def test_a_key_that_was_added_before_may_be_set(run_of: RunOf) -> None:
    assert not found(run_of("+my.key=1", "~my.key", "+my.key=1"))
    assert not found(run_of(f"+{A}.rollout.engine_kwargs.vllm={{seed: 1}}", f"{A}.rollout.engine_kwargs.vllm.seed=1"))


def test_mandatory_key_is_missed_at_the_launch(run_of: RunOf) -> None:
    problem = only(run_of(bare=True))
    assert (problem.code, problem.severity, problem.line) == ("VRL261", "error", 1)
    assert f"add {A}.rollout.name=vllm" in problem.sentence
    assert only(run_of(bare=True, takes_arguments=True)).severity == "warning"
    assert not found(run_of(bare=True, version="0.5.0"))


def test_reward_models_engine_is_mandatory_only_when_there_is_one(run_of: RunOf) -> None:
    problem = only(run_of("reward.reward_model.enable=True"))
    assert problem.path == "reward.reward_model.rollout.name"


def test_legacy_reward_keys_are_fine_before_they_are_ignored(run_of: RunOf) -> None:
    assert not found(run_of("reward_model.reward_manager=dapo", version="0.6.1"))
    assert not found(run_of("custom_reward_function.path=r.py", version="0.8.0"))


def test_a_fix_does_not_write_a_key_that_is_set_already(run_of: RunOf) -> None:
    problem = only(run_of("custom_reward_function.path=r.py", "reward.custom_reward_function.path=r.py"))
    assert problem.fix is None
    removal = only(run_of(f"{A}.actor.lr=1e-6", f"{A}.actor.optim.lr=1e-6"))
    assert (removal.fix and removal.fix.action) == "remove"


def test_model_engine_is_new_in_0_8(run_of: RunOf) -> None:
    problem = only(run_of("model_engine=megatron", version="0.6.1"))
    assert problem.code == "VRL260"
    assert "--config-name=ppo_megatron_trainer" in problem.sentence


def test_keys_of_another_engine_are_one_problem(run_of: RunOf) -> None:
    keys = [f"{A}.actor.megatron.{name}=2" for name in ("tensor_model_parallel_size", "pipeline_model_parallel_size")]
    problem = only(run_of(f"{A}.actor.strategy=megatron", *keys))
    assert (problem.code, problem.line) == ("VRL262", 10)
    assert "2 more keys of that engine" in problem.message
    assert [related.place.line for related in problem.related] == [11, 12]
    assert not found(run_of(f"{A}.actor.strategy=megatron", *keys, "model_engine=megatron", engine="megatron"))


def test_loras_scale_does_not_matter_without_lora(run_of: RunOf) -> None:
    assert not found(run_of(f"{A}.model.lora_alpha=0"))
    assert only(run_of(f"{A}.model.lora_alpha=0", f"{A}.model.lora_rank=8")).code == "VRL256"
    run = run_of(f"{A}.model.lora_alpha=0")
    rank = Setting(f"{A}.model.lora_rank", UNKNOWN, run.place, run.place)
    assert not found(VerlRun("script", run.tree, (*run.settings, rank), run.place))


def test_a_generation_server_reads_keys_beside_its_yaml(run_of: RunOf) -> None:
    run = run_of("+data.output_path=x")
    assert [problem.code for problem in found(run)] == ["VRL263"]
    assert not found(VerlRun("script", run.tree, run.settings, run.place, entry="generation_server"))


def test_key_of_a_newer_version_names_it(run_of: RunOf) -> None:
    problem = only(run_of("global_profiler.steps=[1]", version="0.5.0"))
    assert problem.code == "VRL263"
    assert "verl 0.6.1 is the first with this key" in problem.message


def test_key_of_another_entry_point_names_it(run_of: RunOf) -> None:
    problem = only(run_of("async_training.require_batches=2"))
    assert "fully_async" in problem.message


def test_a_config_that_was_not_read_may_have_any_key(run_of: RunOf) -> None:
    assert not found(run_of("zzz.qqq=1", "data.max_prompt_lenght=512", bare=True, unseen="the config 'mine'"))
    problem = only(run_of("trainer.val_generations_to_log_to_wandb=1", unseen="the config 'mine'"))
    assert problem.severity == "warning"


def as_hydra(run: VerlRun) -> VerlRun:
    return VerlRun("hydra", run.tree, run.settings, run.place)


def test_in_a_yaml_file_nobody_needs_a_plus_and_unknown_keys_are_silently_lost(run_of: RunOf) -> None:
    assert not found(as_hydra(run_of(f"{A}.rollout.engine_kwargs.vllm.seed=1", "my.own=1")))
    problem = only(as_hydra(run_of("data.max_prompt_lenght=512")))
    assert (problem.code, problem.severity) == ("VRL240", "error")
    assert "nothing reads it" in problem.message


def test_a_key_inside_a_mapping_has_no_fix_of_its_own(run_of: RunOf) -> None:
    problem = only(run_of("trainer={n_gpu_per_node: 8}"))
    assert (problem.code, problem.fix) == ("VRL240", None)


@pytest.mark.parametrize("override", [override for override, *_ in WRONG if "=" in override])
def test_the_same_key_of_every_version_never_fails(run_of: RunOf, override: str) -> None:
    for version in VERSIONS:
        assert all(problem.message for problem in found(run_of(override, version=version)))


@pytest.mark.parametrize(("code", "text"), KEY_TEXTS.items())
def test_every_code_is_explained_in_the_common_form(code: str, text: str) -> None:
    lines = text.splitlines()
    assert lines[0].startswith(f"{code}: ")
    parts = [line.strip().partition(":")[0] for line in lines[2:] if line[4:5].strip()]
    assert parts == ["Why", "Example", "Instead", "Source"]


def test_every_code_used_above_is_explained() -> None:
    assert {code for _, code, *_ in WRONG} <= set(KEY_TEXTS)


@pytest.mark.parametrize(
    "more",
    [
        (f"{A}.model.external_lib=my.plugin",),
        ("reward.custom_reward_function.path=reward.py",),
        ("data.custom_cls.path=data.py",),
    ],
)
def test_code_of_the_users_own_may_know_a_name_that_looks_misspelt(run_of: RunOf, more: tuple[str, ...]) -> None:
    problem = of_code("VRL255", run_of("algorithm.adv_estimator=grop", *more))
    assert problem.severity == "warning"
    assert "no known choice" in problem.message


def test_modules_named_in_the_environment_are_such_code(run_of: RunOf) -> None:
    problem = of_code("VRL255", run_of("algorithm.adv_estimator=grop", env={"VERL_USE_EXTERNAL_MODULES": "my.plugin"}))
    assert problem.severity == "warning"


def test_an_old_key_never_leads_to_a_value_that_the_new_one_refuses(run_of: RunOf) -> None:
    problem = only(run_of("reward_model.reward_manager=prime"))
    assert (problem.code, problem.severity, problem.fix) == ("VRL227", "error", None)
    assert problem.suggestion == (
        "write reward.reward_manager.name=NAME, where verl 0.9.1 has: naive, dapo, gdpo, rate_limited, remote"
    )
    kept = only(run_of("reward_model.reward_manager=dapo"))
    assert kept.suggestion == "write reward.reward_manager.name=dapo"
    assert kept.fix is not None


def test_a_long_number_is_shortened(run_of: RunOf) -> None:
    problem = of_code("VRL257", run_of(f"{A}.rollout.n={'1' * 500}"))
    assert len(problem.message) < 100


def test_thousands_of_unknown_keys_take_one_index_of_names(run_of: RunOf) -> None:
    from verlcli.config.verl.near_keys import _of_tree

    _of_tree.cache_clear()
    problems = found(run_of(*(f"trainer.nnode_{number}=1" for number in range(50))))
    assert len(problems) == 50
    assert _of_tree.cache_info().misses == 1


def test_a_reward_manager_of_ones_own_has_any_name(run_of: RunOf) -> None:
    own = ("reward.reward_manager.source=importlib", "reward.reward_manager.name=MyManager")
    assert not found(run_of(*own))


def test_batches_of_nothing_are_for_fully_async_alone(run_of: RunOf) -> None:
    assert not found(run_of("data.train_batch_size=0", entry="fully_async"))
    assert only(run_of("data.train_batch_size=0", entry="one_step_off")).code == "VRL256"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (f"{A}.actor.kl_loss_weight", f"{A}.actor.kl_loss_coef"),
        (f"{A}.actor.learning_rate", f"{A}.actor.optim.lr"),
        (f"{A}.rollout.num_return_sequences", f"{A}.rollout.n"),
        ("trainer.n_gpus", "trainer.n_gpus_per_node"),
    ],
)
def test_names_from_elsewhere(run_of: RunOf, written: str, meant: str) -> None:
    run = run_of(f"{written}=8")
    problem = next(problem for problem in found(run) if problem.path == written)
    assert problem.code == "VRL240"
    advice = f"remove it: {meant} is set already" if run.is_set(meant) else f"did you mean {meant}?"
    assert problem.suggestion == advice


@pytest.mark.parametrize(
    ("overrides", "advice", "to"),
    [
        (("algorithm.use_kl_in_reward=True",), "did you mean algorithm.kl_ctrl.kl_coef?", "algorithm.kl_ctrl.kl_coef"),
        ((f"{A}.actor.use_kl_loss=True",), f"did you mean {A}.actor.kl_loss_coef?", f"{A}.actor.kl_loss_coef"),
        ((), "algorithm.kl_ctrl.kl_coef for a KL in the reward", None),
        (("algorithm.use_kl_in_reward=True", f"{A}.actor.use_kl_loss=True"), "for one in the loss", None),
    ],
)
def test_a_kl_coefficient_goes_where_the_kl_does(
    run_of: RunOf, overrides: tuple[str, ...], advice: str, to: str | None
) -> None:
    problem = only(run_of(*overrides, "algorithm.kl_coef=0.01"))
    assert advice in (problem.suggestion or "")
    assert (problem.fix and problem.fix.to) == to
