"""The commands of the conversation: its provider, its mode, a new session, trust."""

from __future__ import annotations

from qcode.tui.commands.command import MODES, Command, CommandHost


def _mode(host: CommandHost, name: str) -> None:
    mode = next((mode for mode in MODES if mode == name), None)
    if mode is not None:
        host.use_mode(mode)
        return
    if not name and host.has_screens:
        _pick_mode(host)
        return
    lines = [f"  {mode}: {meaning}" for mode, meaning in MODES.items()]
    head = f"Mode: {host.conversation.mode}" if not name else f"No mode {name!r} to switch to here."
    tail = "auto and bypass are chosen at the start, with --permission-mode."
    host.say("info" if not name else "warning", "\n".join([head, *lines, tail]))


def _pick_mode(host: CommandHost) -> None:
    from qcode.tui.screens.picker import Picker, Row

    current = host.conversation.mode
    rows = [Row(mode, mode, meaning, mode == current) for mode, meaning in MODES.items()]
    if current not in MODES:
        rows.insert(0, Row(current, current, "chosen at the start", is_current=True))

    def picked(name: str | None) -> None:
        mode = next((mode for mode in MODES if mode == name), None)
        if mode is not None:
            host.use_mode(mode)

    host.open_screen(Picker("Permission mode", rows), picked)


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
        has_screen=True,
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
