"""Hydra's override grammar: every expected value below is what hydra-core 1.3.2 makes of the same text."""

from __future__ import annotations

import pytest

from verlcli.config.verl.casts import Sweep
from verlcli.config.verl.overrides import Override, OverrideSyntaxError, parse_override
from verlcli.config.verl.values import MAX_DEPTH, parse_value

VALUES = [
    ("1", 1),
    ("+5", 5),
    ("1_000", 1000),
    ("1__0", "1__0"),
    ("01", "01"),
    ("0", 0),
    ("00", "00"),
    ("1.", 1.0),
    (".5", 0.5),
    ("1.5", 1.5),
    ("-1.5e-3", -0.0015),
    ("1e-6", 1e-06),
    ("1E6", 1000000.0),
    ("1_0.5_0e1_0", 105000000000.0),
    ("1e", "1e"),
    ("1.5.2", "1.5.2"),
    ("inf", float("inf")),
    ("-inf", float("-inf")),
    ("+inf", float("inf")),
    ("Inf", float("inf")),
    ("INF", float("inf")),
    ("nan", float("nan")),
    ("NaN", float("nan")),
    ("-nan", float("nan")),
    ("info", "info"),
    ("nano", "nano"),
    ("-info", "-info"),
    ("infinity", "infinity"),
    ("true", True),
    ("True", True),
    ("TRUE", True),
    ("tRuE", True),
    ("trues", "trues"),
    ("false-x", "false-x"),
    ("False", False),
    ("null", None),
    ("NULL", None),
    ("Null", None),
    ("None", "None"),
    ("none", "none"),
    ("nulls", "nulls"),
    ("", ""),
    (" 1", 1),
    (" ", ""),
    ("1 ", 1),
    (" 1 ", 1),
    ("\tx", "x"),
    ("x y", "x y"),
    ("x  y", "x  y"),
    (" x y ", "x y"),
    (
        "x,y",
        Sweep(
            (
                "x",
                "y",
            ),
            True,
        ),
    ),
    (
        "x, y",
        Sweep(
            (
                "x",
                "y",
            ),
            True,
        ),
    ),
    (
        "1,2,3",
        Sweep(
            (
                1,
                2,
                3,
            ),
            True,
        ),
    ),
    (
        "[1,2],[3]",
        Sweep(
            (
                [1, 2],
                [3],
            ),
            True,
        ),
    ),
    (
        "{a:1},{b:2}",
        Sweep(
            (
                {"a": 1},
                {"b": 2},
            ),
            True,
        ),
    ),
    ("[]", []),
    ("[ ]", []),
    ("[1]", [1]),
    ("[1,2]", [1, 2]),
    ("[1, 2]", [1, 2]),
    ("[ 1 , 2 ]", [1, 2]),
    ("[[1,2],[3,4]]", [[1, 2], [3, 4]]),
    ("[[]]", [[]]),
    ("[{a:1},{b:2}]", [{"a": 1}, {"b": 2}]),
    ("[console,wandb]", ["console", "wandb"]),
    ("['console','wandb']", ["console", "wandb"]),
    ('["console","wandb"]', ["console", "wandb"]),
    ("[\"console\", 'wandb']", ["console", "wandb"]),
    ("[ \"console\" , 'wandb' ]", ["console", "wandb"]),
    ("[a b, c]", ["a b", "c"]),
    ("{}", {}),
    ("{ }", {}),
    ("{a:1}", {"a": 1}),
    ("{a: 1}", {"a": 1}),
    ("{a:1,b:2}", {"a": 1, "b": 2}),
    ("{a: 1, b: [1,2]}", {"a": 1, "b": [1, 2]}),
    ("{a:{b:c}}", {"a": {"b": "c"}}),
    ("{a:b:c}", {"a": "b:c"}),
    ("{1:2}", {1: 2}),
    ("{null:2}", {None: 2}),
    ("{true:2}", {True: 2}),
    ("{1.5:2}", {1.5: 2}),
    ("{a b:2}", {"a b": 2}),
    ("{a/b:2}", {"a/b": 2}),
    ("{a.b:2}", {"a.b": 2}),
    ("{a-b:2}", {"a-b": 2}),
    ("{a:'x'}", {"a": "x"}),
    ("{a:${b}}", {"a": "${b}"}),
    ("{a:1,a:2}", {"a": 2}),
    ("'x'", "x"),
    ('"x"', "x"),
    ("''", ""),
    ('""', ""),
    ("'x y'", "x y"),
    ("'x=y'", "x=y"),
    ('"x=y"', "x=y"),
    (" 'x'", "x"),
    ("'x\\'y'", "x'y"),
    ('"x\\"y"', 'x"y'),
    ("'x\"y'", 'x"y'),
    ('"x\'y"', "x'y"),
    ("'x\\\\'", "x\\"),
    ("'x\\\\\\'y'", "x\\'y"),
    ("'\\\\'", "\\"),
    ("'\\\\\\\\'", "\\\\"),
    ('"\\\\"', "\\"),
    ("'\\''", "'"),
    ("'x\\y'", "x\\y"),
    ("'x\\\\y'", "x\\\\y"),
    ("'x\\ny'", "x\\ny"),
    ("'1'", "1"),
    ("'true'", "true"),
    ("'null'", "null"),
    ("'[1,2]'", "[1,2]"),
    ("'${b}'", "${b}"),
    ('"it\'s"', "it's"),
    ("x:y", "x:y"),
    ("x: y", "x: y"),
    ("x : y", "x : y"),
    (":x", ":x"),
    ("x:", "x:"),
    (":", ":"),
    ("http://127.0.0.1:8265", "http://127.0.0.1:8265"),
    ("hdfs://x/y", "hdfs://x/y"),
    ("C:\\x", "C:\\x"),
    ("/data/x.parquet", "/data/x.parquet"),
    ("./x", "./x"),
    ("../x", "../x"),
    ("$HOME/x", "$HOME/x"),
    ("$x", "$x"),
    ("$", "$"),
    ("${x}", "${x}"),
    ("${x.y}", "${x.y}"),
    ("${x.y}/z", "${x.y}/z"),
    ("z/${x.y}", "z/${x.y}"),
    ("${x}${y}", "${x}${y}"),
    ("${oc.env:HOME}", "${oc.env:HOME}"),
    ("${oc.env:HOME,/x}", "${oc.env:HOME,/x}"),
    ("${oc.env:HOME}/x", "${oc.env:HOME}/x"),
    ("a@b", "a@b"),
    ("a%b", "a%b"),
    ("a*b", "a*b"),
    ("*", "*"),
    ("a?b", "a?b"),
    ("a|b", "a|b"),
    ("a+b", "a+b"),
    ("+", "+"),
    ("++", "++"),
    ("-", "-"),
    ("--", "--"),
    ("'aéb'", "aéb"),
    ("'数据'", "数据"),
    ("\\", "\\"),
    ("\\\\", "\\"),
    ("\\,", ","),
    ("a\\,b", "a,b"),
    ("a\\=b", "a=b"),
    ("a\\ b", "a b"),
    ("\\ b", " b"),
    ("b\\ ", "b "),
    ("a\\(b\\)", "a(b)"),
    ("\\[1\\]", "[1]"),
    ("\\{1\\}", "{1}"),
    ("a\\:b", "a:b"),
    ("a\\nb", "a\\nb"),
    ("a\\b", "a\\b"),
    ("\\\\\\,", "\\,"),
    ("int(3)", 3),
    ("int('3')", 3),
    ("int(3.7)", 3),
    (
        "int(1,2)",
        Sweep(
            (
                1,
                2,
            ),
            True,
        ),
    ),
    ("int([1,'2'])", [1, 2]),
    ("int({a:'1'})", {"a": 1}),
    ("int(value=3)", 3),
    ("int(true)", 1),
    ("float(3)", 3.0),
    ("float('1e-6')", 1e-06),
    ("float(nan)", float("nan")),
    ("str(3)", "3"),
    ("str(true)", "true"),
    ("str([1,2])", ["1", "2"]),
    ("str(1.0)", "1.0"),
    ("str(1e-6)", "1e-06"),
    ("str('x')", "x"),
    ("bool(1)", True),
    ("bool(0)", False),
    ("bool('true')", True),
    ("bool(False)", False),
    ("bool(2.5)", True),
    (
        "choice(1,2)",
        Sweep(
            (
                1,
                2,
            ),
            False,
        ),
    ),
    ("choice(a)", Sweep(("a",), False)),
    ("range(1,5)", Sweep((1, 2, 3, 4), False)),
    ("range(5)", Sweep((0, 1, 2, 3, 4), False)),
    ("range(start=1,stop=5)", Sweep((1, 2, 3, 4), False)),
    ("interval(0,1)", Sweep((), False)),
    ("glob(*)", Sweep((), False)),
    ("sort([3,1,2])", [1, 2, 3]),
    ("sort([3,1,2],reverse=true)", [3, 2, 1]),
    (
        "sort(3,1)",
        Sweep(
            (
                1,
                3,
            ),
            True,
        ),
    ),
    (
        "tag(x,choice(1,2))",
        Sweep(
            (
                1,
                2,
            ),
            False,
        ),
    ),
    ("int (3)", 3),
    ("int( 3 )", 3),
    ("str(int(3))", "3"),
    ("[int(3),str(4)]", [3, "4"]),
    ("{a:int(3)}", {"a": 3}),
    ("Qwen2-0.5B", "Qwen2-0.5B"),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"),
    ("2024-01-01", "2024-01-01"),
    ("10:30", "10:30"),
    ("3d", "3d"),
    ("10ms", "10ms"),
    ("1e5x", "1e5x"),
    ("1/2", "1/2"),
    ("0x10", "0x10"),
    (
        "1,000",
        Sweep(
            (
                1,
                "000",
            ),
            True,
        ),
    ),
    ("50%", "50%"),
    (
        "0.5,0.6",
        Sweep(
            (
                0.5,
                0.6,
            ),
            True,
        ),
    ),
    ("yes", "yes"),
    ("on", "on"),
    ("off", "off"),
    ("1.0.0", "1.0.0"),
    ("v1.0", "v1.0"),
    ("-1", -1),
    ("--x", "--x"),
    ("-x", "-x"),
    ("- 1", "- 1"),
    ("1 2", "1 2"),
    ("true false", "true false"),
    ("1 true", "1 true"),
    ("null 1", "null 1"),
    ("${x} 1", "${x} 1"),
    (" [1]", [1]),
    ("{a:[1,{b:[c]}]}", {"a": [1, {"b": ["c"]}]}),
    ("[null,true,1.5,'x',x y]", [None, True, 1.5, "x", "x y"]),
    ('["x\\"y"]', ['x"y']),
    ("[/a/b.parquet,/c/d.parquet]", ["/a/b.parquet", "/c/d.parquet"]),
    ("[${x},${y}]", ["${x}", "${y}"]),
    ('["$HOME/a","$HOME/b"]', ["$HOME/a", "$HOME/b"]),
    ("x\ty", "x\ty"),
    ("\\\tx", "\tx"),
    ("'x\ny'", "x\ny"),
    ('\'["x",\n"y"]\'', '["x",\n"y"]'),
]

