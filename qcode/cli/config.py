"""The small subcommands (`config`, `models`, `stats`, ...). Each prints its result and exits."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from qcode.agent.context.project import find_project_root
from qcode.agent.models.limits import LimitStore, learned_lines
from qcode.agent.options import Options
from qcode.agent.sessions.store import SessionStore
from qcode.agent.trust import TrustStore
from qcode.cli.arguments import invalid_arguments, parse_subcommand
from qcode.cli.terminal import put, say, working_folder
from qcode.config.load import load
from qcode.config.paths import ConfigPaths
from qcode.config.settings import Settings
from qcode.protocol.usage import Price
from qcode.text.clean import clean
from qcode.text.numbers import count_text

_STATS = "use: qcode stats [--all] [--json] [-C DIR]"


def run_subcommand(name: str, rest: Sequence[str]) -> int:
    """Run a subcommand and return its exit code; raise `CommandLineError` or `QcodeError`."""
    commands: Mapping[str, Callable[[Sequence[str]], int]] = {
        "auth": _auth,
        "batch": _batch,
        "config": _config,
        "doctor": _doctor,
        "mcp": _mcp,
        "models": _models,
        "permissions": _permissions,
        "replay": _replay,
        "sessions": _sessions,
        "stats": _stats,
        "themes": _themes,
        "trust": _trust,
    }
    return commands[name](rest)


def _out(*lines: str) -> int:
    put("".join(f"{line}\n" for line in lines))
    return 0


def _paths() -> ConfigPaths:
    return ConfigPaths.from_env(os.environ)


def _root() -> Path:
    return find_project_root(working_folder(None))


def _settings(paths: ConfigPaths) -> Settings:
    root = _root()
    return load(paths, os.environ, {}, root, is_trusted=TrustStore(paths.state_dir).is_trusted(root))


def _auth(rest: Sequence[str]) -> int:
    from qcode.cli.auth import run_auth

    paths = _paths()
    return run_auth(rest, paths, _settings(paths))


def _config(rest: Sequence[str]) -> int:
    paths = _paths()
    match list(rest):
        case ["path"]:
            return _out(str(paths.config_file))
        case ["show"]:
            from qcode.config.show import show

            settings = _settings(paths)
            for warning in settings.warnings:
                say(warning)
            rows = show(settings)
            return _out(*(f"{row.key} = {row.value}  ({row.origin})" for row in rows))
        case _:
            raise invalid_arguments(rest, "use: qcode config path, or: qcode config show")


def _doctor(rest: Sequence[str]) -> int:
    if rest:
        raise invalid_arguments(rest, "use: qcode doctor")
    from qcode.agent.doctor import report
    from qcode.cli.context import run_context

    context = run_context(Options(), working_folder(None), is_attended=False)
    return _out(*(clean(line) for line in report(context)))


def _mcp(rest: Sequence[str]) -> int:
    from qcode.cli.mcp import run_mcp

    return run_mcp(rest)


def _models(rest: Sequence[str]) -> int:
    from qcode.providers import catalog

    limits = LimitStore(_paths().state_dir)
    match list(rest):
        case ["forget"]:
            return _out(f"deleted the learned limits of {count_text(limits.forget(), 'model')}")
        case [] | [_]:
            wanted = rest[0] if rest else ""
            rows = [
                f"{name}  window {_count(facts.context_window)}  output {_count(facts.max_output_tokens)}"
                for name, facts in catalog.models()
                if wanted in name
            ]
            learned = learned_lines(limits, wanted)
            if wanted and not rows and not learned:
                say(f'no model in the catalog matches "{wanted}"')
            return _out(*rows, *learned, f"source: {catalog.catalog_source()}")
        case _:
            raise invalid_arguments(rest, "use: qcode models [PART OF A NAME], or: qcode models forget")


def _count(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def _permissions(rest: Sequence[str]) -> int:
    from qcode.cli.permissions import run_permissions

    return run_permissions(rest)


def _sessions(rest: Sequence[str]) -> int:
    from qcode.cli.sessions import run_sessions

    return run_sessions(rest, _paths(), _settings)


def _stats(rest: Sequence[str]) -> int:
    """Print the totals of this folder's sessions, or of all sessions."""
    options, words, given = parse_subcommand("stats", rest, _STATS)
    if words:
        raise invalid_arguments(words, _STATS)
    import json

    from qcode.agent.models.client import facts_of
    from qcode.agent.sessions.stats import Stats

    paths, root = _paths(), find_project_root(working_folder(options.cwd))
    settings = load(paths, os.environ, {}, root, is_trusted=TrustStore(paths.state_dir).is_trusted(root))

    def price_of(name: str) -> Price | None:
        provider, _, model = name.partition("/")
        return facts_of(provider, model, settings.models.get(name)).price

    stats = Stats(price_of)
    own = SessionStore(paths.state_dir, root).folder
    stats.read(sorted(own.parent.glob("*/*.jsonl") if "all" in given else own.glob("*.jsonl")))
    if "json" in given:
        return _out(json.dumps(stats.as_json()))
    return _out(*(clean(line) for line in stats.lines()))


def _batch(rest: Sequence[str]) -> int:
    from qcode.cli.batch import run_batch

    return run_batch(rest)


def _replay(rest: Sequence[str]) -> int:
    from qcode.cli.replay import run_replay

    return run_replay(rest)


def _trust(rest: Sequence[str]) -> int:
    from qcode.cli.trust import run_trust

    return run_trust(rest, _paths().state_dir)


def _themes(rest: Sequence[str]) -> int:
    if rest:
        raise invalid_arguments(rest, "use: qcode themes")
    from qcode.tui.theme import load_themes

    themes, problems = load_themes(_paths().config_dir / "themes")
    for problem in problems:
        say(problem)
    return _out(*sorted(themes))
