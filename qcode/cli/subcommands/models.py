"""`qcode models`: the models with their limits and prices, and the limits that qcode learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from qcode.agent.models.limits import LimitStore, learned_lines
from qcode.agent.models.offered import ModelsService, OfferedProvider
from qcode.cli.arguments import FOLDER_FLAGS, invalid_arguments, parse_subcommand
from qcode.cli.context import folder_context, report_problem
from qcode.cli.terminal import write_lines, write_stderr
from qcode.protocol.errors import ExitCode, QcodeError
from qcode.protocol.model import ModelFacts
from qcode.text.columns import columns
from qcode.text.json import Json
from qcode.text.numbers import count_text, dollars_text, tokens_text
from qcode.values import dataclass

_USE = f"use: qcode models [PART OF A NAME] [--all] {FOLDER_FLAGS}, or: qcode models forget"


def run_models(arguments: Sequence[str]) -> int:
    """Print the models, or forget the learned limits; return the exit code."""
    options, words, flags = parse_subcommand("models", arguments, _USE)
    context, problem = folder_context(options)
    limits = LimitStore(context.paths.state_dir)
    match words:
        case ["forget"]:
            try:
                count = limits.forget()
            except OSError as error:
                raise QcodeError(f"cannot delete {error.filename}: {error.strerror}") from None
            if "json" in flags:
                write_lines(json.dumps({"deleted": count}))
            else:
                write_lines(f"deleted the learned limits of {count_text(count, 'model')}")
            return ExitCode.OK
        case [] | [_]:
            query = words[0] if words else ""
            service = ModelsService(context)
            models = _model_rows(service.providers(with_unready=True))
            rows = [row for row in models if query.casefold() in row.name.casefold()]
            listed = rows if query or "all" in flags else [row for row in rows if row.credential]
            if "json" in flags:
                write_lines(json.dumps([row.as_json() for row in listed]))
            else:
                _print_models(listed, len(rows) - len(listed), query, learned_lines(limits, query))
            return report_problem(problem)
        case _:
            raise invalid_arguments(words, _USE)


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
    write_lines(*lines, *learned)
    if hidden_count:
        write_lines(f"{count_text(hidden_count, 'more model')} without a key: qcode models --all")
    write_lines(f"source: {catalog_source()}")


def _tokens(count: int | None) -> str:
    return "?" if count is None else tokens_text(count)


def _price_columns(facts: ModelFacts) -> tuple[str, str]:
    return ("?", "?") if facts.price is None else (dollars_text(facts.price.input), dollars_text(facts.price.output))