REFUSED_VALUES = [
    "~",
    "x,",
    ",x",
    "x,,y",
    "[1,2",
    "1,2]",
    "[1,2,]",
    "[,1]",
    "[1,,2]",
    "['console' x]",
    "{'a':1}",
    '{"a":1}',
    "{a=1}",
    "{a:1",
    "{a}",
    "{a:}",
    "{a:1,}",
    "{:1}",
    "{${b}:1}",
    "'x'y",
    "x'y'",
    "'x''y'",
    "'x' ",
    "'x\\\\'y'",
    "'\\'",
    "'it's'",
    "'x",
    "x'",
    '"x',
    "it's",
    "x=y",
    "=x",
    "x==y",
    "~/x",
    "x~",
    "${a:${b}}",
    "${a",
    "${}",
    "$}",
    "x${",
    "a&b",
    "a;b",
    "a#b",
    "#b",
    "a!b",
    "a<b",
    "a>b",
    "a^b",
    "a`b",
    "aéb",
    "数据",
    "/数据/x",
    "\\'x\\'",
    "(x)",
    "x(y)",
    "x (y)",
    "x()",
    "int(x)",
    "int()",
    "int(3",
    "int(null)",
    "float(x)",
    "str()",
    "bool(x)",
    "choice()",
    "sort([1,a])",
    "foo(1)",
    "foo-bar(1)",
    "x y(z)",
    "/x(y)",
    "model(1).bin",
    "f(a=1,2)",
    "[1] ",
    "[1]x",
    "x[1]",
    "x{1}",
    "{a:1} ",
    "[1][2]",
    "]",
    "}",
    ")",
    "(",
    "[",
    "{",
    "[(]",
    "[1}",
    "<x>",
    "x\ny",
    "\nx",
    "x\n",
    "x\r",
    "'x'\r",
    "“x”",
    "–x",
    "[1,\n2]",
]

