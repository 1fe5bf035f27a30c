from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.errors import ConfigError
from verlcli.facts import GPUS, Cluster, GpuModel, find_gpu, parse_cluster

A100, H100 = find_gpu("A100-80G"), find_gpu("H100")


@pytest.mark.parametrize(
    ("text", "cluster", "canonical"),
    [
        (
            "8xA100-80G,nodes=4,cpus=64,ram=512G",
            Cluster(8, A100, nodes=4, cpus=64, ram_gib=512),
            "8xA100-80G,nodes=4,cpus=64,ram=512G",
        ),
        ("4x8xH100", Cluster(8, H100, nodes=4), "8xH100,nodes=4"),
        ("A100-80G", Cluster(1, A100), "1xA100-80G"),
        (" 8 X h100 , RAM = 1.5 TiB, Disk=2T ", Cluster(8, H100, ram_gib=1536, disk_gib=2048), None),
        ("ram=64GB,2*h100", Cluster(2, H100, ram_gib=64), "2xH100,ram=64G"),
        ("8x4090", Cluster(8, find_gpu("4090")), "8xRTX 4090"),
        ("none", Cluster(0, None), "none"),
        ("CPU,nodes=2,cpus=8", Cluster(0, None, nodes=2, cpus=8), "none,nodes=2,cpus=8"),
        ("8xH100,ram=0.001T", Cluster(8, H100, ram_gib=1.024), "8xH100,ram=1.024G"),
    ],
)
def test_spellings_of_a_cluster(text: str, cluster: Cluster, canonical: str | None) -> None:
    assert parse_cluster(text) == cluster
    assert canonical is None or str(cluster) == canonical


def test_total_gpus_counts_all_nodes() -> None:
    assert parse_cluster("4x8xH100").total_gpus == 32
    assert parse_cluster("none,nodes=3").total_gpus == 0


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("", "no GPU in ''", "none for no GPU"),
        ("nodes=2", "no GPU in 'nodes=2'", "8xA100-80G"),
        ("8xH100,A100-80G", "two GPU pieces, '8xH100' and 'A100-80G'", "write one"),
        ("0xH100", "'0xH100' has a 0", "write none"),
        ("0x8xH100", "has a 0", "write none"),
        ("2xnone", "'2xnone' counts no GPU", "write none"),
        ("H100x8", "'H100x8' has its count last", "write 8xH100"),
        ("8xA100", "this GPU has 40 GB or 80 GB", "write A100-40G or A100-80G"),
        ("8xfoo", "no GPU is known as 'foo'", "known: V100-16G"),
        ("-8xH100", "no GPU is known as", "known:"),
        ("8xH100,node=2", "unknown key 'node'", "did you mean nodes?"),
        ("8xH100,zebra=2", "unknown key 'zebra'", "keys: nodes, cpus, ram, disk"),
        ("8xH100,nodes=0", "nodes=0 is not a whole number from 1", "write nodes=4"),
        ("8xH100,nodes=2.5", "nodes=2.5 is not a whole number", "write nodes=4"),
        ("8xH100,nodes=-1", "nodes=-1 is not a whole number", "write nodes=4"),
        ("8xH100,nodes=" + "9" * 5000, "is not a whole number from 1 to 999999", "write nodes=4"),
        ("8xH100,cpus=", "cpus= is not a whole number", "write cpus=4"),
        ("8xH100,cpus=4,CPUS=5", "cpus is given twice", "write it once"),
        ("4x8xH100,nodes=4", "both give nodes", "write one of them"),
        ("8xH100,ram=512", "ram=512 is not a size", "ram=512G"),
        ("8xH100,ram=512M", "ram=512M is not a size", "ram=512G"),
        ("8xH100,ram=0G", "ram=0G is not a size", "ram=512G"),
        ("8xH100,disk=lots", "disk=lots is not a size", "disk=512G"),
    ],
)
def test_a_bad_piece_is_named_with_what_to_write(text: str, message: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_cluster(text)
    assert message in caught.value.message
    assert fix in str(caught.value.fix)


_COUNTS = st.integers(1, 999_999)
_SIZES = st.integers(1, 10**9).map(lambda thousandths: round(thousandths / 1000, 3))


@given(
    count=_COUNTS,
    gpu=st.sampled_from(GPUS),
    nodes=_COUNTS,
    cpus=st.none() | _COUNTS,
    ram=st.none() | _SIZES,
    disk=st.none() | _SIZES,
)
def test_the_canonical_spelling_reads_back(
    count: int, gpu: GpuModel, nodes: int, cpus: int | None, ram: float | None, disk: float | None
) -> None:
    cluster = Cluster(count, gpu, nodes, cpus, ram, disk)
    assert parse_cluster(str(cluster)) == cluster


@given(st.text(max_size=40))
def test_any_other_text_is_a_config_error_at_worst(text: str) -> None:
    with contextlib.suppress(ConfigError):
        cluster = parse_cluster(text)
        assert parse_cluster(str(cluster)) == cluster
