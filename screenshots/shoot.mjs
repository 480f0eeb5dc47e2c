// Makes the pictures: the real program, on a real pseudo-terminal, drawn by
// xterm.js in a headless Chromium, at 2x, and the same screen as text.
//
//   node screenshots/shoot.mjs [--check] [--out DIR] [--scenes FILE] [NAME…]
//
// --check makes no picture: it compares the text with what is committed.
import { createRequire } from "node:module";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { themes } from "./themes.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const require = createRequire(join(root, ".build/screenshots/package.json"));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);

const PADDING = 14; // CSS pixels around the screen
const QUIET = 250; // ms without output: the screen stands still
const PATIENCE = 20_000; // ms to wait for a text

const args = process.argv.slice(2);
const flag = (name) => args.includes(name) && (args.splice(args.indexOf(name), 1), true);
const option = (name, otherwise) => {
  const at = args.indexOf(name);
  return at < 0 ? otherwise : args.splice(at, 2)[1];
};
const check = flag("--check");
const out = resolve(option("--out", here));
const { scenes } = await import(pathToFileURL(resolve(option("--scenes", join(here, "scenes.mjs")))).href);

/** Bytes a key name stands for; everything else is typed as it is. */
const keys = {
  enter: "\r", esc: "\x1b", tab: "\t", space: " ", backspace: "\x7f",
  up: "\x1b[A", down: "\x1b[B", right: "\x1b[C", left: "\x1b[D", "shift+tab": "\x1b[Z",
  home: "\x1b[H", end: "\x1b[F", pgup: "\x1b[5~", pgdown: "\x1b[6~",
};
const bytes = (key) => keys[key] ?? (/^ctrl\+[a-z]$/.test(key) ? String.fromCharCode(key.charCodeAt(5) - 96) : key);

const asset = (path) => readFileSync(require.resolve(path), "utf8").replace(/^\/\/# sourceMappingURL=.*$/gm, "");
const font = (pkg, path) => readFileSync(join(dirname(require.resolve(`${pkg}/package.json`)), path)).toString("base64");

/** The page: everything inlined, nothing is fetched. */
function html() {
  const face = (family, weight, mime, data) =>
    `@font-face{font-family:"${family}";font-weight:${weight};src:url(data:font/${mime};base64,${data})}`;
  return `<!doctype html><meta charset="utf-8"><style>${asset("@xterm/xterm/css/xterm.css")}
${face("Shot", 400, "woff2", font("jetbrains-mono", "fonts/webfonts/JetBrainsMonoNL-Regular.woff2"))}
${face("Shot", 700, "woff2", font("jetbrains-mono", "fonts/webfonts/JetBrainsMonoNL-Bold.woff2"))}
${face("Signs", 400, "ttf", font("dejavu-fonts-ttf", "ttf/DejaVuSansMono.ttf"))}
${face("Signs", 700, "ttf", font("dejavu-fonts-ttf", "ttf/DejaVuSansMono-Bold.ttf"))}
body{margin:0} #frame{display:inline-block;padding:${PADDING}px} .xterm-viewport{overflow:hidden!important}
</style><div id="frame"><div id="term"></div></div>
<script>${asset("@xterm/xterm/lib/xterm.js")}</script>
<script>${asset("@xterm/addon-webgl/lib/addon-webgl.js")}</script>
<script>${asset("@xterm/addon-unicode11/lib/addon-unicode11.js")}</script>`;
}

/** Runs in the page: opens the terminal. Its answers to queries go back through reply(). */
async function open(cols, rows, theme) {
  await Promise.all(['400 14px "Shot"', '700 14px "Shot"', '400 14px "Signs"', '700 14px "Signs"'].map((f) => document.fonts.load(f, "A→")));
  document.body.style.background = theme.background;
  document.getElementById("frame").style.background = theme.background;
  const term = new Terminal({
    cols, rows, theme, allowProposedApi: true, fontFamily: '"Shot","Signs",monospace', fontSize: 14, lineHeight: 1.15,
    fontWeight: 400, fontWeightBold: 700, cursorBlink: false, scrollback: 0, drawBoldTextInBrightColors: false, minimumContrastRatio: 1,
  });
  term.loadAddon(new Unicode11Addon.Unicode11Addon());
  term.unicode.activeVersion = "11";
  term.open(document.getElementById("term"));
  try { term.loadAddon(new WebglAddon.WebglAddon(true)); } catch { /* the DOM renderer draws the same screen */ }
  term.onData((data) => window.reply(data));
  window.feed = (base64) => new Promise((done) => term.write(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)), done));
  window.screenText = () => Array.from({ length: rows }, (_, y) => term.buffer.active.getLine(y)?.translateToString(true) ?? "");
  window.settle = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}

// The pictures show no name of the machine they were made on, where it can be helped.
const elsewhere = spawnSync("unshare", ["--uts", "hostname", "batch-2"]).status === 0
  ? ["unshare", "--uts", "sh", "-c", 'hostname batch-2 && exec "$0" "$@"'] : [];