KEYS = [
    ("a.b.c=1", ("", "a.b.c", None), 1),
    ("a.b=-5", ("", "a.b", None), -5),
    ("+a=", ("+", "a", None), ""),
    ("++a=", ("++", "a", None), ""),
    ("~a", ("~", "a", None), None),
    ("~a=", ("~", "a", None), ""),
    ("~a=1", ("~", "a", None), 1),
    ("~a.b", ("~", "a.b", None), None),
    ("+a=1", ("+", "a", None), 1),
    ("++a=1", ("++", "a", None), 1),
    ("=x", ("", "", None), "x"),
    ("=", ("", "", None), ""),
    ("+=x", ("+", "", None), "x"),
    ("~", ("~", "", None), None),
    ("@x=1", ("", "", "x"), 1),
    ("a@=1", ("", "a", ""), 1),
    ("a@b=1", ("", "a", "b"), 1),
    ("a@b.c=1", ("", "a", "b.c"), 1),
    ("a.b@c=1", ("", "a.b", "c"), 1),
    ("a/b=1", ("", "a/b", None), 1),
    ("a/b/c=1", ("", "a/b/c", None), 1),
    ("a/b@c.d=x", ("", "a/b", "c.d"), "x"),
    ("a.0=1", ("", "a.0", None), 1),
    ("a.10.b=1", ("", "a.10.b", None), 1),
    ("0.a=1", ("", "0.a", None), 1),
    ("a-b=1", ("", "a-b", None), 1),
    ("a.b-c=1", ("", "a.b-c", None), 1),
    ("a$b=1", ("", "a$b", None), 1),
    ("$a=1", ("", "$a", None), 1),
    ("a.$b=1", ("", "a.$b", None), 1),
    ("_a=1", ("", "_a", None), 1),
    ("a_b.c_d=x", ("", "a_b.c_d", None), "x"),
    ("a.b=Qwen/Qwen2.5-7B-Instruct", ("", "a.b", None), "Qwen/Qwen2.5-7B-Instruct"),
]

