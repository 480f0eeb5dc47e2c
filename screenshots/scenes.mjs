// The scenes, each a picture of README.md or of a reviewer's round through the
// console. All play in the night of seed 1, at six past three in the morning.
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const program = join(dirname(dirname(fileURLToPath(import.meta.url))), "indoubt");
const night = [program, "demo", "--seed", "1", "--at", "2026-06-09T01:06:48Z"];
const small = { cols: 80, rows: 24 };
const middle = { cols: 120, rows: 40 };
const wide = { cols: 160, rows: 48 };

// A dialog takes no key for a moment after it has opened.
const opened = { rest: 600 };
const list = [{ see: "TWICE" }, { see: "Checking 0" }, { see: "over" }, { see: "acct_7Kd" }, { rest: 800 }];
const to = (row) => ({ press: Array(row).fill("j") });

const demo = (name, size, steps, more = {}) => ({ name, size, command: night, env: { INDOUBT_ACTOR: "maya" }, steps: [...list, ...steps], ...more });

// Another ledger: made by the same program, then opened.
const own = (name, make, see) => ({
  name, size: small, env: { INDOUBT_ACTOR: "maya" }, steps: [{ see }, { rest: 800 }],
  command: ["sh", "-c", `cd "$HOME" && export INDOUBT_LEDGER="$HOME/payments.db" && ( ${make} ) >/dev/null 2>&1; exec "$0"`, program],
});

export const scenes = [
  demo("outage", middle, [to(1), { press: "enter" }, { see: "WHAT IS TRUE" }, opened]),
  demo("outage-80x24", small, [to(1), { press: "enter" }, { see: "WHAT IS TRUE" }, opened]),
  demo("queue-80x24", small, [to(1)]),
  demo("queue-120x40", middle, [to(2)]),
  demo("queue-160x48", wide, [to(2)]),
  demo("detail", middle, [to(2), { press: "enter" }]),
  demo("conflict", small, [{ press: "enter" }]),
  demo("retry-proof", small, [to(5), { press: "R" }, { see: "ALLOWED BECAUSE" }, opened]),
  demo("retry-risk", small, [to(2), { press: "R" }, { see: "WITHOUT PROOF" }, opened]),
  demo("bulk", small, [to(1), { press: ["enter"] }, { see: "WHAT IS TRUE" }, { press: "R" }, { see: "BECAUSE" }, opened]),
  demo("confirm", small, [to(2), { press: "C" }, { see: "landed" }, opened]),
  demo("actions", small, [to(2), { press: "a" }, opened]),
  demo("help", middle, [{ press: "?" }, opened]),
  demo("checking", small, [{ press: "2" }, opened]),
  demo("settled", small, [{ press: "4" }, opened]),
  demo("filter", small, [{ press: ["/", "k", "i", "n", "d", ":", "m", "a", "i", "l", "*", "enter"] }, opened]),
  demo("light", middle, [to(2)], { theme: "light" }),
  demo("no-color", small, [], { env: { INDOUBT_ACTOR: "maya", NO_COLOR: "1" } }),
  own("empty", '"$0" init', "Not an all-clear"),
  own("all-clear", 'for n in 1 2 3; do "$0" run --kind backup --key "night $n" --source nightly -- true; done', "Nothing needs you"),
];
