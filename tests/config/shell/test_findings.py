"""What reading a script warns of."""

from __future__ import annotations

import pytest

from verlcli.config.shell import Place, ShellFinding, read_script


def found(script: str, kind: str) -> list[ShellFinding]:
    return [finding for finding in read_script(script).findings if finding.kind == kind]


def one(script: str, kind: str) -> ShellFinding:
    (finding,) = found(script, kind)
    return finding


def test_variable_without_a_value_is_named_with_its_near_spelling() -> None:
    finding = one("MODEL_PATH=x\npython3 m model.path=$MODEL_PTH", "unset")
    assert finding.place == Place(2, 22)
    assert finding.message == "$MODEL_PTH has no value: `model.path=` gets an empty value"
    assert finding.suggestion == "did you mean $MODEL_PATH?"
    assert finding.severity == "error"


def test_variable_without_a_value_inside_a_longer_word() -> None:
    finding = one("python3 m model.path=$ROOT_FOLDER/qwen", "unset")
    assert finding.message == "$ROOT_FOLDER has no value: the word becomes `model.path=/qwen`"
    assert finding.suggestion is not None
    assert "${ROOT_FOLDER:?set ROOT_FOLDER}" in finding.suggestion


def test_variable_without_a_value_alone_is_left_out() -> None:
    assert "left out" in one("python3 m $EXTRA a=1", "unset").message


def test_variable_without_a_value_behind_another() -> None:
    finding = one("P=$Q\nR=$P\npython3 m a=$R", "unset")
    assert finding.place == Place(1, 3)


def test_variable_without_a_value_in_arithmetic_counts_as_zero() -> None:
    finding = one("BATCH=8\npython3 m a=$((BATHC * 2))", "unset")
    assert finding.message == "$BATHC has no value: it counts as 0"
    assert finding.suggestion == "did you mean $BATCH?"


@pytest.mark.parametrize("word", ["${X:-1}", "$HOME", "$SLURM_JOB_ID", "${X:+y}", "$1", "$(date)"])
def test_words_that_are_no_unset_variable(word: str) -> None:
    assert found(f"python3 m a={word}/z", "unset") == []


def test_division_that_rounds_up_is_meant() -> None:
    assert found("N=5121\nP=2\npython3 m a=$(((N + P - 1) / P))", "arithmetic_zero") == []
    assert one("N=5121\nP=2\npython3 m a=$(((N + P) / P))", "arithmetic_zero").severity == "note"


def test_empty_value() -> None:
    finding = one("KEY=\npython3 m a.b=$KEY c=1", "empty")
    assert (finding.place, finding.severity) == (Place(2, 11), "warning")
    assert "$KEY is set to nothing" in finding.message
    assert one("python3 m a.b= \\\n c.d=1", "empty").severity == "note"


def test_division_that_gives_zero_names_both_numbers() -> None:
    finding = one("A=4\nB=$((A / 8))\npython3 m b=$B", "arithmetic_zero")
    assert (finding.place, finding.severity) == (Place(2, 3), "warning")
    assert finding.message.startswith("4 / 8 is 0 here")


def test_division_that_cuts_off() -> None:
    finding = one("python3 m a=$((-7/2))", "arithmetic_zero")
    assert (finding.severity, finding.message[:14]) == ("note", "-7 / 2 is -3 h")
    assert found("python3 m a=$((8/2)) b=$((7%2))", "arithmetic_zero") == []


def test_division_by_zero() -> None:
    finding = one("N=0\npython3 m a=$((8 / N))", "division_by_zero")
    assert (finding.place, finding.severity) == (Place(2, 13), "error")
    assert found("python3 m a=$((0 ? 1/0 : 2))", "division_by_zero") == []


def test_spaces_behind_a_backslash() -> None:
    finding = one("python3 -m x a.b=1 \\  \n  c.d=2 \\\n  e.f=3\necho done", "continuation")
    assert finding.place == Place(1, 20)
    assert "`c.d=2`, `e.f=3` never reach python; the rest is checked as if they did" in finding.message


