"""Explanation of each code about how a launch is written: the command line, its program, its options."""

from __future__ import annotations

LAUNCH_TEXTS = {
    "VRL325": """VRL325: the same key stands twice on one command line, with different values.

    Why: Hydra takes the last one without a word. Whoever changes the first one later wonders why nothing happens.
    Example: trainer.nnodes=1 ... trainer.nnodes=2
    Instead: one of the two
    Source: Hydra 1.3, config_loader_impl.py
    """,
    "VRL329": """VRL329: the file is a part of a config.

    Why: it sets neither the model nor the data, so that other files or the command line must. Its keys and values are
        checked, and how they fit together; nothing is said about what it leaves out.
    Example: a YAML file with a few keys below actor_rollout_ref, chosen by +experiment=my_file
    Instead: for the whole launch, check the script that starts it
    Source: -
    """,
    "VRL330": """VRL330: nothing in the script starts a trainer of verl.

    Why: there is no launch to check. The command may stand in another script, or behind something that only a run can
        tell.
    Example: a script that only calls another one
    Instead: check the script that holds python3 -m verl.trainer.main_ppo
    Source: -
    """,
    "VRL331": """VRL331: the launch starts a fork of verl, or another trainer.

    Why: its keys are its own. They cannot be checked by verl's.
    Example: python3 -m verl.trainer.main config=examples/config.yaml (EasyR1)
    Instead: for verl, python3 -m verl.trainer.main_ppo with verl's keys
    Source: the forks' repositories
    """,
    "VRL332": """VRL332: this version of verl does not have the program that is started.

    Why: recipes moved to a repository of their own with 0.7, and entry points were merged. A slip in the name, a .py
        behind -m or a missing -m do the same: python stops with "No module named" or "can't open file".
    Example: python3 -m recipe.dapo.main_dapo with verl 0.9
    Instead: name the version that the script is for: --verl-version 0.6.1
    Source: verl's release tags
    """,
    "VRL333": """VRL333: Hydra cannot read an override.

    Why: a value with quotes, brackets, an equals sign or other special characters needs quotes for Hydra, inside those
        for the shell. Hydra stops with "LexerNoViableAltException" or "mismatched input" before anything is loaded.
    Example: data.train_files=~/data/train.parquet
    Instead: data.train_files=$HOME/data/train.parquet
    Source: Hydra 1.3, override grammar
    """,
    "VRL334": """VRL334: several values stand where one is expected.

    Why: to Hydra a comma outside brackets and quotes means one run for each value. Without --multirun it stops with
        "Ambiguous value for argument".
    Example: trainer.logger=console,wandb
    Instead: 'trainer.logger=[console,wandb]'
    Source: Hydra 1.3, config_loader_impl.py
    """,
    "VRL335": """VRL335: a word of the launch is neither an override nor an option of Hydra.

    Why: Hydra stops with "unrecognized arguments", or with an error about the override.
    Example: --trainer.nnodes=2, or a key without a value
    Instead: trainer.nnodes=2
    Source: Hydra 1.3, hydra/_internal/utils.py
    """,
    "VRL336": """VRL336: overrides stand behind an option that comes after other overrides.

    Why: Python's argument parser takes one run of overrides. Those behind the option are "unrecognized arguments".
    Example: trainer.nnodes=2 --config-name=ppo_trainer trainer.total_epochs=1
    Instead: options first, then all overrides
    Source: Python's argparse; hydra/_internal/utils.py
    """,
    "VRL337": """VRL337: the launch takes a config that is not verl's own and is not here.

    Why: it may bring keys and change defaults. Keys that it may have are not reported, and rules that need a default
        are not checked. With a relative --config-path Hydra looks in the folder of the program that is started.
    Example: --config-name=my_trainer
    Instead: check on the machine that has the file, or check the file itself
    Source: Hydra 1.3, command line flags
    """,
    "VRL338": """VRL338: the program is not verl's own, but takes verl's keys.

    Why: it is checked as verl.trainer.main_ppo. What it does in other ways is not known.
    Example: python3 my_project/main.py actor_rollout_ref.model.path=...
    Instead: nothing, if the program hands the keys on to verl
    Source: -
    """,
    "VRL339": """VRL339: a launcher starts one trainer for each GPU.

    Why: main_ppo starts once and lets Ray start a worker for each GPU. Behind torchrun, accelerate or deepspeed every
        copy wants a Ray cluster and all GPUs for itself: they wait for each other, or run out of memory. The SFT
        trainers are the ones for torchrun.
    Example: torchrun --nproc_per_node=8 -m verl.trainer.main_ppo
    Instead: python3 -m verl.trainer.main_ppo
    Source: verl/trainer/main_ppo.py
    """,
}
