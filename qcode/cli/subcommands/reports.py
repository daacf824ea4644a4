"""`qcode doctor`, `models`, `stats` and `themes`: they print facts about this folder and machine.

`themes` takes `-C` and `--json`, the others also `--trust` and `--settings`. If the configuration is invalid, they
print the error and the facts that do not depend on the configuration, and exit with the code of the error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

from qcode.agent.models.limits import LimitStore, learned_lines
from qcode.agent.models.offered import ModelsService, OfferedProvider
from qcode.cli.arguments import invalid_arguments, parse_subcommand
from qcode.cli.context import folder_context
from qcode.cli.terminal import working_folder, write_stderr, write_stdout
from qcode.config.paths import ConfigPaths
from qcode.protocol.errors import ConfigError, ExitCode, QcodeError
from qcode.protocol.model import ModelFacts
from qcode.protocol.usage import Price
from qcode.text.clean import clean
from qcode.text.columns import columns
from qcode.text.json import Json
from qcode.text.numbers import count_text, dollars_text, tokens_text

FOLDER_FLAGS = "[-C DIR] [--trust] [--settings FILE] [--json]"
_DOCTOR = f"use: qcode doctor {FOLDER_FLAGS}"
_MODELS = f"use: qcode models [PART OF A NAME] [--all] {FOLDER_FLAGS}, or: qcode models forget"
_STATS = f"use: qcode stats [--all] {FOLDER_FLAGS}"
_THEMES = "use: qcode themes [-C DIR] [--json]"


def _print(*lines: str) -> int:
    write_stdout("".join(f"{line}\n" for line in lines))
    return 0


def _end(problem: ConfigError | None, *, is_reported: bool = True) -> int:
    """Return the exit code. Report an invalid configuration on stderr, unless that was done (`is_reported`)."""
    if problem is None:
        return ExitCode.OK
    if not is_reported:
        write_stderr(str(problem))
    return problem.exit_code


def run_doctor(arguments: Sequence[str]) -> int:
    """Print what needs attention in this folder, and the facts about it; return the exit code."""
    options, words, flags = parse_subcommand("doctor", arguments, _DOCTOR)
    if words:
        raise invalid_arguments(words, _DOCTOR)
    from qcode.agent.doctor import report, report_json, report_lines

    context, problem = folder_context(options)
    findings = report(context, problem=problem)
    _print(json.dumps(report_json(findings))) if "json" in flags else _print(*map(clean, report_lines(findings)))
    return _end(problem)


def run_models(arguments: Sequence[str]) -> int:
    """Print the models, or forget the learned limits; return the exit code."""
    options, words, flags = parse_subcommand("models", arguments, _MODELS)
    context, problem = folder_context(options)
    limits = LimitStore(context.paths.state_dir)
    match words:
        case ["forget"]:
            try:
                count = limits.forget()
            except OSError as error:
                raise QcodeError(f"cannot delete {error.filename}: {error.strerror}") from None
            if "json" in flags:
                return _print(json.dumps({"deleted": count}))
            return _print(f"deleted the learned limits of {count_text(count, 'model')}")
        case [] | [_]:
            query = words[0] if words else ""
            service = ModelsService(context)
            rows = [row for row in _models(service.providers(with_unready=True)) if query in row[0]]
            listed = rows if query or "all" in flags else [row for row in rows if row[2]]
            if "json" in flags:
                write_stdout(json.dumps([_model_json(*row) for row in listed]) + "\n")
                return _end(problem, is_reported=False)
            _print_models(listed, len(rows) - len(listed), query, learned_lines(limits, query))
            return _end(problem, is_reported=False)
        case _:
            raise invalid_arguments(words, _MODELS)


def _models(providers: Sequence[OfferedProvider]) -> Iterator[tuple[str, ModelFacts, str]]:
    """Yield each model as `provider/model` with its facts and its credential, usable models first."""
    for provider in sorted(providers, key=lambda offered_provider: not offered_provider.is_ready):
        for model in provider.models:
            yield (
                f"{provider.name}/{model.name}",
                model.facts,
                (provider.credential or "ready") if provider.is_ready else "",
            )


def _print_models(rows: Sequence[tuple[str, ModelFacts, str]], hidden: int, query: str, learned: Sequence[str]) -> None:
    from qcode.providers.catalog import catalog_source

    if query and not rows and not learned:
        write_stderr(f'no model in the catalog matches "{query}"')
    table = [
        (
            name,
            state or "no key",
            _tokens(facts.context_window),
            _tokens(facts.max_output_tokens),
            *_price_columns(facts),
        )
        for name, facts, state in rows
    ]
    header = ("model", "key", "context", "output", "$/M in", "$/M out")
    lines = columns([header, *table], text_columns=2) if table else []
    more = [f"{count_text(hidden, 'more model')} without a key: qcode models --all"] if hidden else []
    _print(*lines, *learned, *more, f"source: {catalog_source()}")


def _tokens(count: int | None) -> str:
    return "?" if count is None else tokens_text(count)


def _price_columns(facts: ModelFacts) -> tuple[str, str]:
    return ("?", "?") if facts.price is None else (dollars_text(facts.price.input), dollars_text(facts.price.output))


def _model_json(name: str, facts: ModelFacts, state: str) -> Json:
    price = facts.price
    return {
        "model": name,
        "context_window": facts.context_window,
        "max_output_tokens": facts.max_output_tokens,
        "usd_per_million_input": None if price is None else float(price.input),
        "usd_per_million_output": None if price is None else float(price.output),
        "is_ready": bool(state),
    }


def run_stats(arguments: Sequence[str]) -> int:
    """Print the totals of this folder's sessions, or of all sessions."""
    options, words, flags = parse_subcommand("stats", arguments, _STATS)
    if words:
        raise invalid_arguments(words, _STATS)
    from qcode.agent.models.client import facts_of
    from qcode.agent.sessions.stats import Stats
    from qcode.agent.sessions.store import SessionStore

    context, problem = folder_context(options)

    def price_of(name: str) -> Price | None:
        provider, _, model = name.partition("/")
        return facts_of(provider, model, context.settings.models.get(name)).price

    stats = Stats(price_of)
    store_folder = SessionStore(context.paths.state_dir, context.root).folder
    stats.read(sorted(store_folder.parent.glob("*/*.jsonl") if "all" in flags else store_folder.glob("*.jsonl")))
    _print(json.dumps(stats.as_json())) if "json" in flags else _print(*map(clean, stats.lines()))
    return _end(problem, is_reported=False)


def run_themes(arguments: Sequence[str]) -> int:
    """Print the names of the themes, and problems of theme files on stderr."""
    options, words, flags = parse_subcommand("themes", arguments, _THEMES)
    if words:
        raise invalid_arguments(words, _THEMES)
    working_folder(options.cwd)  # the themes do not depend on the folder, but it must exist
    from qcode.tui.theme import load_themes

    themes, problems = load_themes(ConfigPaths.from_env(os.environ).config_dir / "themes")
    for problem in problems:
        write_stderr(problem)
    return _print(json.dumps(sorted(themes))) if "json" in flags else _print(*sorted(themes))