REFUSED_KEYS = [
    "+++a=1",
    "++a",
    "+a",
    "a",
    "a.b",
    " a=1",
    "a =1",
    "a/b.c=1",
    "a/=1",
    "/a=1",
    "a.=1",
    ".a=1",
    "a..b=1",
    "a.01=1",
    "0=1",
    "-a=1",
    "--a=1",
    "a b=1",
    "a:b=1",
    "a[0]=1",
    "a.b[0]=1",
    "a@b@c=1",
    "a,b=1",
    "'a'=1",
    '"a.b"=1',
    "a+=1",
    "a~=1",
    "a*=1",
    "1a=1",
    "a.1a=1",
    "a\n=x",
    "",
]

# What is wrong, what to write and where: the part that Hydra leaves out.
MESSAGES = [
    ("data.train_files=~/data/x.parquet", "starts with ~", "write $HOME instead of ~", 17),
    ("a=[1,2", "the [ is not closed", "add ]", 6),
    ("a={x:1", "the { is not closed", "add }", 6),
    ("a=[1,2]]", "a ] has no partner", "remove it", 7),
    ("a=x=y", "a second = in a value", "quotes around the value", 3),
    ("a=it's", "the quote ' is not closed", "remove the '", 4),
    ("a=x'y'", "more text beside it", "inside the quotes", 3),
    ("a=[1,,2]", "nothing before the comma", "remove it", 5),
    ("a=[1,2,]", "nothing behind the last comma", "remove the comma", 7),
    ("a={x=1}", "a mapping is written with :", "{key: value}", 4),
    ("a={'x':1}", "keys of a mapping stand without quotes", "{key: value}", 3),
    ("a=model(1).bin", "no function model()", "quote text with brackets", 2),
    ("a=int(five)", "int() refuses its value", "quote", 2),
    ("a=<path>", "is a placeholder", "the real value", 2),
    ("a=x;y", "does not read ';' without quotes", "\"KEY='x;y'\"", 3),
    ("a=x\ny", "line break", "quote the value", 3),
    ("trainer.total_epochs", "has no =", "key=value", 0),
    ("a.b =1", "a space before the =", "without spaces", 3),
    ("--a.b=1", "starts without dashes", "write a.b=1", 0),
    ("a[0]=1", "does not read '[' in a key", "", 1),
]


