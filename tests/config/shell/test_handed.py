"""Statements that a script hands to another shell are read as if they stood in it, each word at its own place."""

from __future__ import annotations

import pytest

from verlcli.config.shell import Launch, Place, Script, read_script
from verlcli.config.shell.parts import shown


def only(text: str) -> Launch:
    (launch,) = read_script(text).launches
    return launch


def words(launch: Launch) -> list[str]:
    return [shown(word.parts) for word in launch.words[1:]]


def directives(script: Script) -> dict[str, str | None]:
    return {name: word.text for name, word in script.launches[0].directives.items()}


@pytest.mark.parametrize(
    "line",
    [
        "bash -c \"python3 m n=$SLURM_NNODES f=$HOME/x o='$USER'\"",
        'ray job submit -- bash -c "python3 m n=$SLURM_NNODES f=$HOME/x o=$USER"',
        'docker run img bash -c "python3 m n=$SLURM_NNODES f=$HOME/x o=$USER"',
        'C="python3 m n=$SLURM_NNODES f=$HOME/x o=$USER"; eval $C',
        "sbatch --wrap='python3 m n=$SLURM_NNODES f=$HOME/x o=$USER'",
        'sbatch --wrap "python3 m n=$SLURM_NNODES f=$HOME/x o=$USER"',
        'ssh -p 22 host "cd w && python3 m n=$SLURM_NNODES f=$HOME/x o=$USER"',
        "bash <<EOF\npython3 m n=$SLURM_NNODES f=$HOME/x o=$USER\nEOF",
        "srun -N 2 bash -s <<'EOF'\npython3 m n=$SLURM_NNODES f=$HOME/x o=$USER\nEOF",
        "ssh host <<EOF\npython3 m n=$SLURM_NNODES f=$HOME/x o=$USER\nEOF",
        "cat <<EOF | sbatch\n#!/bin/sh\npython3 m n=$SLURM_NNODES f=$HOME/x o=$USER\nEOF",
        "cat > job.sh <<'EOF'\npython3 m n=$SLURM_NNODES f=$HOME/x o=$USER\nEOF\nsbatch job.sh",
        "cat > job.sh <<'EOF'\npython3 m n=$SLURM_NNODES f=$HOME/x o=$USER\nEOF",
    ],
)
def test_what_only_a_run_can_tell_stays_open_in_a_string_of_statements(line: str) -> None:
    assert words(only(line)) == ["m", "n=$SLURM_NNODES", "f=$HOME/x", "o=$USER"]


def test_a_gap_of_the_outer_shell_vanishes_as_a_word_but_is_no_empty_text() -> None:
    launch = only('bash -c "python3 m $NOBODY a=1 $@"')
    assert words(launch) == ["m", "a=1"]
    assert launch.takes_arguments


def test_words_of_a_here_document_keep_their_places() -> None:
    launch = only("X=5\nsbatch <<EOF\n#!/bin/bash\npython3 m a=$X \\\\\n  b=\\$1\nEOF")
    assert [(word.place, word.parts and word.parts[-1].place) for word in launch.words[2:]] == [
        (Place(4, 11), Place(1, 3)),
        (Place(5, 3), Place(5, 6)),
    ]


def test_variables_of_the_outer_shell_are_filled_in_unless_the_end_mark_is_quoted() -> None:
    assert words(only("X=5\nbash <<EOF\npython3 m $X\nEOF"))[1:] == ["5"]
    assert words(only("X=5\nbash <<'EOF'\npython3 m a=$X\nEOF"))[1:] == ["a=$X"]
    assert words(only("export X=5\nbash <<'EOF'\npython3 m a=$X\nEOF"))[1:] == ["a=5"]


def test_every_job_has_its_own_directives() -> None:
    body = "sbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes={0}\npython3 m n=\\$SLURM_NNODES\nEOF\n"
    script = read_script("#!/bin/bash\n#SBATCH -t 1:00\nN=3\n" + body.format(2) + body.format("$N"))
    assert [{n: w.text for n, w in each.directives.items()} for each in script.launches] == [
        {"nodes": "2"},
        {"nodes": "3"},
    ]
    assert [words(each)[1] for each in script.launches] == ["n=2", "n=3"]
    assert script.directives["time"].text == "1:00"
    assert script.launches[0].directives["nodes"].place == Place(6, 17)


def test_arguments_of_a_written_script() -> None:
    text = "cat > job.sh <<'EOF'\n#!/bin/bash\npython3 m a=$1\nEOF\n"
    assert words(only(text + "sbatch --nodes=2 job.sh big"))[1:] == ["a=big"]
    assert only(text).takes_arguments


def test_other_written_files_are_no_scripts() -> None:
    script = read_script("cat > env.yaml <<'EOF'\na: `b\npython3 m\nEOF\ncat > x.py <<EOF\npython3 = 1\nEOF\npython3 n")
    assert [words(launch) for launch in script.launches] == [["n"]]
    assert script.findings == ()


def test_what_stands_around_the_inner_shell_is_its_wrapper() -> None:
    launch = only('ray job submit --working-dir=. -- bash -c "python3 m"')
    assert launch.submitted
    assert launch.runtime_env["working-dir"].text == "."
    assert [word.text for word in only("srun -N 2 bash <<EOF\npython3 m\nEOF").wrapper] == ["srun", "-N", "2", "bash"]


def test_a_file_that_only_a_run_can_name_is_shown_as_written() -> None:
    for text in ('bash -c "source $HOME/env.sh; python3 m"', "source ~/env.sh\npython3 m"):
        (finding,) = read_script(text).findings
        assert finding.message.startswith("`source $HOME/env.sh` is not read")


def test_pip_of_a_python_is_an_installation_and_no_launch() -> None:
    script = read_script("python3 -m pip install verl==0.8.0\nuv run python -m pip install x\npython3 m")
    assert [[word.text for word in command.words] for command in script.commands] == [
        ["pip", "install", "verl==0.8.0"],
        ["pip", "install", "x"],
    ]
    assert len(script.launches) == 1


def test_what_xargs_reads_is_open() -> None:
    launch = only("cat x | xargs python3 m a=1")
    assert launch.takes_arguments
    filled = only("echo 1 2 | xargs -n1 -I{} python3 m a={} b=x-{}-y")
    assert not filled.takes_arguments
    assert words(filled)[1:] == ["a=$(...)", "b=x-$(...)-y"]
