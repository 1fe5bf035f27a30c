"""Launches, places, gaps and conditions that reading a script gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config.shell import Gap, Launch, Piece, Place, Script, Word, read_script


def only(script: str) -> Launch:
    (launch,) = read_script(script).launches
    return launch


def texts(launch: Launch) -> list[str]:
    return [word.text_as_run for word in launch.words]


def gaps(launch: Launch) -> list[tuple[str, str | None]]:
    return [(gap.kind, gap.variable) for word in launch.words for gap in word.gaps]


def test_words_have_the_places_where_they_stand() -> None:
    launch = only("set -x\npython3 -m verl.trainer.main_ppo \\\n    data.x=1 \\\n    trainer.y='a b'\n")
    assert launch.place == Place(2, 1)
    assert [word.place for word in launch.words] == [Place(2, 1), Place(2, 9), Place(2, 12), Place(3, 5), Place(4, 5)]


def test_value_of_a_variable_has_the_place_of_its_assignment() -> None:
    word = only("LR=1e-6\nexport OPT=x$LR\npython3 m optim.lr=$OPT").words[2]
    assert word.parts == (
        Piece("optim.lr=", Place(3, 11)),
        Piece("x", Place(2, 12), "OPT", ("OPT",)),
        Piece("1e-6", Place(1, 4), "OPT", ("OPT", "LR")),
    )
    assert word.place_of(10) == Place(1, 4)
    assert word.place_of(12) == Place(1, 6)


def test_item_of_an_array_has_its_own_place() -> None:
    launch = only('ARGS=(\n  a=1\n  b=2 # why\n)\npython3 m "${ARGS[@]}"')
    assert [(word.text, word.place) for word in launch.words[2:]] == [("a=1", Place(2, 3)), ("b=2", Place(3, 3))]


def test_place_of_a_default_is_where_the_default_stands() -> None:
    word = only("N=${NODES:-2}\npython3 m n=$N").words[2]
    assert word.parts[1] == Piece("2", Place(1, 12), "N", ("N", "NODES"), default=True)


@pytest.mark.parametrize(
    ("script", "default"),
    [
        ("python3 m n=${N:-2}", True),
        (": ${N:=2}; python3 m n=$N", True),
        ("D=2; python3 m n=${N-$D}", True),
        ("N=2; python3 m n=${N:-3}", False),
        ("python3 m n=2", False),
        ("N=1; python3 m n=${N:+2}", False),
    ],
)
def test_what_stands_behind_a_default_is_marked(script: str, default: bool) -> None:
    part = only(script).words[-1].parts[-1]
    assert isinstance(part, Piece)
    assert part.default is default


def test_items_in_one_value_keep_their_places() -> None:
    words = only('A=(a.b=1\n  c.d=2)\nB="${A[@]}"\npython3 m $B').words[2:]
    assert [word.text for word in words] == ["a.b=1", "c.d=2"]
    assert [word.place_of(0) for word in words] == [Place(1, 4), Place(2, 3)]


def test_place_behind_a_line_end_inside_a_value() -> None:
    word = only("X='a\nbc'\npython3 m \"$X\"").words[2]
    assert word.place_of(2) == Place(2, 1)
    assert word.place_of(3) == Place(2, 2)


def test_columns_count_characters() -> None:
    assert only("X='日本' python3 m").words[0].place == Place(1, 8)


@pytest.mark.parametrize(
    ("script", "gap"),
    [
        ("python3 m a=$NOPE", ("unset", "NOPE")),
        ("python3 m a=$HOME/x", ("runtime", "HOME")),
        ("python3 m a=~/x ~/y", ("runtime", "HOME")),
        ("python3 m a=$SLURM_NNODES", ("runtime", "SLURM_NNODES")),
        ("X=$((SLURM_NNODES * 8)); python3 m a=$X", ("runtime", "SLURM_NNODES")),
        ("python3 m a=$(date +%s)", ("command", None)),
        ("N=$(nproc); python3 m a=$N", ("command", None)),
        ('D=$(cd "$(dirname "$0")" && pwd); python3 m a=$D', ("command", "PWD")),
        ("python3 m a=$1", ("arguments", "1")),
        ("python3 m a=<(ls)", ("unsupported", None)),
        ("python3 m a=$((1/0))", ("unsupported", None)),
        ("python3 m a=${X@Q}", ("unset", "X")),
    ],
)
def test_what_only_a_run_can_tell_is_a_gap(script: str, gap: tuple[str, str | None]) -> None:
    launch = only(script)
    assert gap in gaps(launch)
    assert any(word.text is None for word in launch.words)


def test_known_parts_around_a_gap_stay() -> None:
    word = only("python3 m p=$HOME/data/$(whoami).parquet").words[2]
    assert word.text_as_run == "p=/data/.parquet"
    assert [type(part) for part in word.parts] == [Piece, Gap, Piece, Gap, Piece]


def test_runtime_variable_with_a_default_takes_it() -> None:
    assert texts(only("python3 m n=${SLURM_NNODES:-1} r=${RANK-0}"))[2:] == ["n=1", "r=0"]


def test_own_arguments_are_no_words() -> None:
    launch = only('ARGS="$*"; python3 m a=1 "$@" $ARGS')
    assert texts(launch) == ["python3", "m", "a=1"]
    assert launch.takes_arguments
    assert not only("python3 m a=1").takes_arguments


def test_usage_check_does_not_end_the_reading() -> None:
    launch = only("if [ $# -lt 1 ]; then echo usage; exit 1; fi\npython3 m a=${2:-8}")
    assert texts(launch) == ["python3", "m", "a=8"]
    assert launch.condition == ""


@pytest.mark.parametrize(
    "guard",
    [
        'if [ -z "$KEY" ]; then exit 1; fi',
        '[ -n "$KEY" ] || exit 1',
        "[[ -z $KEY ]] && { echo no; exit 2; }",
        ": ${KEY:?}",
    ],
)
def test_guard_for_a_variable_of_the_user_does_not_end_the_reading(guard: str) -> None:
    assert texts(only(f"{guard}\npython3 m a=1")) == ["python3", "m", "a=1"]


@pytest.mark.parametrize(
    ("line", "words", "wrapper"),
    [
        ("python -m x", ["python", "-m", "x"], []),
        ("/opt/venv/bin/python3.11 -u train.py a=1", ["/opt/venv/bin/python3.11", "-u", "train.py", "a=1"], []),
        ("$PYTHON -m x", ["", "-m", "x"], []),
        ("torchrun --nproc_per_node=8 -m x", ["torchrun", "--nproc_per_node=8", "-m", "x"], []),
        ("accelerate launch x.py", ["accelerate", "launch", "x.py"], []),
        ("nohup python3 x.py", ["python3", "x.py"], ["nohup"]),
        ("env A=1 B=2 python3 x.py", ["python3", "x.py"], ["env", "A=1", "B=2"]),
        ("timeout 3d python3 x.py", ["python3", "x.py"], ["timeout", "3d"]),
        ("srun --nodes=2 -n 1 python3 x.py", ["python3", "x.py"], ["srun", "--nodes=2", "-n", "1"]),
        ("uv run python x.py", ["python", "x.py"], ["uv", "run"]),
        ("time nohup numactl -N 0 python3 x.py", ["python3", "x.py"], ["nohup", "numactl", "-N", "0"]),
        ("docker exec c bash -c 'cd /w && python3 -m x'", ["python3", "-m", "x"], ["docker", "exec", "c"]),
        ("apptainer exec --nv i.sif python3 x.py", ["python3", "x.py"], ["apptainer", "exec", "--nv", "i.sif"]),
    ],
)  # fmt: skip
def test_launch_is_found_behind_what_wraps_it(line: str, words: list[str], wrapper: list[str]) -> None:
    launch = only(line)
    assert texts(launch) == words
    assert [word.text for word in launch.wrapper] == wrapper


@pytest.mark.parametrize(
    "line", ["python3 -c 'import x'", "python3 --version", "which python3", "pip install x", "echo python3 m"]
)
def test_what_runs_no_module_is_no_launch(line: str) -> None:
    assert read_script(line).launches == ()


def test_job_submitted_to_ray() -> None:
    script = "ray job submit --address=http://h:8265 --runtime-env e.yaml --no-wait \\\n  -- \\\n  python3 -m x a=1"
    launch = only(script)
    assert launch.submitted
    assert texts(launch) == ["python3", "-m", "x", "a=1"]
    assert {name: word.text for name, word in launch.runtime_env.items()} == {
        "address": "http://h:8265",
        "runtime-env": "e.yaml",
        "no-wait": "",
    }
    assert launch.runtime_env["address"].place == Place(1, 26)


def test_environment_and_variables_at_the_launch() -> None:
    launch = only("A=1\nexport B=2 C=3\nexport -n C\nD=$A E=5 python3 m\nexport LATE=1")
    assert {name: word.text for name, word in launch.environment.items()} == {"B": "2", "D": "1", "E": "5"}
    assert {name: word.text for name, word in launch.variables.items()} == {"A": "1", "B": "2", "C": "3"}
    assert launch.environment["B"].place == Place(2, 10)


def test_inner_shell_sees_exported_variables_alone_and_keeps_places() -> None:
    launch = only("export A=1\nB=2\nbash -c 'python3 -m x a=$A \\\n  b=$B'")
    assert texts(launch) == ["python3", "-m", "x", "a=1", "b="]
    assert launch.words[0].place == Place(3, 10)
    assert launch.words[4].place == Place(4, 3)


def test_pipeline_and_background() -> None:
    launch = only("set -o pipefail\npython3 m 2>&1 | tee log.txt")
    assert (launch.piped_to, launch.pipefail, launch.in_background) == ("tee", True, False)
    assert only("python3 m &\nwait").in_background
    assert not only("python3 m | cat").pipefail


def test_undecided_branch_is_the_condition_of_a_launch() -> None:
    script = "if [ $NODE_RANK -eq 0 ]; then\n  X=1\n  python3 m head\nelse\n  python3 m worker\nfi\npython3 m both"
    found = {texts(launch)[2]: launch.condition for launch in read_script(script).launches}
    assert found == {"head": "if [ $NODE_RANK -eq 0 ]", "worker": "unless [ $NODE_RANK -eq 0 ]", "both": ""}


def test_branches_that_set_different_values_give_a_launch_each() -> None:
    script = "if [ -d /data ]; then D=/data; else D=/tmp; fi\npython3 m d=$D"
    found = {texts(launch)[2]: launch.condition for launch in read_script(script).launches}
    assert found == {"d=/data": "if [ -d /data ]", "d=/tmp": "unless [ -d /data ]"}


def test_probe_of_the_device_gives_a_launch_for_each_answer() -> None:
    script = (
        "D=${D:-$(python3 -c 'import torch_npu' 2>/dev/null && echo npu || echo gpu)}\n"
        'case "$D" in gpu) N=8;; npu) N=16;; *) exit 1;; esac\n'
        'case "$D" in gpu) T=2;; npu) T=4;; esac\n'
        "python3 m d=$D n=$N t=$T"
    )
    assert sorted(texts(launch)[2:] for launch in read_script(script).launches) == [
        ["d=gpu", "n=8", "t=2"],
        ["d=npu", "n=16", "t=4"],
    ]


def test_program_is_taken_to_succeed_unless_the_script_minds() -> None:
    assert only("pip install x && python3 m").condition == ""
    assert only("probe || python3 m").condition == "if probe fails"
    assert only("if probe; then python3 m; fi").condition == "if probe"


def test_case_on_an_argument_gives_each_launch_its_condition() -> None:
    script = 'case "$1" in train) python3 m t;; eval) python3 m e;; esac'
    assert [launch.condition for launch in read_script(script).launches] == [
        'case "$1" in train)',
        'case "$1" in eval)',
    ]


def test_worlds_stay_few() -> None:
    script = "".join(f"if [ -f f{number} ]; then A+=({number}); fi\n" for number in range(12)) + 'python3 m "${A[@]}"'
    read = read_script(script)
    assert 1 <= len(read.launches) <= 16
    assert [finding.kind for finding in read.findings] == ["unknown_world_limit"]


def test_long_loop_is_followed_with_its_last_value() -> None:
    read = read_script("for i in {1..100}; do X=$i; done; python3 m $X")
    assert texts(read.launches[0])[2:] == ["100"]
    assert [finding.kind for finding in read.findings] == ["limit"]


def test_options_of_the_script_are_read_as_not_given() -> None:
    script = 'N=8\nwhile [[ $# -gt 0 ]]; do case "$1" in -n) N="$2"; shift 2;; esac; done\npython3 m n=$N'
    assert texts(only(script)) == ["python3", "m", "n=8"]
    script = "N=8; while getopts n: o; do case $o in n) N=$OPTARG;; esac; done; python3 m n=$N"
    assert texts(only(script)) == ["python3", "m", "n=8"]


def test_sourced_file_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "common.sh").write_text('LR=3e-6\nhelper() { python3 m lr=$LR "$@"; }\n')
    script = tmp_path / "run.sh"
    script.write_text('set -e\nsource "$(dirname "$0")/common.sh"\nhelper a=1\n')
    read = read_script(script.read_text(), str(script))
    assert texts(read.launches[0]) == ["python3", "m", "lr=3e-6", "a=1"]
    assert read.launches[0].words[2].place == Place(2, 1)
    assert read.findings == ()


def test_sourced_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    (finding,) = read_script("source env.sh\npython3 m", str(tmp_path / "run.sh")).findings
    assert (finding.kind, finding.place, finding.severity) == ("sourced", Place(1, 1), "note")


def test_file_that_sources_itself_ends(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("source run.sh\npython3 m\n")
    assert texts(read_script(script.read_text(), str(script)).launches[0]) == ["python3", "m"]


def test_directives_of_slurm() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --nodes=2 --exclusive\n#SBATCH -c 16 # cores\n#SBATCH -N4\n#SBATCH --gres gpu:8\n"
        '#SBATCH --job-name="my job"\n##SBATCH --mem=1G\nX=1\n#SBATCH --time=1:00\n'
    )
    found = read_script(script).directives
    assert {name: word.text for name, word in found.items()} == {
        "nodes": "4",
        "exclusive": "",
        "cpus-per-task": "16",
        "gres": "gpu:8",
        "job-name": "my",
    }
    assert found["gres"].place == Place(5, 16)


def test_other_commands_of_interest() -> None:
    script = (
        "ray start --head\npip install verl==0.9.1\nsource x.sh\ncd /w\nexport A=1\nls\nif [ -f y ]; then ray stop; fi"
    )
    found = [(command.name, command.condition) for command in read_script(script).commands]
    assert found == [
        ("ray", ""), ("pip", ""), ("source", ""), ("cd", ""), ("export", ""), ("ray", "if [ -f y ]"),
    ]  # fmt: skip


def test_syntax_error_has_its_place_and_the_rest_is_read() -> None:
    read = read_script("python3 m a\nif true; then\npython3 n b\n")
    assert read.errors
    assert ["python3", "m", "a"] in [texts(launch) for launch in read.launches]


def test_quote_without_end() -> None:
    read = read_script('python3 m a\npython3 n "b\n')
    assert read.errors == (Place(2, 11),)
    assert [texts(launch) for launch in read.launches] == [["python3", "m", "a"]]


@pytest.mark.parametrize("script", ["", "\n\n", "# nothing", "echo hi"])
def test_script_without_a_launch(script: str) -> None:
    assert read_script(script) == Script(())


def test_word_tells_what_is_known() -> None:
    place = Place(1, 1)
    word = Word(place, (Piece("a=", place), Gap("the output of $(date)", Place(1, 3), None, "command")))
    assert (word.text, word.text_as_run, word.known) == (None, "a=", False)
    assert Word(place, ()).text == ""
    assert word.place_of(99) == place


@pytest.mark.parametrize(
    "array",
    [
        "IFS=',' read -ra G <<< \"$CUDA_VISIBLE_DEVICES\"",
        "read -r -a G < hosts",
        "mapfile -t G < <(nvidia-smi -L)",
        "G=($(nvidia-smi -L))",
    ],
)
def test_arrays_of_a_length_that_only_a_run_can_tell(array: str) -> None:
    (launch,) = read_script(f'{array}\nN=${{#G[@]}}\npython3 m $N ${{G[1]}} "${{G[@]}}"\n').launches
    assert [word.known for word in launch.words] == [True, True, False, False, False]


def test_arrays_of_a_length_that_is_known() -> None:
    (launch,) = read_script('G=(a "$(hostname)")\npython3 m ${#G[@]}\n').launches
    assert launch.words[-1].text == "2"