def as_text(value: object) -> str:
    return repr(value)  # tells 1 from True and 1.0, and holds for NaN


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_value_is_what_hydra_reads(text: str, value: object) -> None:
    assert as_text(parse_override(f"a={text}").value) == as_text(value)


@pytest.mark.parametrize("text", REFUSED_VALUES)
def test_value_that_hydra_refuses_is_refused(text: str) -> None:
    with pytest.raises(OverrideSyntaxError) as caught:
        parse_override(f"a={text}")
    assert caught.value.message
    assert caught.value.key == "a"
    assert 2 <= caught.value.offset <= len(text) + 2


@pytest.mark.parametrize(("text", "parts", "value"), KEYS)
def test_key_prefix_and_package_are_what_hydra_reads(text: str, parts: tuple[str, ...], value: object) -> None:
    found = parse_override(text)
    assert (found.prefix, found.key, found.package) == parts
    assert as_text(found.value) == as_text(value)


@pytest.mark.parametrize("text", REFUSED_KEYS)
def test_key_that_hydra_refuses_is_refused(text: str) -> None:
    with pytest.raises(OverrideSyntaxError):
        parse_override(text)


@pytest.mark.parametrize(("text", "message", "fix", "offset"), MESSAGES)
def test_refusal_says_what_to_write(text: str, message: str, fix: str, offset: int) -> None:
    with pytest.raises(OverrideSyntaxError) as caught:
        parse_override(text)
    assert message in caught.value.message
    assert fix in (caught.value.fix or "")
    assert caught.value.offset == offset


def test_raw_and_offset_lead_to_the_value() -> None:
    text = "+a.b= 'x y'"
    found = parse_override(text)
    assert found == Override("a.b", "x y", "+", None, " 'x y'", 6)
    assert text[found.offset :] == "'x y'"


@pytest.mark.parametrize(
    ("text", "sweep", "group"), [("a=1,2", True, False), ("a@b=c", False, True), ("a/b=c", False, True)]
)
def test_sweeps_and_groups_are_told_by_their_form(text: str, sweep: bool, group: bool) -> None:
    found = parse_override(text)
    assert (isinstance(found.value, Sweep), found.is_group) == (sweep, group)


def test_nesting_is_bounded() -> None:
    assert parse_value("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    with pytest.raises(OverrideSyntaxError, match="nested deeper"):
        parse_override("a=" + "[" * 100_000)


def test_a_number_of_ten_thousand_digits_is_no_accident() -> None:
    assert isinstance(parse_override("a=" + "9" * 10_000).value, str)
