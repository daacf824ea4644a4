"""What a session may do at its start, by the settings and flags of a run."""

from __future__ import annotations

from qcode.cli.failure import StartError
from qcode.cli.surroundings import Surroundings
from qcode.safety.examples import read_rules
from qcode.safety.launch.bash_syntax import BashSyntax
from qcode.safety.launch.git_config import GitConfig
from qcode.safety.policy import Policy
from qcode.safety.shell.judge import Looks
from qcode.tools.environment import passed_on


def policy_of(around: Surroundings) -> Policy:
    """Return what a session may do at its start; raise `StartError` for a bad rule."""
    permissions = around.settings.permissions
    try:
        rules = read_rules(allow=permissions.allow, ask=permissions.ask, deny=permissions.deny)
    except ValueError as error:
        raise StartError(f"permissions: {error}", 52) from None
    own = (around.paths.config_dir, around.paths.state_dir)
    forbidden = (around.folder, around.root, *around.arguments.add_dirs)
    search_path = passed_on(around.env)["PATH"]
    return Policy(
        mode=permissions.mode,
        rules=rules,
        is_trusted=around.is_trusted,
        root=around.folder,
        added=around.arguments.add_dirs,
        own=own,
        search_path=search_path,
        looks=Looks(BashSyntax(search_path, forbidden), GitConfig(around.folder, around.env, forbidden)),
    )
