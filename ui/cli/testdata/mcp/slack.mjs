// Posts one message with Slack's own client, which retries by itself, and prints what
// came of it as a line of JSON.
import { WebClient, LogLevel } from "@slack/web-api";

const { url, token, text } = JSON.parse(process.argv[2]);
const client = new WebClient(token, { slackApiUrl: url, logLevel: LogLevel.ERROR, retryConfig: { retries: 3, minTimeout: 0, maxTimeout: 1 } });
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n");

try {
  const { ok, channel, ts, message } = await client.chat.postMessage({
    channel: "C1", text, metadata: { event_type: "deployed", event_payload: { version: "4.18" } },
  });
  say({ ok, channel, ts, text: message.text });
} catch (e) {
  say({ code: e.code, status: e.statusCode, body: e.body, error: e.data?.error });
}
