// An MCP server that pays, and whose answer to the first call is lost: it has had its
// effect and never says so. Its tool declares an output schema.
import { appendFileSync, existsSync, unlinkSync } from "node:fs";
import { createInterface } from "node:readline";

const schema = (name) => ({ type: "object", properties: { [name]: { type: "string" } }, required: [name], additionalProperties: false });
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  switch (method) {
    case "initialize":
      return say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "lost", version: "1" } } });
    case "tools/list":
      return say({ id, result: { tools: [{ name: "pay", inputSchema: schema("invoice"), outputSchema: schema("paid") }] } });
    case "tools/call":
      appendFileSync(process.env.EFFECTS, JSON.stringify(params.arguments) + "\n");
      if (existsSync(process.env.LOSE_ONCE)) return unlinkSync(process.env.LOSE_ONCE);
      return say({ id, result: { content: [{ type: "text", text: "paid" }], structuredContent: { paid: params.arguments.invoice } } });
    default:
      if (id !== undefined) say({ id, result: {} });
  }
});