def test_comment_between_continued_lines() -> None:
    finding = one("python3 -m x a.b=1 \\\n  # the lr\n  c.d=2\n", "continuation")
    assert (finding.place, finding.severity) == (Place(2, 3), "error")
    assert "`c.d=2` never reaches python" in finding.message


def test_empty_line_between_continued_lines() -> None:
    finding = one("python3 -m x a.b=1 \\\n\n  c.d=2\n", "continuation")
    assert finding.place == Place(2, 1)
    assert "empty line" in finding.message


def test_line_without_its_backslash() -> None:
    finding = one("python3 -m x a.b=1\n  +c.d=2 \\\n  e.f='x y'\n", "missing_continuation")
    assert finding.place == Place(1, 19)
    assert "`+c.d=2`, `e.f='x y'` never reach python" in finding.message


def test_many_lost_words_are_counted() -> None:
    lost = "".join(f"  a.k{number}=1 \\\n" for number in range(10))
    assert "and 4 more words never reach python" in one(f"python3 -m x\n{lost}", "missing_continuation").message


@pytest.mark.parametrize(
    "script",
    [
        "python3 -m x a.b=1 \\\n  c.d=2 \\\n\necho done",
        "python3 -m x a.b=1 \\\n",
        "python3 -m x a.b=1\nLR=1\npython3 -m y",
        "python3 -m x a.b=1 # c.d=2\n",
        "python3 -m x 'a \\ '\n",
    ],
)
def test_launches_that_end_where_they_should(script: str) -> None:
    assert found(script, "continuation") + found(script, "missing_continuation") == []


def test_spaces_around_the_sign_of_an_assignment() -> None:
    finding = one("LR = 1e-6\npython3 m", "spaces_around_equals")
    assert (finding.place, finding.suggestion) == (Place(1, 1), "write LR=1e-6")


@pytest.mark.parametrize("words", ["a.b = 5", "a.b= 5", "a.b =5"])
def test_spaces_around_the_sign_of_an_override(words: str) -> None:
    finding = one(f"python3 -m x {words}", "spaces_around_equals")
    assert finding.suggestion == "write a.b=5 without spaces"
    assert found("python3 -m x a.b= c.d=1 --x", "spaces_around_equals") == []


def test_status_behind_tee() -> None:
    assert one("python3 -m x | tee log", "tee_hides_status").severity == "note"
    assert one("set -e\npython3 -m x | tee log", "tee_hides_status").severity == "warning"
    assert one("python3 -m x | tee log && echo ok", "tee_hides_status").severity == "warning"
    assert found("set -o pipefail\npython3 -m x | tee log", "tee_hides_status") == []
    assert found("set -euo pipefail\npython3 -m x | tee log", "tee_hides_status") == []


def test_list_without_quotes_around_it() -> None:
    finding = one("python3 -m x trainer.logger=['console','wandb']", "unquoted_list")
    assert (finding.place, finding.severity) == (Place(1, 14), "note")
    assert finding.message.endswith("verl receives `trainer.logger=[console,wandb]`")
    assert found("python3 -m x \"trainer.logger=['console','wandb']\"", "unquoted_list") == []
    assert found('A=(trainer.logger=["console"])', "unquoted_list")[0].place == Place(1, 4)


@pytest.mark.parametrize(("option", "effect"), [("nullglob", "drops it"), ("failglob", "stops here")])
def test_pattern_without_quotes_where_bash_does_not_leave_it_as_it_is(option: str, effect: str) -> None:
    finding = one(f"shopt -s {option}\npython3 -m x a.b=[1,2]", "unquoted_glob")
    assert (finding.place, finding.severity) == (Place(2, 14), "warning")
    assert f"`a.b=[1,2]` is a pattern to bash, which {effect} with {option}" in finding.message
    assert found(f"shopt -s {option}\npython3 -m x 'a.b=[1,2]' c.d=\"*\"", "unquoted_glob") == []


