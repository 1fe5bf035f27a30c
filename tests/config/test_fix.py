from __future__ import annotations

import os
import stat
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from verlcli.config.check_file import check_file
from verlcli.config.fix import Fixed, diff_of, fix_file, fix_text
from verlcli.config.fix_yaml import fix_yaml
from verlcli.config.loader import load_text
from verlcli.config.problems import Fix, Place, Problem
from verlcli.errors import ConfigError


def yaml_after(text: str, fix: Fix) -> str | None:
    return fix_yaml(dedent(text), "a.yaml", fix)


def test_rename_beside_keeps_every_other_byte() -> None:
    before = """\
        # head
        algorithm:   # the algorithm
            entropy_coeff:   0.01  # small

            name:    'grpo'
        """
    after = yaml_after(before, Fix("rename", "algorithm.entropy_coeff", "algorithm.entropy_coef"))
    assert after == dedent(before).replace("entropy_coeff", "entropy_coef")


def test_rename_in_flow_style_and_quotes_of_the_value_stay() -> None:
    after = yaml_after("a: {old: 'x', b: 2}  # c\n", Fix("rename", "a.old", "a.new"))
    assert after == "a: {new: 'x', b: 2}  # c\n"


def test_move_takes_value_and_its_comment_into_the_other_section() -> None:
    before = """\
        reward_model:
          reward_manager: dapo  # overlong
          enable: false
        # next section
        reward:
          num_workers: 4

        trainer:
          nnodes: 1
        """
    after = yaml_after(before, Fix("rename", "reward_model.reward_manager", "reward.reward_manager.name"))
    assert after == dedent("""\
        reward_model:
          enable: false
        # next section
        reward:
          num_workers: 4
          reward_manager:
            name: dapo  # overlong

        trainer:
          nnodes: 1
        """)


def test_move_removes_a_section_that_becomes_empty_and_makes_one_that_is_missing() -> None:
    before = "custom_reward_function:\n  path: r.py\ntrainer:\n  nnodes: 1\n"
    after = yaml_after(before, Fix("rename", "custom_reward_function.path", "reward.custom_reward_function.path"))
    assert after == "trainer:\n  nnodes: 1\nreward:\n  custom_reward_function:\n    path: r.py\n"


def test_move_of_a_mapping_keeps_its_lines() -> None:
    before = "old:\n  # about x\n  x: 1\n  y: [1,\n      2]\nz: 1\n"
    after = yaml_after(before, Fix("rename", "old", "new.inner"))
    assert after is not None
    assert load_text(after, "a").values == {"z": 1, "new": {"inner": {"x": 1, "y": [1, 2]}}}
    assert "# about x" in after


@pytest.mark.parametrize(
    ("before", "fix", "after"),
    [
        ("a: {b: 2}\n", Fix("set", "a.b", 1), "a: {b: 1}\n"),
        ("a:\n  b: two words # c\n", Fix("set", "a.b", "x y"), "a:\n  b: 'x y' # c\n"),
        ('a:\n  b: "q" # c\n', Fix("set", "a.b", True), "a:\n  b: true # c\n"),
        ("a:\n  b: 1\n", Fix("set", "a.c", "safetensors"), "a:\n  b: 1\n  c: safetensors\n"),
        ("a:\n  b: 1\n", Fix("set", "d", None), "a:\n  b: 1\nd: null\n"),
        ("a:\n  b: 1\n  # about c\n  c: 2\n", Fix("remove", "a.b"), "a:\n  # about c\n  c: 2\n"),
        ("a:\n  b: 1\nc: 2\n", Fix("remove", "a.b"), "c: 2\n"),
        ('a: {"old": 1, b: 2}\n', Fix("rename", "a.old", "a.new"), 'a: {"new": 1, b: 2}\n'),
        ("'old': 1\nb:\n  c: 2\n", Fix("rename", "old", "b.new"), "b:\n  c: 2\n  new: 1\n"),
        ("a: {old: 'x, y'}  # c\nb: 1\n", Fix("rename", "a.old", "c.new"), "b: 1\nc:\n  new: 'x, y'  # c\n"),
        ("a: 1\nb:\nc: 2\n", Fix("rename", "a", "b.a"), "b:\n  a: 1\nc: 2\n"),  # into an empty section
        ("a: 1\na: 2\nb: 3\n", Fix("rename", "b", "c"), "a: 1\na: 2\nc: 3\n"),  # a duplicate key stays one
    ],
)
def test_set_and_remove(before: str, fix: Fix, after: str) -> None:
    assert yaml_after(before, fix) == after


