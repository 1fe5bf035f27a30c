"""What bash really hands to python for a script, against what reading the script says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from verlcli.config.shell import read_script

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="no bash here")

_STUB = """#!{bash}
{{ printf '%s\\0' "${{0##*/}}" "$@"; printf '\\1'; }} >> "{log}/$$"
"""

SNIPPETS = {
    "plain words": "python3 -m m a=1 b.c=d",
    "single quotes": "python3 m 'a b' 'c\"d' '$X'",
    "double quotes": 'X=1; python3 m "a b" "$X" "it\'s" "\\$X \\" \\\\ \\n"',
    "dollar quotes": "python3 m $'a\\tb\\n' $'\\x41\\'' $\"c d\"",
    "escapes": "python3 m a\\ b \\$X \\\"q\\\" \\\\",
    "continued lines": "python3 m \\\n  a=1 \\\n  b=2\\\nc \\\n  d=3",
    "continued inside quotes": 'python3 m "a\\\nb" \'c\\\nd\'',
    "quotes joined": "X=2; python3 m a='b c'\"$X\"d",
    "empty words": "X=; python3 m '' \"\" $X \"$X\" a=$X",
    "assignment": "LR=1e-6; python3 m optim.lr=$LR optim.lr=${LR}x",
    "assignment keeps blanks": 'X="a  b"; Y=$X; python3 m "$Y"',
    "append": "X=a; X+=b; X+=$X; python3 m $X",
    "several in a line": "A=4 B=2\nC=3\nD=(x)\nfor x in 1 2; do python3 m $A $B $x \"${D[@]}\"; done\npython3 n",
    "several in a line and a comment": "A=4 B=$A # c\n\nif [ $A = 4 ]; then python3 m $B; else python3 n; fi",
    "several in a line and a test": "A='x y' B=2\n[[ $B == 2 ]] && python3 m \"$A\"\nC=1 D=2\n(( D )) && python3 n",
    "several in lines": "A=1 B=2\nC=3 D=4\ncase $C in 3) E=5 F=6;; esac\nwhile [ $A = 1 ]; do A=2 G=7\n"
    "if true; then python3 m $B$D$E$F$G; fi; done",
    "several in a function": "f() { local a=1; b=2 c=3\nfor x in $a; do python3 m $a$b$c$x; done; }\nX=1 Y=2\nf",
    "arithmetic decides": "D=2; E=0\n(( D )) && python3 m\n(( E )) || python3 n\n! (( E )) && python3 o\n"
    "if (( D > 1 )) && (( ! E )); then python3 p; fi; (( E )) 2>/dev/null || python3 q; ((E)) || ((D)) && python3 r",
    "backslash ends the file": "python3 m a=1 \\\n  b=2 \\",
    "index from a command": "a[$(echo 1)]=x; a[$((1 + 1))]=y; python3 m \"${a[1]}\" \"${a[2]}\" ${#a[@]}",
    "numbers beyond 64 bits": "python3 m $((16#fffffffffffffffff)) $((0x1fffffffffffffff0)) $((9223372036854775807+1))",
    "items in any order": "a[3]=c; a[1]=a; ((a[2]=5)); a[-1]=z; a+=(n); python3 m \"${a[@]}\" \"${!a[@]}\" ${#a[@]}",
    "backslash in a pattern": "P='\\*'; F='a*'; python3 m ${F%$P}; [[ $F == a$P ]] && python3 n",
    "brackets in a set": "[[ a] =~ a[]]$ ]] && python3 m; [[ x == [[]x ]] || python3 n; [[ - =~ [a-]+$ ]] && python3 o",
    "splitting": 'X="a  b\tc"; python3 m $X x${X}y',
    "splitting at the ends": 'X=" a "; python3 m b${X}c $X',
    "other IFS": "IFS=,; X=a,b,,c; python3 m $X",
    "default": "python3 m ${X:-d} ${X-e} \"${X:-a b}\" ${X:-a b}",
    "default for empty": "X=; python3 m a${X:-d} a${X-e}",
    "default of a default": "Y=2; python3 m ${X:-${Y:-3}} ${X:-$Z}${X:-}z",
    "default with quotes": "python3 m \"${X:-\"a b\"}\" ${X:-'c d'} \"${X:-'e'}\"",
    "assigning default": ": ${X:=5} \"${Y:=a b}\"; python3 m $X \"$Y\" $Y",
    "alternative": "X=1; Y=; python3 m ${X:+a} ${Y:+b} ${Y+c} ${Z+d} e${Z:+f}",
    "error when set": "X=1; python3 m ${X:?must be set}",
    "length": "X=hello; a=(1 2 3); python3 m ${#X} ${#a[@]} ${#a} ${#Y}",
    "suffix": "F=a.b.tar.gz; python3 m ${F%.gz} ${F%.*} ${F%%.*} ${F%x}",
    "prefix": "F=/a/b/c; python3 m ${F#*/} ${F##*/} ${F#/a} ${F#x}",
    "quoted pattern": "F='a*b'; python3 m \"${F%'*b'}\" \"${F%\"*\"b}\" ${F%\\*b}",
    "pattern from variable": "F=a.txt; P=.txt; python3 m ${F%$P} ${F%\"$P\"}",
    "replacing": "X=a/b/c; python3 m ${X/\\//-} ${X//\\//-} ${X//b} ${X/#a/z} ${X/%c/z} ${X//[ab]/_}",
    "replacing all": "X=abc; python3 m ${X//*/z} ${X/?/-}",
    "case of letters": "X=aBc; python3 m ${X^} ${X^^} ${X,} ${X,,}",
    "part": "X=abcdef; python3 m ${X:2} ${X:1:3} ${X: -2} ${X:0:-1} ${X:9}z",
    "indirect": "A=B; B=c; python3 m ${!A}",
    "arithmetic": "A=7; B=2; python3 m $((A/B)) $((A%B)) $(($A*3)) $((-7/2)) $((2**10)) $((A>B?1:0)) $((1<<4|3))",
    "arithmetic forms": "i=3; ((i++)); let j=i*2 k=1; ((k+=5)); python3 m $i $j $k $((0x1f)) $((010)) $(( (1+2) * 3 ))",
    "arithmetic of unset": "python3 m $((X+1)) $((Y))",
    "arithmetic short circuit": "i=0; ((0 && (i=5))); ((1 || (i=6))); python3 m $i $((1 ? 2 : 3))",
    "integer variable": "declare -i n=3*4; n+=1; python3 m $n",
    "array": 'a=(x=1 "y=2 3"); python3 m "${a[@]}" ${a[@]} "${a[0]}" $a ${a[-1]}',
    "array over lines": 'A=(\n  a=1  # why\n\n  # more\n  b="2 3"\n)\npython3 m "${A[@]}"',
    "array append": 'a=(1); a+=(2 "3 4"); a[5]=x; python3 m "${a[@]}" ${#a[@]} "${!a[@]}"',
    "array joined": 'a=(1 2 3); python3 m "${a[*]}" "x${a[@]}y"',
    "array joined by comma": 'a=(1 2 3); IFS=,; python3 m "[${a[*]}]"',
    "empty array": 'a=(); python3 m "${a[@]}" "${a[@]:-none}" z',
    "array parts": 'a=(1 2 3 4); python3 m "${a[@]:1:2}" "${a[@]:2}"',
    "array with operator": 'a=(x.py y.py); python3 m "${a[@]%.py}" "${a[@]/#/--}"',
    "array of split text": 'X="a b"; a=($X "$X"); python3 m ${#a[@]} "${a[@]}"',
    "array index arithmetic": 'a=(p q r); i=1; python3 m ${a[i]} ${a[$i+1]} ${a[i-1]}',
    "associative array": 'declare -A m=([k]=v [x y]=z); m[n]=1; python3 m "${m[k]}" "${m[x y]}" "${m[n]}" ${#m[@]}',
    "braces": "python3 m a{b,c}d {1..3} {a,b}{1,2} x={1,2} {a} {a,b {01..03} {c..a}",
    "braces and quotes": "python3 m '{a,b}' \"{a,b}\" {\"a b\",c} {a,'b,c'}",
    "braces keep lists": "python3 m x=[a,b] y={k:1,v:2} z='{k:1,v:2}'",
    "braces with variables": "X=1; python3 m {$X,b} ${X}{a,b}",
    "unquoted list": "python3 m trainer.logger=['console','wandb'] x=[\"a\",\"b\"]",
    "here document": 'X=$(cat <<EOF\na $Y b\n"c" \\$d\nEOF\n)\npython3 m "$X"',
    "here document literal": "X=$(cat <<'EOF'\na $Y it's )\nEOF\n)\npython3 m \"$X\"",
    "here document with tabs": "X=$(cat <<-EOF\n\ta\n\t\tb\n\tEOF\n)\npython3 m \"$X\"",
    "read here document": 'Y=1; read -r -d "" X <<EOF\nl1 $Y\nl2\nEOF\npython3 m "$X"',
    "read words": 'read -r a b c <<< "1 2 3 4"; python3 m "$a" "$b" "$c"',
    "read array": 'IFS=, read -r -a a <<< "x,y,z"; python3 m "${a[@]}" ${#a[@]}',
    "read array in one option": 'IFS=\',\' read -ra G <<< "0,1,2,3"; '
    'python3 m ${#G[@]} "${G[@]}"; N=${#G[@]}; python3 n $N',
    "read array, other forms": 'IFS=, read -aG <<< "x,y"; read -a H -r <<< "p q"; IFS=: read -r -a I -- <<< "1: 2:"; '
    'python3 m ${#G[@]} ${#H[@]} ${#I[@]} "${I[@]}"',
    "read array of a variable": 'D=0,1,2; IFS=, read -ra G <<< "$D"; IFS=, read -ra H <<< "$D,"; '
    'python3 m ${#G[@]} ${#H[@]}',
    "read empty fields": 'IFS=, read -ra G <<< "a,,b,"; IFS=", " read -r x y z <<< "1 , 2,,3,"; '
    'IFS=, read p q <<< "1,2,"; python3 m ${#G[@]} "${G[@]}" "$x" "$y" "$z" "$p" "$q"',
    "read with a mark at the end": 'read -rd "" X <<< " a b"; read -rd , Y <<< "c,d" && python3 m "$X" "$Y"; '
    'IFS= read -r Z <<< " e "; read -r <<< " f "; python3 n "$Z" "$REPLY"; read -d , W <<< g || python3 o "$W"',
    "last arguments": 'f() { python3 m "${@: -1}" ${@: -2:1} "${*: -1}" "${@: -9}"; }; f a "b c" d; set -- x y; '
    'python3 n "${@: -1}" "${@:2}" "${@: -2}"; a=(1 2); python3 o "${a[@]: -1}" "${a[@]: -5}" z',
    "assignment before a function": 'f() { python3 m $X; X=4; }; X=1; X=3 f; python3 n $X; unset X; X=2 f; '
    'python3 o ${X:-gone}; Z=5 eval "python3 p"; python3 q ${Z:-gone}',
    "assignment before a function with locals": 'f() { local X=9; python3 m $X; }; X=1; X=3 f; python3 n $X; '
    'g() { bash -c \'python3 o "$Y"\'; }; Y=7 g; python3 p ${Y:-gone}',
    "mapfile": 'mapfile -t G <<< $(printf "a b\\nc\\n"); mapfile -t H <<EOF\np q\n\nr\nEOF\nreadarray I <<< x; '
    'python3 m ${#G[@]} ${#H[@]} "${H[@]}" "${I[0]}"; mapfile <<< y; python3 n "${MAPFILE[@]}"',
    "echo": 'X=$(echo a  b); Y=$(echo -n "c  d"); python3 m "$X" "$Y" $(echo e f)',
    "backquotes": 'X=`echo a b`; python3 m "$X" "a`echo c`"',
    "printf": 'X=$(printf "%s-%03d" a 7); printf -v Y "%s,%s" 1 2; python3 m $X $Y "$(printf "%s\\n" p q)"',
    "nested substitution": 'python3 m "$(echo "$(echo "a b")")" $(echo $(echo c))',
    "substitution in a default": 'X=${X:-$(echo d)}; python3 m $X',
    "substitution is a subshell": "X=1; Y=$(X=2; echo $X); python3 m $X $Y",
    "for": "for x in a 'b c' d{1,2}; do python3 m $x; done",
    "for over an array": 'a=("x y" z); for i in "${a[@]}"; do python3 m "$i"; done; python3 n "$i"',
    "for builds an array": 'for i in 1 2 3; do a+=(k$i=$i); done; python3 m "${a[@]}"',
    "break and continue": "for i in 1 2 3 4; do [ $i = 2 ] && continue; [ $i = 4 ] && break; python3 m $i; done",
    "counted for": "for ((i=0; i<3; i++)); do python3 m $i; done; python3 n $i",
    "while": "i=0; while [ $i -lt 3 ]; do python3 m $i; i=$((i+1)); done; until ((!i)); do ((i--)); done; python3 n $i",
    "if": 'X=a; if [ "$X" = b ]; then Y=1; elif [[ $X == a* ]]; then Y=2; else Y=3; fi; python3 m $Y',
    "if of unset": 'if [ -z "$X" ]; then Y=1; else Y=2; fi; if [[ -n ${X:-} ]]; then Y+=x; fi; python3 m $Y',
    "tests": '[ 3 -gt 2 -a 1 -le 1 ] && A=1; [ ! -n "" ] && B=1; [[ abc =~ ^a.c && ! x == y ]] && C=1; python3 $A$B$C',
    "tests that fail": '[ a = b ] || A=1; [ 1 -eq 2 -o 2 -eq 2 ] && B=1; test x != x || C=1; python3 m $A $B $C',
    "double bracket patterns": '[[ a.b == *.b ]] && A=1; [[ a == "a*" ]] || B=; [[ a<b && (c == c) ]] && python3 $A$B',
    "case": "X=b2; case $X in a*) Y=1;; b?|c) Y=2;; *) Y=3;; esac; python3 m $Y",
    "case with quotes": 'case "a b" in "a b") Y=1;; esac; case x in [a-c]) Z=1;; [!a-c]) Z=2;; esac; python3 m $Y $Z',
    "function": 'run() { local x=$1; shift; python3 m "$x" "$@"; }; x=0; run "a b" c d; python3 n $x',
    "function sets": "f() { X=2; local Y=3; return 0; python3 never; }; Y=1; f; python3 m $X $Y",
    "function with default": 'function f { python3 m "${1:-d}" "${2:-e}" $#; }; f; f a',
    "set words": "set -- a 'b c'; python3 m \"$@\" $# $2 \"$*\"; shift; python3 n \"$1\"",
    "own arguments": 'python3 m a=1 "$@" $* b=2',
    "argument default": "python3 m ${1:-8} ${2:-\"a b\"}",
    "subshell": "X=1; (X=2; python3 m $X); python3 n $X",
    "group": "X=1; { X=2; python3 m $X; }; python3 n $X",
    "pipeline": "X=1; python3 m $X 2>&1 | python3 n | python3 o; echo a | X=2; python3 p $X",
    "redirections": "python3 m a > out.txt 2>&1 b < /dev/null c &> all.txt; python3 n >/dev/null",
    "background": "python3 m a & wait; python3 n & wait",
    "lists": "true && python3 a; false && python3 b; false || python3 c; true || python3 d; ! false && python3 e",
    "exit": "python3 m; exit 0; python3 never",
    "exit in a branch": 'X=1; if [ "$X" -eq 1 ]; then python3 m; exit; fi; python3 never',
    "exec": "exec python3 m a\npython3 never",
    "prefix assignment": "X=1; X=2 Y=3 python3 m $X $Y",
    "export": 'export A=1 B="x y"; declare C=$B; readonly D=4; python3 m $A "$B" "$C" $D',
    "unset": "X=1; Y=2; unset X; python3 m ${X:-gone} $Y",
    "eval": "X='python3 m a'; eval \"$X b\"; eval 'Y=3'; python3 n $Y",
    "command in a variable": 'CMD="python3 -m m a=1"; $CMD b=2; C=(python3 n "c d"); "${C[@]}"',
    "bash -c": "export X=1; Y=2; bash -c 'python3 m $X \"$Y\" \"$1\"' zero one",
    "comments": "# python3 no\npython3 m a # b\npython3 m a#b '#c'",
    "comment cuts a launch": "python3 m a=1 \\\n  # note \\\n  b.c=2\npython3 n",
    "blank behind backslash": "python3 m a=1 \\ \n  b.c=2\npython3 n",
    "non-ascii": "X=é; python3 m “a” – $X 日本=1",
    "glob without a match": "python3 m a=[1,2] *.nothing x?y",
    "tilde is no home inside": "python3 m a~b x='~' \"~/x\"",
    "dollar signs alone": "python3 m $ a$ \"$\" '$'",
    "seq": 'for i in $(seq 2) $(seq 3 -1 2); do A+=($i); done; python3 m "${A[@]}" "$(seq 1 2 5)"',
    "expr and basename": "X=/a/b.sh; "
    "python3 m $(expr 7 / 2 + 1) $(basename $X .sh) $(dirname $X) $(basename /a/) $(dirname x)",
    "declared names": "f() { declare X=1 Y; local Z; Y=2; python3 m $X$Y; "
    "}; X=0; f; export X; declare -x W=3; python3 m $X$W",
    "words that declare": 'A="X=1"; export $A "Y=2 3"; declare -a L=(p q); '
    'readonly R=4; python3 m $X "$Y" "${L[1]}" $R',
    "unset items": 'a=(1 2 3); unset "a[1]"; python3 m "${a[@]}" ${#a[@]}; '
    'declare -A m=([k]=1); unset "m[k]"; python3 n ${#m[@]}',
    "unset exported": "export A=1; export -n A; bash -c 'python3 m \"$A\"'",
    "extended patterns": 'X=foo; [[ $X == @(foo|bar) ]] && A=1; [[ $X == +([a-z]) ]] && B=1; '
    '[[ x1 == x?(1) ]] && C=1; python3 $A$B$C',
    "classes": 'X=a1B; python3 m ${X//[[:digit:]]/-} ${X//[^a-z]/_} ${X%[A-Z]}; '
    '[[ a.b =~ ^[a-z]\\.[[:alpha:]]$ ]] && python3 n',
    "more numbers": 'i=5; ((i+=2, i--)); ((i%=4)); '
    'python3 m $i $((~i)) $((!i)) $((i++ + ++i)) $((2#101 + 0xF)) $((i<=3 && i!=2 || 0)) $((6&3^1))',
    "indexes": 'a=(1 2 3); i=1; a[i+1]=9; ((a[0]++)); a[1]+=x; '
    'python3 m "${a[@]}" $((a[0]*2)) "${a[@]: -1}" "${a[$((i-1))]}"',
    "printf again": 'python3 m "$(printf "%s,%5s|%-3d|" a b 7)" "$(printf "%d%%\\n" 5)" "$(printf "%s=%s " a 1 b 2)"',
    "file name tests": '[ -f "" ] || A=1; [ -e "$NOPE" ] || B=1; [[ -d "" ]] || C=1; [ "$A" ] && python3 m $A$B$C',
    "loop left early": "for x in a b c; do for y in 1 2; do [ $x$y = b1 ] && break 2; "
    "python3 m $x$y; done; done; python3 n $x",
    "function in a substitution": 'f() { echo "$1-x"; }; X=$(f a); python3 m $X "$(f "b c")"',
    "set in order": "set -- x; set -- \"$@\" y; python3 m \"$@\" ${@:1:1} ${*:2}",
    "case goes on": "case a.b in *.c) X=1;; *.[bd]) X=2;; esac; case '' in '') Y=1;; esac; python3 m $X$Y",
    "not": "if ! [ a = b ]; then python3 m; fi; ! true || python3 n; if ! false && true; then python3 o; fi",
    "until and let": "let i=3; until [ $i -le 0 ]; do let i-=1; python3 m $i; done",
    "time": "time python3 m a",
    "trap and set": "set -euo pipefail; trap 'echo bye' EXIT; python3 m a",
    "numbers as words": "python3 m 1 2>/dev/null 3 4",
    "items in one value": "a=(p 'q r' '' s); A=\"${a[@]}\"; B=${a[@]}; C=\"${a[*]}\"; D=${a[*]}; E=\"x${a[@]}y\"; "
    'F=${Z:-"${a[@]}"}; declare G="${a[@]}"; python3 m "$A" "$B" "$C" "$D" "$E" "$F" "$G" $A x$B',
    "items in one value, other IFS": "a=(p 'q r' s ''); IFS=,; A=\"${a[@]}\"; B=${a[@]}; C=\"${a[*]}\"; D=${a[*]}; "
    'E=$a; unset IFS; python3 m "$A" "$B" "$C" "$D" "$E"; set -- 1 "2 3"; F=$@; G="$*"; python3 n "$F" "$G" $F',
    "items in a here-document": 'a=(p q); X=$(cat <<EOF\n${a[@]}-${a[*]}\nEOF\n); python3 m "$X"',
    "items in a case": "a=(p q); case ${a[@]} in 'p q') python3 m;; esac",
    "statements for other shells": 'X=1; export Y="a b"; bash -c "python3 m $X \'$Y\' $Z"; eval "python3 n \\$X $Y"',
    "statements given as input": "export Y=2; X=1\nbash <<EOF\npython3 m $X \\$X \\$Y\nEOF\n"
    "bash -s -- a 'b c' <<'EOF'\npython3 n $1 \"$2\" $# $Y\nEOF\n"
    "cat <<EOF | bash\npython3 o $X\nEOF\nbash <<< 'python3 p'",
    "a script that it writes": "export Y=2\ncat > job.sh <<'EOF'\n#!/bin/bash\npython3 m $1 $Y\nEOF\n"
    "bash job.sh a; bash ./job.sh b",
    "first of an array": 'a=(p q); python3 m $a "$a" ${a}x',
    "semicolons in a line": "A=1;B=2;python3 m $A$B;python3 n",
}  # fmt: skip


def _by_bash(script: str, folder: Path) -> list[list[str]]:
    stubs, log = folder / "stubs", folder / "log"
    stubs.mkdir()
    log.mkdir()  # a file for each process: those of a pipeline write at the same time
    stub = stubs / "python3"
    stub.write_text(_STUB.format(bash=BASH, log=log))
    stub.chmod(0o755)
    (stubs / "bash").symlink_to(str(BASH))
    for program in ("cat", "seq", "expr", "basename", "dirname"):
        (stubs / program).symlink_to(str(shutil.which(program)))
    (folder / "run.sh").write_text(script, newline="")
    subprocess.run(
        [str(BASH), "run.sh"],
        cwd=folder,
        env={"PATH": str(stubs), "HOME": str(folder), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
    )
    records = [record for file in log.iterdir() for record in file.read_bytes().decode().split("\1")[:-1]]
    return [record.split("\0")[:-1] for record in records]


@pytest.mark.parametrize("name", SNIPPETS)
def test_words_are_those_of_bash(name: str, tmp_path: Path) -> None:
    script = SNIPPETS[name]
    read = [
        [word.text_as_run for word in launch.words] for launch in read_script(script).launches if not launch.switched
    ]
    real = _by_bash(script, tmp_path)
    assert real, "the snippet launches nothing"
    assert sorted(read) == sorted(real)