@pytest.mark.parametrize("line", ["", "# shopt -s nullglob", "shopt -u nullglob", "shopt -s extglob; echo nullglob"])
def test_pattern_without_quotes_stays_as_it_is(line: str) -> None:
    assert found(f"{line}\npython3 -m x a.b=[1,2] c.d=/d/*.parquet", "unquoted_glob") == []


def test_misspelling_is_near_and_has_a_value() -> None:
    assert "did you mean" not in (one("VLLM_TP=2\npython3 m a=$LLM", "unset").suggestion or "")
    assert "did you mean" not in (one("MODEL_PATH=$NOPE\npython3 m a=$MODEL_PTH", "unset").suggestion or "")
    assert "did you mean" not in (one("DATA_PATHS_ALL=2\npython3 m a=$DATA_PATHS", "unset").suggestion or "")
    assert one("model_path=x\npython3 m a=$MODEL_PATH", "unset").suggestion == "did you mean $model_path?"
    assert one("GPU_IDS=(0 1)\npython3 m a=$GPU_ID", "unset").suggestion == "did you mean $GPU_IDS?"


def lost(script: str) -> list[str | None]:
    (launch,) = read_script(script).launches
    return [word.text for word in launch.lost]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("N=2\npython3 -m x a.b=1 \\ \n  c.d=$N \\\n  'e.f=3 4'\necho", ["c.d=2", "e.f=3 4"]),
        ("python3 -m x a.b=1 \\\n  # lr\n  c.d=2 2>&1 | tee log", ["c.d=2"]),
        ("python3 -m x a.b=1 \\\n\n  c.d=2", ["c.d=2"]),
        ('E=(c.d=2 e.f=3)\npython3 -m x a.b=1\n  +g.h=1 \\\n  "${E[@]}"', ["+g.h=1", "c.d=2", "e.f=3"]),
        ("python3 -m x a.b = 5 c.d=1", ["a.b=5"]),
        ("python3 -m x a.b= 5", ["a.b=5"]),
        ("python3 -m x a.b ='5 6'", ["a.b=5 6"]),
        ("python3 -m x a.b=1 \\\n  c.d=2\n\necho done", []),
    ],
)
def test_words_that_get_lost_are_kept_apart_from_those_of_bash(script: str, words: list[str]) -> None:
    assert lost(script) == words


def test_lost_words_have_their_places_and_hand_arguments_on() -> None:
    (launch,) = read_script("N=2\npython3 -m x a.b=1 \\ \n  c.d=$N \\\n  $@").launches
    assert [launch.lost[0].place_of(at) for at in (0, 4)] == [Place(3, 3), Place(1, 3)]
    assert launch.takes_arguments
    assert [word.text for word in launch.words] == ["python3", "-m", "x", "a.b=1", " "]


def test_lost_words_are_looked_at_like_others() -> None:
    script = "python3 -m x a.b=1 \\ \n  c.d=$NOPE \\\n  e.f="
    assert one(script, "unset").place == Place(2, 7)
    assert one(script, "empty").place == Place(3, 3)


def test_a_loop_that_only_waits_has_nothing_to_follow() -> None:
    waiting = "for i in $(seq 1 600); do\n  if [ -f ready ]; then break; fi\n  sleep 1\ndone\npython3 -m x"
    assert found(waiting, "limit") == []
    finding = one(waiting.replace("sleep 1", "A+=(k=$i)"), "limit")
    assert (finding.place, "600 passes" in finding.message) == (Place(1, 1), True)
    assert found(waiting.replace("sleep 1", "python3 n $i"), "limit") != []


def test_windows_line_ends() -> None:
    finding = one("set -x\r\npython3 -m x \\\r\n a.b=1\r\n", "crlf")
    assert (finding.place, finding.severity) == (Place(1, 7), "error")


