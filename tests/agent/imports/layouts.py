"""Folders of other programs, as their public documentation describes them (read in November 2026).

- Claude Code: code.claude.com/docs/en/settings, /permissions, /mcp
- Codex: developers.openai.com/codex/config-reference, /mcp, /custom-prompts
- Gemini CLI: `google-gemini/gemini-cli` docs/cli/custom-commands.md, docs/core/subagents.md, docs/tools/mcp-server.md
- qwen-code: `QwenLM/qwen-code` docs/users/features/commands.md, sub-agents.md, docs/users/configuration/settings.md
- OpenCode: opencode.ai/docs/config, /commands, /agents, /permissions, /mcp-servers
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CLAUDE_STATE = """\
{
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.githubcopilot.com/mcp/",
      "headers": {"Authorization": "Bearer ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
    },
    "airtable": {"command": "npx", "args": ["-y", "airtable-mcp-server"], "env": {"AIRTABLE_API_KEY": "pat-123456"}},
    "vars": {"command": "srv", "args": ["${ROOT:-/srv}"], "env": {"TOKEN": "${MY_TOKEN}"}},
    "old": {"type": "sse", "url": "https://mcp.asana.com/sse?api_key=abcdefgh1"}
  },
  "projects": {
    "WORK": {"mcpServers": {"here": {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"]}}},
    "/elsewhere": {"mcpServers": {"there": {"command": "srv"}}}
  }
}
"""
CLAUDE_SETTINGS = """\
{
  "model": "opus",
  "permissions": {
    "allow": ["Bash(npm run test:*)", "Bash", "WebFetch(domain:docs.python.org)"],
    "ask": ["Bash(git push:*)"],
    "deny": ["Bash(* --force)", "Read(./.env)", "Bash(rm -rf:*)"],
    "defaultMode": "acceptEdits"
  },
  "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}
}
"""
CODEX = """\
model = "gpt-5-codex"
approval_policy = "on-request"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-server", "--api-key", "abcdefgh12"]
env_vars = ["DOCS_REGION"]
startup_timeout_sec = 20
tool_timeout_sec = 45.5
enabled_tools = ["search", "read"]
disabled_tools = ["delete"]
cwd = "/srv/docs dir"

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_OAUTH_TOKEN"
http_headers = { "X-Figma-Region" = "us-east-1" }
env_http_headers = { "X-Trace" = "TRACE_ID" }
enabled = false
oauth_resource = "https://mcp.figma.com"

[[hooks.PreToolUse]]
matcher = "^Bash$"
"""
CODEX_PROMPT = """\
---
description: Prep a branch, commit, and open a draft PR
argument-hint: '[FILES=<paths>]'
---
Create a branch for $1 with $FILES, for $$5 and $$ARGUMENTS. Never run !`rm -rf /`.
"""
GEMINI_SETTINGS = """\
{
  // servers
  "mcpServers": {
    "python": {"command": "python", "args": ["-m", "srv"], "env": {"API_KEY": "$MY_API_TOKEN"}, "timeout": 15000,
               "trust": true, "excludeTools": ["rm"]},
    "http": {"httpUrl": "http://localhost:3000/mcp"},
    "sse": {"url": "https://x.example/sse", "includeTools": ["a"],},
  },
  "mcp": {"excluded": ["sse"]},
  "tools": {"allowed": ["run_shell_command(git status)"], "exclude": ["run_shell_command(rm)"], "sandbox": "docker"},
  /* the rest */ "ui": {"theme": "GitHub"},
}
"""
GEMINI_COMMAND = '''\
description = "Generates a Git commit message based on staged changes."
prompt = """
Write for {{args}}, cost $1:
```diff
!{git diff --staged | awk '{print $1}'}
```
Follow @{docs/best.md}. Search:!{grep -r {{args}} .} and !{echo `date`}
"""
'''
GEMINI_AGENT = """\
---
name: security-auditor
description: Specialized in finding security vulnerabilities in code.
kind: local
tools:
  - read_file
  - grep_search
model: gemini-3-flash-preview
temperature: 0.2
max_turns: 10
---

You are a ruthless Security Auditor.
"""
QWEN_AGENT = """\
---
name: testing-expert
description: Writes comprehensive unit tests
tools:
  - read_file
  - save_memory
approvalMode: plan
---
You are a testing specialist.
"""
OPENCODE = """\
{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "jira": {"type": "remote", "url": "https://jira.example/mcp", "headers": {"Authorization": "Bearer {env:JIRA}"},
             "enabled": false},
    "local": {"type": "local", "command": ["bun", "x", "srv"], "environment": {"A": "b"}, "timeout": 5000},
    "file": {"type": "local", "command": ["srv"], "environment": {"KEY": "{file:~/.key}"}}
  },
  "permission": {
    "edit": "ask",
    "webfetch": "deny",
    "bash": {"npm *": "allow", "*": "ask", "git status *": "allow", "git push *": "deny"},
    "read": {"*.env": "deny"}
  },
  "command": {"test": {"template": "Run $1 then $2", "description": "Run tests", "agent": "build"}},
  "agent": {
    "reviewer": {"description": "Reviews code", "mode": "subagent", "prompt": "You review.",
                 "tools": {"write": false, "edit": false}},
    "silent": {"description": "Does nothing", "prompt": "You wait.", "tools": {"*": false}}
  }
}
"""
OPENCODE_COMMAND = """\
---
description: Create a component
agent: build
---
Create $ARGUMENTS. (!`git log -1`)
"""
OPENCODE_AGENT = """\
---
description: Writes and maintains documentation
mode: primary
tools:
  bash: false
permission:
  webfetch: deny
---
You are a technical writer.
"""


def write_all(home: Path, work: Path) -> None:
    """Write the folders of all five programs, each into the home folder."""
    files: Mapping[str, str] = {
        ".claude.json": CLAUDE_STATE.replace("WORK", str(work)),
        ".claude/settings.json": CLAUDE_SETTINGS,
        ".claude/CLAUDE.md": "Be brief.",
        ".codex/config.toml": CODEX,
        ".codex/prompts/draftpr.md": CODEX_PROMPT,
        ".codex/rules/default.rules": 'prefix_rule(pattern=["rm"], decision="forbidden")\n',
        ".gemini/settings.json": GEMINI_SETTINGS,
        ".gemini/commands/git/commit.toml": GEMINI_COMMAND,
        ".gemini/agents/security-auditor.md": GEMINI_AGENT,
        ".qwen/settings.json": '{"permissions": {"allow": ["Bash(git status)"], "deny": ["read_file(.pem)"]}}',
        ".qwen/commands/fix.md": "---\ndescription: Fix it\n---\nFix {{args}}. $ARGUMENTS stays.\n",
        ".qwen/agents/testing-expert.md": QWEN_AGENT,
        ".config/opencode/opencode.jsonc": OPENCODE,
        ".config/opencode/command/component.md": OPENCODE_COMMAND,
        ".config/opencode/agent/docs.md": OPENCODE_AGENT,
    }
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
