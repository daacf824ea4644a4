"""The dangers of a command in words, such as "rm -rf deletes files", most dangerous first. Pure.

They are the reasons that the user reads when a command asks for approval. They have no influence on the decision, which
`judge` makes. `risks` returns the words to highlight.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from qcode.safety.shell.ast import HERE_DOCUMENT, PLACEHOLDER, REDIRECTED_LIST, UNREADABLE, UnsupportedSyntax
from qcode.safety.shell.bounds import check_bounds
from qcode.safety.shell.characters import names_character
from qcode.safety.verdict import NOT_READ_ONLY, RESTRICTED_HERE, SHELL_PATH, Verdict, complete_reasons, joined_reasons
from qcode.text.pattern import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node

    from qcode.safety.shell.ast import Word
    from qcode.safety.shell.flow import FlowPart, JudgedPart


class Danger(NamedTuple):
    """One danger of a command."""

    rank: int
    """0 for the worst; the index in `_DANGERS`."""
    reason: str
    """The end of a sentence that begins with "Asks because"."""


# Each pattern is bounded, so the time is linear in the length of the command.
PROGRAM = r"(?<![\w./-])"
"""The start of the name of a program."""
END = r"(?![\w-])"
"""The end of the name of a program, or of an option."""
_GAP = r"(?:\s\S{1,80}){0,12}?\s"
"""Arguments between a program and the argument that makes it dangerous."""
_OPTIONS = r"(?: -{1,2}\S{1,80}(?: [^-\s]\S{0,80})?){0,4}?"
"""Options between a program and its subcommand: `docker compose -f a.yml down`."""
SHELLS = r"(?:ba|da|z|k|fi)?sh"
_INTERPRETER = rf"(?:(?:sudo|doas)\s)?(?P<words>{SHELLS}|python[\d.]{{0,5}}|perl|ruby|node){END}"
_RECURSIVE = rf"(?:-\w{{0,4}}R\w{{0,4}}|--recursive){END}"
# Options and refs of `git push` that overwrite commits: `+main` forces one ref.
_PUSH_FORCE = r"--force(?:-with-lease)?|--mirror|-\w{0,4}f\w{0,4}|\+\S{1,80}"
_PUBLISHERS = "npm|pnpm|yarn(?: npm)?|bun|cargo|poetry|uv|hatch|flit|lerna"

_DANGERS = (
    (rf"{PROGRAM}(?:mkfs(?:\.\w{{1,8}})?|mke2fs){END}", "{words} formats a device"),
    (rf"{PROGRAM}dd{_GAP}of=(?P<target>\S{{1,80}})", "dd overwrites {target}"),
    (r">\s{0,4}(?P<target>/dev/(?:sd|nvme|disk|mem|vd)\S{0,40})", "it overwrites the device {target}"),
    (rf"{PROGRAM}shred{END}", "shred destroys files"),
    (
        rf"{PROGRAM}rm\s(?:-[\w-]{{1,20}}\s){{0,4}}(?:-\w{{0,6}}[rRf]\w{{0,6}}|--recursive|--force){END}",
        "{words} deletes files",
    ),
    (
        rf"\| (?P<target>curl|wget) \| {_INTERPRETER}",
        "{words} runs what {target} downloads",
    ),
    (
        rf"{PROGRAM}(?P<words>{SHELLS}|eval|source){END}[^|\n]{{0,80}}?[$<]\(\s?(?P<target>curl|wget){END}",
        "{words} runs what {target} downloads",
    ),
    (
        rf"\| {_INTERPRETER}",
        "{words} runs what is piped into it",
    ),
    (r"(?i:\b(?:drop|truncate)\s(?:table|database|schema)\b)", "{words} deletes data"),
    (rf"{PROGRAM}(?:wipefs|fdisk|sfdisk|parted){END}", "{words} changes the partitions or signatures of a device"),
    (rf"{PROGRAM}(?:dropdb|dropuser){END}", "{words} deletes data"),
    (rf"{PROGRAM}(?P<words>redis-cli){_GAP}(?P<flag>(?i:flushall|flushdb)){END}", "{words} deletes data"),
    (rf"{PROGRAM}(?:terraform|tofu)(?:\s-\S{{1,80}}){{0,3}}\sdestroy{END}", "{words} deletes infrastructure"),
    (rf"{PROGRAM}kubectl(?:\s-\S{{1,80}}){{0,3}}\sdelete{END}", "{words} deletes resources of the cluster"),
    (rf"{PROGRAM}helm (?:uninstall|delete){END}", "{words} deletes a release from the cluster"),
    (rf"{PROGRAM}aws s3 (?:rm|rb){END}", "{words} deletes stored objects"),
    (rf"{PROGRAM}gh (?:repo|release) delete{END}", "{words} deletes it from the host"),
    (rf"{PROGRAM}sudo\s(?:-u|--user)", "sudo runs as another user"),
    (rf"{PROGRAM}(?:sudo|doas){END}", "{words} runs with root rights"),
    (
        rf"{PROGRAM}(?P<words>git push){_GAP}(?P<flag>{_PUSH_FORCE}){END}",
        "{words} overwrites the remote branch",
    ),
    (rf"{PROGRAM}(?P<words>git push){_GAP}(?P<flag>--delete|-d){END}", "{words} deletes the remote branch"),
    (rf"{PROGRAM}(?P<words>git reset){_GAP}(?P<flag>--hard){END}", "{words} discards uncommitted changes"),
    (
        rf"{PROGRAM}(?P<words>git clean){_GAP}(?P<flag>-(?!\w{{0,6}}n)\w{{0,6}}f\w{{0,6}}|--force){END}",
        "{words} deletes untracked files",
    ),
    (
        rf"{PROGRAM}(?P<words>git (?:checkout|switch)){_GAP}(?:--force|-f|--discard-changes|--|\.)(?!\S)",
        "{words} discards uncommitted changes",
    ),
    (rf"{PROGRAM}git restore(?!{_GAP}(?:--staged|-S)(?!\S)){END}", "{words} discards uncommitted changes"),
    (rf"{PROGRAM}git stash (?:drop|clear){END}", "{words} deletes stashed changes"),
    (rf"{PROGRAM}git branch -D{END}", "{words} deletes a branch, merged or not"),
    (rf"{PROGRAM}(?P<words>git commit){_GAP}(?P<flag>--amend){END}", "{words} replaces the last commit"),
    (rf"{PROGRAM}(?P<words>git tag){_GAP}(?P<flag>-d|--delete){END}", "{words} deletes a tag"),
    (rf"{PROGRAM}git (?:rebase|filter-branch|filter-repo){END}", "{words} rewrites commits"),
    (rf"{PROGRAM}eval{END}", "eval runs text as a command"),
    (rf"{PROGRAM}(?P<words>find){_GAP}(?P<flag>-delete){END}", "{words} deletes files"),
    (rf"{PROGRAM}(?P<words>find){_GAP}(?P<flag>-exec|-execdir){END}", "{words} runs a program for each file"),
    (
        rf"{PROGRAM}(?P<words>(?:docker|podman)[ -]compose{_OPTIONS} down){_GAP}(?P<flag>-v|--volumes){END}",
        "{words} deletes volumes with their data",
    ),
    (rf"{PROGRAM}(?:docker|podman)[ -]compose{_OPTIONS} (?:down|rm){END}", "{words} deletes containers"),
    (rf"{PROGRAM}(?:docker|podman)(?: container)? rm{END}", "{words} deletes containers"),
    (rf"{PROGRAM}(?:docker|podman) (?:rmi|image rm){END}", "{words} deletes images"),
    (rf"{PROGRAM}(?:docker|podman) volume (?:rm|prune){END}", "{words} deletes volumes with their data"),
    (
        rf"{PROGRAM}(?:docker|podman) (?:system|container|image|builder|network) prune{END}",
        "{words} deletes what is not in use",
    ),
    (
        rf"{PROGRAM}(?:(?:{_PUBLISHERS}) publish|twine upload|gem push){END}",
        "{words} uploads a package to its registry",
    ),
    (rf"{PROGRAM}(?:npm|pnpm|yarn(?: npm)?) unpublish{END}", "{words} removes a package from its registry"),
    (rf"{PROGRAM}(?P<words>crontab){_GAP}(?P<flag>-r){END}", "{words} deletes all scheduled commands"),
    (rf"{PROGRAM}systemctl(?: --\S{{1,80}}){{0,3}} (?:poweroff|halt|reboot){END}", "{words} ends all programs"),
    (rf"{PROGRAM}systemctl(?: --\S{{1,80}}){{0,3}} (?:stop|kill|restart){END}", "{words} ends a service"),
    (rf"{PROGRAM}systemctl(?: --\S{{1,80}}){{0,3}} (?:disable|mask){END}", "{words} keeps a service from starting"),
    (rf"{PROGRAM}(?:shutdown|poweroff|halt){END}", "{words} shuts down the machine"),
    (rf"{PROGRAM}reboot{END}", "reboot restarts the machine"),
    (rf"{PROGRAM}(?:killall|pkill){END}", "{words} ends all processes of that name"),
    (rf"{PROGRAM}kill -(?:s )?(?:9|KILL|SIGKILL){END}", "{words} ends a process at once"),
    (rf"{PROGRAM}chmod(?: -\w{{1,6}}){{0,3}} (?:0?777|a\+rwx){END}", "{words} lets every user write"),
    (rf"{PROGRAM}chmod(?: -\w{{1,6}}){{0,3}} [ug]?\+s{END}", "{words} lets others use the rights of its owner"),
    (rf"{PROGRAM}chmod {_RECURSIVE}", "{words} changes permissions of whole folders"),
    (rf"{PROGRAM}(?:chown|chgrp) {_RECURSIVE}", "{words} changes the owner of whole folders"),
    (r"(?<!\S)--privileged(?!\S)", "--privileged gives a container all rights on this machine"),
    (r"(?<!\S)--no-verify(?!\S)", "--no-verify skips the hooks"),
    (r"(?<!\S)--(?:delete|purge|prune)(?!\S)", "{words} can delete data"),
    (r"(?<!\S)--force(?!\S)", "--force skips a safety check"),
    (r"^(?:rm|unlink)(?!\S)", "{words} deletes files"),
    (r"^truncate(?!\S)", "truncate cuts files off"),
    (rf"^(?:mv|cp|install)(?!{_GAP}(?:-n|--no-clobber|--update=none)(?!\S))(?!\S)", "{words} can replace files"),
    (r"^kill(?!\S)", "kill ends a process"),
    (r"^git push(?!\S)", "git push changes the remote repository"),
)  # fmt: skip
"""Patterns for the words of a simple command, joined by blanks, and the danger of each. The most dangerous are first.

