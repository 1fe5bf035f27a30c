"""Host probes grade what they measure; thresholds are checked on both sides."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from verlcli.diagnose import host

GIB = host.GIB


def test_cpu_counts_the_cores_this_process_may_use() -> None:
    assert host.probe_cpu().status == "PASS"
    assert "logical cores usable" in host.probe_cpu().evidence


@pytest.mark.parametrize(("available", "status"), [(3 * GIB, "WARN"), (4 * GIB, "PASS")])
def test_memory_warns_below_four_gib(available: int, status: str) -> None:
    finding = host.probe_memory(available, 64 * GIB)
    assert finding.status == status
    assert "of 64.0 GiB" in finding.evidence


def control_groups(tmp_path: Path, membership: str, files: dict[str, str]) -> int | None:
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / name).write_text(text)
    return host.cgroup_memory_limit(tmp_path / "cgroup", tmp_path / "membership")


@pytest.mark.parametrize(
    ("membership", "files", "limit"),
    [
        pytest.param("0::/\n", {"memory.max": "max\n"}, None, id="v2-without-limit"),
        pytest.param("0::/\n", {"memory.max": "2147483648\n"}, 2 * GIB, id="v2-container"),
        pytest.param(
            "0::/slurm/job_7/step_0\n",
            {"slurm/job_7/memory.max": "4294967296\n", "slurm/job_7/step_0/memory.max": "max\n"},
            4 * GIB,
            id="v2-limit-of-an-ancestor",
        ),
        pytest.param(
            "5:cpu:/docker/a\n9:memory:/docker/a\n",
            {"memory/memory.limit_in_bytes": "1073741824\n"},
            GIB,
            id="v1-container-sees-only-its-root",
        ),
        pytest.param("9:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, None, id="v1-no-limit"),
        pytest.param("0::/\n", {}, None, id="not-mounted"),
    ],
)
def test_container_limit_is_read_for_both_versions(
    tmp_path: Path, membership: str, files: dict[str, str], limit: int | None
) -> None:
    assert control_groups(tmp_path, membership, files) == limit


def test_no_control_groups_mean_no_limit(tmp_path: Path) -> None:
    assert host.cgroup_memory_limit(tmp_path, tmp_path / "absent") is None


@pytest.mark.parametrize(("limit", "status"), [(None, "PASS"), (100 * GIB, "PASS"), (8 * GIB, "PASS"), (GIB, "WARN")])
def test_container_limit_is_graded_against_need(limit: int | None, status: str) -> None:
    assert host.probe_cgroup(limit, 64 * GIB).status == status


def test_absent_shared_memory_is_skipped(tmp_path: Path) -> None:
    assert host.probe_shared_memory(tmp_path / "shm").status == "SKIP"


def test_small_shared_memory_names_the_docker_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LOW_SHM_BYTES", 2**60)
    finding = host.probe_shared_memory(tmp_path)
    assert finding.status == "WARN"
    assert "--shm-size" in (finding.fix or "")


@pytest.mark.parametrize(("low", "full", "status"), [(0, 0, "PASS"), (2**60, 0, "WARN"), (2**60, 2**60, "FAIL")])
def test_disk_is_graded_by_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, low: int, full: int, status: str
) -> None:
    monkeypatch.setattr(host, "LOW_DISK_BYTES", low)
    monkeypatch.setattr(host, "FULL_DISK_BYTES", full)
    assert host.probe_disk(tmp_path).status == status


def test_low_limit_of_open_files_is_reported_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
    try:
        finding = host.probe_open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert finding.status == "WARN"
    assert (finding.fix or "").startswith("ulimit -n ")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HF_HUB_CACHE": "/a/hub"}, "/a/hub"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
    ],
)
def test_hub_cache_follows_the_variables_of_huggingface_hub(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], folder: str
) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert host.hub_cache() == Path(folder)


def test_hub_cache_that_does_not_exist_yet_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "new" / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    finding = host.probe_hub_cache()
    assert finding.status == "PASS"
    assert finding.evidence.endswith("0 models, offline mode")