def test_byte_order_mark() -> None:
    assert one("\ufeff#!/bin/bash\npython3 -m x", "bom").place == Place(1, 1)
    assert found("#!/bin/bash\npython3 -m x", "bom") == []


@pytest.mark.parametrize(
    ("script", "kind", "column"),
    [
        ("python3 -m x a=“b”", "smart_quotes", 16),
        ("python3 -m x a=‘b’", "smart_quotes", 16),
        ("python3 –m x", "nonascii_dash", 9),
        ("python3 -m x a=1\u00a0b=2", "nonascii_space", 17),
    ],
)
def test_characters_that_look_like_others(script: str, kind: str, column: int) -> None:
    finding = one(script, kind)
    assert (finding.place, finding.severity) == (Place(1, column), "error")


@pytest.mark.parametrize("script", ["# “quoted” – so\npython3 m", "python3 m a='日本' b=it’s", "python3 m a=é–b"])
def test_other_characters_are_fine(script: str) -> None:
    assert read_script(script).findings == ()


def test_syntax_error() -> None:
    finding = one("if true; then\n  python3 m\n", "syntax")
    assert finding.severity == "error"
    assert one('python3 m "a\n', "syntax").place == Place(1, 11)


def test_findings_come_in_the_order_of_the_script() -> None:
    findings = read_script("X = 1\npython3 -m x a=$NO b=$((1/0))\npython3 -m y c=['1']").findings
    assert [finding.place.line for finding in findings] == sorted(finding.place.line for finding in findings)
    assert [finding.kind for finding in findings] == [
        "spaces_around_equals",
        "unset",
        "division_by_zero",
        "unquoted_list",
    ]


def test_clean_script_has_no_findings() -> None:
    script = (
        "#!/usr/bin/env bash\nset -euo pipefail\nMODEL=${MODEL:-Qwen/Qwen3-8B}\nARGS=(\n  a.b=1\n  'c.d=[1,2]'\n)\n"
        'python3 -m verl.trainer.main_ppo "${ARGS[@]}" model.path="$MODEL" "$@" 2>&1 | tee "run.log"\n'
    )
    assert read_script(script).findings == ()


@pytest.mark.parametrize(
    "array", ['nodes_array=("$nodes")', 'nodes_array=( "${nodes}" )', 'nodes_array=("$(scontrol show hostnames $L)")']
)
@pytest.mark.parametrize("use", ["${nodes_array[$i]}", "${#nodes_array[@]}", "${nodes_array[@]}"])
def test_all_host_names_in_one_element(array: str, use: str) -> None:
    text = f'nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")\n{array}\necho {use}\n'
    (found,) = [each for each in read_script(text).findings if each.kind == "host_array"]
    assert (found.severity, found.place.line, found.place.column) == ("warning", 2, 1)
    assert "nodes_array gets one element" in found.message
    assert "nodes_array=(" in (found.suggestion or "")


@pytest.mark.parametrize(
    "text",
    [
        'nodes=$(scontrol show hostnames "$L")\nnodes_array=($nodes)\necho ${nodes_array[1]}\n',
        'nodes=$(scontrol show hostnames "$L")\nnodes_array=("$nodes")\necho "$nodes_array"\n',
        'nodes=$(scontrol show hostnames "$L")\nmapfile -t a <<< "$nodes"\necho ${a[1]}\n',
        'nodes=$(cat hosts)\na=("$nodes")\necho ${a[1]}\n',
        '#SBATCH --nodes=1\nnodes=$(scontrol show hostnames "$L")\na=("$nodes")\necho ${a[0]}\n',
        'nodes=$(scontrol show hostnames "$L")\n# a=("$nodes")\necho ${a[0]}\n',
    ],
)
def test_host_names_apart_or_not_used_as_an_array(text: str) -> None:
    assert not [each for each in read_script(text).findings if each.kind == "host_array"]
