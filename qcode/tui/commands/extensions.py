"""The commands of everything that extends the model: tools, hooks, skills, instruction files, tool servers.

A screen is loaded when it opens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from qcode.protocol.approvals import NO_OPTIONS
from qcode.protocol.errors import QcodeError
from qcode.protocol.tools import Refused
from qcode.text.clean import one_line, quoted
from qcode.text.match import unknown_name_error
from qcode.text.sentences import capitalized
from qcode.tui.commands.command import Command, CommandContext
from qcode.tui.failures import with_app_commands
from qcode.tui.panels.servers import NO_SERVERS, details, listing

if TYPE_CHECKING:
    from qcode.agent.skills.skill import Skill


def _tools(context: CommandContext, name: str) -> None:
    from qcode.agent.offered_tools import tool_text, tools_text

    tools = context.agent.offered_tools()
    named_tool = next((tool for tool in tools if tool.name == name), None)
    if named_tool is not None:
        context.view.show_panel(f"Tool {one_line(named_tool.name)}", tool_text(named_tool))
    elif name:
        names = [tool.name for tool in tools]
        context.refuse(unknown_name_error(f"tool {quoted(name)}", name, names, "/tools lists them."))
    elif context.app_view is not None:
        from qcode.tui.screens.inspection import ToolPicker

        context.required_app_view.open_screen(ToolPicker(tools), lambda _: None)
    else:
        context.view.show_panel("Tools", tools_text(tools))


def _tool_choices(context: CommandContext) -> Sequence[str]:
    return [tool.name for tool in context.agent.offered_tools()]


def _memory(context: CommandContext, text: str) -> None:
    from qcode.agent.context.memory import memory_text, split_memory_line

    memory = context.agent.memory
    app_view = context.app_view
    if not text and app_view is not None:
        from qcode.tui.screens.inspection import MemoryPicker

        def edit(path: str | None) -> None:
            if path is not None:
                app_view.edit_file(path)

        app_view.open_screen(MemoryPicker(memory), edit)
        return
    if not text:
        context.view.show_panel("Instructions", memory_text(memory))
        return
    line = split_memory_line(text, memory.editable_files())
    if len(line.files) == 1:
        _append_line(context, line.files[0].path, line.text)
    elif app_view is not None:
        from qcode.tui.screens.inspection import MemoryTargetPicker

        def append(path: str | None) -> None:
            if path is not None:
                _append_line(context, path, line.text)

        app_view.open_screen(MemoryTargetPicker(line.files, line.text), append)
    else:
        context.view.notify("info", "Choose the file: /memory project: TEXT or /memory yours: TEXT.")


def _append_line(context: CommandContext, path: str, line: str) -> None:
    try:
        context.view.notify("info", one_line(context.agent.memory.append(path, line)))
    except ValueError as refusal:
        context.refuse(one_line(str(refusal)))


def _memory_choices(context: CommandContext) -> Sequence[str]:
    return [f"{owner}: " for owner in dict.fromkeys(file.owner for file in context.agent.memory.editable_files())]


def _init(context: CommandContext, focus: str) -> None:
    try:
        prompt = context.agent.memory.init_prompt(focus)
    except ValueError as refusal:
        context.refuse(str(refusal))
        return
    if context.agent.conversation.mode == "plan":
        context.view.notify(
            "info", "Plan mode: the model plans the file and asks before it writes. /mode leaves plan mode."
        )
    context.view.send(prompt, f"/init {focus}".rstrip(), NO_OPTIONS)


_SHOW = "show"


def _hooks(context: CommandContext, _argument: str) -> None:
    from qcode.agent.hooks.listing import NO_HOOKS, hook_lines

    hooks = context.agent.conversation.hooks
    if hooks is None:
        text = with_app_commands(NO_HOOKS)
        context.view.notify("info", text.replace("`", ""))  # a notice is not Markdown
        return
    lines = hook_lines(hooks.runner.handlers, hooks.unused, hooks.runner.stats)
    context.view.show_panel("Hooks", "\n".join(lines))


def _skills(context: CommandContext, argument: str) -> None:
    from qcode.agent.skills.listing import detail_text, list_text, no_skills_text

    skills = context.agent.skills
    if skills is None:
        context.view.notify("info", no_skills_text(context.agent.context))
        return
    if not argument:
        context.view.show_panel("Skills", list_text(skills, context.agent.context))
        return
    first_word, _, other_words = argument.partition(" ")
    other_words = other_words.strip()
    is_show = first_word == _SHOW and bool(other_words)
    try:
        skill = skills.find(other_words if is_show else first_word)
    except Refused as refused:
        context.refuse(str(refused))
        return
    if is_show:
        context.view.show_panel(f"Skill {skill.handle}", detail_text(skills, skill))
    else:
        send_skill(context, other_words, skill=skill)


def _skill_choices(context: CommandContext) -> Sequence[str]:
    names = [skill.handle for skill in context.agent.skills.enabled] if context.agent.skills is not None else []
    return (*names, *(f"{_SHOW} {name}" for name in names))


def send_skill(context: CommandContext, arguments: str, *, skill: Skill) -> None:
    """Send the prompt of a skill. First ask about each of its commands that needs approval."""
    context.view.run_later(_send_skill(context, skill, arguments))


async def _send_skill(context: CommandContext, skill: Skill, arguments: str) -> None:
    try:
        prompt = await context.agent.skill_prompt(skill, arguments, partial(_may_run, context))
    except QcodeError as refusal:
        context.refuse(f"{capitalized(str(refusal))}.")
    else:
        context.view.send(prompt.text, prompt.options.shown_prompt, prompt.options)


async def _may_run(context: CommandContext, command: str, reason: str) -> bool:
    """Ask whether a command inside the prompt of a skill may run; in the linear mode it may not."""
    if context.app_view is None:
        return False
    from qcode.tui.screens.inspection import SkillCommandPicker

    answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    context.app_view.open_screen(
        SkillCommandPicker(command, reason), lambda chosen: answered.set_result(chosen == SkillCommandPicker.RUN)
    )
    return await answered


EXTENSIONS: tuple[Command, ...] = (
    Command(
        "tools",
        "Tools",
        "List the model's tools, their permissions and their token cost.",
        _tools,
        names=("tools",),
        argument="[name]",
        choices=_tool_choices,
    ),
    Command(
        "hooks",
        "Hooks",
        "List the hooks, their runs and their failures.",
        _hooks,
        names=("hooks",),
    ),
    Command(
        "skills",
        "Skills",
        "List the skills, run one by name, or show its file.",
        _skills,
        names=("skills",),
        argument="[name [arguments] | show name]",
        choices=_skill_choices,
    ),
    Command(
        "memory",
        "Instruction files",
        "Show and edit the instruction files, or add TEXT as a line.",
        _memory,
        names=("memory",),
        argument="[text]",
        choices=_memory_choices,
    ),
    Command(
        "init",
        "Write an AGENTS.md",
        "Have the model write or improve this project's AGENTS.md.",
        _init,
        names=("init",),
        argument="[what matters]",
    ),
)


_SERVERS_TITLE = "Tool servers"


def _mcp(context: CommandContext, argument: str) -> None:
    first_word, _, other_words = argument.partition(" ")
    is_restart = first_word == "restart"
    name = other_words.strip() if is_restart else argument
    server = next((status for status in context.required_app_view.servers.statuses if status.name == name), None)
    if is_restart and not name:
        context.refuse("Name the server: /mcp restart NAME. /mcp lists them.")
    elif name and server is None:
        names = [status.name for status in context.required_app_view.servers.statuses]
        context.refuse(unknown_name_error(f"tool server {quoted(name)}", name, names, "/mcp lists them."))
    elif is_restart:
        context.required_app_view.servers.restart(name)
        context.view.notify("info", f"Restarting {name}.")
    elif server is not None:
        context.view.show_panel(f"{_SERVERS_TITLE}: {server.name}", details(server))
    elif not context.required_app_view.servers.statuses:
        context.view.notify("info", NO_SERVERS)
    else:
        context.view.show_panel(_SERVERS_TITLE, listing(context.required_app_view.servers.statuses))
        context.required_app_view.servers.ask_again()


def _server_choices(context: CommandContext) -> Sequence[str]:
    names = [status.name for status in context.required_app_view.servers.statuses]
    return (*names, *(f"restart {name}" for name in names))


SERVERS: tuple[Command, ...] = (
    Command(
        "mcp",
        "Tool servers",
        "Show tool servers and their tools; approve or restart a server.",
        _mcp,
        names=("mcp",),
        argument="[name | restart name]",
        choices=_server_choices,
        needs_app=True,
    ),
)
