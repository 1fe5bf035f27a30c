from __future__ import annotations

from textwrap import dedent

import pytest

from verlcli.config.fix import diff_of, fix_text
from verlcli.config.fix_yaml import fix_yaml
from verlcli.config.loader import load_text
from verlcli.config.problems import Fix, Place, Problem


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
        "    load_format=safetensors c=3\n"
    )
    assert len(fixed.made) == 4
    assert not fixed.left


@pytest.mark.parametrize(
    "fix",
    [
        Fix("rename", "q", "r", Place("r.sh", 3, 12), "q"),  # the text comes from a variable
        Fix("remove", "x", None, Place("r.sh", 3, 12), "x=$N"[:1]),
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
