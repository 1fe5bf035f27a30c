"""`verl data check` and `verl data convert` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from verlcli.cli.data import data_app
from verlcli.engine.data import load_rows
from verlcli.resources import load_schema

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "data.schema.json").read_text())
GSM8K = [
    {"question": "Two and two?", "answer": "2+2=<<2+2=4>>4\n#### 4"},
    {"question": "A large sum?", "answer": "It is\n#### 1,234"},
]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(data_app, [str(argument) for argument in arguments])


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in rows))
    return path


def verl_row(text: str, truth: object = "1", **more: Any) -> dict[str, Any]:
    return {"prompt": text, "data_source": "x", "reward_model": {"ground_truth": truth}, **more}


def checked(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    result = run("check", "--json", *arguments)
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    return result.exit_code, document


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet", ".arrow", ".feather"])
def test_gsm8k_becomes_verls_rows_in_every_format(tmp_path: Path, suffix: str) -> None:
    source, target = write(tmp_path / "train.jsonl", GSM8K), tmp_path / "new" / f"out{suffix}"
    result = run("convert", source, target, "--json")
    assert json.loads(result.stdout) == {"schema_version": 1, "ok": True, "rows": 2, "output": str(target)}
    jsonschema.validate(json.loads(result.stdout), SCHEMA)
    first, second = (load_rows([str(target)])[index] for index in range(2))
    message = first.prompt[0]
    assert isinstance(message, dict)
    assert message["role"] == "user"
    assert message["content"].startswith("Two and two? ")
    assert "#### <number>" in message["content"]
    assert (first.data_source, first.ground_truth, second.ground_truth) == ("openai/gsm8k", "4", "1234")
    assert second.extra_info == {"split": "train", "index": 1, **GSM8K[1]}
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_verls_rows_survive_a_round_through_all_formats(tmp_path: Path) -> None:
    rows = [
        verl_row("a", 3, extra_info={"n": 1}, ability="math"),
        verl_row("b", "x", extra_info={"m": [1]}),
        verl_row("c"),
    ]
    last = write(tmp_path / "a.jsonl", rows)
    before = list(load_rows([str(last)]))  # type: ignore[call-overload]
    for name in ("b.parquet", "c.arrow", "d.json", "e.feather", "f.jsonl"):
        assert run("convert", last, tmp_path / name).exit_code == 0
        last = tmp_path / name
    after = list(load_rows([str(last)]))  # type: ignore[call-overload]
    assert [(row.prompt, row.ground_truth) for row in after] == [(row.prompt, row.ground_truth) for row in before]
    # Arrow has one type for a column: fields that a row lacks come back as null.
    assert [{k: v for k, v in row.extra_info.items() if v is not None} for row in after] == [{"n": 1}, {"m": [1]}, {}]
    assert json.loads(last.read_text().splitlines()[0])["ability"] == "math"


def test_half_a_character_in_a_free_column_is_kept_in_json_and_refused_by_arrow(tmp_path: Path) -> None:
    source = write(tmp_path / "a.jsonl", [verl_row("a", note="x\ud800")])
    assert run("convert", source, tmp_path / "b.jsonl").exit_code == 0
    assert json.loads((tmp_path / "b.jsonl").read_text())["note"] == "x\ud800"
    result = run("convert", source, tmp_path / "b.parquet")
    assert (result.exit_code, "do not fit one table" in result.stderr) == (2, True)


def test_check_loads_no_torch(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [verl_row("a")])
    code = "import sys; from verlcli.cli.data import data_app; data_app(standalone_mode=False)"
    code += "; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "check", str(file)], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_the_prompts_column_is_renamed(tmp_path: Path) -> None:
    row = verl_row("a")
    row["text"] = row.pop("prompt")
    run("convert", write(tmp_path / "a.jsonl", [row]), tmp_path / "b.parquet", "--prompt-key", "text")
    assert pq.read_schema(tmp_path / "b.parquet").names == ["prompt", "data_source", "reward_model", "extra_info"]


def test_an_existing_target_is_kept_without_force(tmp_path: Path) -> None:
    source, target = write(tmp_path / "a.jsonl", GSM8K), write(tmp_path / "b.jsonl", ["mine"])
    result = run("convert", source, target)
    assert (result.exit_code, target.read_text()) == (2, "mine\n")
    assert "--force" in result.stderr
    assert run("convert", source, target, "--force").exit_code == 0
    assert len(load_rows([str(target)])) == 2


@pytest.mark.parametrize(
    ("rows", "target", "message"),
    [
        ([*GSM8K, {"question": "q", "answer": "4"}], "b.jsonl", "a.jsonl:3: answer does not end in `#### NUMBER`"),
        ([*GSM8K, {"question": "q"}], "b.jsonl", "a.jsonl:3: has no text in question or answer"),
        ([*GSM8K, "{broken"], "b.parquet", "a.jsonl:3: is not JSON"),
        ([verl_row("a"), verl_row("")], "b.arrow", "a.jsonl:2: prompt is empty text"),
        ([verl_row("a")], "b.txt", "unknown data format .txt"),
        ([], "b.jsonl", "a.jsonl: has no rows"),
        (
            [verl_row("a", extra_info={"k": 1}), verl_row("b", extra_info={"k": "x"})],
            "b.parquet",
            "do not fit one table",
        ),
    ],
)
def test_what_cannot_be_converted_leaves_nothing_behind(
    tmp_path: Path, rows: list[Any], target: str, message: str
) -> None:
    result = run("convert", write(tmp_path / "a.jsonl", rows), tmp_path / target)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "fix:" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_check_counts_what_is_in_the_files(tmp_path: Path) -> None:
    first = write(tmp_path / "a.jsonl", [verl_row("x" * length) for length in range(1, 101)])
    second = write(tmp_path / "b.jsonl", [{**verl_row("x"), "data_source": "y"}])
    code, document = checked(first, second)
    assert (code, document["ok"], document["rows"]) == (0, True, 101)
    assert document["files"][0] == {
        "file": str(first),
        "rows": 100,
        "columns": ["prompt", "data_source", "reward_model"],
    }
    assert document["data_sources"] == {"x": 100, "y": 1}
    assert document["prompt_length"] == {"unit": "characters", "min": 1, "p50": 50, "p90": 90, "p99": 99, "max": 100}
    assert document["duplicates"] == {"count": 1, "first": [{"where": f"{second}:1", "same_as": f"{first}:1"}]}


def test_check_lists_the_first_20_bad_rows_and_counts_all(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [verl_row("a"), "{broken", *[verl_row("")] * 28])
    code, document = checked(file)
    assert (code, document["ok"], document["bad_rows"]["count"], len(document["bad_rows"]["first"])) == (
        1,
        False,
        29,
        20,
    )
    assert document["bad_rows"]["first"][0]["where"] == f"{file}:2"
    text = run("check", file).stdout
    assert "and 9 more" in text
    assert "1 of 30 rows are good" in text


def test_check_of_nothing_answers_no_and_of_an_unreadable_file_is_a_usage_error(tmp_path: Path) -> None:
    code, document = checked(write(tmp_path / "a.jsonl", []))
    assert (code, document["rows"], document["prompt_length"]) == (1, 0, None)
    for name, message in (("none.jsonl", "no such file"), ("none", "no such file"), ("", "is a directory")):
        result = run("check", tmp_path / name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
    document = json.loads(run("check", tmp_path / "none", "--json").stdout)
    jsonschema.validate(document, load_schema("error"))
    assert document["error"]["message"] == "no such file"


def test_check_counts_tokens_with_a_models_tokenizer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(WordLevel({"<unk>": 0, "</s>": 1}, unk_token="<unk>"))
    inner.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", eos_token="</s>").save_pretrained(tmp_path / "m")
    _, document = checked(write(tmp_path / "a.jsonl", [verl_row("one two three")]), "--tokenizer", tmp_path / "m")
    assert (document["prompt_length"]["unit"], document["prompt_length"]["max"]) == ("tokens", 3)