In the sentences, `words` is the group `words` or the whole match, followed by the group `flag`. `| curl | sh` is a `sh`
that reads a download.
"""
_PATTERNS = tuple(lazy_pattern(pattern) for pattern, _ in _DANGERS)
_TRIGGER = lazy_pattern(
    r"\b(?:mkfs|mke2fs|dd|shred|rm|unlink|sh|\w{1,2}sh|source|eval|python|perl|ruby|node|drop|truncate|terraform|tofu|kubectl"
    r"|sudo|doas|git|docker|podman|publish|upload|push|shutdown|poweroff|halt|reboot|killall|pkill|kill|chmod|chown|chgrp"
    r"|wipefs|s?fdisk|parted|dropdb|dropuser|flushall|flushdb|helm|aws|gh|unpublish|crontab|systemctl|mv|cp|install)\b"
    r"|>|\s-",
    re.IGNORECASE,
)
"""A cheap test for a part of a command that may match one of the patterns."""
_MAX_EXAMINED = 4_000
"""The maximum number of characters to examine at each end of a command without a syntax tree."""
_GIT_OPTIONS = lazy_pattern(r"(?<!\S)git(?: -[Cc] \S{1,200}| --[\w-]{1,40}(?:=\S{0,200})?){1,8}")
_SYSTEM_PATH = lazy_pattern(r"(?<!\S)/(?:usr/)?(?:local/)?s?bin/(?=\S)")
_QUOTES = lazy_pattern(r"[\"'\\]")
_SEPARATORS = lazy_pattern(r"(\|\|?|&&|[;\n&()`])")
# Programs whose arguments with a blank are text, not commands: `git commit -m "Remove rm -rf"`.
_TEXT_PROGRAMS = frozenset({"git", "gh", "glab", "hg", "svn", "jj"})
# Programs whose arguments are text: `echo rm -rf x` prints it.
_PRINTING_PROGRAMS = frozenset({"echo", "printf", "grep", "rg"})
_SHELL_PROGRAM = lazy_pattern(SHELLS)
_GENERIC_REASONS = (NOT_READ_ONLY, "the option ")
"""Fragments of generic reasons of the judge. A danger replaces such a reason, because it is more specific."""


def dangers_of(words: Sequence[str], outputs: Iterable[str] = (), piped_from: Sequence[str] = ()) -> list[Danger]:
    """Return the dangers of a simple command, worst first.

    `outputs` are the files it writes to, `piped_from` the programs whose output it reads.
    """
    texts = [*words[:1], *("_" if _is_text(words[0], word) else word for word in words[1:])]
    # With a script, a shell reads no program from the pipe: `curl … | sh x`, but `curl … | sudo sh -s -- x` does.
    has_wrapper = len(texts) > 1 and texts[0] in ("sudo", "doas")
    program, *arguments = texts[1:] if has_wrapper else texts or [""]
    reads_program = bool(piped_from) and (not arguments or arguments[0] in ("-", "-s"))
    source = next((name for name in piped_from if name in ("curl", "wget")), "it")
    pipe = [f"| {source} |"] if reads_program else []
    line = " ".join([*pipe, *texts, *(f"> {output}" for output in outputs)])
    return _dangers_in_line(line) if program else []


def _dangers_in_line(line: str) -> list[Danger]:
    """Return the dangers in the words of one simple command, worst first. See `_DANGERS` for the form of `line`."""
    line = _GIT_OPTIONS.sub("git", _SYSTEM_PATH.sub("", " ".join(line.split())))
    dangers = []
    for rank, (pattern, (_, sentence)) in enumerate(zip(_PATTERNS, _DANGERS, strict=True)):
        match = pattern.search(line)
        if match is None:
            continue
        groups = match.groupdict()
        words = groups.get("words") or match[0]
        if groups.get("flag"):
            words = f"{words} {groups['flag']}"
        target = groups.get("target") or ""
        target = target if target.isprintable() and PLACEHOLDER not in target else "a file"
        dangers.append(Danger(rank, sentence.format(words=words, target=target)))
        # The same words have no second, milder danger: `git push --force` is not also a `--force`.
        line = f"{line[: match.start()]} _ {line[match.end() :]}"
    return dangers


def dangers_in(command: str) -> list[Danger]:
    """Return the dangers of a command line, worst first, whether or not the judge understands it."""
    in_tree = None if check_bounds(command) else _dangers_in_tree(command)
    return sorted(set(_dangers_in_text(command) if in_tree is None else in_tree))


def _is_text(program: str, word: str) -> bool:
    """Return whether a program only prints or stores an argument."""
    return program in _PRINTING_PROGRAMS or (program in _TEXT_PROGRAMS and re.search(r"\s", word) is not None)


def _nodes(source: bytes) -> Iterator[Node] | None:
    """Return all nodes of the syntax tree, each before those in it; None if the tree is incomplete."""
    from qcode.safety.shell.parser import bash_parser

    root = bash_parser().parse(source).root_node

    def walk() -> Iterator[Node]:
        pending = [root]
        while pending:
            yield (node := pending.pop())
            pending += node.children

    return None if root.has_error else walk()


def without_text(command: str) -> str:
    """Return a command of the same length in which `_` replaces comments and all that is only printed or stored.

    A command that does not parse is returned unchanged.
    """
    source = command.encode("utf-8", "replace")
    nodes = None if check_bounds(command) else _nodes(source)
    if nodes is None:
        return command
    is_text = bytearray(len(source))
    for node in nodes:
        if node.type == "command":
            name, *arguments = (child for child in node.children if child.type != "variable_assignment")
            program = _text_of(name, source)
            spans = [argument for argument in arguments if _is_text(program, _text_of(argument, source))]
        elif node.type == "comment" or (node.type == "heredoc_body" and not _is_script(node, source)):
            spans = [node]
        elif node.type in ("command_substitution", "process_substitution"):
            is_text[node.start_byte : node.end_byte] = bytes(node.end_byte - node.start_byte)
            continue
        else:
            continue
        for span in spans:
            is_text[span.start_byte : span.end_byte] = b"\1" * (span.end_byte - span.start_byte)
    characters, offset = [], 0
    for character in command:
        characters.append("_" if is_text[offset] else character)
        offset += len(character.encode("utf-8", "replace"))
    return "".join(characters)


def _dangers_in_tree(command: str) -> list[Danger] | None:
    """Return the dangers of each simple command in the syntax tree, None if the tree is incomplete."""
    source = command.encode("utf-8", "replace")
    nodes = _nodes(source)
    if nodes is None:
        return None
    dangers: list[Danger] = []
    for node in nodes:
        if node.type == "command":
            dangers += dangers_of(_words_of(node, source), _outputs_of(node, source), _programs_before(node, source))
        elif node.type == "heredoc_body" and _is_script(node, source):
            dangers += _dangers_in_text(_text_of(node, source))
    return dangers


def _text_of(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _words_of(command: Node, source: bytes) -> list[str]:
    """Return the words of a command without quotes."""
    return [
        _QUOTES.sub("", _text_of(child, source))
        for child in command.children
        if child.type not in ("variable_assignment", "file_redirect", "heredoc_redirect", "herestring_redirect")
    ]


def _outputs_of(command: Node, source: bytes) -> list[str]:
    """Return the files to which a command writes: `a` for `x > a` and for `x >> 'a'`."""
    parent = command.parent
    redirects = parent.children if parent is not None and parent.type == "redirected_statement" else command.children
    texts = [_text_of(child, source) for child in redirects if child.type == "file_redirect"]
    return [_QUOTES.sub("", text.rpartition(">")[2]).lstrip("|& ") for text in texts if ">" in text]


def _programs_before(command: Node, source: bytes) -> list[str]:
    """Return the programs before a command in its pipeline."""
    node: Node | None = command
    while node is not None and node.parent is not None and node.parent.type != "pipeline":
        if node.parent.type not in ("redirected_statement", "subshell", "compound_statement"):
            return []
        node = node.parent
    if node is None or node.parent is None:
        return []
    before = [child for child in node.parent.children if child.is_named and child.end_byte <= node.start_byte]
    return [_text_of(child, source).split(maxsplit=1)[0] for child in before]


def _is_script(body: Node, source: bytes) -> bool:
    """Return whether a shell reads the here-document `body` as its program."""
    statement = body.parent.parent if body.parent is not None else None
    name = _text_of(statement, source).split(maxsplit=1)[0] if statement is not None else ""
    return _SHELL_PROGRAM.fullmatch(name.rpartition("/")[2]) is not None


def _dangers_in_text(command: str) -> list[Danger]:
    """Return the dangers of a text without a syntax tree: too long, incomplete, or a script for a shell."""
    dangers: list[Danger] = []
    sources: list[str] = []
    if len(command) > 2 * _MAX_EXAMINED:
        command = f"{command[:_MAX_EXAMINED]}\n{command[-_MAX_EXAMINED:]}"
    parts = ["\n", *_SEPARATORS.split(command)]
    for operator, part in zip(parts[::2], parts[1::2], strict=True):
        words = _QUOTES.sub("", part).split()
        sources = sources if operator == "|" else []
        if words and _TRIGGER.search(part):
            dangers += dangers_of(words, (), sources)
        sources = [*sources[-8:], *words[:1]]
    return dangers


_DELIMITER = lazy_pattern(r"(?P<quote>['\"]?)(?P<word>[A-Za-z_]\w*)(?P=quote)", re.ASCII)


def _here_document_reasons(command: str) -> list[str]:
    """Return why a command with here-documents asks, empty if it has none.

    The reason names the output file if the command has one document and the judge accepts the command without the
    document: `cat > a <<EOF` becomes `cat > a`.
    """
    source = command.encode("utf-8", "replace")
    nodes = [] if check_bounds(command) else [*(_nodes(source) or ())]
    starts = [node for node in nodes if node.type == "heredoc_start"]
    ends = [node for node in nodes if node.type == "heredoc_end"]
    document = _only_document(starts, ends, source)
    unknown = [HERE_DOCUMENT] if starts else []
    written = _written_files(document.command) if document is not None else None
    if document is None or written is None:
        return unknown
    reasons = [*written.reasons, *(unknown if written.unclear_programs else ())]
    return [*reasons, "its here-document contains an expansion"] if document.expands else reasons


def _redirect_reasons(command: str) -> list[str]:
    """Return why a list of commands asks whose last one is redirected: `cd a && make > b`; empty if not certain."""
    written = None if check_bounds(command) else _written_files(command)
    if written is None:
        return []
    return [*written.reasons, *(f"{name} {NOT_READ_ONLY}" for name in written.unclear_programs)]


_START = "//"
"""The folder in which a command starts. The folder of an absolute `cd` begins with one slash."""


class _WrittenFiles(NamedTuple):
    """The files that a command writes, as reasons, and its programs that may do more than read."""

    reasons: list[str]
    unclear_programs: list[str]


def _written_files(command: str) -> _WrittenFiles | None:
    """Return the files that a command writes; None if there are none, or if one is not certain."""
    from qcode.safety.shell.flow import cd_target
    from qcode.safety.shell.judge import is_table_command, read_flow

    try:
        flow = read_flow(_with_bound_redirects(command), _START)
    except UnsupportedSyntax:
        return None
    # bash and the kernel differ about `LINK/..`.
    targets = [cd_target(part.command) or "" for part in flow.parts]
    if any(".." in target.split("/") or target.startswith(_START) for target in targets):
        return None
    names = [_output_name(part, word) for part in flow.parts for word in part.command.outputs]
    if not names or "" in names:
        return None
    programs = [part.command.words for part in flow.parts if not is_table_command(part.command.words)]
    return _WrittenFiles([f"it writes to {name}" for name in names], [words[0].text for words in programs])


def _output_name(part: FlowPart, output: Word) -> str:
    """Return the file to which a command writes, with the folder of a `cd` before it; empty if it is not certain."""
    if output.has_glob:
        return ""
    if part.folders == {_START} or len(part.folders) > 1 or output.is_home or output.text.startswith("/"):
        return output.text
    (folder,) = part.folders
    return f"{folder.removeprefix(_START)}/{output.text.removeprefix('./')}"


def _with_bound_redirects(command: str) -> str:
    """Return the command with parentheses around each command of a list that is redirected.

    Example: `cd a && cat > b` becomes `cd a && (cat > b)`. The grammar redirects the whole list, bash the last command.
    """
    source = command.encode("utf-8", "replace")
    inserted: list[tuple[int, bytes]] = []
    for node in _nodes(source) or ():
        if node.type == "redirected_statement" and node.children[0].type == "list":
            inserted += [(node.children[0].children[-1].start_byte, b"("), (node.end_byte, b")")]
    for position, text in sorted(inserted, reverse=True):
        source = source[:position] + text + source[position:]
    return source.decode("utf-8", "replace")


class _Document(NamedTuple):
    """A here-document."""

    command: str
    """The command without the document."""
    expands: bool
    """The document contains variables or commands that bash replaces."""


def _only_document(starts: list[Node], ends: list[Node], source: bytes) -> _Document | None:
    """Return the only here-document of a command, None if there are several or if its end is uncertain."""
    if len(starts) != 1 or len(ends) != 1:
        return None
    start, end = starts[0], ends[0]
    delimiter = _DELIMITER.fullmatch(_text_of(start, source))
    operator = source[: start.start_byte].rstrip(b" \t")
    before = operator.removesuffix(b"-")
    if delimiter is None or not before.endswith(b"<<") or source[end.end_byte :][:1] not in (b"", b"\n"):
        return None
    first = source.find(b"\n", start.end_byte) + 1
    *lines, last = source[first : end.end_byte].decode("utf-8", "replace").split("\n")
    # bash ends the document at the first line that is the delimiter; `<<-` removes tabs before it.
    tabs, word = "" if before == operator else "\t", delimiter["word"]
    if last.lstrip(tabs) != word or any(line.lstrip(tabs) == word for line in lines):
        return None
    # Without quotes, bash joins `EO\` and `F` to the delimiter `EOF`, and runs the next line.
    if not delimiter["quote"] and any(line.endswith("\\") for line in lines):
        return None
    without = before.removesuffix(b"<<") + source[start.end_byte : first] + source[end.end_byte :]
    expands = not delimiter["quote"] and any("$" in line or "`" in line for line in lines)
    return _Document(without.decode("utf-8", "replace").strip(), expands)


def with_dangers(
    verdict: Verdict, command: str, verdicts: Sequence[Verdict] = (), *, is_restricted: bool = False
) -> Verdict:
    """Return the verdict on a command that is not judged part by part, with the reasons for asking.

    The reasons are the dangers of the command and the reasons of `verdicts`, or of `verdict` if `verdicts` is empty.
    `is_restricted` adds that the folder is restricted.
    """
    verdicts = verdicts or (verdict,)
    dangers = dangers_in(command)
    first = [verdict.reason for verdict in verdicts if _precedes_dangers(verdict)]
    others = [verdict.reason for verdict in verdicts if not (dangers and _is_generic(verdict))]
    if others in ([HERE_DOCUMENT], [UNREADABLE]):
        others = _here_document_reasons(command) or others
    elif others == [REDIRECTED_LIST]:
        others = _redirect_reasons(command) or others
    reasons = [*first, *(danger.reason for danger in dangers), *others]
    return _with_reasons(verdict, reasons, is_restricted=is_restricted)


def with_dangers_of_parts(verdict: Verdict, undecided: Sequence[JudgedPart], *, is_restricted: bool) -> Verdict:
    """Return `verdict` with the reasons why parts of a command ask.

    Secrets and deceptive characters come first, then the most dangerous part.
    """
    ranked: list[Danger] = []
    for judged in undecided:
        command, asking = judged.part.command, judged.verdict
        words, outputs = [word.text for word in command.words], [word.text for word in command.outputs]
        dangers = dangers_of(words, outputs, judged.part.piped_from)
        ranked += dangers
        if not (dangers and _is_generic(asking)):
            ranked.append(Danger(-1 if _precedes_dangers(asking) else len(_DANGERS), asking.reason))
    reasons = [danger.reason for danger in sorted(ranked, key=lambda danger: danger.rank)]
    return _with_reasons(verdict, reasons, is_restricted=is_restricted)


def _precedes_dangers(verdict: Verdict) -> bool:
    """Return whether a reason comes before all dangers: a secret, or a character that may hide a danger."""
    return verdict.check == SHELL_PATH or names_character(verdict.reason)


def _is_generic(verdict: Verdict) -> bool:
    """Return whether a danger of the same command is more specific than the reason of the judge."""
    return not _precedes_dangers(verdict) and any(words in verdict.reason for words in _GENERIC_REASONS)


def _with_reasons(verdict: Verdict, reasons: Sequence[str], *, is_restricted: bool) -> Verdict:
    circumstance = RESTRICTED_HERE if is_restricted else ""
    all_reasons = complete_reasons(reasons)
    if all_reasons and circumstance:
        all_reasons = (*all_reasons, circumstance)
    return replace(verdict, reason=joined_reasons(reasons, circumstance), all_reasons=all_reasons)
