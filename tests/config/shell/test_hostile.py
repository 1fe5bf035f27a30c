"""Texts that are no scripts, or scripts without measure: always a result, never an error."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verlcli.config.shell import Script, read_script

SEEDS = (
    'X=${A:-"b c"}; for i in 1 2; do python3 -m m a=$X b="${c[@]}" $((i * 2)) | tee log; done\n',
    "if [[ -z $R && $N -gt 1 ]]; then ray job submit --x y -- python3 m 'k=[1]'; else exit 1; fi\n",
    "f() { local a=$1; shift; python3 m \"$@\" ${a%%.*}; }; f a.b $(cat <<EOF\nhi $X\nEOF\n)\n",
    'case "$1" in a|b*) A+=(x=1 "y z");; *) A=();; esac; while read -r l; do torchrun t.py "${A[@]}"; done\n',
)  # fmt: skip
ALPHABET = "abX=1 $(){}[]\"'`\\\n;|&<>#*?!~@%/:-+,é\r\0"


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_a_script(text: str) -> None:
    assert isinstance(read_script(text), Script)


@given(st.text(alphabet=ALPHABET, max_size=120))
@settings(max_examples=500, deadline=None)
def test_any_marks_of_bash_give_a_script(text: str) -> None:
    script = read_script(text)
    lines = text.count("\n") + 1
    assert all(1 <= finding.place.line <= lines for finding in script.findings)


@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 300), st.sampled_from(ALPHABET), st.booleans())))
@settings(max_examples=500, deadline=None)
def test_mutated_scripts_give_a_script(seed: str, changes: list[tuple[int, str, bool]]) -> None:
    text = seed
    for at, char, delete in changes:
        text = text[:at] + ("" if delete else char) + text[at + 1 :]
    script = read_script(text)
    assert all(word.place.line <= text.count("\n") + 1 for launch in script.launches for word in launch.words)


@pytest.mark.parametrize(
    "text",
    [
        "python3 m " + "$(" * 3000 + "echo" + ")" * 3000,
        "X=" + "${a:-" * 3000 + "}" * 3000,
        "(" * 5000,
        "{ " * 3000 + "a" + "; }" * 3000,
        "if a; then " * 1000 + "b" + "; fi" * 1000,
        "X=$((" + "(" * 3000 + "1" + ")" * 3000 + "))",
        "python3 m " + "{" * 20000,
        "python3 m " + "{a,b}" * 30,
        "python3 m " + "{1..1000}" * 3,
        "f() { f; f; }\nf\npython3 m",
        "x='eval $x'; eval $x",
        "while true; do while true; do x+=a; done; done; python3 m $x",
        "X=" + "a" * 60000 + "\nY=${X//*a*a*a*b/}\npython3 m ${X##*b*c*}",
        "X=" + "a" * 5000 + "\n[[ $X =~ (a+)+b ]] && Y=1\n[[ $X =~ a*a*a*b ]] && Y=2\npython3 m $Y",
        "cat <<EOF\n" * 2000,
        "".join(f"a[{number}]=x\n" for number in range(8000, 0, -1)),
        "a=()\n" + "a+=(x)\n" * 8000,
        "".join(f"export V{number}=1\n" for number in range(2000)) + "python3 m\n" * 300,
        "`" * 10001,
    ],
)
def test_scripts_without_measure_end(text: str) -> None:
    assert isinstance(read_script(text), Script)


def test_value_that_doubles_becomes_a_gap() -> None:
    read = read_script("x=a\n" + "x=$x$x\n" * 40 + "python3 m v=$x")
    (gap,) = read.launches[0].words[2].gaps
    assert gap.kind == "unsupported"
    assert "limit" in {finding.kind for finding in read.findings}


def test_array_that_doubles_is_cut() -> None:
    read = read_script("a=(1 2 3)\n" + 'a+=("${a[@]}")\n' * 30)
    assert "limit" in {finding.kind for finding in read.findings}


def test_large_text_is_not_read() -> None:
    read = read_script("python3 m\n" * 200_000)
    assert (read.launches, [finding.kind for finding in read.findings]) == ((), ["limit"])


def test_garbage_of_some_size() -> None:
    chance = random.Random(7)
    text = "".join(chance.choice(ALPHABET) for _ in range(100_000))
    assert isinstance(read_script(text), Script)


def test_long_script_is_read_to_its_end() -> None:
    text = "".join(f"V{number}=$(({number} + 1))\n" for number in range(5000)) + "python3 m a=$V0 b=$V4999\n"
    (launch,) = read_script(text).launches
    assert [word.text for word in launch.words] == ["python3", "m", "a=1", "b=5000"]


def test_array_of_many_items_keeps_them_all() -> None:
    (launch,) = read_script("a=(\n" + "k=1\n" * 9000 + ')\npython3 m "${a[@]}"').launches
    assert len(launch.words) == 9002
