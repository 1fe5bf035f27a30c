"""Worlds share what they expand alike, and nothing of it can be told from what is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from verlcli.config.shell import read_script
from verlcli.config.shell.expand import Expander
from verlcli.config.shell.items import RawWord
from verlcli.config.shell.shell import Shell
from verlcli.config.shell.types import Word

SCRIPTS = sorted((Path(__file__).parents[1] / "verl" / "scripts").iterdir())
FORK = 'if [ "$M" = big ]; then T=3; N=a; else T=2; N=b; fi\n'
TRICKY = (
    "A=(x $T y); A+=($N); python3 m ${A[@]}",
    'A=(k=$T); B=("${A[@]}" "$Q"); python3 m "${B[@]}" ${B[0]} ${#B[@]}',
    'if [ $T = 3 ]; then IFS=,; fi; V=a,b; python3 m $V "$V"',
    "X=${X:=$T}; Y=${X}1; python3 m $X $Y",
    "X=$((T * 2)); Y=$((X + U)); python3 m $X $Y",
    "for i in 1 $T; do V=$i$N; python3 m $V; done",
    'N=T; python3 m ${!N} ${T:0:1} ${T#3} "$@"',
    "f() { local V=$1$T; python3 m $V; }; f a; f b",
    'if [ $T = 3 ]; then . ./gone.sh; fi; python3 m "$W" $T',
    'T="$T"; T+=0; python3 m $T',
    "unset Q; A=([2]=$T [k]=$N); python3 m ${A[@]}",
    'if [ $T = 3 ]; then set -a; fi; V=1; python3 m "$V"',
)


@pytest.mark.parametrize("text", [FORK + each for each in TRICKY] + [file.read_text("utf-8") for file in SCRIPTS])
def test_what_is_shared_is_what_each_world_expands_by_itself(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = read_script(text)
    monkeypatch.setattr(Shell, "several", property(lambda shell: False, lambda shell, value: None), raising=False)
    assert repr(read_script(text)) == repr(shared)


def test_a_word_is_expanded_once_for_all_worlds_in_which_its_variables_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted, plain = Counter[str](), Expander._words

    def words(self: Expander, raw: RawWord) -> list[Word]:
        counted[self.source.text[raw.start : raw.end]] += 1
        return plain(self, raw)

    monkeypatch.setattr(Expander, "_words", words)
    script = read_script(FORK + "K=1\nA=(same=$K other=$T)\npython3 m ${A[@]}")
    assert [launch.words[-1].text for launch in script.launches] == ["other=2", "other=3"]
    assert (counted["same=$K"], counted["other=$T"], counted["${A[@]}"]) == (1, 2, 2)


def test_a_choice_of_what_another_world_has_anyway_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    starts, plain = Counter[str](), Expander._words

    def words(self: Expander, raw: RawWord) -> list[Word]:
        starts[self.source.text[raw.start : raw.end]] += 1
        return plain(self, raw)

    monkeypatch.setattr(Expander, "_words", words)
    head = "D=${D:-$(python3 -c 'import x' && echo npu || echo gpu)}\n"
    case = 'case "$D" in\n gpu) T=1 ;;\n npu) T=2 ;;\nesac\n'
    script = read_script(f"{head}{case}X=$(date)\npython3 m $T$(date)")
    assert sorted(launch.words[-1].text_as_run for launch in script.launches) == ["1", "2"]
    assert starts["$T$(date)"] == 2
