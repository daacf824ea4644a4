#compdef qcode qcode-cli
_qcode() {
  local cur=${words[CURRENT]} prev=${words[CURRENT-1]} found= folders= command= last= skip= word
  for word in "${(@)words[2,CURRENT-1]}"; do
    if [ "$word" = "=" ]; then skip=always; continue; fi
    if [ "$skip" = always ] || { [ "$skip" = maybe ] && [ "${word#-}" = "$word" ]; }; then skip=; continue; fi
    skip=
    case $word in
      -p|--print|--prompt|--) [ -n "$command" ] || command=- ;;
      -f|--file|-o|--output-format|--input-format|--json-schema|-m|--model|--base-url|--fallback-model|--reasoning-effort|--effort|--system-prompt|--append-system-prompt|--system-prompt-file|--append-system-prompt-file|--max-output-tokens|--max-continuations|--max-turns|--max-tool-calls|--max-budget-usd|--timeout|--permission-mode|--allowed-tools|--allowedTools|--disallowed-tools|--disallowedTools|--tools|--permission-prompt-tool|--exit-tools|--add-dir|--session-id|-C|--cwd|--settings|--setting-sources|--mcp-config|--theme|--debug-log|--record|--completion|--permission-prompts|--thinking|--max-thinking-tokens|--betas|--debug-file|--plugin-dir|--plugin-dir-no-mcp|--task-budget|--thinking-display|--out|--jobs|--ray|--tool|--env|--header|--transport|--client-id|--callback-port|--for|--format|--turns|--output) skip=always ;;
      -r|--resume) skip=maybe ;;
      -*) ;;
      acp|auth|batch|config|doctor|hooks|import|login|logout|mcp|models|permissions|replay|sessions|skills|stats|themes|trust|uninstall|update|version|help) [ -n "$command" ] || command=$word; last=$word ;;
      *) [ -n "$command" ] || command=-; last=$word ;;
    esac
  done
  if [[ $cur = --*=* ]]; then prev=${cur%%=*}; cur=${cur#*=}; compset -P '*='; fi
  case $command in
    acp)
      case $prev in
        --reasoning-effort|--effort) found="none minimal low medium high max" ;;
        --permission-mode) found="plan default accept-edits auto bypass" ;;
        --add-dir) folders=1 ;;
        -m|--model|--base-url|--fallback-model|--system-prompt|--append-system-prompt|--system-prompt-file|--append-system-prompt-file|--max-output-tokens|--max-continuations|--max-turns|--max-tool-calls|--max-budget-usd|--timeout|--allowed-tools|--allowedTools|--disallowed-tools|--disallowedTools|--tools|--permission-prompt-tool|--exit-tools|--settings|--mcp-config|--debug-log) ;;
        *)
          case $cur in
            -*) found="--login -m --model --base-url --fallback-model --reasoning-effort --effort --system-prompt --append-system-prompt --system-prompt-file --append-system-prompt-file --max-output-tokens --max-continuations --no-escalation --max-turns --max-tool-calls --max-budget-usd --timeout --wait-for-limit --permission-mode --allowed-tools --allowedTools --disallowed-tools --disallowedTools --tools --permission-prompt-tool --strict-tools --yolo --dangerously-skip-permissions --allow-dangerously-skip-permissions --exit-tools --add-dir --trust --settings --mcp-config --no-hooks --no-skills --debug-log --no-session --no-session-persistence -v --verbose" ;;
          esac ;;
      esac
      ;;
    auth)
      case $prev in
        -C|--cwd) folders=1 ;;
        --settings) ;;
        *)
          case $cur in
            -*) found="--no-check -C --cwd --trust --settings --json" ;;
            *)
              case $command:$last in
                *:auth) found="login status logout" ;;
                *:login) found="anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure" ;;
                *:status) found="anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure" ;;
                *:logout) found="anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure" ;;
              esac ;;
          esac ;;
      esac
      ;;
    batch)
      case $prev in
        --reasoning-effort|--effort) found="none minimal low medium high max" ;;
        --permission-mode) found="plan default accept-edits auto bypass" ;;
        --add-dir|-C|--cwd) folders=1 ;;
        --out|--jobs|--ray|-m|--model|--base-url|--fallback-model|--system-prompt|--append-system-prompt|--system-prompt-file|--append-system-prompt-file|--max-output-tokens|--max-continuations|--max-turns|--max-tool-calls|--max-budget-usd|--timeout|--allowed-tools|--allowedTools|--disallowed-tools|--disallowedTools|--tools|--permission-prompt-tool|--exit-tools|--settings|--mcp-config) ;;
        *)
          case $cur in
            -*) found="--out --jobs --ray -m --model --base-url --fallback-model --reasoning-effort --effort --system-prompt --append-system-prompt --system-prompt-file --append-system-prompt-file --max-output-tokens --max-continuations --no-escalation --max-turns --max-tool-calls --max-budget-usd --timeout --wait-for-limit --permission-mode --allowed-tools --allowedTools --disallowed-tools --disallowedTools --tools --permission-prompt-tool --strict-tools --yolo --dangerously-skip-permissions --allow-dangerously-skip-permissions --exit-tools --add-dir --trust -C --cwd --settings --mcp-config --no-hooks --no-skills --no-session --no-session-persistence" ;;
          esac ;;
      esac
      ;;
    config)
      case $prev in
        -C|--cwd) folders=1 ;;
        --settings) ;;
        *)
          case $cur in
            -*) found="--project -C --cwd --trust --settings --json" ;;
            *)
              case $command:$last in
                *:config) found="path show schema set unset" ;;
                *:set) found="model small_model fallback fallback_on output.max_tokens output.escalate output.max_continuations output.policy output.tool_call_repair output.max_tool_repair_attempts output.max_total_completion_tokens output.max_total_output_chars output.min_escalation_gain output.learn_first_cap network.connect_timeout_s network.first_event_timeout_s network.idle_timeout_s network.max_retries network.retry_after_max_s network.wait_for_limit mcp.defer permissions.mode permissions.allow permissions.ask permissions.deny tools.shell_timeout_s tools.max_output_chars tools.tool_timeout_s tools.sandbox tools.agents tools.text_calls tools.web_search ui.theme ui.linear ui.bell ui.keep_last_reply ui.title ui.show_thinking ui.mouse ui.partial_redraw ui.vim sessions.retention_days hooks.enabled hooks.claude after_edit.diagnostics after_edit.format after_edit.check after_edit.test after_edit.max_rounds skills.off skills.paths skills.foreign" ;;
                *:unset) found="model small_model fallback fallback_on output.max_tokens output.escalate output.max_continuations output.policy output.tool_call_repair output.max_tool_repair_attempts output.max_total_completion_tokens output.max_total_output_chars output.min_escalation_gain output.learn_first_cap network.connect_timeout_s network.first_event_timeout_s network.idle_timeout_s network.max_retries network.retry_after_max_s network.wait_for_limit mcp.defer permissions.mode permissions.allow permissions.ask permissions.deny tools.shell_timeout_s tools.max_output_chars tools.tool_timeout_s tools.sandbox tools.agents tools.text_calls tools.web_search ui.theme ui.linear ui.bell ui.keep_last_reply ui.title ui.show_thinking ui.mouse ui.partial_redraw ui.vim sessions.retention_days hooks.enabled hooks.claude after_edit.diagnostics after_edit.format after_edit.check after_edit.test after_edit.max_rounds skills.off skills.paths skills.foreign" ;;
                *:output.escalate) found="true false" ;;
                *:output.policy) found="escalate continue" ;;
                *:output.tool_call_repair) found="reject resume" ;;
                *:output.learn_first_cap) found="true false" ;;
                *:network.wait_for_limit) found="ask always never" ;;
                *:permissions.mode) found="plan default accept-edits auto" ;;
                *:tools.sandbox) found="auto required off" ;;
                *:tools.agents) found="true false" ;;
                *:tools.text_calls) found="true false" ;;
                *:tools.web_search) found="off host brave tavily" ;;
                *:ui.linear) found="true false" ;;
                *:ui.bell) found="true false" ;;
                *:ui.keep_last_reply) found="true false" ;;
                *:ui.title) found="true false" ;;
                *:ui.show_thinking) found="folded expanded hidden" ;;
                *:ui.mouse) found="true false" ;;
                *:ui.partial_redraw) found="true false" ;;
                *:ui.vim) found="true false" ;;
                *:hooks.enabled) found="true false" ;;
                *:hooks.claude) found="off own project both" ;;
                *:skills.foreign) found="true false" ;;
              esac ;;
          esac ;;
      esac
      ;;
    doctor)
      case $prev in
        -C|--cwd) folders=1 ;;
        --settings) ;;
        *)
          case $cur in
            -*) found="-C --cwd --trust --settings --json" ;;
          esac ;;
      esac
      ;;
    hooks)
      case $prev in
        -C|--cwd) folders=1 ;;
        --tool|--settings) ;;
        *)
          case $cur in
            -*) found="--tool -C --cwd --trust --settings --json" ;;
            *)
              case $command:$last in
                *:hooks) found="list test" ;;
              esac ;;
          esac ;;
      esac
      ;;
    import)
      case $prev in
        -C|--cwd) folders=1 ;;
        --settings) ;;
        *)
          case $cur in
            -*) found="--write -C --cwd --trust --settings --json" ;;
            *)
              case $command:$last in
                *:import) found="claude codex gemini qwen opencode" ;;
              esac ;;
          esac ;;
      esac
      ;;
    login)
      case $prev in
        *)
          case $cur in
            -*) found="--no-check" ;;
            *)
              case $command:$last in
                *:login) found="anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure" ;;
              esac ;;
          esac ;;
      esac
      ;;
    logout)
      case $prev in
        *)
          case $cur in
            -*) found="" ;;
            *)
              case $command:$last in
                *:logout) found="anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure" ;;
              esac ;;
          esac ;;
      esac
      ;;
    mcp)
      case $prev in
        --reasoning-effort|--effort) found="none minimal low medium high max" ;;
        --permission-mode) found="plan default accept-edits auto bypass" ;;
        --transport) found="http sse" ;;
        --add-dir|-C|--cwd) folders=1 ;;
        -m|--model|--base-url|--fallback-model|--system-prompt|--append-system-prompt|--system-prompt-file|--append-system-prompt-file|--max-output-tokens|--max-continuations|--max-turns|--max-tool-calls|--max-budget-usd|--timeout|--allowed-tools|--allowedTools|--disallowed-tools|--disallowedTools|--tools|--permission-prompt-tool|--exit-tools|--mcp-config|--settings|--env|--header|--client-id|--callback-port) ;;
        *)
          case $cur in
            -*) found="-m --model --base-url --fallback-model --reasoning-effort --effort --system-prompt --append-system-prompt --system-prompt-file --append-system-prompt-file --max-output-tokens --max-continuations --no-escalation --max-turns --max-tool-calls --max-budget-usd --timeout --wait-for-limit --permission-mode --allowed-tools --allowedTools --disallowed-tools --disallowedTools --tools --permission-prompt-tool --strict-tools --yolo --dangerously-skip-permissions --allow-dangerously-skip-permissions --exit-tools --add-dir --trust -C --cwd --mcp-config --settings --no-hooks --no-skills --no-session --no-session-persistence --env --header --transport --no-browser --client-id --callback-port --json" ;;
            *)
              case $command:$last in
                *:mcp) found="list show approve add remove login logout serve" ;;
              esac ;;
          esac ;;
      esac
      ;;
    models)
      case $prev in
        -C|--cwd) folders=1 ;;
        --settings) ;;
        *)
          case $cur in
            -*) found="--all -C --cwd --trust --settings --json" ;;
            *)
              case $command:$last in
                *:models) found="forget" ;;
              esac ;;
          esac ;;
      esac
      ;;
    permissions)
      case $prev in
        --for) found="claude codex gemini qwen" ;;
        --permission-mode) found="plan default accept-edits auto bypass" ;;
        -C|--cwd|--add-dir) folders=1 ;;
        --allowed-tools|--allowedTools|--disallowed-tools|--disallowedTools|--settings) ;;
        *)
          case $cur in
            -*) found="--for --print -C --cwd --permission-mode --allowed-tools --allowedTools --disallowed-tools --disallowedTools --add-dir --settings --jsonl --json --trust --yolo --dangerously-skip-permissions" ;;
            *)
              case $command:$last in
                *:permissions) found="list check hook" ;;
                *:check) found="shell read write fetch" ;;
              esac ;;
          esac ;;
      esac
      ;;
    replay)
      case $prev in
        --permission-mode) found="plan default accept-edits auto bypass" ;;
        -C|--cwd|--add-dir) folders=1 ;;
        --allowed-tools|--allowedTools|--disallowed-tools|--disallowedTools) ;;
        *)
          case $cur in
            -*) found="--diff --timed -C --cwd --trust --permission-mode --allowed-tools --allowedTools --disallowed-tools --disallowedTools --add-dir" ;;
          esac ;;
      esac
      ;;
    sessions)
      case $prev in
        --format) found="md json html" ;;
        -C|--cwd) folders=1 ;;
        --turns|-o|--output|--settings) ;;
        *)
          case $cur in
            -*) found="--format --turns --no-tools -o --output --all -y --yes -C --cwd --trust --settings --json" ;;
            *)
              case $command:$last in
                *:sessions) found="list show export import delete" ;;
              esac ;;
          esac ;;
      esac
      ;;
    skills)
      case $prev in
        -C|--cwd) folders=1 ;;
        *)
          case $cur in
            -*) found="-C --cwd --trust --json" ;;
            *)
              case $command:$last in
                *:skills) found="list show check" ;;
              esac ;;
          esac ;;
      esac
      ;;
    stats)
      case $prev in
        -C|--cwd) folders=1 ;;
        --settings) ;;
        *)
          case $cur in
            -*) found="--all -C --cwd --trust --settings --json" ;;
          esac ;;
      esac
      ;;
    themes)
      case $prev in
        -C|--cwd) folders=1 ;;
        *)
          case $cur in
            -*) found="-C --cwd --json" ;;
          esac ;;
      esac
      ;;
    trust)
      case $prev in
        -C|--cwd) folders=1 ;;
        *)
          case $cur in
            -*) found="-C --cwd --json" ;;
            *)
              case $command:$last in
                *:trust) found="show accept forget list" ;;
              esac ;;
          esac ;;
      esac
      ;;
    uninstall)
      case $prev in
        *)
          case $cur in
            -*) found="-y --yes" ;;
          esac ;;
      esac
      ;;
    update)
      case $prev in
        *)
          case $cur in
            -*) found="--check" ;;
          esac ;;
      esac
      ;;
    version)
      case $prev in
        *)
          case $cur in
            -*) found="" ;;
          esac ;;
      esac
      ;;
    help)
      case $prev in
        *)
          case $cur in
            -*) found="" ;;
            *)
              case $command:$last in
                *:help) found="acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version prompt-and-output model output-limits limits-of-one-prompt other flags-of-claude-code exit-codes environment" ;;
              esac ;;
          esac ;;
      esac
      ;;
    *)
      case $prev in
        -o|--output-format) found="text json stream-json" ;;
        --input-format) found="text stream-json" ;;
        --reasoning-effort|--effort) found="none minimal low medium high max" ;;
        --permission-mode) found="plan default accept-edits auto bypass" ;;
        --completion) found="bash zsh fish" ;;
        --permission-prompts) found="host none" ;;
        --thinking) found="adaptive enabled disabled" ;;
        --add-dir|-C|--cwd|--plugin-dir|--plugin-dir-no-mcp) folders=1 ;;
        -f|--file|--json-schema|-m|--model|--base-url|--fallback-model|--system-prompt|--append-system-prompt|--system-prompt-file|--append-system-prompt-file|--max-output-tokens|--max-continuations|--max-turns|--max-tool-calls|--max-budget-usd|--timeout|--allowed-tools|--allowedTools|--disallowed-tools|--disallowedTools|--tools|--permission-prompt-tool|--exit-tools|--session-id|--settings|--setting-sources|--mcp-config|--theme|--debug-log|--record|--max-thinking-tokens|--betas|--debug-file|--task-budget|--thinking-display) ;;
        *)
          case $cur in
            -*) found="-p --print --prompt -f --file -o --output-format --no-stdin --include-partial-messages --input-format --json-schema --replay-user-messages -v --verbose -m --model --base-url --fallback-model --reasoning-effort --effort --system-prompt --append-system-prompt --system-prompt-file --append-system-prompt-file --max-output-tokens --max-continuations --no-escalation --max-turns --max-tool-calls --max-budget-usd --timeout --wait-for-limit --permission-mode --allowed-tools --allowedTools --disallowed-tools --disallowedTools --tools --permission-prompt-tool --strict-tools --yolo --dangerously-skip-permissions --allow-dangerously-skip-permissions --exit-tools --add-dir --trust -c --continue -r --resume --fork-session --session-id --no-session --no-session-persistence -C --cwd --settings --setting-sources --mcp-config --strict-mcp-config --no-hooks --no-skills --theme --debug-log --record --completion --login --version -h --help --permission-prompts --thinking --max-thinking-tokens --betas --debug --debug-file --include-hook-events --plugin-dir --plugin-dir-no-mcp --task-budget --thinking-display" ;;
            *)
              case $command:$last in
                :) found="acp auth batch config doctor hooks import login logout mcp models permissions replay sessions skills stats themes trust uninstall update version help" ;;
              esac ;;
          esac ;;
      esac
      ;;
  esac
  if [ -n "$folders" ]; then _files -/
  elif [ -n "$found" ]; then compadd -- ${=found}
  else _files; fi
}
compdef _qcode qcode qcode-cli
