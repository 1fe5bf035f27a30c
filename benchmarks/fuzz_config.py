"""Coverage-guided fuzzing of everything that reads a config: no input may raise anything but `ConfigError`.

    python -m venv fuzz-venv
    fuzz-venv/bin/pip install atheris pyyaml jsonschema packaging tree-sitter tree-sitter-bash
    PYTHONPATH=. fuzz-venv/bin/python benchmarks/fuzz_config.py CORPUS_DIR [--target text|config|script|hydra|all] \
        [-runs=100000] [-max_len=2000]

atheris is no dependency of the package. CORPUS_DIR is filled with presets and scripts the first time; what it finds to
reach new code is added there. Arguments with one dash go to libFuzzer. Each distinct crash (by exception and line)
is printed once and its input written to ./finds; the run goes on. Keep it as a case of tests/config/test_fuzz_finds.py.

Targets: text of one value; a config file, a launch script or a YAML of verl's own, each with overrides after a line
`%%`. With `all` an input's first byte chooses.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["verlcli", "jsonschema"]):
    import verlcli.config
    from verlcli.config import load_config
    from verlcli.config.check_file import check_file
    from verlcli.config.loader import load_document, load_text
    from verlcli.config.problems import Problem
    from verlcli.errors import ConfigError

    for module in pkgutil.walk_packages(verlcli.config.__path__, "verlcli.config."):
        importlib.import_module(module.name)  # also what is imported on first use, so that its branches count

ROOT = Path(__file__).parents[1]
FILE = Path(tempfile.mkdtemp()) / "config.yaml"
SCRIPT = FILE.with_name("run.sh")
BETWEEN = b"\n%%\n"
OVERRIDES = ("rollout.n=4", "~actor.optim.lr", "data.train_files.0=x", "verl={a: [1]}", "trainer.seed=[")
HYDRA_OVERRIDES = ("+trainer.x=[1,{a: b}]", "~data.seed", "data.train_files='a.parquet'", "a@b=c", "++x.y=$z", "a=(")
HYDRA = """defaults: [ppo_trainer, _self_]
data: {train_files: [~/a.parquet], max_prompt_length: 512, train_batch_size: 64}
actor_rollout_ref:
  model: {path: Qwen/Qwen3-8B, lora_rank: 8, target_modules: all-linear}
  actor: {ppo_mini_batch_size: 16, optim: {lr: 1e-6}, fsdp_config: {param_offload: true}}
  rollout: {name: vllm, n: 4, load_format: safetensors, tensor_model_parallel_size: 2}
algorithm: {adv_estimator: grpo, kl_ctrl: {kl_coef: 0.001}}
trainer: {n_gpus_per_node: 8, nnodes: 1, logger: [console], total_epochs: ${oc.env:EPOCHS,1}}
"""


def text(data: bytes) -> None:
    """One YAML value, as after `-o KEY=`."""
    load_text(data.decode("utf-8", "replace"), "t")


def config(data: bytes) -> None:
    """A file, and overrides one a line after `%%`."""
    body, overrides = _divided(data)
    FILE.write_bytes(body)
    load_document(FILE)
    loaded = load_config([FILE], overrides, env={})
    printed(loaded.problems)
    loaded.to_yaml()
    if loaded.ok:
        loaded.require()


def script(data: bytes) -> None:
    """A launch script, and Hydra overrides after `%%`."""
    body, overrides = _divided(data)
    SCRIPT.write_bytes(body)
    printed(check_file(str(SCRIPT), overrides))


def hydra(data: bytes) -> None:
    """A YAML that may be verl's own, and Hydra overrides after `%%`."""
    body, overrides = _divided(data)
    FILE.write_bytes(body)
    printed(check_file(str(FILE), overrides))


def _divided(data: bytes) -> tuple[bytes, list[str]]:
    body, _, rest = data.partition(BETWEEN)
    return body, rest.decode("utf-8", "replace").splitlines()[:8]


def printed(problems: Iterable[Problem]) -> None:
    """What is said must be printable."""
    for problem in problems:
        str(problem)
        problem.to_json()


TARGETS: dict[str, Callable[[bytes], None]] = {"text": text, "config": config, "script": script, "hydra": hydra}


def one_input(data: bytes, target: str) -> None:
    """What libFuzzer calls; a refusal is a right answer."""
    if target == "all":
        names = list(TARGETS)
        target, data = names[data[0] % len(names)] if data else "text", data[1:]
    try:
        TARGETS[target](data)
    except ConfigError as error:
        str(error)  # must be printable, too
    except Exception as error:
        keep(error, data, target)


def keep(error: Exception, data: bytes, target: str) -> None:
    """Write the first input of each distinct crash to ./finds."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file = Path("finds") / f"{target}-{type(error).__name__}-{Path(frame.filename).stem}-{frame.lineno}"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
        traceback.print_exception(error)


def seeds(target: str) -> dict[str, bytes]:
    """What a target starts from, by name: the presets, the launch scripts of the tests, a YAML of verl's own."""
    if target == "script":
        return {path.stem: path.read_bytes() for path in sorted((ROOT / "tests/data/verl_launches").glob("*.sh"))}
    if target == "hydra":
        return {"hydra": HYDRA.encode()}
    return {path.stem: path.read_bytes() for path in sorted((ROOT / "presets").glob("*.yaml"))}


def seed(folder: Path, target: str) -> None:
    """Write the first inputs, alone and with overrides."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(TARGETS)
    for each in names if target == "all" else [target]:
        prefix = bytes([names.index(each)]) if target == "all" else b""
        overrides = "\n".join(HYDRA_OVERRIDES if each in ("script", "hydra") else OVERRIDES).encode()
        for name, body in seeds(each).items():
            (folder / f"{each}-{name}").write_bytes(prefix + body)
            (folder / f"{each}-{name}-overrides").write_bytes(prefix + body + BETWEEN + overrides)


def main() -> None:
    """Fuzz until `-runs` are done."""
    target = "all"
    if "--target" in sys.argv:
        at = sys.argv.index("--target")
        target = sys.argv[at + 1]
        del sys.argv[at : at + 2]
    folder = next((Path(word) for word in sys.argv[1:] if not word.startswith("-")), None)
    if folder is not None and not (folder.is_dir() and os.listdir(folder)):
        seed(folder, target)
    atheris.Setup(sys.argv, lambda data: one_input(data, target))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
