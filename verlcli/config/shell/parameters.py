"""`$X`, `${X:-d}`, `${a[@]}` and the other forms of a parameter -> parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.items import Param
from verlcli.config.shell.parts import Parts, first_gap, joined, known_text, text_as_run, through
from verlcli.config.shell.patterns import sliced, transformed
from verlcli.config.shell.splitting import Segment, spread
from verlcli.config.shell.types import Gap, Piece
from verlcli.config.shell.world import ALWAYS_SET, Numbers, Var, at_run_time
from verlcli.config.shell.zsh import all_of_array, unsplit

if TYPE_CHECKING:
    from verlcli.config.shell.expand import Expander

Value = Parts | None  # None: not set
_SPECIAL = {"$": "the number of the process", "!": "the number of a background process", "-": "the shell's options"}


def expand_parameter(expander: Expander, param: Param) -> list[Segment | None]:
    """Parts of one parameter, with breaks between the items of an array."""
    if not expander.shell.zsh:
        return _expanded(expander, param)
    return unsplit(_expanded(expander, all_of_array(expander.world, param)))


def _expanded(expander: Expander, param: Param) -> list[Segment | None]:
    subject = _resolved(expander, param)
    if isinstance(subject, Gap):
        return spread((subject,), param.quoted)
    every = all_items(subject)
    if not every and subject.op and subject.op[-1] in "-=?+" and subject.op[0] in ":-=?+":
        return _with_default(expander, subject, _lookup(expander, subject))
    if not every:
        return spread(_scalar(expander, subject), param.quoted)
    star = subject.name == "*" or (subject.index is not None and _index_text(subject) == "*")
    return _several(expander, subject, star)


def _resolved(expander: Expander, param: Param) -> Param | Gap:
    """The parameter that `${!X}` names; `${!a[@]}` stays as it is."""
    if not param.indirect or (param.index is not None and all_items(param)):
        return param
    name = known_text(_lookup(expander, replace(param, indirect=False)) or ())
    place = expander.source.place(param.at)
    if not name:
        return Gap(f"${{!{param.name}}} names no variable that is known", place, param.name, "unset")
    return replace(param, name=name, indirect=False, index=None)


def _index_text(param: Param) -> str:
    return "".join(getattr(item, "text", "") for item in param.index or ())


def all_items(param: Param) -> bool:
    """Whether it stands for all arguments, or all items of an array."""
    return param.name in "@*" or (param.index is not None and _index_text(param) in ("@", "*"))


def _several(expander: Expander, param: Param, star: bool) -> list[Segment | None]:
    fields = _fields(expander, param)
    if isinstance(fields, Gap):
        gap = fields
        if param.length or param.op[:1] in ("#", "%", "/", ":", "") or not param.arg:
            # Nothing of the script's own arguments: no word at all.
            return [Segment(gap, False)]
        fields = []
    if param.length:
        return spread((_number(expander, param, fields),), param.quoted)
    if param.op:
        fields = _each(expander, param, fields)
    if star and param.quoted:
        ifs = expander.world.variables.get("IFS")
        return spread(joined(fields, (text_as_run(ifs.scalar()) if ifs else " ")[:1]), True)
    return _broken(fields, param.quoted)


def _number(expander: Expander, param: Param, fields: list[Parts]) -> Piece | Gap:
    """How many fields there are; a gap where one of them stands for any number."""
    many = next((part for field in fields for part in field if isinstance(part, Gap) and part.many), None)
    return replace(many, many=False) if many else Piece(str(len(fields)), expander.source.place(param.at))


def _broken(fields: list[Parts], quoted: bool) -> list[Segment | None]:
    out: list[Segment | None] = []
    for number, field in enumerate(fields):
        if number:
            out.append(None)
        out += spread(field, quoted)
    return out


def _each(expander: Expander, param: Param, fields: list[Parts]) -> list[Parts]:
    if param.op == ":":
        return _some(expander, param, fields)
    if param.op in (":-", "-", ":=", "="):
        return fields or [expander.text(param.arg)]
    if param.op in (":+", "+"):
        return [expander.text(param.arg)] if fields else []
    return [transformed(expander, param, field) for field in fields]


def _some(expander: Expander, param: Param, fields: list[Parts]) -> list[Parts]:
    numbers = [known_text(expander.arithmetic(part, param.at)) for part in (param.arg, param.second) if part]
    if None in numbers:
        return fields
    start, *count = [int(number or 0) for number in numbers] or [0]
    if param.name in "@*" and start >= 0:
        start = max(0, start - 1)
    if start < 0 and (start := start + len(fields)) < 0:
        return []  # before the first
    return fields[start : start + count[0]] if count and count[0] >= 0 else fields[start:]


def _fields(expander: Expander, param: Param) -> list[Parts] | Gap:
    world, place = expander.world, expander.source.place(param.at)
    if param.name in "@*":
        if world.positional is None:
            return Gap("the script's own arguments", place, param.name, "arguments")
        return list(world.positional)
    variable = world.variables.get(param.name)
    if variable is None:
        return []
    items = variable.items if variable.items is not None else {0: variable.parts}
    if param.indirect:
        return [(Piece(str(key), place),) for key in items]
    return [through(parts, param.name) for parts in items.values()]


def _scalar(expander: Expander, param: Param) -> Parts:
    value = _lookup(expander, param)
    if param.length:
        return _length(param, value, expander)
    if value is None:
        return (_unset(expander, param),)
    if not value and param.name in expander.world.variables:
        expander.empties.append((param.name, expander.source.place(param.at)))
    if not param.op:
        return value
    return sliced(expander, param, value) if param.op == ":" else transformed(expander, param, value)


def _length(param: Param, value: Value, expander: Expander) -> Parts:
    gap = first_gap(value or ())
    if gap and gap.kind != "unset":
        return (gap,)
    return (Piece(str(len(text_as_run(value or ()))), expander.source.place(param.at)),)


def _unset(expander: Expander, param: Param) -> Gap:
    place, name = expander.source.place(param.at), param.name
    if at_run_time(name):
        return Gap(f"${name} is set by the machine", place, name, "runtime")
    if expander.world.unread and not name.isdigit():
        return Gap(f"${name} may be set by {expander.world.unread}", place, name, "runtime")
    return Gap(f"${name} has no value", place, name, "unset")


def _lookup(expander: Expander, param: Param) -> Value:
    """Value of a parameter before any operator; None when it is not set."""
    world, name = expander.world, param.name
    if name in ("#", "?") or name in _SPECIAL:
        return (_special(expander, name, param),)
    if name == "0":
        return (Gap("the name the script is called by", expander.source.place(param.at), "0", "runtime"),)
    if name.isdigit():
        return _positional(expander, param)
    variable = world.variables.get(name)
    if variable is None:
        return None
    if param.index is None:
        known = variable.items is None or (("0" if variable.keyed else 0) in variable.items)
        return through(variable.scalar(), name) if known else None
    return _item(expander, param, variable)


def _special(expander: Expander, name: str, param: Param) -> Piece | Gap:
    place, world = expander.source.place(param.at), expander.world
    if name == "#" and world.positional is not None:
        return Piece(str(len(world.positional)), place)
    if name == "#":
        return Gap("the number of the script's own arguments", place, "#", "arguments")
    if name == "?" and world.status == "yes":
        return Piece("0", place)
    return Gap(_SPECIAL.get(name, "how the command before ended"), place, name, "runtime")


def _positional(expander: Expander, param: Param) -> Value:
    number, given = int(param.name[:6]), expander.world.positional
    if given is not None:
        return through(given[number - 1], param.name) if number <= len(given) else None
    place = expander.source.place(param.at)
    gap: Parts = (Gap(f"argument {number} of the script", place, param.name, "arguments"),)
    return gap


def _item(expander: Expander, param: Param, variable: Var) -> Value:
    text = text_as_run(expander.text(param.index or ()))
    items: Mapping[int | str, Parts] = variable.items if variable.items is not None else {0: variable.parts}
    if variable.keyed:
        key: int | str = text.strip("'\"")
    else:
        try:
            key = evaluate(text, Numbers(expander.world, expander.source.place(param.at)))
        except BadArithmeticError as error:
            return (Gap(f"an index that is not known: {error}", expander.source.place(param.at), param.name),)
        key -= expander.shell.zsh and key > 0  # its arrays start at 1
        if key < 0:
            key += max((number for number in items if isinstance(number, int)), default=-1) + 1
    many = next((part for part in items.get(0, ()) if isinstance(part, Gap) and part.many), None)
    if many and isinstance(key, int) and key not in items:
        return (replace(many, many=False),)
    return through(items[key], param.name) if key in items else None


def _with_default(expander: Expander, param: Param, value: Value) -> list[Segment | None]:
    """`:-`, `-`, `:=`, `=`, `:?`, `?`, `:+` and `+`."""
    kind, colon = param.op[-1], param.op[0] == ":"
    present = _is_set(param, value, colon)
    if kind == "+":
        return _written(expander, param, chosen=False) if present else spread((), param.quoted)
    if present:
        return spread(value if value is not None else (_unset(expander, param),), param.quoted)
    if kind == "?":
        return spread((value[0] if value else _unset(expander, param),), param.quoted)
    if kind == "=" and not param.name.isdigit():
        old = expander.world.variables.get(param.name, Var())
        default = expander.text(param.arg)
        default = tuple(map(_chosen, default))
        expander.world.put(param.name, replace(old, parts=default, items=None))
        return spread(through(default, param.name), param.quoted)
    if not param.arg and value and isinstance(value[0], Gap):
        return spread(value, param.quoted)
    return _written(expander, param)


def _written(expander: Expander, param: Param, chosen: bool = True) -> list[Segment | None]:
    """The word behind the operator, where quotes keep their meaning; `chosen` for want of a value."""
    out: list[Segment | None] = []
    for segment in expander.segments(param.arg):
        if segment is None:
            out.append(None)
            continue
        quoted = segment.quoted or param.quoted
        part = _chosen(segment.part) if segment.part and chosen else segment.part
        parts = through((part,), param.name) if part else (None,)
        out += [Segment(part, quoted, split=not quoted) for part in parts]
    return out or spread((), param.quoted)


def _chosen(part: Piece | Gap) -> Piece | Gap:
    return Piece(part.text, part.place, part.variable, part.via, True) if isinstance(part, Piece) else part


def _is_set(param: Param, value: Value, colon: bool) -> bool:
    """Whether bash takes the value and not the default, with nothing but the script's own variables set."""
    if value is None:
        return param.name in ALWAYS_SET
    gap = first_gap(value)
    if text_as_run(value) or (gap and gap.kind not in ("unset", "arguments")):
        return True
    # An argument of the script that nobody gave is not even set.
    own = gap is not None and gap.kind == "arguments" and param.name.isdigit()
    return not colon and not own
