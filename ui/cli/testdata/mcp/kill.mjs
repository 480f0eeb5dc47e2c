// Loaded before an MCP server (node --import): kills the process hard at the
// moment it puts a file in place, before or after, as often as the file that
// KILL_ONCE names is there.
import fs from "node:fs";

const rename = fs.promises.rename;
fs.promises.rename = async (...args) => {
  let when = "";
  try {
    when = fs.readFileSync(process.env.KILL_ONCE, "utf8").trim();
    fs.unlinkSync(process.env.KILL_ONCE);
  } catch { }
  if (when === "before") process.kill(process.pid, "SIGKILL");
  const done = await rename(...args);
  if (when === "after") process.kill(process.pid, "SIGKILL");
  return done;
};
