// Scenarios of the Claude Agent SDK for TypeScript: `typescript_sdk.mjs SCENARIO FLAG=VALUE…` prints what it saw.

import { createSdkMcpServer, query, tool } from "@anthropic-ai/claude-agent-sdk";
import { z } from "zod";

const [name, ...flags] = process.argv.slice(2);

function options(given = {}) {
  const extraArgs = { trust: null };
  for (const flag of flags) {
    const at = flag.indexOf("=");
    extraArgs[flag.slice(0, at)] = flag.slice(at + 1);
  }
  return {
    pathToClaudeCodeExecutable: process.env.HOST_CLI,
    cwd: process.env.HOST_FOLDER,
    extraArgs,
    stderr: (text) => process.stderr.write(text),
    ...given,
  };
}

function seenOf(message) {
  if (message.type === "system" && message.subtype === "init") {
    return ["init", message.tools.filter((one) => ["Bash", "Read", "Task", "mcp__calc__add"].includes(one)).sort()];
  }
  if (message.type === "assistant") {
    return message.message.content
      .filter((block) => ["text", "tool_use"].includes(block.type))
      .map((block) => (block.type === "text" ? ["text", block.text] : ["call", block.name, block.input]));
  }
  if (message.type === "user" && Array.isArray(message.message.content)) {
    return message.message.content
      .filter((block) => block.type === "tool_result")
      .map((block) => ["result", block.is_error, String(block.content).slice(0, 200)]);
  }
  if (message.type === "result") {
    return [["end", message.subtype, message.result ?? null, message.stop_reason, message.errors ?? []]];
  }
  return [];
}

async function collected(messages) {
  const seen = [];
  for await (const message of messages) seen.push(...seenOf(message));
  return seen;
}

async function* prompts(...texts) {
  for (const text of texts) {
    yield { type: "user", message: { role: "user", content: text }, parent_tool_use_id: null, session_id: "" };
  }
}

