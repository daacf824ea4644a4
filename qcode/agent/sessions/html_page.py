"""Writes the HTML page of an export: one file that loads nothing and contains no script.

Replies are rendered from Markdown, and code is highlighted. HTML in a reply is shown as text, links may only lead to
web pages and mail addresses, and images in a reply become links. The output is well-formed XML, so that a test finds
tags that are not closed. `html_page.css` has the style.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qcode.agent.sessions.turns import CallView, PromptParts, SessionStep, SessionTurn, view_of
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.text.clean import clean, single_spaced
from qcode.text.diff import diff_lines
from qcode.text.lexers import LEXER_FAULTS, lexer_of
from qcode.text.links import split_at_addresses
from qcode.text.numbers import count_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_STYLE = Path(__file__).with_name("html_page.css")
_MEDIA_TYPE = re.compile(r"image/[a-z0-9.+-]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_LINK = re.compile(r"(?:https?://|mailto:)[^\s]+", re.IGNORECASE)
_LEVELS_ABOVE = 2
"""The heading levels of the page itself; a heading in a reply starts below them."""
_MAX_NESTING = 40
"""The maximum nesting depth of Markdown blocks."""
_TASK = re.compile(r"<li>(\n<p>)?\[([ xX])\] ")
"""The HTML of an item such as `- [x] read the file`, whose brackets become a box."""
_BOXES = {" ": "☐", "x": "☑", "X": "☑"}
_MAX_HIGHLIGHTED_CHARS = 100_000
_LINK_REL = "noopener noreferrer nofollow"
"""The `rel` of a link in untrusted text."""


def html_page(turns: Sequence[SessionTurn], title: str, facts: Sequence[str], *, has_tools: bool) -> str:
    """Return the page. `facts` are shown under the title."""
    listed = "\n".join(f'<li value="{turn.number}">{_turn_link(turn)}</li>' for turn in turns)
    body = "\n".join(_turn(turn, has_tools=has_tools) for turn in turns)
    style = _STYLE.read_text(encoding="utf-8")
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en"><head><meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        '<meta name="color-scheme" content="light dark"/>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>\n'
        f"<title>{_escaped(title)}</title>\n<style>\n{style}</style></head>\n"
        f"<body>\n<header><h1>{_escaped(title)}</h1>{_facts(facts)}</header>\n"
        f'<nav aria-label="Turns"><ol>\n{listed}\n</ol></nav>\n<main>\n{body}\n</main>\n</body></html>\n'
    )


def _turn_link(turn: SessionTurn) -> str:
    return f'<a href="#turn-{turn.number}">{_escaped(turn.label)}</a>'


def _facts(facts: Sequence[str]) -> str:
    return f'<p class="facts">{" · ".join(map(_escaped, facts))}</p>' if facts else ""


def _turn(turn: SessionTurn, *, has_tools: bool) -> str:
    parts = [part for step in turn.steps for part in _step(turn, step, has_tools=has_tools)]
    heading = f'<h2><a href="#turn-{turn.number}">Turn {turn.number}</a></h2>'
    return "\n".join(
        [f'<section id="turn-{turn.number}" class="turn">{heading}', *parts, f"{_facts(turn.facts)}</section>"]
    )


def _step(turn: SessionTurn, step: SessionStep, *, has_tools: bool) -> Iterator[str]:
    message = step.entry.message
    if message.role == "user":
        yield from _prompt(step.prompt)
    else:
        for block in message.blocks:
            match block:
                case Text(text=text) if text.strip():
                    yield f'<div class="reply">{_markdown(text)}</div>'
                case Reasoning(text=text) if text.strip():
                    yield f'<details class="thinking"><summary>Thinking</summary>{_markdown(text)}</details>'
                case ToolCall() if has_tools:
                    yield _card(turn.view(step, block), _agent(step.agents.get(block.call_id, ())))
                case _:
                    pass
    for note in (step.recovery, step.entry.note, step.ending_note):
        if note:
            yield f'<p class="note">{_escaped(note)}</p>'


def _prompt(prompt: PromptParts) -> Iterator[str]:
    if prompt.typed_text or prompt.images:
        images = "".join(map(_image, prompt.images))
        yield f'<div class="prompt"><div class="typed">{_linked(prompt.typed_text)}</div>{images}</div>'
    for attachment in prompt.attached:
        head = f"<summary>{_escaped(attachment.kind)} <code>{_escaped(single_spaced(attachment.name))}</code></summary>"
        yield f'<details class="call">{head}{_pre(attachment.content)}</details>'
    if prompt.full_text:
        yield f'<details class="call"><summary>Prompt sent for the command</summary>{_pre(prompt.full_text)}</details>'


def _card(view: CallView, agent: str = "") -> str:
    """Return a card: its summary line, then the plan, the diff or the arguments, then the result.

    Every card is collapsed, except an approved plan.
    """
    notes = view.notes
    if not notes and view.output and not view.state:
        notes = (count_text(len(view.output.splitlines()), "line"),)
    labels = "".join(f" <small>{_escaped(note)}</small>" for note in notes)
    name = f"<b>{_escaped(view.title)}</b>"
    argument = f" <code>{_escaped(view.argument)}</code>" if view.argument and not view.is_approved_plan else ""
    plan = f'<div class="reply">{_markdown(view.plan)}</div>' if view.plan else ""
    body = plan + (_diff(view.diff) if view.diff else _arguments(view)) + agent
    result = _pre(view.output, "output") if view.output else ""
    state = " failed" if view.has_failed else ""
    images = "".join(map(_image, view.images))
    head = f"<summary>{name}{argument}{labels}</summary>"
    opened = ' open="open"' if view.is_approved_plan else ""
    return f'<details class="call{state}"{opened}>{head}{body}{result}{images}</details>'


def _arguments(view: CallView) -> str:
    """Return the arguments that the summary line of the card does not show in full."""
    return "".join(
        f'<p class="name">{_escaped(argument.name)}</p>{_pre(argument.text, language=argument.language)}'
        for argument in view.details
    )


def _agent(messages: Sequence[Message]) -> str:
    """Return the work of a sub-agent: its texts and the cards of its calls."""
    results = {
        result.call_id: result for message in messages for result in message.blocks if isinstance(result, ToolResult)
    }
    parts: list[str] = []
    for message in messages:
        for block in message.blocks:
            if isinstance(block, ToolCall):
                parts.append(_card(view_of(block, results.get(block.call_id))))
            elif isinstance(block, Text) and block.text.strip():
                parts.append(f'<div class="reply">{_markdown(block.text)}</div>')
    return f'<div class="agent">{"".join(parts)}</div>' if parts else ""


def _diff(diff: str) -> str:
    """Return the lines of a diff with their numbers; a rule separates the hunks of a file."""
    rows: list[str] = []
    is_first_hunk = True  # of its file
    omitted_starts = ["--- ", "diff --git", "index "]
    if diff.count("\n+++ ") < 2:  # the diff of several files keeps these lines, which name the files
        omitted_starts.append("+++ ")
    for line in diff_lines(diff.removesuffix("\n").split("\n")):
        if line.kind in ("add", "remove", "same"):
            number = f"<i>{line.number}</i>"
            rows.append(f'<span class="{line.kind}">{number}{_escaped(line.text) or " "}</span>')
        elif line.kind == "outside" and line.text.startswith(tuple(omitted_starts)):
            if line.text.startswith("--- "):  # another file begins
                is_first_hunk = True
        elif line.kind == "hunk":
            heading = _escaped(line.text.split("@@", 2)[2].strip())  # git names the function after `@@ -1,2 +1,3 @@`
            if not is_first_hunk:
                rows.append(f'<span class="hunk later">{heading}</span>')
            elif heading:
                rows.append(f'<span class="hunk">{heading}</span>')
            is_first_hunk = False
        elif line.text:
            rows.append(f'<span class="hunk">{_escaped(line.text)}</span>')
    return f'<pre class="diff">{"".join(rows)}</pre>'


def _pre(text: str, kind: str = "code", *, language: str = "") -> str:
    return f'<pre class="{kind}">{_highlighted(clean(text), language)}</pre>'


def _highlighted(code: str, language: str) -> str:
    """Return code as HTML, with token classes if the language is known."""
    lexer = lexer_of(language) if len(code) <= _MAX_HIGHLIGHTED_CHARS else None
    if lexer is None:
        return _escaped(code)
    try:
        return str(_pygments().highlight(_encodable(code), lexer, _pygments().formatter)).removesuffix("\n")
    except LEXER_FAULTS:
        return _escaped(code)


class _Pygments:
    """Pygments, imported with the first code of a known language."""

    def __init__(self) -> None:
        from pygments import highlight  # type: ignore[import-untyped]  # Pygments ships no types
        from pygments.formatters.html import HtmlFormatter  # type: ignore[import-untyped]  # Pygments ships no types

        self.highlight: Any = highlight
        self.formatter: Any = HtmlFormatter(nowrap=True)


@lru_cache(maxsize=1)
def _pygments() -> _Pygments:
    return _Pygments()


def _markdown(text: str) -> str:
    page = str(_parser().render(_encodable(clean(text)), {}))
    return _TASK.sub(_task_with_box, page)


def _task_with_box(task: re.Match[str]) -> str:
    paragraph = task[1] or ""
    return f"<li>{paragraph}{_BOXES[task[2]]} "


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    options = {"html": False, "xhtmlOut": True, "maxNesting": _MAX_NESTING, "highlight": _highlight}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: _LINK.fullmatch(url) is not None  # type: ignore[method-assign]  # as documented
    parser.core.ruler.push("addresses", _link_addresses)
    parser.add_render_rule("image", _linked_image)
    parser.add_render_rule("link_open", _link_open)
    parser.add_render_rule("heading_open", _lowered_heading)
    parser.add_render_rule("heading_close", _lowered_heading)
    return parser


def _highlight(code: str, language: str, _attributes: str) -> str:
    return _highlighted(code.removesuffix("\n"), language)


def _link_addresses(state: StateCore) -> None:
    """Turn the addresses in the text of a reply into links."""
    for block in state.tokens:
        if block.type == "inline" and block.children and "://" in block.content:
            block.children = list(_with_links(block.children))


def _with_links(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens with links for the addresses in text that is not part of a link."""
    from markdown_it.common.normalize_url import normalizeLink
    from markdown_it.token import Token

    is_in_link = False
    for token in tokens:
        if token.type in ("link_open", "link_close"):
            is_in_link = token.type == "link_open"
        if token.type != "text" or is_in_link:
            yield token
            continue
        for part in split_at_addresses(token.content):
            if part.is_address:
                yield Token("link_open", "a", 1, {"href": normalizeLink(part.text)})
            yield Token("text", "", 0, content=part.text)
            if part.is_address:
                yield Token("link_close", "a", -1)


