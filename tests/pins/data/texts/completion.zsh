#compdef qcode
_qcode() {
  local cur=${words[CURRENT]} prev=${words[CURRENT-1]} found= command=
  [ "$CURRENT" -gt 2 ] && command=${words[2]}
  case $command in
    auth)
      case $prev in
        *)
          case $cur in
            -*) found="--no-check --json" ;;
            *)
              case $prev in
                auth) found="login status logout" ;;
                login) found="anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure" ;;
                status) found="anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure" ;;
                logout) found="anthropic openai gemini openai-responses ollama lmstudio llamacpp vllm sglang openrouter deepseek mistral groq xai together qwen kimi glm azure" ;;
              esac ;;
          esac ;;
      esac
      ;;
    config)
      case $prev in
        *)
          case $cur in
            -*) found="" ;;
            *)
              case $prev in
                config) found="path show" ;;
              esac ;;
          esac ;;
      esac
      ;;
    doctor)
      case $prev in
        *)
          case $cur in
            -*) found="" ;;
          esac ;;
      esac
      ;;
    mcp)
      case $prev in
        -C|--cwd|--mcp-config) ;;
        *)
          case $cur in
            -*) found="-C --cwd --mcp-config --trust" ;;
            *)
              case $prev in
                mcp) found="list show approve" ;;
              esac ;;
          esac ;;
      esac
      ;;
    models)
      case $prev in
        *)
          case $cur in
            -*) found="" ;;
            *)
              case $prev in
                models) found="forget" ;;
              esac ;;
          esac ;;
      esac
      ;;
    permissions)
      case $prev in
        --permission-mode) found="plan default accept-edits auto bypass" ;;
        -C|--cwd|--allowed-tools|--disallowed-tools|--add-dir|--settings) ;;
        *)
          case $cur in
            -*) found="-C --cwd --permission-mode --allowed-tools --disallowed-tools --add-dir --settings --jsonl --trust --yolo" ;;
            *)
              case $prev in
                permissions) found="list check" ;;
                check) found="shell read write fetch" ;;
              esac ;;
          esac ;;
      esac
      ;;
    sessions)
      case $prev in
        *)
          case $cur in
            -*) found="" ;;
            *)
              case $prev in
                sessions) found="list show export delete" ;;
              esac ;;
          esac ;;
      esac
      ;;
    themes)
      case $prev in
        *)
          case $cur in
            -*) found="" ;;
          esac ;;
      esac
      ;;
    trust)
      case $prev in
        *)
          case $cur in
            -*) found="" ;;
            *)
              case $prev in
                trust) found="show accept forget list" ;;
              esac ;;
          esac ;;
      esac
      ;;
    *)
      case $prev in
        -o) found="text json stream-json" ;;
        --output-format) found="text json stream-json" ;;
        --input-format) found="text stream-json" ;;
        --permission-mode) found="plan default accept-edits auto bypass" ;;
        --reasoning-effort) found="none minimal low medium high max" ;;
        --completion) found="bash zsh fish" ;;
        -m|--model|--base-url|--json-schema|-f|--file|--max-output-tokens|--max-continuations|--max-turns|--max-tool-calls|--max-budget-usd|--allowed-tools|--disallowed-tools|--exit-tools|--system-prompt|--append-system-prompt|--add-dir|-C|--cwd|--settings|--mcp-config|--theme|--debug-log) ;;
        *)
          case $cur in
            -*) found="-m --model --base-url -o --output-format --input-format --json-schema -f --file --max-output-tokens --max-continuations --max-turns --max-tool-calls --max-budget-usd --permission-mode --allowed-tools --disallowed-tools --exit-tools --system-prompt --append-system-prompt --add-dir -C --cwd --reasoning-effort --settings --mcp-config --theme --debug-log --completion -p --print --prompt -v --verbose --include-partial-messages --no-escalation --yolo -c --continue -r --resume --fork-session --no-session --trust" ;;
          esac ;;
      esac
      ;;
  esac
  [ "$CURRENT" -eq 2 ] && [ "${cur#-}" = "$cur" ] && found="auth config doctor mcp models permissions sessions themes trust"
  [ -n "$found" ] && compadd -- ${=found}
  [ -z "$found" ] || [ "$CURRENT" -eq 2 ] && _files
}
compdef _qcode qcode
