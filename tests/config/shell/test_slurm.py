"""Variables that Slurm sets because of a script's directives."""

from __future__ import annotations

import pytest

from verlcli.config.shell import Gap, Piece, Place, read_script


def value(directives: str, name: str) -> str | None:
    """Text of a variable in a job with these directives; None where only a run can tell."""
    (launch,) = read_script(f"#!/bin/bash\n{directives}\npython3 m ${name}\n").launches
    return launch.words[-1].text


@pytest.mark.parametrize(
    ("directive", "name", "text"),
    [
        ("--nodes=2", "SLURM_NNODES", "2"),
        ("-N 4", "SLURM_JOB_NUM_NODES", "4"),
        ("--gpus-per-node=8", "SLURM_GPUS_ON_NODE", "8"),
        ("--gpus-per-node=h100:4", "SLURM_GPUS_ON_NODE", "4"),
        ("--gpus-per-node=h100:4", "SLURM_GPUS_PER_NODE", "h100:4"),
        ("--gres=gpu:a100:8", "SLURM_GPUS_ON_NODE", "8"),
        ("--gres=gpu:8,nvme:1", "SLURM_GPUS_ON_NODE", "8"),
        ("--gres=nvme:1,gpu:a100:4", "SLURM_GPUS_ON_NODE", "4"),
        ("-G 16", "SLURM_GPUS", "16"),
        ("-c 32", "SLURM_CPUS_PER_TASK", "32"),
        ("-n 4", "SLURM_NTASKS", "4"),
        ("--ntasks-per-node=2", "SLURM_NTASKS_PER_NODE", "2"),
        ("--nodes=3 --ntasks-per-node=2", "SLURM_NTASKS", "6"),
        ("--nodes=3 --ntasks-per-node=2 -n 5", "SLURM_NPROCS", "5"),
        ("--mem=64G", "SLURM_MEM_PER_NODE", "65536"),
        ("--mem=2000", "SLURM_MEM_PER_NODE", "2000"),
        ("--mem-per-cpu=1T", "SLURM_MEM_PER_CPU", "1048576"),
        ("-J train", "SLURM_JOB_NAME", "train"),
    ],
)
def test_variables_that_a_directive_tells(directive: str, name: str, text: str) -> None:
    assert value(f"#SBATCH {directive}", name) == text


@pytest.mark.parametrize(
    ("directive", "name"),
    [
        ("--nodes=1-4", "SLURM_NNODES"),
        ("--nodes=" + "9" * 5000, "SLURM_NNODES"),
        ("--gres=nvme:1", "SLURM_GPUS_ON_NODE"),
        ("--gpus-per-node=", "SLURM_GPUS_PER_NODE"),
        ("--mem=0", "SLURM_MEM_PER_NODE"),
        ("--mem=lots", "SLURM_MEM_PER_NODE"),
        ("--ntasks-per-node=2", "SLURM_NTASKS"),
        ("--nodes=2", "SLURM_JOB_ID"),
    ],
)
def test_variables_that_only_a_run_can_tell(directive: str, name: str) -> None:
    (launch,) = read_script(f"#!/bin/bash\n#SBATCH {directive}\npython3 m ${name}\n").launches
    (gap,) = launch.words[-1].parts
    assert isinstance(gap, Gap)
    assert (gap.kind, gap.variable) == ("runtime", name)


def test_value_stands_at_its_directive_and_beats_a_default() -> None:
    script = "#!/bin/bash\n#SBATCH --gres=gpu:8\nG=${SLURM_GPUS_ON_NODE:-2}\npython3 m n=$G\n"
    (launch,) = read_script(script).launches
    assert launch.words[-1].parts[-1] == Piece("8", Place(2, 16), "G", ("G", "SLURM_GPUS_ON_NODE"))
    assert value("", "{SLURM_GPUS_ON_NODE:-2}") == "2"


def test_the_script_may_set_it_itself_and_decide_by_it() -> None:
    text = "#!/bin/bash\n#SBATCH -N 2\nif [ $SLURM_NNODES -gt 1 ]; then python3 m; else python3 n; fi\n"
    (launch,) = read_script(text).launches
    assert (launch.words[-1].text, launch.condition) == ("m", "")
    assert value("#SBATCH -N 2\nSLURM_NNODES=7", "SLURM_NNODES") == "7"
    assert launch.environment["SLURM_NNODES"].text == "2"
