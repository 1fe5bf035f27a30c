"""What each verl release wants installed, and which release's facts stand for another one."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from verlcli.errors import ConfigError
from verlcli.facts.verl.trees import VERSIONS

MAIN_AS_OF = "2026-08-22"  # commit date of the snapshot behind "main"; 0.9.1 was released after it
_TENSORDICT = ">=0.8.0,<=0.10.0,!=0.9.0"
_TRANSFORMERS_5 = ">=5.5.3,!=5.6.0,<5.11"

# Package -> what a release's setup.py, requirements.txt or wheel metadata asks for; "extra:" marks an optional engine.
REQUIREMENTS: dict[str, dict[str, str]] = {
    "0.5.0": {
        "python": ">=3.10",
        "numpy": "<2.0.0",
        "pyarrow": ">=19.0.0",
        "ray": ">=2.41.0",
        "tensordict": ">=0.8.0,<=0.9.1,!=0.9.0",
        "extra:vllm": ">=0.7.3,<=0.8.5",
        "extra:sglang": "==0.4.6.post5",
    },
    "0.6.1": {
        "python": ">=3.10",
        "numpy": "<2.0.0",
        "pyarrow": ">=19.0.0",
        "ray": ">=2.41.0",
        "tensordict": _TENSORDICT,
        "extra:vllm": ">=0.8.5,<=0.11.0",
        "extra:sglang": "==0.5.5",
    },
    "0.7.1": {
        "python": ">=3.10",
        "numpy": "<2.0.0",
        "pyarrow": ">=19.0.0",
        "ray": ">=2.41.0",
        "tensordict": _TENSORDICT,
        "transformers": "<5",  # AutoModelForVision2Seq is gone in 5.0 (verl #5007); setup.py sets no bound
        "extra:vllm": ">=0.8.5,<=0.12.0",
        "extra:sglang": "==0.5.6",
        "extra:tensorrt-llm": ">=1.2.0rc6",
    },
    "0.8.0": {
        "python": ">=3.10",
        "numpy": "<2.0.0",
        "pyarrow": ">=19.0.0",
        "ray": ">=2.41.0",
        "tensordict": _TENSORDICT,
        "extra:TransferQueue": "==0.1.7",
        "extra:vllm": ">=0.8.5,<=0.12.0",
        "extra:sglang": "==0.5.8",
        "extra:tensorrt-llm": ">=1.2.0rc6",
    },
    "0.9.0": {
        "python": ">=3.10",
        "numpy": ">=2.0.0",
        "pyarrow": ">=19.0.0",
        "ray": ">=2.41.0",
        "tensordict": _TENSORDICT,
        "transformers": _TRANSFORMERS_5,
        "TransferQueue": "==0.1.8",  # in requirements.txt, not in the wheel: needed by trainer.use_v1 (verl #7320)
        "extra:vllm": ">=0.18.0",
        "extra:sglang": "==0.5.8",
        "extra:tensorrt-llm": ">=1.2.0rc6",
    },
    "0.9.1": {
        "python": ">=3.10,<3.13",
        "numpy": ">=2.0.0",
        "pyarrow": ">=19.0.0",
        "ray": ">=2.41.0",
        "tensordict": _TENSORDICT,
        "transformers": _TRANSFORMERS_5,
        "TransferQueue": ">=0.1.10",  # an extra of the wheel, and needed by trainer.use_v1, which is the default
        "extra:torch": "==2.11.0",
        "extra:vllm": "==0.24.0",
        "extra:sglang": "==0.5.12",
        "extra:flash-attn": "==2.8.3",
        "extra:liger-kernel": ">=0.8.2",
    },
    "main": {
        "python": ">=3.10,<3.13",
        "numpy": ">=2.0.0",
        "pyarrow": ">=19.0.0",
        "ray": ">=2.41.0",
        "tensordict": _TENSORDICT,
        "transformers": _TRANSFORMERS_5,
        "extra:vllm": ">=0.18.0",
        "extra:sglang": "==0.5.8",
        "extra:tensorrt-llm": ">=1.2.0rc6",
    },
}

_MATH = ("openai/gsm8k", "lighteval/MATH", "DigitalLearningGmbH/MATH-lighteval", "HuggingFaceH4/MATH-500", "math_dapo")
_PRIME = (
    *("numina_aops_forum", "numina_synthetic_math", "numina_amc_aime"),
    *("numina_synthetic_amc", "numina_cn_k12", "numina_olympiads"),
)
_OTHERS = ("codecontests", "apps", "codeforces", "taco", "hiyouga/geometry3k")
_SEARCH = tuple(
    f"searchR1_{name}" for name in ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
)
_SOURCES_05 = (*_MATH, *_PRIME, *_OTHERS, *_SEARCH)
# `data_source` values that default_compute_score scores (verl/utils/reward_score/__init__.py).
REWARD_SOURCES: dict[str, tuple[str, ...]] = {
    version: _SOURCES_05 if version == "0.5.0" else (*_SOURCES_05, "math", "math_dapo_reasoning")
    for version in VERSIONS
}
REWARD_SOURCE_PREFIXES = ("aime",)  # any name that starts so
# Ranks that vLLM has kernels for; verl rounds up to the next since 0.7 and passes the rank on as it is before.
VLLM_LORA_RANKS: dict[str, tuple[int, ...]] = {
    version: (8, 16, 32, 64, 128, 256, 320, 512)
    if version in ("0.5.0", "0.6.1")
    else (1, 8, 16, 32, 64, 128, 256, 320, 512)
    for version in VERSIONS
}


def parse_version(text: str) -> Version:
    """A verl version as written by people: `v0.9.1`, `0.7.0.post1`, `0.10.0.dev`, `main`.

    Raises:
        ConfigError: no version.
    """
    if text.strip().lower() == "main":
        return Version("0.10.0.dev0")
    try:
        return Version(text.strip().lower().removeprefix("verl").lstrip("=v "))
    except InvalidVersion:
        raise ConfigError(f"'{text}' is no version of verl", fix=f"choose one of: {', '.join(VERSIONS)}") from None


def nearest_version(text: str) -> str:
    """The one of VERSIONS whose facts stand for a release: its own, else the newest of the same minor release.

    Older than the oldest: the oldest. A development version newer than every release: "main".

    Raises:
        ConfigError: no version.
    """
    if text in VERSIONS:
        return text
    wanted = parse_version(text)
    releases = [Version(version) for version in VERSIONS if version != "main"]
    if wanted > releases[-1]:
        return "main" if wanted.release[:2] != releases[-1].release[:2] else str(releases[-1])
    minor = [release for release in releases if release.release[:2] == wanted.release[:2]]
    later = [release for release in releases if release >= wanted]
    same = [release for release in minor if release >= wanted]  # 0.7.0 is nearer to 0.7.1
    return str(same[0] if same else minor[-1] if minor else later[0])


def requirement(package: str, version: str) -> SpecifierSet | None:
    """Versions of a package that a verl release works with, optional engines included; None if it does not say."""
    wanted = REQUIREMENTS[version]
    text = wanted.get(package, wanted.get(f"extra:{package}"))
    return None if text is None else SpecifierSet(text, prereleases=True)


def is_optional(package: str, version: str) -> bool:
    """Whether a release needs the package only if the run uses it."""
    return f"extra:{package}" in REQUIREMENTS[version]


def scores_source(data_source: str, version: str) -> bool:
    """Whether verl's own reward function knows a `data_source`; others need a reward function of one's own."""
    return data_source in REWARD_SOURCES[version] or data_source.startswith(REWARD_SOURCE_PREFIXES)
