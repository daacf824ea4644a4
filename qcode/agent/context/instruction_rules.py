"""Rules: Markdown files in `.claude/rules` and `.qwen/rules`, for all files or for the files that their `paths` cover.

Separate from `instructions`, because rules load only if there is such a folder. Format: code.claude.com/docs/en/memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from qcode.agent.claude.markdown import read_markdown
from qcode.agent.context.front_matter import FrontMatterError, read_front_matter
from qcode.agent.context.globs import GlobError, GlobPattern, compile_glob
from qcode.config.definitions import named_files
from qcode.values import dataclass

MAX_PATTERNS = 1_000


@dataclass(frozen=True, slots=True)
class InstructionRule:
    """A rule file."""

    file: Path
    patterns: tuple[GlobPattern, ...] | None
    """The patterns of the files that the rule is about, relative to the project; None for every file."""
    globs: tuple[str, ...] = ()
    """The patterns as written in the file."""

    def covers(self, path: str) -> bool:
        """Return whether the rule is about a file, by its path in the project."""
        return self.patterns is not None and any(pattern.matches(path) for pattern in self.patterns)

    def reason_for(self, path: str | None) -> str:
        """Return why the rule was read: for the file `path`, or for every file."""
        return "a rule for every file" if path is None else f"a rule for {', '.join(self.globs)[:80]}, read for {path}"


def find_rules(folder: Path, project: Path | None, notices: list[str]) -> Iterator[InstructionRule]:
    """Yield the rules below a folder; add a line to `notices` for each file that cannot be used."""
    for _, file in named_files(folder, notices, inside=project, suffix=".md"):
        try:
            globs = read_markdown(file).names("paths")
            if globs is None:
                yield InstructionRule(file, patterns=None)
                continue
            yield InstructionRule(file, tuple(compile_glob(glob) for glob in globs[:MAX_PATTERNS]), globs)
        except FrontMatterError as error:
            notices.append(str(error))
        except GlobError as error:
            notices.append(f"{file}:1: `paths`: {error}")


def body_of(text: str) -> str:
    """Return a rule without its front matter; unchanged if a truncated file ends inside the front matter."""
    try:
        return read_front_matter(text, "").body
    except FrontMatterError:
        return text
