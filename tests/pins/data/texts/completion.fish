complete -c qcode -n __fish_use_subcommand -a acp
complete -c qcode -n __fish_use_subcommand -a auth
complete -c qcode -n __fish_use_subcommand -a batch
complete -c qcode -n __fish_use_subcommand -a config
complete -c qcode -n __fish_use_subcommand -a doctor
complete -c qcode -n __fish_use_subcommand -a hooks
complete -c qcode -n __fish_use_subcommand -a import
complete -c qcode -n __fish_use_subcommand -a login
complete -c qcode -n __fish_use_subcommand -a logout
complete -c qcode -n __fish_use_subcommand -a mcp
complete -c qcode -n __fish_use_subcommand -a models
complete -c qcode -n __fish_use_subcommand -a permissions
complete -c qcode -n __fish_use_subcommand -a replay
complete -c qcode -n __fish_use_subcommand -a sessions
complete -c qcode -n __fish_use_subcommand -a skills
complete -c qcode -n __fish_use_subcommand -a stats
complete -c qcode -n __fish_use_subcommand -a themes
complete -c qcode -n __fish_use_subcommand -a trust
complete -c qcode -n __fish_use_subcommand -a uninstall
complete -c qcode -n __fish_use_subcommand -a update
complete -c qcode -n __fish_use_subcommand -a version
complete -c qcode -n __fish_use_subcommand -a help
complete -c qcode -n '__fish_seen_subcommand_from acp' -l login
complete -c qcode -n '__fish_seen_subcommand_from acp' -s m -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l model -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l base-url -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l fallback-model -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l reasoning-effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__fish_seen_subcommand_from acp' -l effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__fish_seen_subcommand_from acp' -l system-prompt -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l append-system-prompt -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l system-prompt-file -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l append-system-prompt-file -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l max-output-tokens -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l max-continuations -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l no-escalation
complete -c qcode -n '__fish_seen_subcommand_from acp' -l max-turns -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l max-tool-calls -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l max-budget-usd -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l timeout -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l wait-for-limit
complete -c qcode -n '__fish_seen_subcommand_from acp' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__fish_seen_subcommand_from acp' -l allowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l allowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l disallowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l disallowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l tools -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l permission-prompt-tool -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l strict-tools
complete -c qcode -n '__fish_seen_subcommand_from acp' -l yolo
complete -c qcode -n '__fish_seen_subcommand_from acp' -l dangerously-skip-permissions
complete -c qcode -n '__fish_seen_subcommand_from acp' -l allow-dangerously-skip-permissions
complete -c qcode -n '__fish_seen_subcommand_from acp' -l exit-tools -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l add-dir -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l trust
complete -c qcode -n '__fish_seen_subcommand_from acp' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l mcp-config -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l no-skills
complete -c qcode -n '__fish_seen_subcommand_from acp' -l debug-log -r
complete -c qcode -n '__fish_seen_subcommand_from acp' -l no-session
complete -c qcode -n '__fish_seen_subcommand_from acp' -l no-session-persistence
complete -c qcode -n '__fish_seen_subcommand_from acp' -s v
complete -c qcode -n '__fish_seen_subcommand_from acp' -l verbose
complete -c qcode -f -n '__fish_seen_subcommand_from auth; and not __fish_seen_subcommand_from login status logout' -a 'login status logout'
complete -c qcode -f -n '__fish_seen_subcommand_from auth; and __fish_seen_subcommand_from login; and not __fish_seen_subcommand_from anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -f -n '__fish_seen_subcommand_from auth; and __fish_seen_subcommand_from status; and not __fish_seen_subcommand_from anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -f -n '__fish_seen_subcommand_from auth; and __fish_seen_subcommand_from logout; and not __fish_seen_subcommand_from anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -n '__fish_seen_subcommand_from auth' -l no-check
complete -c qcode -n '__fish_seen_subcommand_from auth' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from auth' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from auth' -l trust
complete -c qcode -n '__fish_seen_subcommand_from auth' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from auth' -l json
complete -c qcode -n '__fish_seen_subcommand_from batch' -l out -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l jobs -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l ray -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -s m -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l model -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l base-url -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l fallback-model -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l reasoning-effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__fish_seen_subcommand_from batch' -l effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__fish_seen_subcommand_from batch' -l system-prompt -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l append-system-prompt -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l system-prompt-file -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l append-system-prompt-file -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l max-output-tokens -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l max-continuations -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l no-escalation
complete -c qcode -n '__fish_seen_subcommand_from batch' -l max-turns -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l max-tool-calls -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l max-budget-usd -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l timeout -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l wait-for-limit
complete -c qcode -n '__fish_seen_subcommand_from batch' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__fish_seen_subcommand_from batch' -l allowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l allowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l disallowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l disallowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l tools -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l permission-prompt-tool -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l strict-tools
complete -c qcode -n '__fish_seen_subcommand_from batch' -l yolo
complete -c qcode -n '__fish_seen_subcommand_from batch' -l dangerously-skip-permissions
complete -c qcode -n '__fish_seen_subcommand_from batch' -l allow-dangerously-skip-permissions
complete -c qcode -n '__fish_seen_subcommand_from batch' -l exit-tools -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l add-dir -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l trust
complete -c qcode -n '__fish_seen_subcommand_from batch' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l mcp-config -r
complete -c qcode -n '__fish_seen_subcommand_from batch' -l no-skills
complete -c qcode -n '__fish_seen_subcommand_from batch' -l no-session
complete -c qcode -n '__fish_seen_subcommand_from batch' -l no-session-persistence
complete -c qcode -f -n '__fish_seen_subcommand_from config; and not __fish_seen_subcommand_from path show schema set unset' -a 'path show schema set unset'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from set; and not __fish_seen_subcommand_from model small_model fallback fallback_on output.max_tokens output.escalate output.max_continuations output.policy output.tool_call_repair output.max_tool_repair_attempts output.max_total_completion_tokens output.max_total_output_chars output.min_escalation_gain output.learn_first_cap network.connect_timeout_s network.first_event_timeout_s network.idle_timeout_s network.max_retries network.retry_after_max_s network.wait_for_limit mcp.defer permissions.mode permissions.allow permissions.ask permissions.deny tools.shell_timeout_s tools.max_output_chars tools.tool_timeout_s tools.sandbox tools.agents tools.text_calls tools.web_search ui.theme ui.linear ui.bell ui.keep_last_reply ui.title ui.show_thinking ui.mouse ui.partial_redraw ui.vim sessions.retention_days hooks.enabled hooks.claude after_edit.diagnostics after_edit.format after_edit.check after_edit.test after_edit.max_rounds skills.off skills.paths skills.foreign' -a 'model small_model fallback fallback_on output.max_tokens output.escalate output.max_continuations output.policy output.tool_call_repair output.max_tool_repair_attempts output.max_total_completion_tokens output.max_total_output_chars output.min_escalation_gain output.learn_first_cap network.connect_timeout_s network.first_event_timeout_s network.idle_timeout_s network.max_retries network.retry_after_max_s network.wait_for_limit mcp.defer permissions.mode permissions.allow permissions.ask permissions.deny tools.shell_timeout_s tools.max_output_chars tools.tool_timeout_s tools.sandbox tools.agents tools.text_calls tools.web_search ui.theme ui.linear ui.bell ui.keep_last_reply ui.title ui.show_thinking ui.mouse ui.partial_redraw ui.vim sessions.retention_days hooks.enabled hooks.claude after_edit.diagnostics after_edit.format after_edit.check after_edit.test after_edit.max_rounds skills.off skills.paths skills.foreign'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from unset; and not __fish_seen_subcommand_from model small_model fallback fallback_on output.max_tokens output.escalate output.max_continuations output.policy output.tool_call_repair output.max_tool_repair_attempts output.max_total_completion_tokens output.max_total_output_chars output.min_escalation_gain output.learn_first_cap network.connect_timeout_s network.first_event_timeout_s network.idle_timeout_s network.max_retries network.retry_after_max_s network.wait_for_limit mcp.defer permissions.mode permissions.allow permissions.ask permissions.deny tools.shell_timeout_s tools.max_output_chars tools.tool_timeout_s tools.sandbox tools.agents tools.text_calls tools.web_search ui.theme ui.linear ui.bell ui.keep_last_reply ui.title ui.show_thinking ui.mouse ui.partial_redraw ui.vim sessions.retention_days hooks.enabled hooks.claude after_edit.diagnostics after_edit.format after_edit.check after_edit.test after_edit.max_rounds skills.off skills.paths skills.foreign' -a 'model small_model fallback fallback_on output.max_tokens output.escalate output.max_continuations output.policy output.tool_call_repair output.max_tool_repair_attempts output.max_total_completion_tokens output.max_total_output_chars output.min_escalation_gain output.learn_first_cap network.connect_timeout_s network.first_event_timeout_s network.idle_timeout_s network.max_retries network.retry_after_max_s network.wait_for_limit mcp.defer permissions.mode permissions.allow permissions.ask permissions.deny tools.shell_timeout_s tools.max_output_chars tools.tool_timeout_s tools.sandbox tools.agents tools.text_calls tools.web_search ui.theme ui.linear ui.bell ui.keep_last_reply ui.title ui.show_thinking ui.mouse ui.partial_redraw ui.vim sessions.retention_days hooks.enabled hooks.claude after_edit.diagnostics after_edit.format after_edit.check after_edit.test after_edit.max_rounds skills.off skills.paths skills.foreign'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from output.escalate; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from output.policy; and not __fish_seen_subcommand_from escalate continue' -a 'escalate continue'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from output.tool_call_repair; and not __fish_seen_subcommand_from reject resume' -a 'reject resume'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from output.learn_first_cap; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from network.wait_for_limit; and not __fish_seen_subcommand_from ask always never' -a 'ask always never'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from permissions.mode; and not __fish_seen_subcommand_from plan default accept-edits auto' -a 'plan default accept-edits auto'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from tools.sandbox; and not __fish_seen_subcommand_from auto required off' -a 'auto required off'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from tools.agents; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from tools.text_calls; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from tools.web_search; and not __fish_seen_subcommand_from off host brave tavily' -a 'off host brave tavily'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from ui.linear; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from ui.bell; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from ui.keep_last_reply; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from ui.title; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from ui.show_thinking; and not __fish_seen_subcommand_from folded expanded hidden' -a 'folded expanded hidden'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from ui.mouse; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from ui.partial_redraw; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from ui.vim; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from hooks.enabled; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from hooks.claude; and not __fish_seen_subcommand_from off own project both' -a 'off own project both'
complete -c qcode -f -n '__fish_seen_subcommand_from config; and __fish_seen_subcommand_from skills.foreign; and not __fish_seen_subcommand_from true false' -a 'true false'
complete -c qcode -n '__fish_seen_subcommand_from config' -l project
complete -c qcode -n '__fish_seen_subcommand_from config' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from config' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from config' -l trust
complete -c qcode -n '__fish_seen_subcommand_from config' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from config' -l json
complete -c qcode -n '__fish_seen_subcommand_from doctor' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from doctor' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from doctor' -l trust
complete -c qcode -n '__fish_seen_subcommand_from doctor' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from doctor' -l json
complete -c qcode -f -n '__fish_seen_subcommand_from hooks; and not __fish_seen_subcommand_from list test' -a 'list test'
complete -c qcode -n '__fish_seen_subcommand_from hooks' -l tool -r
complete -c qcode -n '__fish_seen_subcommand_from hooks' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from hooks' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from hooks' -l trust
complete -c qcode -n '__fish_seen_subcommand_from hooks' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from hooks' -l json
complete -c qcode -f -n '__fish_seen_subcommand_from import; and not __fish_seen_subcommand_from claude codex gemini qwen opencode' -a 'claude codex gemini qwen opencode'
complete -c qcode -n '__fish_seen_subcommand_from import' -l write
complete -c qcode -n '__fish_seen_subcommand_from import' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from import' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from import' -l trust
complete -c qcode -n '__fish_seen_subcommand_from import' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from import' -l json
complete -c qcode -f -n '__fish_seen_subcommand_from login; and not __fish_seen_subcommand_from anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -n '__fish_seen_subcommand_from login' -l no-check
complete -c qcode -f -n '__fish_seen_subcommand_from logout; and not __fish_seen_subcommand_from anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -f -n '__fish_seen_subcommand_from mcp; and not __fish_seen_subcommand_from list show approve add remove login logout serve' -a 'list show approve add remove login logout serve'
complete -c qcode -n '__fish_seen_subcommand_from mcp' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l mcp-config -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l trust
complete -c qcode -n '__fish_seen_subcommand_from mcp' -s m -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l model -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l allowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l allowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l disallowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l disallowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l max-turns -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l max-tool-calls -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l max-budget-usd -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l no-session
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l no-session-persistence
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l env -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l header -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l transport -x -a 'http sse'
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l no-browser
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l client-id -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l callback-port -r
complete -c qcode -n '__fish_seen_subcommand_from mcp' -l json
complete -c qcode -f -n '__fish_seen_subcommand_from models; and not __fish_seen_subcommand_from forget' -a 'forget'
complete -c qcode -n '__fish_seen_subcommand_from models' -l all
complete -c qcode -n '__fish_seen_subcommand_from models' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from models' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from models' -l trust
complete -c qcode -n '__fish_seen_subcommand_from models' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from models' -l json
complete -c qcode -f -n '__fish_seen_subcommand_from permissions; and not __fish_seen_subcommand_from list check hook' -a 'list check hook'
complete -c qcode -f -n '__fish_seen_subcommand_from permissions; and __fish_seen_subcommand_from check; and not __fish_seen_subcommand_from shell read write fetch' -a 'shell read write fetch'
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l for -x -a 'claude codex gemini qwen'
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l print
complete -c qcode -n '__fish_seen_subcommand_from permissions' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l allowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l allowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l disallowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l disallowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l add-dir -r
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l jsonl
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l json
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l trust
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l yolo
complete -c qcode -n '__fish_seen_subcommand_from permissions' -l dangerously-skip-permissions
complete -c qcode -n '__fish_seen_subcommand_from replay' -l diff
complete -c qcode -n '__fish_seen_subcommand_from replay' -l timed
complete -c qcode -n '__fish_seen_subcommand_from replay' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from replay' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from replay' -l trust
complete -c qcode -n '__fish_seen_subcommand_from replay' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__fish_seen_subcommand_from replay' -l allowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from replay' -l allowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from replay' -l disallowed-tools -r
complete -c qcode -n '__fish_seen_subcommand_from replay' -l disallowedTools -r
complete -c qcode -n '__fish_seen_subcommand_from replay' -l add-dir -r
complete -c qcode -f -n '__fish_seen_subcommand_from sessions; and not __fish_seen_subcommand_from list show export import delete' -a 'list show export import delete'
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l format -x -a 'md json html'
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l turns -r
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l no-tools
complete -c qcode -n '__fish_seen_subcommand_from sessions' -s o -r
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l output -r
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l all
complete -c qcode -n '__fish_seen_subcommand_from sessions' -s y
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l yes
complete -c qcode -n '__fish_seen_subcommand_from sessions' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l trust
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from sessions' -l json
complete -c qcode -f -n '__fish_seen_subcommand_from skills; and not __fish_seen_subcommand_from list show check' -a 'list show check'
complete -c qcode -n '__fish_seen_subcommand_from skills' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from skills' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from skills' -l trust
complete -c qcode -n '__fish_seen_subcommand_from skills' -l json
complete -c qcode -n '__fish_seen_subcommand_from stats' -l all
complete -c qcode -n '__fish_seen_subcommand_from stats' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from stats' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from stats' -l trust
complete -c qcode -n '__fish_seen_subcommand_from stats' -l settings -r
complete -c qcode -n '__fish_seen_subcommand_from stats' -l json
complete -c qcode -n '__fish_seen_subcommand_from themes' -l json
complete -c qcode -f -n '__fish_seen_subcommand_from trust; and not __fish_seen_subcommand_from show accept forget list' -a 'show accept forget list'
complete -c qcode -n '__fish_seen_subcommand_from trust' -s C -r
complete -c qcode -n '__fish_seen_subcommand_from trust' -l cwd -r
complete -c qcode -n '__fish_seen_subcommand_from trust' -l json
complete -c qcode -n '__fish_seen_subcommand_from uninstall' -s y
complete -c qcode -n '__fish_seen_subcommand_from uninstall' -l yes
complete -c qcode -n '__fish_seen_subcommand_from update' -l check
complete -c qcode -f -n '__fish_seen_subcommand_from help; and not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version prompt-and-output model output-limits limits-of-one-prompt other flags-of-claude-code exit-codes environment' -a 'acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version prompt-and-output model output-limits limits-of-one-prompt other flags-of-claude-code exit-codes environment'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -s p
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l print
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l prompt
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -s f -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l file -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -s o -x -a 'text json stream-json'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l output-format -x -a 'text json stream-json'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l no-stdin
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l include-partial-messages
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l input-format -x -a 'text stream-json'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l json-schema -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l replay-user-messages
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -s v
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l verbose
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -s m -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l model -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l base-url -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l fallback-model -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l reasoning-effort -x -a 'none minimal low medium high max'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l effort -x -a 'none minimal low medium high max'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l system-prompt -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l append-system-prompt -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l system-prompt-file -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l append-system-prompt-file -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l max-output-tokens -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l max-continuations -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l no-escalation
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l max-turns -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l max-tool-calls -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l max-budget-usd -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l timeout -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l wait-for-limit
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l allowed-tools -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l allowedTools -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l disallowed-tools -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l disallowedTools -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l tools -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l permission-prompt-tool -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l strict-tools
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l yolo
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l dangerously-skip-permissions
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l allow-dangerously-skip-permissions
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l exit-tools -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l add-dir -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l trust
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -s c
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l continue
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -s r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l resume
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l fork-session
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l session-id -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l no-session
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l no-session-persistence
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -s C -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l cwd -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l settings -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l setting-sources -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l mcp-config -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l strict-mcp-config
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l no-hooks
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l no-skills
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l theme -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l debug-log -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l record -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l completion -x -a 'bash zsh fish'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l login
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l version
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -s h
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l help
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l permission-prompts -x -a 'host none'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l thinking -x -a 'adaptive enabled disabled'
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l max-thinking-tokens -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l betas -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l debug
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l debug-file -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l include-hook-events
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l plugin-dir -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l plugin-dir-no-mcp -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l task-budget -r
complete -c qcode -n 'not __fish_seen_subcommand_from acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help' -l thinking-display -r
