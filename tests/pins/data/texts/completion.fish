# Print the subcommand before the cursor (`-`: a prompt) and the last word that is neither a flag nor its value.
function __qcode_words
  set -l command ''
  set -l last ''
  set -l skip ''
  for word in (commandline -opc)[2..]
    if test "$skip" = always; or begin; test "$skip" = maybe; and not string match -q -- '-*' $word; end
      set skip ''
      continue
    end
    set skip ''
    switch $word
      case -p --print --prompt --
        test -n "$command"; or set command -
      case -f --file -o --output-format --input-format --json-schema -m --model --base-url --fallback-model --reasoning-effort --effort --system-prompt --append-system-prompt --system-prompt-file --append-system-prompt-file --max-output-tokens --max-continuations --max-turns --max-tool-calls --max-budget-usd --timeout --permission-mode --allowed-tools --allowedTools --disallowed-tools --disallowedTools --tools --permission-prompt-tool --exit-tools --add-dir --session-id -C --cwd --settings --setting-sources --mcp-config --theme --debug-log --record --completion --permission-prompts --thinking --max-thinking-tokens --betas --debug-file --plugin-dir --plugin-dir-no-mcp --task-budget --thinking-display --out --jobs --ray --tool --env --header --transport --client-id --callback-port --for --format --turns --output
        set skip always
      case -r --resume
        set skip maybe
      case '-*'
      case acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help
        test -n "$command"; or set command $word
        set last $word
      case '*'
        test -n "$command"; or set command -
        set last $word
    end
  end
  echo "$command"
  echo "$last"
end
function __qcode_command
  set -l words (__qcode_words)
  contains -- "$words[1]" $argv
end
function __qcode_after
  set -l words (__qcode_words)
  test "$words[1]" = "$argv[1]"; and test "$words[2]" = "$argv[2]"
