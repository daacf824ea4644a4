"""The commands of the conversation: its model, its mode, a new session, trust."""

from __future__ import annotations

from qcode.tui.commands.command import MODES, Command, CommandHost


def _model(host: CommandHost, name: str) -> None:
    if name:
        host.use_model(name)
        return
    others = [other for other in host.model_names if other != host.conversation.model]
    lines = [f"Model: {host.conversation.model}", *(f"  {other}" for other in others)]
    host.say("info", "\n".join([*lines, "/model NAME switches, from the next turn on."]))


def _mode(host: CommandHost, name: str) -> None:
    mode = next((mode for mode in MODES if mode == name), None)
    if mode is not None:
        host.use_mode(mode)
        return
    lines = [f"  {mode}: {meaning}" for mode, meaning in MODES.items()]
    head = f"Mode: {host.conversation.mode}" if not name else f"No mode {name!r} to switch to here."
    tail = "auto and bypass are chosen at the start, with --permission-mode."
    host.say("info" if not name else "warning", "\n".join([head, *lines, tail]))


def _next_mode(host: CommandHost, _argument: str) -> None:
    modes = list(MODES)
    mode = host.conversation.mode
    host.use_mode(modes[(modes.index(mode) + 1) % len(modes)] if mode in modes else "default")


def _clear(host: CommandHost, _argument: str) -> None:
    if host.is_turn_running:
        host.say("warning", "A turn is running. Press Esc to interrupt it, then /clear.")
    else:
        host.clear_conversation()


CHAT: tuple[Command, ...] = (
    Command(
        "model",
        "Switch the model",
        "Show the models, or switch to one from the next turn on.",
        _model,
        ("model",),
        "[name]",
        lambda host: host.model_names,
    ),
    Command(
        "connect",
        "Connect a provider",
        "Add a key: choose a provider, paste its key, switch to its model.",
        lambda host, name: host.connect(name),
        ("connect",),
        "[provider]",
        lambda host: host.provider_names,
    ),
    Command(
        "mode",
        "Switch the permission mode",
        "Show the permission modes, or switch to one.",
        _mode,
        ("mode",),
        "[name]",
        lambda _: tuple(MODES),
    ),
    Command(
        "next-mode", "Next permission mode", "Go on to plan, default or accept-edits.", _next_mode, keys=("shift+tab",)
    ),
    Command("clear", "New session", "Start a new session; the old one is kept.", _clear, ("clear", "new")),
    Command(
        "trust",
        "Trust this folder",
        "Trust this folder from now on: rules and modes hold here.",
        lambda host, _: host.trust_folder(),
        ("trust",),
    ),
)
