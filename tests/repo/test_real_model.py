"""The same command on a pretrained model: SmolLM2-135M-Instruct with LoRA, two steps on the CPU, real data formats."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

VERL = str(Path(sys.executable).with_name("verl"))
SMALL = {
    "trainer.total_steps": 2,
    "data.train_batch_size": 2,
    "data.val_max_samples": 2,
    "data.max_response_length": 16,
    "rollout.n": 4,
    "training.ppo_micro_batch_size_per_gpu": 4,
    "distributed.device": "cpu",
}

pytestmark = pytest.mark.slow


def verl(*arguments: str, cwd: Path) -> str:
    done = subprocess.run([VERL, *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(preset: str, cwd: Path) -> dict[str, Any]:
    """Result document of two small steps of a preset."""
    overrides = [part for key, value in SMALL.items() for part in ("-o", f"{key}={value}")]
    document: dict[str, Any] = json.loads(verl("train", preset, *overrides, "--json", cwd=cwd))
    return document


def answer(folder: Path) -> str:
    """What plain transformers generates with the model in `folder`."""
    code = (
        "import sys; from transformers import pipeline; "
        "chat = [{'role': 'user', 'content': 'What is 2 + 3?'}]; "
        "print(pipeline('text-generation', sys.argv[1])(chat, max_new_tokens=8)[0]['generated_text'][-1]['content'])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    return done.stdout


def test_smollm2_learns_arithmetic_with_lora_for_two_steps(tmp_path: Path) -> None:
    result = train("smollm2-arith", tmp_path)
    assert result["ok"]
    assert result["steps"] == 2
    rows = [json.loads(line) for line in (tmp_path / result["run_dir"] / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if "metrics" in row]
    assert [row["step"] for row in steps] == [1, 2]
    adapter = tmp_path / result["checkpoint"] / "actor" / "adapter_model.safetensors"
    assert adapter.is_file()
    assert answer(tmp_path / result["model"]).strip()


def test_gsm8k_as_published_is_converted_and_trained_on(tmp_path: Path) -> None:
    raw = {"question": "Tom has 3 bags of 24 apples. How many apples is that?", "answer": "3 x 24 = 72\n#### 72"}
    (tmp_path / "raw.jsonl").write_text(
        "".join(json.dumps(raw | {"question": f"{i}. {raw['question']}"}) + "\n" for i in range(4))
    )
    for name in ("train", "test"):
        verl("data", "convert", "raw.jsonl", f"{name}.parquet", "--format", "gsm8k", cwd=tmp_path)
    (tmp_path / "mine.yaml").write_text(
        "extends: gsm8k\n"
        "data: {train_files: train.parquet, val_files: test.parquet}\n"
        "reward: {function: [gsm8k, format]}\n"
    )
    result = train("mine.yaml", tmp_path)
    assert result["steps"] == 2
    assert 0 <= result["eval"]["after"] <= 1
