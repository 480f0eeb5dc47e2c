package clients

import (
	"fmt"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// What a file of servers says of each is what install makes of it, and what was put
// behind indoubt is what it was before.
func TestEntries(t *testing.T) {
	d := newDesk(t, `{ // comments too
  "mcpServers": {
    "mem": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": { "FILE": "${env:HERE}/m", "B": "${B:-usual}" } },
    "tracker": { "type": "http", "url": "https://mcp.example.com/${B:-mcp}", "headers": { "Authorization": "Bearer ${TOKEN}" } },
    "local": { "command": "${workspaceFolder}/bin/serve", "cwd": "sub" },
    "off": { "command": "a", "disabled": true },
    "old": { "type": "sse", "url": "http://h/sse" },
    "asks": { "command": "a", "env": { "T": "${input:token}" } },
    "lacks": { "command": "a", "args": ["${LACKING}"] },
    "odd": { "command": "a", "args": [1] },
    "both": { "command": "a", "url": "http://h" },
    "none": {},
    "self": { "command": "indoubt", "args": ["mcp", "--servers", ".mcp.json"] },
  },
  "projects": { "/elsewhere": { "mcpServers": { "theirs": { "command": "other" } } } },
}`)
	env := func(name string) string { return map[string]string{"HERE": "/here", "TOKEN": "t0k"}[name] }
	read := func() map[string]Entry {
		all := map[string]Entry{}
		for _, e := range need.Get(d.Entries(d.path, wrapping.Known, env))(t) {
			all[e.Name] = e
		}
		return all
	}
	plain := read()
	need.Equal(t, len(plain), 10)
	for name, want := range map[string]string{
		"mem":     "memory [npx -y @modelcontextprotocol/server-memory] " + d.Dir + " [FILE=/here/m B=usual]  map[]",
		"tracker": "tracker [] " + d.Dir + " [] https://mcp.example.com/mcp map[Authorization:Bearer t0k]",
		"local":   "local [" + d.Dir + "/sub/bin/serve] " + d.Dir + "/sub []  map[]",
	} {
		e := plain[name]
		need.That(t, e.Err == nil, "%s: %v", name, e.Err)
		need.Equal(t, fmt.Sprint(e.Server, " ", e.Command, " ", e.Dir, " ", e.Env, " ", e.URL, " ", e.Headers), want)
	}
	for name, why := range map[string]string{"old": "sse", "asks": "${input:token}", "lacks": "LACKING is not set", "odd": "form", "both": "form", "none": "neither", "self": "by hand"} {
		need.That(t, plain[name].Err != nil && strings.Contains(plain[name].Err.Error(), why), "%s: %v", name, plain[name].Err)
	}
	p := d.install(wrapping, "mem", "tracker")
	for _, o := range p.Servers {
		need.That(t, o.Scope == plain[o.Name].Scope && o.Server() == plain[o.Name].Server, "%s: %v is not %v", o.Name, o, plain[o.Name])
	}
	for name, e := range read() {
		need.Equal(t, fmt.Sprint(e), fmt.Sprint(plain[name]), name)
	}
}