@pytest.mark.parametrize(
    ("before", "fix"),
    [
        ("a: {old: 1, b: 2}\n", Fix("rename", "a.old", "c.new")),  # a move out of flow style
        ("a: {old: 1}\nc: {new: 2}\n", Fix("rename", "a.old", "c.new")),  # something stands there already
        ("a: 1\n", Fix("rename", "b", "c")),
        ("a: 1\n", Fix("set", "a.b", 1)),
        ("a: [1]\n", Fix("set", "a.0", 2)),
        ("a: {}\nb: 1\n", Fix("rename", "b", "a.b")),
        ("a: 1\n", Fix("prefix", "a", "+")),
        ("- 1\n", Fix("rename", "b", "c")),
        ("a: [\n", Fix("rename", "a", "c")),
        ("a: &x\n  old: 1\nb: *x\n", Fix("rename", "a.old", "a.new")),  # would change b too
    ],
)
def test_what_is_not_certain_is_left(before: str, fix: Fix) -> None:
    assert yaml_after(before, fix) is None


def problem(fix: Fix) -> Problem:
    return Problem("VRL227", "error", fix.key, "m", fix=fix)


SCRIPT = "python3 -m verl.trainer.main_ppo \\\n    reward_model.reward_manager=dapo \\\n    +a.b=1 x=$N \\\n    c=2\n"


def test_script_words_change_in_place_from_the_end_on() -> None:
    fixes = [
        Fix(
            "rename",
            "reward_model.reward_manager",
            "reward.reward_manager.name",
            Place("r.sh", 2, 5),
            "reward_model.reward_manager",
        ),
        Fix("prefix", "a.b", "++", Place("r.sh", 3, 5), "+a.b"),
        Fix("set", "load_format", "safetensors", Place("r.sh", 4, 5)),
        Fix("set", "c", 3, Place("r.sh", 4, 7), "2"),
    ]
    fixed = fix_text(SCRIPT, "r.sh", [problem(fix) for fix in fixes], script=True)
    assert fixed.text == (
        "python3 -m verl.trainer.main_ppo \\\n    reward.reward_manager.name=dapo \\\n    ++a.b=1 x=$N \\\n"
        "    load_format=safetensors \\\n    c=3\n"
    )
    assert len(fixed.made) == 4
    assert not fixed.left


@pytest.mark.parametrize(
    "fix",
    [
        Fix("rename", "q", "r", Place("r.sh", 3, 12), "q"),  # the text comes from a variable
        Fix("remove", "y", None, Place("r.sh", 3, 12), "y"),
        Fix("rename", "q", "r", Place("r.sh", 30, 1), "q"),
    ],
)
def test_script_words_that_stand_elsewhere_are_left(fix: Fix) -> None:
    fixed = fix_text(SCRIPT, "r.sh", [problem(fix)], script=True)
    assert fixed.text == SCRIPT
    assert len(fixed.left) == 1


def test_problems_of_other_files_are_not_touched() -> None:
    fix = Fix("rename", "c", "d", Place("other.sh", 4, 5), "c")
    assert fix_text(SCRIPT, "r.sh", [problem(fix)], script=True).made == ()


def test_diff_names_the_file_and_survives_a_missing_last_newline() -> None:
    assert diff_of("a\n", "a\n", "f") == ""
    assert diff_of("a", "b", "f").splitlines()[-3:] == [
        "\\ No newline at end of file",
        "+b",
        "\\ No newline at end of file",
    ]


LAUNCH = """\
    python3 -m verl.trainer.main_ppo \\
        algorithm.adv_estimator=grpo \\
        actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
        actor_rollout_ref.rollout.name=vllm \\
        actor_rollout_ref.rollout.max_model_len=4096 \\
        actor_rollout_ref.rollout.n=8 \\
        actor_rollout_ref.actor.use_dynamic_bsz=True \\
        reward_model.reward_manager=dapo
    """


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "run.sh"
    path.write_text(dedent(LAUNCH))
    return path


def fixed_of(path: Path | str) -> Fixed:
    fixed = fix_file(str(path), check_file(str(path)))
    assert fixed is not None
    return fixed


def test_write_keeps_mode_and_links_and_leaves_nothing_behind(script: Path, tmp_path: Path) -> None:
    script.chmod(0o751)
    link, hard = tmp_path / "link.sh", tmp_path / "hard.sh"
    link.symlink_to(script)
    os.link(script, hard)
    fixed_of(link).write()
    assert link.is_symlink()
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert (
        hard.read_text()
        == script.read_text()
        == dedent(LAUNCH).replace("reward_model.", "reward.").replace("reward_manager=", "reward_manager.name=")
    )
    assert sorted(os.listdir(tmp_path)) == ["hard.sh", "link.sh", "run.sh"]


def test_a_shorter_text_leaves_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("long text\n")
    Fixed(str(path), "long text\n", "s\n", (), ()).write()
    assert path.read_text() == "s\n"


def test_bytes_that_are_not_utf8_stay(script: Path) -> None:
    script.write_bytes(b"# caf\xe9 \xf0\x9f\n" + script.read_bytes() + b"echo '\xe9'\n")
    before = script.read_bytes()
    fixed_of(script).write()
    assert script.read_bytes() == before.replace(b"reward_model.reward_manager", b"reward.reward_manager.name")


