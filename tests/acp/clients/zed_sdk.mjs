// Holds the conversation of `test_real_clients` through the earlier SDK of Zed, which is installed beside it.
// `node zed_sdk.mjs FOLDER COMMAND...` prints one JSON object with what the client saw.
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { ClientSideConnection, PROTOCOL_VERSION, ndJsonStream } from "@zed-industries/agent-client-protocol";

const [folder, command, ...args] = process.argv.slice(2);
const answers = { edit: "once", execute: "deny" };
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const kinds = new Set(), diffs = [], said = [];
let text = "", speak = () => {};

const client = {
  async requestPermission({ toolCall }) {
    return { outcome: { outcome: "selected", optionId: answers[toolCall.kind] } };
  },
  async sessionUpdate({ update }) {
    kinds.add(update.sessionUpdate);
    if (update.sessionUpdate === "agent_message_chunk") {
      text += update.content.text;
      speak();
    }
    for (const item of update.sessionUpdate.startsWith("tool_call") ? (update.content ?? []) : []) {
      if (item.type === "diff") diffs.push([item.oldText, item.newText]);
    }
  },
  async readTextFile({ path }) {
    return { content: await readFile(path, "utf8") };
  },
  async writeTextFile({ path, content }) {
    await writeFile(path, content);
    return {};
  },
};

const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const connection = new ClientSideConnection(() => client, stream);
const fs = { readTextFile: true, writeTextFile: true };
await connection.initialize({ protocolVersion: PROTOCOL_VERSION, clientCapabilities: { fs } });
const { sessionId } = await connection.newSession({ cwd: folder, mcpServers: [] });
const prompt = async (words) => {
  text = "";
  const result = await connection.prompt({ sessionId, prompt: [{ type: "text", text: words }] });
  said.push([result.stopReason, text]);
};
for (const words of ["edit it", "make a file", "tell me"]) await prompt(words);
const spoken = new Promise((resolve) => { speak = resolve; });
const running = prompt("work");
await spoken;
await connection.cancel({ sessionId });
await running;
agent.stdin.end();
console.log(JSON.stringify({ said, diffs, kinds: [...kinds].sort() }));
process.exit(0);