def _link_open(renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:  # noqa: ANN401  the signature of a render rule
    tokens[index].attrSet("rel", _LINK_REL)
    return renderer.renderToken(tokens, index, _options, _env)


def _lowered_heading(renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: Any, env: Any) -> str:  # noqa: ANN401  the signature of a render rule
    """Lower a heading below the headings of the page, without skipping a level.

    A reply that starts with `## Title` starts with `h3`, not `h4`, because a skipped level would confuse readers.
    """
    token = tokens[index]
    if token.nesting == 1:
        env["level"] = min(6, int(token.tag[1:]) + _LEVELS_ABOVE, env.get("level", _LEVELS_ABOVE) + 1)
    token.tag = f"h{env['level']}"
    return renderer.renderToken(tokens, index, _options, env)


def _linked_image(_renderer: RendererHTML, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:  # noqa: ANN401  the signature of a render rule
    """Return an image of a reply as a link, because loading it would tell its server who reads the page."""
    address = str(tokens[index].attrGet("src") or "")
    label = _escaped(tokens[index].content or address)
    return f'<a href="{_escaped(address)}" rel="{_LINK_REL}">{label}</a>'


def _image(image: Image) -> str:
    if not _MEDIA_TYPE.fullmatch(image.media_type) or not _BASE64.fullmatch(image.data):
        return "<p>[an image that cannot be shown]</p>"
    return f'<img alt="image" src="data:{image.media_type};base64,{image.data}"/>'


def _linked(text: str) -> str:
    """Return text with its addresses as links."""
    linked_parts: list[str] = []
    for part in split_at_addresses(clean(text)):
        escaped = _escaped(part.text)
        linked_parts.append(f'<a href="{escaped}" rel="{_LINK_REL}">{escaped}</a>' if part.is_address else escaped)
    return "".join(linked_parts)


def _escaped(text: str) -> str:
    """Return text as HTML, without control characters."""
    return html.escape(_encodable(clean(text)))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
