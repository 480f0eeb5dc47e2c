"""What the kill test writes with: an MCP server whose tool posts, and a writer in plain SQL."""
import itertools, json, os, secrets, sqlite3, sys, time, urllib.request, uuid

BASE, KEY = sys.argv[2], os.environ["E2E_KEY"]


def post(path, body):
    request = urllib.request.Request(BASE + path, json.dumps(body).encode(), {"Content-Type": "application/json", "Authorization": "Bearer " + KEY})
    with urllib.request.urlopen(request, timeout=1) as answer:
        return json.load(answer)["id"]


def server():
    """Each call of its tool is one effect; where that is not known it says so."""
    tool = {"name": "post", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}}
    for line in sys.stdin:
        asked = json.loads(line)
        answer = {"jsonrpc": "2.0", "id": asked.get("id")}
        if asked["method"] == "initialize":
            answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}}
        elif asked["method"] == "tools/list":
            answer["result"] = {"tools": [tool]}
        elif asked["method"] == "tools/call":
            try:
                answer["result"] = {"content": [{"type": "text", "text": post("/posts", asked["params"]["arguments"])}]}
            except Exception as lost:
                answer["result"] = {"content": [{"type": "text", "text": "timeout: " + repr(lost)}], "isError": True}
        else:
            continue
        print(json.dumps(answer), flush=True)


def writer():
    """Two statements an operation, and a line for each that has returned."""
    db = sqlite3.connect(os.environ["INDOUBT_LEDGER"], isolation_level=None, timeout=10)
    db.execute("PRAGMA synchronous = FULL")
    for n in itertools.count():
        id, token = str(uuid.uuid4()), "indoubt-" + secrets.token_hex(8).upper()
        request, end = {"destination": f"d{n % 20}", "currency": "usd", "amount": 700, "note": id}, time.time() + 2
        db.execute("INSERT INTO intent (id, kind, key, token, input, deadline_at, source, actor) VALUES (?, 'payout', ?, ?, ?, ?, 'sql', 'sql')",
                   (id, id, token, json.dumps(request), int(end * 1000)))
        print("begun", id, flush=True)
        if time.time() >= end:
            continue
        state, receipt, failed = "committed", "", ""
        try:
            receipt = post("/v1/payouts", {**request, "metadata": {"indoubt": token}})
        except Exception:
            state, failed = "uncertain", "timeout"
        try:
            db.execute("INSERT INTO settle (attempt, outcome, receipt, class, reason, actor) VALUES (?, ?, ?, ?, 'answered', 'sql')",
                       (id + ".1", state, receipt, failed))
        except sqlite3.IntegrityError:  # its deadline has passed, and a check was first
            continue
        if state == "committed":
            print("committed", id, flush=True)


{"server": server, "writer": writer}[sys.argv[1]]()