/** Plays one scene and returns its screen as text and, unless checking, as a PNG. */
async function play(browser, pty, scene) {
  const { cols, rows } = scene.size;
  const page = await browser.newPage();
  await page.setViewport({ width: 2000, height: 1600, deviceScaleFactor: 0 });
  await page.setContent(html());

  const home = mkdtempSync(join(tmpdir(), "indoubt-shot-"));
  // The shell sees nothing of who makes the picture.
  const env = {
    PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, "state"), XDG_CONFIG_HOME: join(home, "config"), TMPDIR: home,
    TERM: "xterm-256color", COLORTERM: "truecolor", LANG: "C.UTF-8", TZ: "Europe/Berlin", ...scene.env,
  };
  let child, fed = Promise.resolve(), last = Date.now(), ended = false;
  await page.exposeFunction("reply", (data) => child && !ended && child.write(data));
  await page.evaluate(open, cols, rows, themes[scene.theme ?? "dark"]);
  const [file, ...argv] = [...elsewhere, ...scene.command];
  child = pty.spawn(file, argv, { cols, rows, cwd: scene.dir ?? root, env, name: env.TERM, encoding: null });
  child.onData((data) => {
    last = Date.now();
    const base64 = Buffer.from(data).toString("base64");
    fed = fed.then(() => page.evaluate((b) => window.feed(b), base64)).catch(() => {});
  });
  child.onExit(() => { ended = true; });

  const screen = async () => (await fed, page.evaluate(() => window.screenText()));
  const until = async (what, happened) => {
    for (const begun = Date.now(); !(await happened()); await new Promise((r) => setTimeout(r, 25))) {
      if (Date.now() - begun > PATIENCE) throw new Error(`${scene.name}: waited for ${what} in vain; the screen was:\n${(await screen()).join("\n")}`);
    }
  };
  const text = async (wanted) => until(String(wanted), async () => {
    const all = (await screen()).join("\n");
    return wanted instanceof RegExp ? wanted.test(all) : all.includes(wanted);
  });
  const quiet = async () => until("a quiet screen", () => Date.now() - last > QUIET);

  try {
    // A step is a text to wait for {see}, a pause {rest} in ms, or keys to press.
    for (const step of scene.steps) {
      if (step.see !== undefined) await text(step.see);
      else if (step.rest !== undefined) await new Promise((r) => setTimeout(r, step.rest));
      else for (const key of [step.press].flat()) { await quiet(); child.write(bytes(key)); last = Date.now(); }
    }
    await quiet();
    await fed;
    const lines = (await screen()).map((line) => line.trimEnd());
    let png;
    if (!check) {
      await page.evaluate(() => window.settle());
      png = Buffer.from(await (await page.$("#frame")).screenshot({ type: "png" }));
    }
    return { text: lines.join("\n") + "\n", png };
  } finally {
    if (!ended) child.kill("SIGKILL");
    await page.close();
    rmSync(home, { recursive: true, force: true });
  }
}

/** True when both pictures have the same pixels, whatever their bytes. */
function samePicture(PNG, path, png) {
  if (!existsSync(path)) return false;
  const [a, b] = [PNG.sync.read(readFileSync(path)), PNG.sync.read(png)];
  return a.width === b.width && a.height === b.height && a.data.equals(b.data);
}

const puppeteer = (await load("puppeteer-core")).default;
const pty = require("@lydell/node-pty");
const { PNG } = require("pngjs");
const chromium = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((p) => p && existsSync(p))
  ?? spawnSync("sh", ["-c", "command -v chromium || command -v google-chrome"], { encoding: "utf8" }).stdout.trim();
if (!chromium) {
  console.error("no chromium found: install it, or name it in CHROMIUM");
  process.exit(1);
}
const browser = await puppeteer.launch({
  executablePath: chromium,
  headless: true,
  args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-quic", "--no-first-run", "--disable-default-apps", "--disable-extensions", "--font-render-hinting=none", "--force-device-scale-factor=2", "--force-color-profile=srgb"],
});
let failed = 0;
mkdirSync(out, { recursive: true });
const chosen = scenes.filter((s) => args.length === 0 || args.includes(s.name));
if (chosen.length === 0) {
  console.error(`no such scene; there are: ${scenes.map((s) => s.name).join(" ")}`);
  failed = 1;
}
try {
  for (const scene of chosen) {
    try {
      const made = await play(browser, pty, scene);
      const path = join(out, scene.name);
      if (check) {
        const same = existsSync(`${path}.txt`) && readFileSync(`${path}.txt`, "utf8") === made.text;
        console.log(`${same ? "same   " : "DIFFERS"} ${scene.name}`);
        failed += same ? 0 : 1;
        continue;
      }
      writeFileSync(`${path}.txt`, made.text);
      const changed = !samePicture(PNG, `${path}.png`, made.png);
      if (changed) writeFileSync(`${path}.png`, made.png);
      console.log(`${changed ? "made" : "same"} ${scene.name}`);
    } catch (err) {
      failed++;
      console.error(String(err.message ?? err));
    }
  }
} finally {
  await browser.close();
}
process.exit(failed ? 1 : 0);
