"""A variable that a script tests and leaves to whoever starts it is followed both ways."""

from __future__ import annotations

import pytest

from verlcli.config.shell import read_script
from verlcli.config.shell.parts import shown


def launches(text: str) -> list[tuple[str, bool]]:
    """The words behind `python3 m` of every launch, and whether somebody has to set a variable for it."""
    return [(" ".join(shown(w.parts) for w in each.words[2:]), each.switched) for each in read_script(text).launches]


@pytest.mark.parametrize(
    ("script", "usual", "others"),
    [
        ('if [ "$M" = big ]; then T=3; else T=2; fi; python3 m $T', "2", ["3"]),
        ("if [[ $M == big ]]; then T=3; elif [[ $M == mid ]]; then T=4; else T=2; fi; python3 m $T", "2", ["3", "4"]),
        ('if [ "$M" != big ]; then T=2; else T=3; fi; python3 m $T', "2", ["3"]),
        ('if [ -n "$D" ]; then python3 m a $D; else python3 m b; fi', "b", ["a $D"]),
        ('A=(); [ "$L" = 1 ] && A+=(x); python3 m "${A[@]}"', "", ["x"]),
        ('T=1; if [ "$A" = 1 ] || [ "$B" = 1 ]; then T=2; fi; python3 m $T$A$B', "1$A$B", ["2$A$B", "21$B"]),
        ("M=${1:-small}; if [ $M = big ]; then T=3; else T=2; fi; python3 m $T $M", "2 small", ["3 big"]),
        ('M=${M:-a}; case "$M" in a) T=1;; b | c) T=2;; *) exit 1;; esac; python3 m $T$M', "1a", ["2b", "2c"]),
    ],
)
def test_the_other_choices_follow_the_usual_one(script: str, usual: str, others: list[str]) -> None:
    (first, *rest) = launches(script)
    assert first == (usual, False)
    assert sorted(rest) == [(text, True) for text in others]


def test_a_choice_holds_where_the_default_was_used_before_the_test() -> None:
    script = "B=${B:-x}; C=engine=$B; if [ $B = x ]; then T=1; elif [ $B = y ]; then T=2; fi; python3 m $C $T"
    assert launches(script) == [("engine=x 1", False), ("engine=y 2", True)]


@pytest.mark.parametrize(
    "script",
    [
        'if [ -z "$X" ]; then X=5; fi; python3 m $X',  # a default in another form
        "M=${M:-a}; if [ $M = a ]; then T=1; else T=2; fi; python3 m $T",  # nothing tells another value
        'read -r X < f; Y=; if [ "$Y" = 1 ]; then T=1; fi; python3 m',
        'if [ "$M" = big ]; then echo big; fi; python3 m',
    ],
)
def test_nothing_is_left_open(script: str) -> None:
    ((_, switched),) = launches(script)
    assert not switched


def test_a_variable_that_the_script_insists_on_is_open_and_not_empty() -> None:
    for test in ('if [ -z "$X" ]; then exit 1; fi', '[ -z "$X" ] && exit 1', '[ -n "$X" ] || { echo no; exit 1; }'):
        script = read_script(f"{test}\npython3 m a=$X")
        assert [shown(launch.words[2].parts) for launch in script.launches] == ["a=$X"]
        assert script.findings == ()


def test_each_variable_is_chosen_for_itself() -> None:
    tests = "".join(f'if [ "$V{n}" = 1 ]; then A{n}=x; fi\n' for n in range(12))
    script = read_script(tests + "python3 m " + " ".join(f"$A{n}" for n in range(12)))
    assert len(script.launches) == 13
    assert not [finding for finding in script.findings if finding.kind == "unknown_world_limit"]


def test_many_choices_do_not_crowd_out_the_usual_one() -> None:
    tests = "".join(f'if [ "$V{n}" = 1 ]; then A{n}=x; fi\n' for n in range(30))
    script = read_script(tests + "python3 m b=1")
    assert not script.launches[0].switched
    assert [finding.kind for finding in script.findings] == []


def test_conditions_name_the_choice() -> None:
    script = read_script('if [ "$M" = big ]; then python3 m a; else python3 m b; fi')
    assert [launch.condition for launch in script.launches] == ["", 'if [ "$M" = big ]']


def test_a_script_that_does_very_much_is_followed_without_choices() -> None:
    tests = "".join(f'if [ "$V{n}" = 1 ]; then A{n}=x; fi\n' for n in range(1000))
    script = read_script(tests + "python3 m b=1")
    assert [shown(launch.words[2].parts) for launch in script.launches] == ["b=1"]
