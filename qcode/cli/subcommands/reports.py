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
from qcode.values import dataclass

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
    if "json" in flags:
        _print(json.dumps(report_json(findings)))
    else:
        _print(*map(clean, report_lines(findings)))
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
            rows = [row for row in _model_rows(service.providers(with_unready=True)) if query in row.name]
            listed = rows if query or "all" in flags else [row for row in rows if row.credential]
            if "json" in flags:
                write_stdout(json.dumps([row.as_json() for row in listed]) + "\n")
                return _end(problem, is_reported=False)
            _print_models(listed, len(rows) - len(listed), query, learned_lines(limits, query))
            return _end(problem, is_reported=False)
        case _:
            raise invalid_arguments(words, _MODELS)


@dataclass(frozen=True, slots=True)
class _ModelRow:
    """A model in the list."""

    name: str
    """The model as `provider/model`."""
    facts: ModelFacts
    credential: str
    """The origin of the key, or `ready` if none is needed; empty if the model cannot be used."""

    def as_json(self) -> Json:
        price = self.facts.price
        return {
            "model": self.name,
            "context_window": self.facts.context_window,
            "max_output_tokens": self.facts.max_output_tokens,
            "usd_per_million_input": None if price is None else float(price.input),
            "usd_per_million_output": None if price is None else float(price.output),
            "is_ready": bool(self.credential),
        }


def _model_rows(providers: Sequence[OfferedProvider]) -> Iterator[_ModelRow]:
    """Yield each model, usable models first."""
    for provider in sorted(providers, key=lambda provider: not provider.is_ready):
        credential = (provider.credential or "ready") if provider.is_ready else ""
        for model in provider.models:
            yield _ModelRow(f"{provider.name}/{model.name}", model.facts, credential)


def _print_models(rows: Sequence[_ModelRow], hidden_count: int, query: str, learned: Sequence[str]) -> None:
    from qcode.providers.catalog import catalog_source

    if query and not rows and not learned:
        write_stderr(f'no model in the catalog matches "{query}"')
    table = [
        (
            row.name,
            row.credential or "no key",
            _tokens(row.facts.context_window),
            _tokens(row.facts.max_output_tokens),
            *_price_columns(row.facts),
        )
        for row in rows
    ]
    header = ("model", "key", "context", "output", "$/M in", "$/M out")
    lines = columns([header, *table], text_columns=2) if table else []
    _print(*lines, *learned)
    if hidden_count:
        _print(f"{count_text(hidden_count, 'more model')} without a key: qcode models --all")
    _print(f"source: {catalog_source()}")


def _tokens(count: int | None) -> str:
    return "?" if count is None else tokens_text(count)


def _price_columns(facts: ModelFacts) -> tuple[str, str]:
    return ("?", "?") if facts.price is None else (dollars_text(facts.price.input), dollars_text(facts.price.output))


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
    if "json" in flags:
        _print(json.dumps(stats.as_json()))
    else:
        _print(*map(clean, stats.lines()))
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
