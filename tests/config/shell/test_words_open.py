"""Words that bash does not expand to what they look like, and words that only a run can tell."""

from __future__ import annotations

import pytest

from verlcli.config.shell import Place, ShellFinding, read_script
from verlcli.config.shell.parts import shown


def words(text: str) -> list[list[str]]:
    return [[shown(word.parts) for word in launch.words[1:]] for launch in read_script(text).launches]


def found(text: str) -> list[tuple[str, str, Place]]:
    return [(each.kind, each.severity, each.place) for each in read_script(text).findings]


def one(text: str) -> ShellFinding:
    (finding,) = read_script(text).findings
    return finding


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('python3 m "a=/c/${b.c}"', Place(1, 17)),
        ("python3 m a=/c/${b.c}", Place(1, 16)),
        ("python3 m \\\n  x=1 \\\n  a=${..c}", Place(3, 5)),
        ('D="/c/${oc.env:HOME}"\npython3 m a=$D', Place(1, 7)),
    ],
)
def test_a_reference_of_hydra_is_a_bad_substitution(text: str, place: Place) -> None:
    assert found(text) == [("bad_substitution", "error", place)]
    assert "single quotes" in (one(text).suggestion or "")


def test_a_reference_of_hydra_in_single_quotes_is_its_own_business() -> None:
    assert found("python3 m 'a=/c/${b.c}' b=${X:-1}") == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("python3 m a=1 $(cat args.txt)", "$(cat args.txt)"),
        ('mapfile -t A < args.txt\npython3 m a=1 "${A[@]}"', "$A"),
        ("cat x | xargs python3 m", "what xargs reads"),
    ],
)
def test_open_words_may_be_any(text: str, named: str) -> None:
    finding = one(text)
    assert (finding.kind, finding.severity) == ("open_words", "note")
    assert finding.message.startswith(f"the words of {named} are not known here")
    assert read_script(text).launches[0].takes_arguments


@pytest.mark.parametrize("text", ["python3 m a=$(date)", 'python3 m --home "$HOME"', "python3 m a=$SLURM_NNODES"])
def test_an_open_value_is_no_open_word(text: str) -> None:
    assert found(text) == []
    assert not read_script(text).launches[0].takes_arguments


def test_a_brace_expansion_beyond_the_limit_is_open() -> None:
    assert words("for i in {1..10000000}; do python3 m seed=$i; done") == [["m", "seed=$(...)"]]


def test_an_array_without_its_items_is_the_first_alone() -> None:
    text = "args=(a=1 b=2)\npython3 m $args"
    assert words(text) == [["m", "a=1"]]
    assert found(text) == [("first_element", "error", Place(2, 11))]
    assert one(text).suggestion == 'write "${args[@]}" for all of them'
    assert found('args=(a=1)\npython3 m $args "${args[0]}" ${#args[@]}') == []


@pytest.mark.parametrize("line", ["#!/bin/zsh", "#!/usr/bin/env zsh"])
def test_zsh_passes_all_items_and_splits_no_value(line: str) -> None:
    text = f'{line}\nargs=(a=1 b=2)\nX="p q"\npython3 m $args "$args" $args[1] c=$X ${{args[2]}}\n'
    assert words(text)[0][:3] == ["m", "a=1", "b=2"]
    assert words(text)[0][3] == "a=1 b=2"
    assert words(text)[0][-2:] == ["c=p q", "b=2"]
    assert found(text) == []


def test_line_ends_of_windows_are_said_once_and_change_no_word() -> None:
    text = "#!/bin/bash\r\nX=1\r\nif true; then\r\n  python3 m \\\r\n    a=$X \\\r\n    'b=2'\r\nfi\r\n"
    assert words(text) == [["m", "a=1", "b=2"]]
    assert found(text) == [("crlf", "error", Place(1, 12))]
    assert read_script(text).errors == ()


def test_after_an_unread_file_a_variable_may_have_a_value() -> None:
    text = "source .env\npython3 m a=$A b=$((B + 1)) c=${C:-x}"
    assert found(text) == [("sourced", "note", Place(1, 1))]
    assert words(text) == [["m", "a=$A", "b=$B", "c=x"]]
    assert [gap.kind for word in read_script(text).launches[0].words for gap in word.gaps] == ["runtime", "runtime"]
    assert [kind for kind, *_ in found("python3 m a=$A\nsource .env")] == ["unset", "sourced"]


@pytest.mark.parametrize(
    "line",
    [
        "source /opt/conda/etc/profile.d/conda.sh",
        "source venv/bin/activate",
        ". ~/.bashrc",
        "source /usr/local/Ascend/ascend-toolkit/set_env.sh",
        "module load cuda",
        "conda activate verl",
    ],
)
def test_what_sets_up_a_tool_is_not_worth_a_word(line: str) -> None:
    assert found(f"{line}\npython3 m") == []
    assert [kind for kind, *_ in found(f"{line}\npython3 m a=$A")] == ["unset"]


@pytest.mark.parametrize(
    ("line", "prompt"),
    [
        ("$ python3 m a=1", "$"),
        ("% torchrun m a=1", "%"),
        ("> python3 m a=1", ">"),
        ("root@host:~# python3 m a=1", "root@host:~#"),
        ("(verl) me@gpu-1:~/x$ CUDA_VISIBLE_DEVICES=0 python3 m a=1", "(verl) me@gpu-1:~/x$"),
    ],
)
def test_a_pasted_prompt_is_named_and_the_launch_behind_it_read(line: str, prompt: str) -> None:
    assert words(line) == [["m", "a=1"]]
    assert found(line) == [("prompt", "error", Place(1, 1))]
    assert one(line).suggestion == f"remove the leading `{prompt} `"
    assert read_script(line).launches[0].words[1].place.column == line.index(" m ") + 2


def test_prompts_of_continued_lines_and_of_texts() -> None:
    assert words("$ python3 m \\\n> a=1 \\\n> b=2") == [["m", "a=1", "b=2"]]
    assert [kind for kind, *_ in found("$ python3 m \\\n> a=1 \\\n> b=2")] == ["prompt"]
    assert found("cat <<EOF\n$ python3 m\nEOF\n# $ python3 m\npython3 m > log") == []
