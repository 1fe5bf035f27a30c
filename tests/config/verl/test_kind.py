"""What a file is; well-known files of other programs are refused in one line."""

from __future__ import annotations

import pytest

from verlcli.config.check_file import check_file
from verlcli.config.verl.kind import kind_of
from verlcli.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("apiVersion: ray.io/v1\nkind: RayJob\nspec:\n  entrypoint: python3 -m verl.trainer.main_ppo\n", "Kubernetes"),
        ('working_dir: ./\nexcludes: ["/.git/"]\nenv_vars:\n  A: "1"\n', "a Ray runtime environment"),
        ("env_vars:\n  NCCL_DEBUG: WARN\n", "a Ray runtime environment"),
        ("program: train.py\nmethod: grid\nparameters:\n  lr: {values: [1, 2]}\n", "a sweep of Weights & Biases"),
        ("services:\n  verl:\n    image: verl\n", "a file for Docker Compose"),
    ],
)
def test_files_of_other_programs_are_refused_in_one_line(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=f"{what}.*no config of verlcli or verl") as refusal:
        kind_of("x.yaml", text)
    assert "`verl init`" in str(refusal.value)


def test_the_whole_check_stops_there(tmp_path: object) -> None:
    file = f"{tmp_path}/job.yaml"
    with open(file, "w", encoding="utf-8") as stream:
        stream.write("apiVersion: v1\nkind: Pod\nspec: {}\n")
    with pytest.raises(ConfigError, match=f"{file}: a Kubernetes manifest"):
        check_file(file)


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.yaml", "training: {ppo_epochs: 1}\nenv_vars: {A: 1}\n", "ours"),
        ("a.yaml", "trainer:\n  nnodes: 1\nworking_dir: x\n", "hydra"),
        ("a.yaml", "actor_rollout_ref.rollout.n: 8\n", "hydra"),
        ("a.yaml", "some: {thing: 1}\n", "ours"),
        ("a.sh", "cat > env.yaml <<E\nworking_dir: ./\nE\n", "script"),
    ],
)
def test_one_key_of_verl_or_ours_is_enough(name: str, text: str, kind: str) -> None:
    assert kind_of(name, text) == kind
