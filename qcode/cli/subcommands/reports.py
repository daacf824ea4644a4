"""`qcode config`, `doctor`, `models`, `stats` and `themes`: they print facts about this folder and machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from qcode.agent.context.project import find_project_root
from qcode.agent.models.limits import LimitStore, learned_lines
from qcode.agent.options import Options
from qcode.agent.sessions.store import SessionStore
from qcode.cli.arguments import invalid_arguments, parse_subcommand
from qcode.cli.context import folder_settings, run_context
from qcode.cli.terminal import put, say, working_folder
from qcode.config.paths import ConfigPaths
from qcode.protocol.usage import Price
from qcode.text.clean import clean
from qcode.text.numbers import count_text

_STATS = "use: qcode stats [--all] [--json] [-C DIR]"


def _out(*lines: str) -> int:
    put("".join(f"{line}\n" for line in lines))
    return 0


def run_config(rest: Sequence[str]) -> int:
    paths = ConfigPaths.from_env(os.environ)
    match list(rest):
        case ["path"]:
            return _out(str(paths.config_file))
        case ["schema"]:
            from qcode.config.json_schema import schema_text

            return _out(schema_text().rstrip())
        case ["show"]:
            from qcode.config.show import show

            settings = folder_settings(paths)
            for warning in settings.warnings:
                say(warning)
            rows = show(settings)
            return _out(*(f"{row.key} = {row.value}  ({row.origin})" for row in rows))
        case _:
            raise invalid_arguments(rest, "use: qcode config path, qcode config show, or: qcode config schema")


def run_doctor(rest: Sequence[str]) -> int:
    if rest:
        raise invalid_arguments(rest, "use: qcode doctor")
    from qcode.agent.doctor import report

    context = run_context(Options(), working_folder(None), is_attended=False)
    return _out(*(clean(line) for line in report(context)))


def run_models(rest: Sequence[str]) -> int:
    from qcode.providers import catalog

    limits = LimitStore(ConfigPaths.from_env(os.environ).state_dir)
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


def run_stats(rest: Sequence[str]) -> int:
    """Print the totals of this folder's sessions, or of all sessions."""
    options, words, given = parse_subcommand("stats", rest, _STATS)
    if words:
        raise invalid_arguments(words, _STATS)
    import json

    from qcode.agent.models.client import facts_of
    from qcode.agent.sessions.stats import Stats

    paths = ConfigPaths.from_env(os.environ)
    settings = folder_settings(paths, options.cwd)

    def price_of(name: str) -> Price | None:
        provider, _, model = name.partition("/")
        return facts_of(provider, model, settings.models.get(name)).price

    stats = Stats(price_of)
    own = SessionStore(paths.state_dir, find_project_root(working_folder(options.cwd))).folder
    stats.read(sorted(own.parent.glob("*/*.jsonl") if "all" in given else own.glob("*.jsonl")))
    if "json" in given:
        return _out(json.dumps(stats.as_json()))
    return _out(*(clean(line) for line in stats.lines()))


def run_themes(rest: Sequence[str]) -> int:
    if rest:
        raise invalid_arguments(rest, "use: qcode themes")
    from qcode.tui.theme import load_themes

    themes, problems = load_themes(ConfigPaths.from_env(os.environ).config_dir / "themes")
    for problem in problems:
        say(problem)
    return _out(*sorted(themes))
