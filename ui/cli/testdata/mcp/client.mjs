// Drives an MCP server with the TypeScript SDK: reads a JSON script from its
// argument, takes its steps one after the other, and prints what each gave as a
// line of JSON. Notifications and the server's own requests are printed where
// they arrive.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, ResultSchema,
} from "@modelcontextprotocol/sdk/types.js";

const script = JSON.parse(process.argv[2]);
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

const client = new Client(
  { name: "test", version: "1" },
  { capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } } },
);
const answers = [
  [CreateMessageRequestSchema, { model: "m", role: "assistant", content: { type: "text", text: "sampled" } }],
  [ElicitRequestSchema, { action: "accept", content: { name: "Ada", check: true } }],
  [ListRootsRequestSchema, { roots: [{ uri: "file:///tmp", name: "tmp" }] }],
];
for (const [schema, answer] of answers) {
  client.setRequestHandler(schema, (request) => {
    say({ asked: request.method, params: request.params });
    return answer;
  });
}
let heard;
const until = new Promise((done) => { heard = done; });
client.fallbackNotificationHandler = async (n) => {
  say({ told: n.method, params: n.params });
  if (n.method === script.until) heard();
};

const transport = script.url
  ? new StreamableHTTPClientTransport(new URL(script.url))
  : new StdioClientTransport({ command: script.command[0], args: script.command.slice(1), env: process.env, stderr: "inherit" });
await client.connect(transport);
say({ server: client.getServerVersion(), capabilities: client.getServerCapabilities(), instructions: client.getInstructions() });

if (script.validate) await client.listTools();
for (const step of script.steps) {
  const options = { timeout: step.timeout ?? 60000 };
  if (step.progress) options.onprogress = (p) => say({ progress: p });
  try {
    if (step.method === "tools/call" && script.validate) { // as agents call tools: against the schemas that were listed
      say({ result: await client.callTool(step.params, undefined, options) });
      continue;
    }
    say({ result: await client.request({ method: step.method, params: step.params }, ResultSchema.passthrough(), options) });
  } catch (e) {
    say({ error: e.code ?? e.name, message: e.message });
  }
}
if (script.until) await until;
if (script.wait) await new Promise((r) => setTimeout(r, script.wait));
await client.close();
