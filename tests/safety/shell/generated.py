"""Commands made from the table: every option in every position and spelling, with hostile values, and in pairs."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterable, Iterator

from qcode.safety.shell.table import NUMBER, PATH_ROLES, Operands, ProgramSpec
from qcode.values import dataclass
from tests.safety.shell.samples import BY_ROLE, HELP, Words, entry_of, samples_of

HOSTILE: Words = (
    ".env",
    "/proc/version",
    "-x",
    "@data.txt",
    "",
    "../outside/secret.txt",
    "link_out",
    "src",
    'TZ="/proc/version" now',
)
"""Values that would do harm if the program took them for something else than the table says."""

SOME_HOSTILE: Words = (".env", "@data.txt", "", "../outside/secret.txt")
"""Words put next to an option that has no value."""

_OF_OLD: Words = ("+3", "-3", "3")
"""Options and operands of older forms."""

_MAX_ALL_PAIRS = 15
_SAMPLED_PAIRS = 200
_CLUSTERS = 3


@dataclass(frozen=True, slots=True)
class Case:
    """The words of one command without its name, whether they are a proper use, and the option that they prove.

    `proof` is the name of the option, with a `=` after it if its value is attached.
    """

    words: Words
    is_proper: bool = False
    proof: str = ""


def proofs_needed(program: ProgramSpec) -> frozenset[str]:
    """Return the proofs that a row needs: each option, and also with an attached value if it may have one."""
    attachable = {f"{name}=" for name in program.options if _is_attachable(program, name)}
    return frozenset({*program.options, *attachable, *([NUMBER] if program.has_number_option else [])})


def generate(program: ProgramSpec, *, is_short: bool = False) -> list[Case]:
    """Return the cases of one program, each once, the same ones in every run; if short, only proper single uses."""
    rng = random.Random(program.name)
    cases = [*_bare(program)]
    for name in program.options:
        cases += _singles(program, name)
        if not is_short:
            cases += _hostile(program, name)
            cases += _clusters(program, name, rng)
    if not is_short:
        cases += _pairs(program, rng)
    return list(dict.fromkeys(cases))


def values_of_options(program: ProgramSpec) -> Iterator[str]:
    """Yield every value that a case has, and every option: words that could turn out to be operands."""
    yield from _OF_OLD
    is_walking = any(form.default is not None for form in (program.operands, *(case.operands for case in program.when)))
    for name in program.options:
        if not is_walking:
            # A walk through a file for each of them would take long.
            yield name
        for value in _values(program, name):
            yield from value


def _bare(program: ProgramSpec) -> Iterator[Case]:
    """Yield uses without an option, among them those in which options are operands."""
    for operands in operand_lists(program, frozenset()):
        yield Case(operands, is_proper=True)
        yield Case(("--", *operands), is_proper=program.style in ("getopt", "words"))
        yield Case((*operands, "-"))
        if program.has_number_option:
            yield from (Case(words, True, NUMBER) for words in _placed(program, ("-3",), operands))
    for operands in operand_lists(program, frozenset())[-1:]:
        for name in (*program.options, "--no-such-option"):
            yield Case(("--", *operands, name))
            if program.stops_at_operand and operands:
                yield Case((*operands, name))
        if program.operands.repeated_index is not None and program.operands.roles[-1] in PATH_ROLES:
            yield from (Case((*operands, word), is_proper=True) for word in _OF_OLD[::2])
            yield from (Case((*operands[:-1], word, *operands[-1:]), is_proper=True) for word in _OF_OLD[::2])
    yield from (Case((value,)) for value in HOSTILE)


def _singles(program: ProgramSpec, name: str) -> Iterator[Case]:
    options = frozenset({name})
    lists = operand_lists(program, options)
    for index, spelling in enumerate(_spellings(program, name)):
        # The first value is tried in every position, everything else once.
        for operands in lists:
            placed = _placed(program, spelling, operands)
            proof = _proof(program, name, spelling)
            tried = placed if index < 2 and operands == lists[-1] else placed[:1]
            yield from (Case(words, True, proof) for words in tried)
    for operands in lists[-1:]:
        if program.operands.repeated_index is not None and operands:
            # So many that a program may need a temporary file for them.
            spelling = _spellings(program, name)[0]
            yield Case(_placed(program, spelling, (*operands, *[operands[-1]] * 40))[0], is_proper=True)
    if program.options[name].arity == "optional":
        # A value that is not attached is an operand.
        for value in _values(program, name):
            for operands in operand_lists(program, options):
                yield Case((name, *value, *operands), is_proper=True)


def _hostile(program: ProgramSpec, name: str) -> Iterator[Case]:
    for value in HOSTILE:
        for spelling in _spelled(program, name, (value,) * len(_values(program, name)[0])):
            for operands in operand_lists(program, frozenset({name}))[-1:]:
                yield Case(_placed(program, spelling, operands)[0])
    if program.options[name].arity != "required":
        for value in SOME_HOSTILE:
            for operands in operand_lists(program, frozenset({name}))[-1:]:
                yield Case((name, value, *operands))
                yield Case((f"{name}={value}", *operands))
                yield Case((f"{name}{value}", *operands))


def _clusters(program: ProgramSpec, name: str, rng: random.Random) -> Iterator[Case]:
    """Yield the option in one word with flags, before and after them."""
    flags = [flag for flag in _shorts(program) if program.options[flag].arity == "none" and flag != name]
    if name not in _shorts(program):
        return
    for flag in rng.sample(flags, min(_CLUSTERS, len(flags))):
        yield from _clustered(program, flag, name)
        if program.options[name].arity == "none":
            yield from _clustered(program, name, flag)
        else:
            # The flag is a part of the value here.
            for operands in operand_lists(program, frozenset({name}))[-1:]:
                yield Case((f"{name}{flag[1:]}", *operands))
                yield Case((f"{name}{flag[1:]}", *_values(program, name)[0], *operands))


def _clustered(program: ProgramSpec, flag: str, name: str) -> Iterator[Case]:
    options = frozenset({flag, name})
    for operands in operand_lists(program, options):
        for first, *rest in _spelled(program, name, _values(program, name)[0]):
            yield Case((f"{flag}{first[1:]}", *rest, *operands), is_proper=True)
            yield Case((*operands, f"{flag}{first[1:]}", *rest), is_proper=True)


def _pairs(program: ProgramSpec, rng: random.Random) -> Iterator[Case]:
    names = [name for name in program.options if name not in (*HELP, *samples_of(program.name).ends)]
    pairs = [(first, second) for first in names for second in names if first != second]
    if len(names) >= _MAX_ALL_PAIRS:
        pairs = rng.sample(pairs, min(_SAMPLED_PAIRS, len(pairs)))
    for first, second in pairs:
        options = frozenset({first, second})
        operands = rng.choice(operand_lists(program, options))
        ahead, behind = rng.choice(_spellings(program, first)), rng.choice(_spellings(program, second))
        yield Case(rng.choice(_placed(program, (*ahead, *behind), operands)), is_proper=True)
        if program.style != "find" and not program.stops_at_operand and len(names) < _MAX_ALL_PAIRS:
            yield Case((*ahead, *operands, *behind), is_proper=True)
        if {first, second} <= set(_shorts(program)) and program.options[first].arity == "none":
            yield from rng.sample(list(_clustered(program, first, second)), 1)


def _placed(program: ProgramSpec, option: Words, operands: Words) -> list[Words]:
    """Return the command with the option in every position."""
    if program.style == "find":
        return [(*option, *operands)] if option == ("-P",) else [(*operands, *option)]
    if program.stops_at_operand:
        return [(*option, *operands), (*option, "--", *operands)]
    places = [(*option, *operands), (*option, "--", *operands), (*operands, *option)]
    places += [(*operands[:index], *option, *operands[index:]) for index in range(1, len(operands))]
    return places


def _spellings(program: ProgramSpec, name: str) -> list[Words]:
    """Return the ways to write an option, with values that it takes."""
    samples = samples_of(program.name)
    phrases = entry_of(samples.phrases, name)
    if phrases:
        return [tuple(word.replace("{}", name) for word in shlex.split(phrase)) for phrase in phrases]
    companions = entry_of(samples.companions, name)
    return [(*companions, *words) for value in _values(program, name) for words in _spelled(program, name, value)]


def _spelled(program: ProgramSpec, name: str, value: Words) -> list[Words]:
    option = program.options[name]
    is_short = name in _shorts(program)
    attached = f"{name}{value[0]}" if is_short else f"{name}={value[0]}"
    match option.arity:
        case "none":
            return [(name,)]
        case "optional":
            return [(name,), (attached,)]
        case "required":
            return [(name, *value), (attached,)] if _is_attachable(program, name) else [(name, *value)]


def _is_attachable(program: ProgramSpec, name: str) -> bool:
    option = program.options[name]
    return (
        option.arity != "none" and program.takes_attached_values and program.style == "getopt" and option.second is None
    )


def _proof(program: ProgramSpec, name: str, words: Words) -> str:
    is_attached = any(word.startswith(name) and word != name for word in words)
    return f"{name}=" if is_attached and _is_attachable(program, name) else name


def _shorts(program: ProgramSpec) -> list[str]:
    if program.style != "getopt":
        return []
    return [name for name in program.options if len(name) == 2]


def _values(program: ProgramSpec, name: str) -> list[Words]:
    """Return sample values of an option, each as one word or two."""
    option = program.options[name]
    found = entry_of(samples_of(program.name).values, name)
    if option.second is None:
        return [(value,) for value in found or BY_ROLE[option.role]]
    assert found, f"{program.name} {name} needs samples"
    return [tuple(pair.split(" ")) for pair in found]


def operand_lists(program: ProgramSpec, options: frozenset[str]) -> list[Words]:
    """Return lists of operands that fit if these options are given."""
    samples = samples_of(program.name)
    for names, lists in sorted(samples.cases.items(), key=lambda entry: -entry[0].count("+")):
        if all(options & set(group.split()) for group in names.split(" + ")):
            return list(lists)
    form = next((case.operands for case in program.when if all(group & options for group in case.groups)), None)
    if form is None and samples.operands:
        return list(samples.operands)
    return _fitting(form or program.operands)


def _fitting(form: Operands) -> list[Words]:
    """Return operands for the roles: one and two for a repeatable role, and none if there is a default."""
    if form.repeated_index is None:
        return [tuple(_one(form, index) for index in range(len(form.roles)))]
    lists = []
    for count in (1, 2):
        roles = [
            *form.roles[: form.repeated_index],
            *[form.roles[form.repeated_index]] * count,
            *form.roles[form.repeated_index + 1 :],
        ]
        lists.append(tuple(BY_ROLE[role][index % len(BY_ROLE[role])] for index, role in enumerate(roles)))
    has_paths = any(role in PATH_ROLES for role in form.roles)
    if form.minimum == 0 and (form.default is not None or not has_paths):
        lists.insert(0, ())
    return lists


def _one(form: Operands, index: int) -> str:
    samples = BY_ROLE[form.roles[index]]
    return samples[index % len(samples)]


def spread(cases: Iterable[Case], count: int, seed: str) -> list[Case]:
    """Return `count` of the cases, the same ones in every run."""
    found = list(cases)
    return found if len(found) <= count else random.Random(seed).sample(found, count)
