"""Completion scripts for bash, zsh and fish, made from the parser's own flags."""

from __future__ import annotations

from qcode.cli.arguments import SUBCOMMANDS, option_strings


def script(shell: str) -> str:
    """Return the script that completes flags and subcommands; the shell completes file names by itself."""
    words = " ".join((*SUBCOMMANDS, *option_strings()))
    if shell == "bash":
        return (
            "_qcode() {\n"
            f'  COMPREPLY=($(compgen -W "{words}" -- "${{COMP_WORDS[COMP_CWORD]}}"))\n'
            "}\n"
            "complete -o default -F _qcode qcode\n"
        )
    if shell == "zsh":
        return f"#compdef qcode\n_qcode() {{\n  compadd -- {words}\n  _files\n}}\ncompdef _qcode qcode\n"
    lines = [f"complete -c qcode -n __fish_use_subcommand -a {name}" for name in SUBCOMMANDS]
    for flag in option_strings():
        kind = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        lines.append(f"complete -c qcode {kind}")
    return "\n".join(lines) + "\n"
