// Holds the conversation of `test_real_clients` through the TypeScript SDK, which is installed beside it.
// `node typescript_sdk.mjs FOLDER COMMAND...` prints one JSON object with what the client saw.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { PROTOCOL_VERSION, client, ndJsonStream } from "@agentclientprotocol/sdk";

const [folder, command, ...args] = process.argv.slice(2);
const answers = { edit: "once", execute: "deny" };
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const kinds = new Set(), diffs = [], said = [];
let text = "", speak = () => {};

const app = client({ name: "test" })
  .onRequest("session/request_permission", ({ params }) => ({
    outcome: { outcome: "selected", optionId: answers[params.toolCall.kind] },
  }))
  .onNotification("session/update", ({ params: { update } }) => {
    kinds.add(update.sessionUpdate);
    if (update.sessionUpdate === "agent_message_chunk") {
      text += update.content.text;
      speak();
    }
    for (const item of update.sessionUpdate.startsWith("tool_call") ? (update.content ?? []) : []) {
      if (item.type === "diff") diffs.push([item.oldText, item.newText]);
    }
  });

await app.connectWith(stream, async (agentSide) => {
  await agentSide.request("initialize", { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
  const { sessionId } = await agentSide.request("session/new", { cwd: folder, mcpServers: [] });
  const prompt = async (words) => {
    text = "";
    const result = await agentSide.request("session/prompt", { sessionId, prompt: [{ type: "text", text: words }] });
    said.push([result.stopReason, text]);
  };
  for (const words of ["edit it", "make a file", "tell me"]) await prompt(words);
  const spoken = new Promise((resolve) => { speak = resolve; });
  const running = prompt("work");
  await spoken;
  await agentSide.notify("session/cancel", { sessionId });
  await running;
});
agent.stdin.end();
console.log(JSON.stringify({ said, diffs, kinds: [...kinds].sort() }));
process.exit(0);