const scenarios = {
  async simple() {
    return collected(query({ prompt: "hi", options: options() }));
  },

  async streaming_input() {
    return collected(query({ prompt: prompts("one", "two"), options: options() }));
  },

  async partial_messages() {
    let text = "";
    const kinds = [];
    for await (const message of query({ prompt: "hi", options: options({ includePartialMessages: true }) })) {
      if (message.type === "stream_event") {
        kinds.push(message.event.type);
        text += message.event.delta?.text ?? "";
      }
    }
    return { text, kinds };
  },

  async permissions() {
    const asked = [];
    async function canUseTool(tool, input, { suggestions, title }) {
      asked.push([tool, input, suggestions.length, title !== undefined]);
      if (asked.length === 1) {
        return { behavior: "allow", updatedInput: { ...input, command: "echo changed > c.txt" } };
      }
      if (asked.length === 2) {
        return { behavior: "allow", updatedInput: input, updatedPermissions: suggestions.slice(0, 1) };
      }
      return { behavior: "deny", message: "only the tests" };
    }
    const seen = await collected(query({ prompt: prompts("work"), options: options({ canUseTool }) }));
    return { asked, seen };
  },

  async interrupted() {
    let next;
    const waiting = new Promise((resolve) => { next = resolve; });
    async function* input() {
      yield* prompts("work");
      await waiting;
    }
    const run = query({ prompt: input(), options: options({ includePartialMessages: true }) });
    const seen = [];
    try {
      for await (const message of run) {
        if (message.type === "stream_event" && message.event.type === "content_block_delta") await run.interrupt();
        seen.push(...seenOf(message));
        if (message.type === "result") next();
      }
    } catch (error) {
      return { seen, raised: String(error.message) };
    }
    return { seen };
  },

  async settings() {
    let next;
    const waiting = new Promise((resolve) => { next = resolve; });
    async function* input() {
      yield* prompts("edit it");
      await waiting;
      yield* prompts("who are you");
    }
    const run = query({ prompt: input(), options: options() });
    await run.setPermissionMode("acceptEdits");
    const seen = [];
    const commands = (await run.supportedCommands())[0].name;
    for await (const message of run) {
      seen.push(...seenOf(message));
      if (message.type === "result" && next) {
        await run.setModel("openai/other-model");
        next();
        next = undefined;
      }
    }
    return { seen, commands };
  },

  async structured_output() {
    const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const outputFormat = { type: "json_schema", schema };
    for await (const message of query({ prompt: "count", options: options({ outputFormat }) })) {
      if (message.type === "result") return message.structured_output;
    }
  },

  async failed() {
    const seen = [];
    try {
      for await (const message of query({ prompt: "hi", options: options() })) seen.push(...seenOf(message));
    } catch (error) {
      return { seen, raised: String(error.message) };
    }
    return { seen };
  },

  async system_prompt() {
    return collected(query({ prompt: "hi", options: options({ systemPrompt: "You are a pirate." }) }));
  },

  async hooks() {
    const called = [];
    async function before(values) {
      called.push([values.hook_event_name, values.tool_name, values.tool_input]);
      const isAllowed = !values.tool_input.command.includes("rm");
      return {
        hookSpecificOutput: {
          hookEventName: "PreToolUse",
          permissionDecision: isAllowed ? "allow" : "deny",
          permissionDecisionReason: isAllowed ? undefined : "no rm",
        },
      };
    }
    async function after(values) {
      called.push([values.hook_event_name, values.tool_response]);
      return {};
    }
    const hooks = {
      PreToolUse: [{ matcher: "Bash", hooks: [before] }],
      PostToolUse: [{ matcher: "Bash", hooks: [after] }],
    };
    return { seen: await collected(query({ prompt: "work", options: options({ hooks }) })), called };
  },

  async in_process_tools() {
    const add = tool("add", "Add two numbers.", { a: z.number(), b: z.number() }, async ({ a, b }) => ({
      content: [{ type: "text", text: `sum ${a + b}` }],
    }));
    const calc = createSdkMcpServer({ name: "calc", version: "1.0.0", tools: [add] });
    const asked = [];
    async function canUseTool(tool, input) {
      asked.push(tool);
      return { behavior: "allow", updatedInput: input };
    }
    const given = options({ mcpServers: { calc }, canUseTool });
    return { seen: await collected(query({ prompt: prompts("add"), options: given })), asked };
  },

  async servers_set() {
    const steps = [];
    const waiting = [0, 1].map((number) => new Promise((resolve) => { steps[number] = resolve; }));
    async function* input() {
      yield* prompts("hi");
      await waiting[0];
      yield* prompts("add");
      await waiting[1];
    }
    const add = tool("add", "Add two numbers.", { a: z.number(), b: z.number() }, async ({ a, b }) => ({
      content: [{ type: "text", text: `sum ${a + b}` }],
    }));
    const changes = [];
    const seen = [];
    const given = { onElicitation: async () => ({ action: "accept", content: { answer: "blue" } }) };
    const run = query({ prompt: input(), options: options({ ...given, allowedTools: ["mcp__calc", "mcp__fake"] }) });
    for await (const message of run) {
      seen.push(...seenOf(message));
      if (message.type === "result" && changes.length === 0) {
        const calc = createSdkMcpServer({ name: "calc", version: "1.0.0", tools: [add] });
        const fake = JSON.parse(process.env.HOST_SERVER);
        changes.push(await run.setMcpServers({ calc, fake, bad: { type: "stdio", command: "/nonexistent" } }));
        let states = await run.mcpServerStatus();
        while (states.some((one) => one.status === "pending")) { // on a busy machine a server starts later
          await new Promise((resolve) => setTimeout(resolve, 100));
          states = await run.mcpServerStatus();
        }
        changes.push(states.map((one) => [one.name, one.status]));
        steps[0]();
      } else if (message.type === "result") {
        changes.push(await run.setMcpServers({}));
        steps[1]();
      }
    }
    return { seen, changes };
  },

  async unsupported() {
    let next;
    const waiting = new Promise((resolve) => { next = resolve; });
    async function* input() {
      yield* prompts("hi");
      await waiting;
    }
    const run = query({ prompt: input(), options: options() });
    const raised = [];
    const attempts = [
      () => run.reloadPlugins(),
      () => run.seedReadState("a.txt", 1),
      () => run.stopTask("t"),
      () => run.backgroundTasks(),
      () => run.updateSettings("localSettings", { outputStyle: "x" }),
      () => run.setMcpPermissionModeOverride("calc", "auto"),
      () => run.reloadOutputStyles(),
    ];
    for (const attempt of attempts) {
      try {
        await attempt();
      } catch (error) {
        raised.push(String(error.message));
      }
    }
    next();
    return { raised, seen: await collected(run) };
  },

  async agents() {
    const reviewer = { description: "Reviews code.", prompt: "Review.", tools: ["Read"] };
    return collected(query({ prompt: "review", options: options({ agents: { reviewer } }) }));
  },
};

process.stdout.write(`${JSON.stringify(await scenarios[name]())}\n`);
process.exit(0);
