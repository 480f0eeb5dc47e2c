// Loaded before an MCP server (node --import). Notes in the file that EFFECTS
// names when the server puts a file in place; and while the file that KILL_ONCE
// names says "before" or "after", kills the process hard at that moment, once; "hangs" has
// it never answer what it has done.
import fs from "node:fs";

const rename = fs.promises.rename;
fs.promises.rename = async (...args) => {
  let when = "";
  try {
    when = fs.readFileSync(process.env.KILL_ONCE, "utf8").trim();
    fs.unlinkSync(process.env.KILL_ONCE);
  } catch { }
  fs.appendFileSync(process.env.EFFECTS, "asked\n");
  if (when === "before") process.kill(process.pid, "SIGKILL");
  const done = await rename(...args);
  if (when === "after") process.kill(process.pid, "SIGKILL");
  if (when === "hangs") return new Promise(() => { });
  return done;
};