end
complete -c qcode-cli -w qcode
complete -c qcode -f -n '__qcode_command ""' -a 'acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help'
complete -c qcode -n '__qcode_command acp' -l login
complete -c qcode -n '__qcode_command acp' -s m -r
complete -c qcode -n '__qcode_command acp' -l model -r
complete -c qcode -n '__qcode_command acp' -l base-url -r
complete -c qcode -n '__qcode_command acp' -l fallback-model -r
complete -c qcode -n '__qcode_command acp' -l reasoning-effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__qcode_command acp' -l effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__qcode_command acp' -l system-prompt -r
complete -c qcode -n '__qcode_command acp' -l append-system-prompt -r
complete -c qcode -n '__qcode_command acp' -l system-prompt-file -r
complete -c qcode -n '__qcode_command acp' -l append-system-prompt-file -r
complete -c qcode -n '__qcode_command acp' -l max-output-tokens -r
complete -c qcode -n '__qcode_command acp' -l max-continuations -r
complete -c qcode -n '__qcode_command acp' -l no-escalation
complete -c qcode -n '__qcode_command acp' -l max-turns -r
complete -c qcode -n '__qcode_command acp' -l max-tool-calls -r
complete -c qcode -n '__qcode_command acp' -l max-budget-usd -r
complete -c qcode -n '__qcode_command acp' -l timeout -r
complete -c qcode -n '__qcode_command acp' -l wait-for-limit
complete -c qcode -n '__qcode_command acp' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__qcode_command acp' -l allowed-tools -r
complete -c qcode -n '__qcode_command acp' -l allowedTools -r
complete -c qcode -n '__qcode_command acp' -l disallowed-tools -r
complete -c qcode -n '__qcode_command acp' -l disallowedTools -r
complete -c qcode -n '__qcode_command acp' -l tools -r
complete -c qcode -n '__qcode_command acp' -l permission-prompt-tool -r
complete -c qcode -n '__qcode_command acp' -l strict-tools
complete -c qcode -n '__qcode_command acp' -l yolo
complete -c qcode -n '__qcode_command acp' -l dangerously-skip-permissions
complete -c qcode -n '__qcode_command acp' -l allow-dangerously-skip-permissions
complete -c qcode -n '__qcode_command acp' -l exit-tools -r
complete -c qcode -n '__qcode_command acp' -l add-dir -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command acp' -l trust
complete -c qcode -n '__qcode_command acp' -l settings -r
complete -c qcode -n '__qcode_command acp' -l mcp-config -r
complete -c qcode -n '__qcode_command acp' -l no-hooks
complete -c qcode -n '__qcode_command acp' -l no-skills
complete -c qcode -n '__qcode_command acp' -l debug-log -r
complete -c qcode -n '__qcode_command acp' -l no-session
complete -c qcode -n '__qcode_command acp' -l no-session-persistence
complete -c qcode -n '__qcode_command acp' -s v
complete -c qcode -n '__qcode_command acp' -l verbose
complete -c qcode -f -n '__qcode_after auth auth' -a 'login status logout'
complete -c qcode -f -n '__qcode_after auth login' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -f -n '__qcode_after auth status' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -f -n '__qcode_after auth logout' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -n '__qcode_command auth' -l no-check
complete -c qcode -n '__qcode_command auth' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command auth' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command auth' -l trust
complete -c qcode -n '__qcode_command auth' -l settings -r
complete -c qcode -n '__qcode_command auth' -l json
complete -c qcode -n '__qcode_command batch' -l out -r
complete -c qcode -n '__qcode_command batch' -l jobs -r
complete -c qcode -n '__qcode_command batch' -l ray -r
complete -c qcode -n '__qcode_command batch' -s m -r
complete -c qcode -n '__qcode_command batch' -l model -r
complete -c qcode -n '__qcode_command batch' -l base-url -r
complete -c qcode -n '__qcode_command batch' -l fallback-model -r
complete -c qcode -n '__qcode_command batch' -l reasoning-effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__qcode_command batch' -l effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__qcode_command batch' -l system-prompt -r
complete -c qcode -n '__qcode_command batch' -l append-system-prompt -r
complete -c qcode -n '__qcode_command batch' -l system-prompt-file -r
complete -c qcode -n '__qcode_command batch' -l append-system-prompt-file -r
complete -c qcode -n '__qcode_command batch' -l max-output-tokens -r
complete -c qcode -n '__qcode_command batch' -l max-continuations -r
complete -c qcode -n '__qcode_command batch' -l no-escalation
complete -c qcode -n '__qcode_command batch' -l max-turns -r
complete -c qcode -n '__qcode_command batch' -l max-tool-calls -r
complete -c qcode -n '__qcode_command batch' -l max-budget-usd -r
complete -c qcode -n '__qcode_command batch' -l timeout -r
complete -c qcode -n '__qcode_command batch' -l wait-for-limit
complete -c qcode -n '__qcode_command batch' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__qcode_command batch' -l allowed-tools -r
complete -c qcode -n '__qcode_command batch' -l allowedTools -r
complete -c qcode -n '__qcode_command batch' -l disallowed-tools -r
complete -c qcode -n '__qcode_command batch' -l disallowedTools -r
complete -c qcode -n '__qcode_command batch' -l tools -r
complete -c qcode -n '__qcode_command batch' -l permission-prompt-tool -r
complete -c qcode -n '__qcode_command batch' -l strict-tools
complete -c qcode -n '__qcode_command batch' -l yolo
complete -c qcode -n '__qcode_command batch' -l dangerously-skip-permissions
complete -c qcode -n '__qcode_command batch' -l allow-dangerously-skip-permissions
complete -c qcode -n '__qcode_command batch' -l exit-tools -r
complete -c qcode -n '__qcode_command batch' -l add-dir -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command batch' -l trust
complete -c qcode -n '__qcode_command batch' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command batch' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command batch' -l settings -r
complete -c qcode -n '__qcode_command batch' -l mcp-config -r
complete -c qcode -n '__qcode_command batch' -l no-hooks
complete -c qcode -n '__qcode_command batch' -l no-skills
complete -c qcode -n '__qcode_command batch' -l no-session
complete -c qcode -n '__qcode_command batch' -l no-session-persistence
complete -c qcode -f -n '__qcode_after config config' -a 'path show schema set unset'
complete -c qcode -f -n '__qcode_after config set' -a 'model small_model fallback fallback_on output.max_tokens output.escalate output.max_continuations output.policy output.tool_call_repair output.max_tool_repair_attempts output.max_total_completion_tokens output.max_total_output_chars output.min_escalation_gain output.learn_first_cap network.connect_timeout_s network.first_event_timeout_s network.idle_timeout_s network.max_retries network.retry_after_max_s network.wait_for_limit mcp.defer permissions.mode permissions.allow permissions.ask permissions.deny tools.shell_timeout_s tools.max_output_chars tools.tool_timeout_s tools.sandbox tools.agents tools.text_calls tools.web_search ui.theme ui.linear ui.bell ui.keep_last_reply ui.title ui.show_thinking ui.mouse ui.partial_redraw ui.vim sessions.retention_days hooks.enabled hooks.claude after_edit.diagnostics after_edit.format after_edit.check after_edit.test after_edit.max_rounds skills.off skills.paths skills.foreign'
complete -c qcode -f -n '__qcode_after config unset' -a 'model small_model fallback fallback_on output.max_tokens output.escalate output.max_continuations output.policy output.tool_call_repair output.max_tool_repair_attempts output.max_total_completion_tokens output.max_total_output_chars output.min_escalation_gain output.learn_first_cap network.connect_timeout_s network.first_event_timeout_s network.idle_timeout_s network.max_retries network.retry_after_max_s network.wait_for_limit mcp.defer permissions.mode permissions.allow permissions.ask permissions.deny tools.shell_timeout_s tools.max_output_chars tools.tool_timeout_s tools.sandbox tools.agents tools.text_calls tools.web_search ui.theme ui.linear ui.bell ui.keep_last_reply ui.title ui.show_thinking ui.mouse ui.partial_redraw ui.vim sessions.retention_days hooks.enabled hooks.claude after_edit.diagnostics after_edit.format after_edit.check after_edit.test after_edit.max_rounds skills.off skills.paths skills.foreign'
complete -c qcode -f -n '__qcode_after config output.escalate' -a 'true false'
complete -c qcode -f -n '__qcode_after config output.policy' -a 'escalate continue'
complete -c qcode -f -n '__qcode_after config output.tool_call_repair' -a 'reject resume'
complete -c qcode -f -n '__qcode_after config output.learn_first_cap' -a 'true false'
complete -c qcode -f -n '__qcode_after config network.wait_for_limit' -a 'ask always never'
complete -c qcode -f -n '__qcode_after config permissions.mode' -a 'plan default accept-edits auto'
complete -c qcode -f -n '__qcode_after config tools.sandbox' -a 'auto required off'
complete -c qcode -f -n '__qcode_after config tools.agents' -a 'true false'
complete -c qcode -f -n '__qcode_after config tools.text_calls' -a 'true false'
complete -c qcode -f -n '__qcode_after config tools.web_search' -a 'off host brave tavily'
complete -c qcode -f -n '__qcode_after config ui.linear' -a 'true false'
complete -c qcode -f -n '__qcode_after config ui.bell' -a 'true false'
complete -c qcode -f -n '__qcode_after config ui.keep_last_reply' -a 'true false'
complete -c qcode -f -n '__qcode_after config ui.title' -a 'true false'
complete -c qcode -f -n '__qcode_after config ui.show_thinking' -a 'folded expanded hidden'
complete -c qcode -f -n '__qcode_after config ui.mouse' -a 'true false'
complete -c qcode -f -n '__qcode_after config ui.partial_redraw' -a 'true false'
complete -c qcode -f -n '__qcode_after config ui.vim' -a 'true false'
complete -c qcode -f -n '__qcode_after config hooks.enabled' -a 'true false'
complete -c qcode -f -n '__qcode_after config hooks.claude' -a 'off own project both'
complete -c qcode -f -n '__qcode_after config skills.foreign' -a 'true false'
complete -c qcode -n '__qcode_command config' -l project
complete -c qcode -n '__qcode_command config' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command config' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command config' -l trust
complete -c qcode -n '__qcode_command config' -l settings -r
complete -c qcode -n '__qcode_command config' -l json
complete -c qcode -n '__qcode_command doctor' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command doctor' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command doctor' -l trust
complete -c qcode -n '__qcode_command doctor' -l settings -r
complete -c qcode -n '__qcode_command doctor' -l json
complete -c qcode -f -n '__qcode_after hooks hooks' -a 'list test'
complete -c qcode -n '__qcode_command hooks' -l tool -r
complete -c qcode -n '__qcode_command hooks' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command hooks' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command hooks' -l trust
complete -c qcode -n '__qcode_command hooks' -l settings -r
complete -c qcode -n '__qcode_command hooks' -l json
complete -c qcode -f -n '__qcode_after import import' -a 'claude codex gemini qwen opencode'
complete -c qcode -n '__qcode_command import' -l write
complete -c qcode -n '__qcode_command import' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command import' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command import' -l trust
complete -c qcode -n '__qcode_command import' -l settings -r
complete -c qcode -n '__qcode_command import' -l json
complete -c qcode -f -n '__qcode_after login login' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -n '__qcode_command login' -l no-check
complete -c qcode -f -n '__qcode_after logout logout' -a 'anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure'
complete -c qcode -f -n '__qcode_after mcp mcp' -a 'list show approve add remove login logout serve'
complete -c qcode -n '__qcode_command mcp' -s m -r
complete -c qcode -n '__qcode_command mcp' -l model -r
complete -c qcode -n '__qcode_command mcp' -l base-url -r
complete -c qcode -n '__qcode_command mcp' -l fallback-model -r
complete -c qcode -n '__qcode_command mcp' -l reasoning-effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__qcode_command mcp' -l effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__qcode_command mcp' -l system-prompt -r
complete -c qcode -n '__qcode_command mcp' -l append-system-prompt -r
complete -c qcode -n '__qcode_command mcp' -l system-prompt-file -r
complete -c qcode -n '__qcode_command mcp' -l append-system-prompt-file -r
complete -c qcode -n '__qcode_command mcp' -l max-output-tokens -r
complete -c qcode -n '__qcode_command mcp' -l max-continuations -r
complete -c qcode -n '__qcode_command mcp' -l no-escalation
complete -c qcode -n '__qcode_command mcp' -l max-turns -r
complete -c qcode -n '__qcode_command mcp' -l max-tool-calls -r
complete -c qcode -n '__qcode_command mcp' -l max-budget-usd -r
complete -c qcode -n '__qcode_command mcp' -l timeout -r
complete -c qcode -n '__qcode_command mcp' -l wait-for-limit
complete -c qcode -n '__qcode_command mcp' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__qcode_command mcp' -l allowed-tools -r
complete -c qcode -n '__qcode_command mcp' -l allowedTools -r
complete -c qcode -n '__qcode_command mcp' -l disallowed-tools -r
complete -c qcode -n '__qcode_command mcp' -l disallowedTools -r
complete -c qcode -n '__qcode_command mcp' -l tools -r
complete -c qcode -n '__qcode_command mcp' -l permission-prompt-tool -r
complete -c qcode -n '__qcode_command mcp' -l strict-tools
complete -c qcode -n '__qcode_command mcp' -l yolo
complete -c qcode -n '__qcode_command mcp' -l dangerously-skip-permissions
complete -c qcode -n '__qcode_command mcp' -l allow-dangerously-skip-permissions
complete -c qcode -n '__qcode_command mcp' -l exit-tools -r
complete -c qcode -n '__qcode_command mcp' -l add-dir -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command mcp' -l trust
complete -c qcode -n '__qcode_command mcp' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command mcp' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command mcp' -l mcp-config -r
complete -c qcode -n '__qcode_command mcp' -l settings -r
complete -c qcode -n '__qcode_command mcp' -l no-hooks
complete -c qcode -n '__qcode_command mcp' -l no-skills
complete -c qcode -n '__qcode_command mcp' -l no-session
complete -c qcode -n '__qcode_command mcp' -l no-session-persistence
complete -c qcode -n '__qcode_command mcp' -l env -r
complete -c qcode -n '__qcode_command mcp' -l header -r
complete -c qcode -n '__qcode_command mcp' -l transport -x -a 'http sse'
complete -c qcode -n '__qcode_command mcp' -l no-browser
complete -c qcode -n '__qcode_command mcp' -l client-id -r
complete -c qcode -n '__qcode_command mcp' -l callback-port -r
complete -c qcode -n '__qcode_command mcp' -l json
complete -c qcode -f -n '__qcode_after models models' -a 'forget'
complete -c qcode -n '__qcode_command models' -l all
complete -c qcode -n '__qcode_command models' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command models' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command models' -l trust
complete -c qcode -n '__qcode_command models' -l settings -r
complete -c qcode -n '__qcode_command models' -l json
complete -c qcode -f -n '__qcode_after permissions permissions' -a 'list check hook'
complete -c qcode -f -n '__qcode_after permissions check' -a 'shell read write fetch'
complete -c qcode -n '__qcode_command permissions' -l for -x -a 'claude codex gemini qwen'
complete -c qcode -n '__qcode_command permissions' -l print
complete -c qcode -n '__qcode_command permissions' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command permissions' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command permissions' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__qcode_command permissions' -l allowed-tools -r
complete -c qcode -n '__qcode_command permissions' -l allowedTools -r
complete -c qcode -n '__qcode_command permissions' -l disallowed-tools -r
complete -c qcode -n '__qcode_command permissions' -l disallowedTools -r
complete -c qcode -n '__qcode_command permissions' -l add-dir -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command permissions' -l settings -r
complete -c qcode -n '__qcode_command permissions' -l jsonl
complete -c qcode -n '__qcode_command permissions' -l json
complete -c qcode -n '__qcode_command permissions' -l trust
complete -c qcode -n '__qcode_command permissions' -l yolo
complete -c qcode -n '__qcode_command permissions' -l dangerously-skip-permissions
complete -c qcode -n '__qcode_command replay' -l diff
complete -c qcode -n '__qcode_command replay' -l timed
complete -c qcode -n '__qcode_command replay' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command replay' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command replay' -l trust
complete -c qcode -n '__qcode_command replay' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__qcode_command replay' -l allowed-tools -r
complete -c qcode -n '__qcode_command replay' -l allowedTools -r
complete -c qcode -n '__qcode_command replay' -l disallowed-tools -r
complete -c qcode -n '__qcode_command replay' -l disallowedTools -r
complete -c qcode -n '__qcode_command replay' -l add-dir -x -a '(__fish_complete_directories)'
complete -c qcode -f -n '__qcode_after sessions sessions' -a 'list show export import delete'
complete -c qcode -n '__qcode_command sessions' -l format -x -a 'md json html'
complete -c qcode -n '__qcode_command sessions' -l turns -r
complete -c qcode -n '__qcode_command sessions' -l no-tools
complete -c qcode -n '__qcode_command sessions' -s o -r
complete -c qcode -n '__qcode_command sessions' -l output -r
complete -c qcode -n '__qcode_command sessions' -l all
complete -c qcode -n '__qcode_command sessions' -s y
complete -c qcode -n '__qcode_command sessions' -l yes
complete -c qcode -n '__qcode_command sessions' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command sessions' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command sessions' -l trust
complete -c qcode -n '__qcode_command sessions' -l settings -r
complete -c qcode -n '__qcode_command sessions' -l json
complete -c qcode -f -n '__qcode_after skills skills' -a 'list show check'
complete -c qcode -n '__qcode_command skills' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command skills' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command skills' -l trust
complete -c qcode -n '__qcode_command skills' -l json
complete -c qcode -n '__qcode_command stats' -l all
complete -c qcode -n '__qcode_command stats' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command stats' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command stats' -l trust
complete -c qcode -n '__qcode_command stats' -l settings -r
complete -c qcode -n '__qcode_command stats' -l json
complete -c qcode -n '__qcode_command themes' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command themes' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command themes' -l json
complete -c qcode -f -n '__qcode_after trust trust' -a 'show accept forget list'
complete -c qcode -n '__qcode_command trust' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command trust' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command trust' -l json
complete -c qcode -n '__qcode_command uninstall' -s y
complete -c qcode -n '__qcode_command uninstall' -l yes
complete -c qcode -n '__qcode_command update' -l check
complete -c qcode -f -n '__qcode_after help help' -a 'acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version prompt-and-output model output-limits limits-of-one-prompt other flags-of-claude-code exit-codes environment'
complete -c qcode -n '__qcode_command "" -' -s p
complete -c qcode -n '__qcode_command "" -' -l print
complete -c qcode -n '__qcode_command "" -' -l prompt
complete -c qcode -n '__qcode_command "" -' -s f -r
complete -c qcode -n '__qcode_command "" -' -l file -r
complete -c qcode -n '__qcode_command "" -' -s o -x -a 'text json stream-json'
complete -c qcode -n '__qcode_command "" -' -l output-format -x -a 'text json stream-json'
complete -c qcode -n '__qcode_command "" -' -l no-stdin
complete -c qcode -n '__qcode_command "" -' -l include-partial-messages
complete -c qcode -n '__qcode_command "" -' -l input-format -x -a 'text stream-json'
complete -c qcode -n '__qcode_command "" -' -l json-schema -r
complete -c qcode -n '__qcode_command "" -' -l replay-user-messages
complete -c qcode -n '__qcode_command "" -' -s v
complete -c qcode -n '__qcode_command "" -' -l verbose
complete -c qcode -n '__qcode_command "" -' -s m -r
complete -c qcode -n '__qcode_command "" -' -l model -r
complete -c qcode -n '__qcode_command "" -' -l base-url -r
complete -c qcode -n '__qcode_command "" -' -l fallback-model -r
complete -c qcode -n '__qcode_command "" -' -l reasoning-effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__qcode_command "" -' -l effort -x -a 'none minimal low medium high max'
complete -c qcode -n '__qcode_command "" -' -l system-prompt -r
complete -c qcode -n '__qcode_command "" -' -l append-system-prompt -r
complete -c qcode -n '__qcode_command "" -' -l system-prompt-file -r
complete -c qcode -n '__qcode_command "" -' -l append-system-prompt-file -r
complete -c qcode -n '__qcode_command "" -' -l max-output-tokens -r
complete -c qcode -n '__qcode_command "" -' -l max-continuations -r
complete -c qcode -n '__qcode_command "" -' -l no-escalation
complete -c qcode -n '__qcode_command "" -' -l max-turns -r
complete -c qcode -n '__qcode_command "" -' -l max-tool-calls -r
complete -c qcode -n '__qcode_command "" -' -l max-budget-usd -r
complete -c qcode -n '__qcode_command "" -' -l timeout -r
complete -c qcode -n '__qcode_command "" -' -l wait-for-limit
complete -c qcode -n '__qcode_command "" -' -l permission-mode -x -a 'plan default accept-edits auto bypass'
complete -c qcode -n '__qcode_command "" -' -l allowed-tools -r
complete -c qcode -n '__qcode_command "" -' -l allowedTools -r
complete -c qcode -n '__qcode_command "" -' -l disallowed-tools -r
complete -c qcode -n '__qcode_command "" -' -l disallowedTools -r
complete -c qcode -n '__qcode_command "" -' -l tools -r
complete -c qcode -n '__qcode_command "" -' -l permission-prompt-tool -r
complete -c qcode -n '__qcode_command "" -' -l strict-tools
complete -c qcode -n '__qcode_command "" -' -l yolo
complete -c qcode -n '__qcode_command "" -' -l dangerously-skip-permissions
complete -c qcode -n '__qcode_command "" -' -l allow-dangerously-skip-permissions
complete -c qcode -n '__qcode_command "" -' -l exit-tools -r
complete -c qcode -n '__qcode_command "" -' -l add-dir -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command "" -' -l trust
complete -c qcode -n '__qcode_command "" -' -s c
complete -c qcode -n '__qcode_command "" -' -l continue
complete -c qcode -n '__qcode_command "" -' -s r
complete -c qcode -n '__qcode_command "" -' -l resume
complete -c qcode -n '__qcode_command "" -' -l fork-session
complete -c qcode -n '__qcode_command "" -' -l session-id -r
complete -c qcode -n '__qcode_command "" -' -l no-session
complete -c qcode -n '__qcode_command "" -' -l no-session-persistence
complete -c qcode -n '__qcode_command "" -' -s C -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command "" -' -l cwd -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command "" -' -l settings -r
complete -c qcode -n '__qcode_command "" -' -l setting-sources -r
complete -c qcode -n '__qcode_command "" -' -l mcp-config -r
complete -c qcode -n '__qcode_command "" -' -l strict-mcp-config
complete -c qcode -n '__qcode_command "" -' -l no-hooks
complete -c qcode -n '__qcode_command "" -' -l no-skills
complete -c qcode -n '__qcode_command "" -' -l theme -r
complete -c qcode -n '__qcode_command "" -' -l debug-log -r
complete -c qcode -n '__qcode_command "" -' -l record -r
complete -c qcode -n '__qcode_command "" -' -l completion -x -a 'bash zsh fish'
complete -c qcode -n '__qcode_command "" -' -l login
complete -c qcode -n '__qcode_command "" -' -l version
complete -c qcode -n '__qcode_command "" -' -s h
complete -c qcode -n '__qcode_command "" -' -l help
complete -c qcode -n '__qcode_command "" -' -l permission-prompts -x -a 'host none'
complete -c qcode -n '__qcode_command "" -' -l thinking -x -a 'adaptive enabled disabled'
complete -c qcode -n '__qcode_command "" -' -l max-thinking-tokens -r
complete -c qcode -n '__qcode_command "" -' -l betas -r
complete -c qcode -n '__qcode_command "" -' -l debug
complete -c qcode -n '__qcode_command "" -' -l debug-file -r
complete -c qcode -n '__qcode_command "" -' -l include-hook-events
complete -c qcode -n '__qcode_command "" -' -l plugin-dir -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command "" -' -l plugin-dir-no-mcp -x -a '(__fish_complete_directories)'
complete -c qcode -n '__qcode_command "" -' -l task-budget -r
complete -c qcode -n '__qcode_command "" -' -l thinking-display -r
