"""Scripts with a slip in them, and marks of bash glued together: a result for each, and a place for each fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verlcli.config.shell import Script, read_script

FRAGMENTS = (
    "$(", "$((", "${", "((", "))", "[[", "]]", "[ ", " ]", "{", "}", "(", ")", "`", "'", '"', "\\", "\\\n", "\n", ";",
    ";;", "&", "&&", "|", "||", "<", ">", "<<", "<<-", "<<<", "<(", ">&", "#", "=", "+=", "=(", "a", "x[", "]=", "$x",
    "${x:-", "${x[", "${#", "${!", "/", "%", ":", "$'", '$"', "\\u", "\\x", "ud800", "python3 m ", "if ", "then ",
    "fi\n", "for i in ", "for ((", "do ", "done\n", "while ", "case x in ", "esac\n", "f() ", "function f ", "<<EOF\n",
    "EOF\n", "bash -c ", "eval ", "set -- ", "shift ", "declare -A ", "local ", "let ", "read -a ", "unset ", "exit ",
    "printf ", "echo ", "source ", "ray job submit -- ", "=~ ", "-eq ", "! ", "1", "0x", "2#", "²", "٣", "**", "~", "@",
    "é", "\0", "\r\n", "\ufeff", "9" * 5000,
)  # fmt: skip
SCRIPTS = {
    "plain": """#!/usr/bin/env bash
set -xeuo pipefail
MODEL=${MODEL:-Qwen/Qwen3-8B}  # or a folder
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.train_files="['$HOME/a.parquet', '$HOME/b.parquet']" \\
    actor_rollout_ref.model.path=$MODEL \\
    trainer.logger='["console","wandb"]' "$@" 2>&1 | tee run.log
""",
    "arrays": """DATA=(
    data.max_prompt_length=$((1024 * 2))
    data.train_batch_size=${BSZ:-512}  # of prompts
)
[ -n "${LORA:-}" ] && DATA+=("+actor_rollout_ref.model.lora_rank=${LORA%%.*}")
declare -A SIZE=([7b]=8 [32b]=32)
for size in "${!SIZE[@]}"; do
    python3 -m verl.trainer.main_ppo "${DATA[@]}" trainer.nnodes=${SIZE[$size]} &
done
wait
""",
    "slurm": """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head=${nodes[0]}
if [[ "$head" == *" "* ]]; then
    IFS=' ' read -ra parts <<< "$head"
    head=${parts[0]}
elif (( ${#nodes[@]} > 1 && SLURM_NNODES / 2 )); then
    srun --nodes=1 -w "$head" ray start --head --port=6379 --block &
fi
srun --overlap bash -c 'python3 -m verl.trainer.main_ppo trainer.nnodes=2 trainer.n_gpus_per_node=8'
""",
    "functions": """#!/bin/bash
run() {
    local name="$1"; shift
    case "$name" in
        sft*|dpo) torchrun --nproc_per_node=${N:=8} -m verl.trainer.fsdp_sft_trainer "$@";;
        *) return 1;;
    esac
}
while [ $# -gt 0 ]; do shift; done
run sft-a optim.lr=$(python3 -c 'print(1e-5)') trainer.total_epochs=`expr 1 + 2` || exit 1
""",
    "submitted": """RUNTIME_ENV=$(cat <<EOF
{"env_vars": {"HF_HOME": "${HF_HOME}"}, "n": $(nproc)}
EOF
)
cat > env.yaml <<-'END'
\tworking_dir: ./
\tEND
ray job submit --no-wait --runtime-env-json="$RUNTIME_ENV" \\
    -- python3 -m recipe.dapo.main_dapo \\
    data.prompt_key=prompt actor_rollout_ref.rollout.n=$((N > 8 ? 8 : N)) ++trainer.x=$'it\\'s' \\
""",
}
MARKS = "$(){}[]\"'`\\\n;|&<>#=!*? a1"


def _slips(text: str) -> Iterator[str]:
    """The text with each of its characters left out, and with one more mark at each of its places."""
    for at in range(len(text)):
        yield text[:at] + text[at + 1 :]
        yield text[:at] + MARKS[at % len(MARKS)] + text[at:]


def _check(script: Script, text: str) -> None:
    last = text.count("\n") + 1
    assert all(1 <= finding.place.line <= last and finding.message for finding in script.findings)
    assert set(script.errors) <= {finding.place for finding in script.findings if finding.kind == "syntax"}
    for launch in script.launches:
        assert all(1 <= word.place.line <= last for word in launch.words)
        "".join(word.text_as_run for word in launch.words).encode()  # what is read can be printed


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=16).map("".join))
@settings(max_examples=2500, deadline=None)
def test_glued_marks_give_a_script(text: str) -> None:
    _check(read_script(text), text)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_with_one_slip_gives_a_script(name: str) -> None:
    for text in _slips(SCRIPTS[name]):
        _check(read_script(text), text)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("(( $( ))\n", 4), ("((x[$(y))", 5), ("(( ${ ))", 4), ("((`))", 3), ('python3 m "a', 11), ("x=$(", 3),
        ("a[$(1]=x", 3), ("cat <(x", 5), ("$'a", 1), ("x=${y", 3), ("${x[1", 4),
    ],
)  # fmt: skip
def test_what_never_ends_is_a_finding_at_its_place(text: str, column: int) -> None:
    script = read_script(text)
    place = next(finding.place for finding in script.findings if finding.kind == "syntax")
    assert (place.line, place.column) == (1, column)


@pytest.mark.parametrize("text", ["shift ²", "exit ²", "break ²", "a=(1); unset 'a[²]'", "set -- ${²}", "x=$((²))"])
def test_digits_that_are_none_to_bash(text: str) -> None:
    (launch,) = read_script(f"python3 m a=1\n{text}\n").launches
    assert [word.text for word in launch.words] == ["python3", "m", "a=1"]


@pytest.mark.parametrize(
    "text",
    [
        'a=(1 2); for x in "${a[@]:}"; do :; done', "x=$((16#" + "f" * 5000 + "))", "x=$((0" + "7" * 5000 + "))",
        "x=$'\\ud800'", "[[ a =~ [[]a--b&&] ]]", "a[$(echo 1)]=x",
    ],
)  # fmt: skip
def test_odd_forms_leave_the_rest_as_it_is(text: str) -> None:
    (launch,) = read_script(f"{text}\npython3 m b=2").launches
    assert [word.text for word in launch.words] == ["python3", "m", "b=2"]


def test_backslash_at_the_end_of_the_file_is_no_word() -> None:
    (launch,) = read_script("python3 m \\\n  a=1 \\").launches
    assert [word.text for word in launch.words] == ["python3", "m", "a=1"]