def test_carriage_returns_of_a_script_stay(script: Path) -> None:
    words = " ".join(script.read_text().replace("\\\n", " ").split())
    script.write_bytes(f"\ufeffset -x\r\n{words} trainer.nnodes=1 \r\n".encode())
    fixed_of(script).write()
    assert b"reward.reward_manager.name=dapo trainer.nnodes=1 \r\n" in script.read_bytes()
    assert script.read_bytes().startswith(b"\xef\xbb\xbfset -x\r\n")


def test_a_file_that_changed_meanwhile_is_not_overwritten(script: Path) -> None:
    fixed = fixed_of(script)
    script.write_text("# mine\n")
    with pytest.raises(ConfigError, match="changed since it was checked"):
        fixed.write()
    assert script.read_text() == "# mine\n"


def test_a_file_that_cannot_be_written_is_said_so(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = fixed_of(script)

    def refuse(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ConfigError, match=r"run\.sh: cannot be written: Permission denied"):
        fixed.write()


def test_a_folder_that_cannot_be_written_is_no_hindrance(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    make, asked = tempfile.mkstemp, []

    def refuse(suffix: str, prefix: str, folder: Path | None) -> Any:
        asked.append(folder)
        if folder is not None:
            raise PermissionError(13, "Permission denied")
        return make(suffix, prefix, folder)

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert "reward.reward_manager.name=dapo" in fixed_of(script).text
    assert asked[:2] == [script.parent, None]


def test_a_name_like_a_preset_is_a_script_when_it_is_one(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    assert fixed_of("run.sh").made
    Path("quickstart").write_text("algorithm: {clip_rato: 0.2}\n")
    known = [problem(Fix("rename", "algorithm.clip_rato", "algorithm.clip_ratio", Place("quickstart", 1, 13)))]
    assert fix_file("quickstart", known) is None  # the preset is meant
    assert fix_file("gone.sh", [problem(Fix("rename", "a", "b", Place("gone.sh", 1, 1)))]) is None


def keys_checked(*bad: str, spoilt: str = "") -> Any:
    """A check that finds each of `bad` as a line of a YAML file; `spoilt` is an error as soon as it stands there."""

    def check(path: str) -> list[Problem]:
        lines = Path(path).read_text().splitlines()
        places = {line.partition(":")[0]: Place(path, row, 1) for row, line in enumerate(lines, start=1)}
        found = [problem(Fix("rename", key, key.upper(), places[key])) for key in bad if key in places]
        return [*found, *([Problem("VRL001", "error", spoilt, "m")] if spoilt in places else [])]

    return check


def made_of(path: Path, check: Any) -> tuple[str, list[str], list[str]]:
    fixed = fix_file(str(path), check(str(path)), check)
    assert fixed is not None
    return fixed.text, [each.path for each in fixed.made], [each.path for each in fixed.left]


def test_a_fix_that_brings_an_error_is_not_made_and_the_others_are(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("".join(f"{name}: 1\n" for name in "abcde"))
    text, made, left = made_of(path, keys_checked("a", "b", "c", "d", "e", spoilt="C"))
    assert text == "A: 1\nB: 1\nc: 1\nD: 1\nE: 1\n"
    assert (made, left) == (["a", "b", "d", "e"], ["c"])
    assert path.read_text() == "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\n"


def test_a_fix_that_leaves_its_problem_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")

    def check(file: str) -> list[Problem]:
        return [problem(Fix("set", "a", 2, Place(file, 1, 1)))]

    assert made_of(path, check) == ("a: 1\n", [], ["a"])


def test_what_a_mended_key_shows_is_mended_too(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")

    def check(file: str) -> list[Problem]:
        text, place = Path(file).read_text(), Place(file, 1, 1)
        if text == "A: 1\n":
            return [Problem("VRL002", "error", "A", "m", fix=Fix("set", "A", 2, place))]
        return [problem(Fix("rename", "a", "A", place))] if text == "a: 1\n" else []

    assert made_of(path, check) == ("A: 2\n", ["a"], [])


def test_a_text_that_cannot_be_read_afterwards_is_no_fix(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")

    def check(file: str) -> list[Problem]:
        if "A" in Path(file).read_text():
            raise ConfigError("cannot be read")
        return [problem(Fix("rename", "a", "A", Place(file, 1, 1)))]

    assert made_of(path, check) == ("a: 1\n", [], ["a"])
    assert os.listdir(tmp_path) == ["a.yaml"]


def test_what_is_wrong_with_a_value_stays_wrong_under_the_new_key(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")

    def check(file: str) -> list[Problem]:
        key = Path(file).read_text()[0]
        renamed = [problem(Fix("rename", "a", "A", Place(file, 1, 1)))] if key == "a" else []
        return [*renamed, Problem("VRL204", "error", key, "does not divide the heads")]

    assert made_of(path, check) == ("A: 1\n", ["a"], [])
