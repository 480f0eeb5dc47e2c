// Calls tools of an MCP server with a client of today: reads which one, the server's
// command and the calls from its argument, and prints what the client hands to its
// agent for each call as a line of JSON.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const { client: which, command, calls } = JSON.parse(process.argv[2]);
const server = { command: command[0], args: command.slice(1), env: process.env, stderr: "inherit" };

const clients = {
  async sdk() {
    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StdioClientTransport(server));
    await client.listTools();
    return { call: (name, args) => client.callTool({ name, arguments: args }), close: () => client.close() };
  },
  async ai() {
    const client = await createMCPClient({ transport: new Experimental_StdioMCPTransport(server) });
    const tools = await client.tools();
    const call = (name, args) => tools[name].execute(args, { toolCallId: "1", messages: [] });
    return { call, close: () => client.close() };
  },
};

const client = await clients[which]();
for (const { tool, arguments: args } of calls) {
  let said;
  try {
    said = { result: await client.call(tool, args) };
  } catch (e) {
    said = { error: e.code ?? e.name, message: e.message };
  }
  process.stdout.write(JSON.stringify(said) + "\n");
}
await client.close();
