package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// projects are two directories with a server, data, and links to them.
func projects(t *testing.T) (one, two string) {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"one/data", "one/sub", "two/data", "bin", "lib/node_modules/@acme/server-x/dist", "lib/node_modules/.bin",
		"Cellar/foo/1.2.3/bin", "Cellar/foo/1.2.4/bin"} {
		need.OK(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for _, file := range []string{"one/server.py", "two/server.py", "bin/srv", "lib/node_modules/@acme/server-x/dist/index.js", "Cellar/foo/1.2.3/bin/foo", "Cellar/foo/1.2.4/bin/foo"} {
		need.OK(t, os.WriteFile(filepath.Join(root, file), nil, 0o755))
	}
	for link, to := range map[string]string{"link": "one", "one/datalink": "data", "bin/linked": "srv",
		"lib/node_modules/.bin/x": "../@acme/server-x/dist/index.js", "bin/foo": "../Cellar/foo/1.2.3/bin/foo", "bin/newfoo": "../Cellar/foo/1.2.4/bin/foo"} {
		need.OK(t, os.Symlink(to, filepath.Join(root, link)))
	}
	return filepath.Join(root, "one"), filepath.Join(root, "two")
}

// A server is the same one however it is spelt.
func TestI4_SpellingsAreOneServer(t *testing.T) {
	one, two := projects(t)
	root := filepath.Dir(one)
	t.Setenv("PATH", filepath.Join(root, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	type started struct{ command, dir string }
	for what, spellings := range map[string][]started{
		"a directory": {
			{"npx -y @acme/server-x " + one + "/data", one}, {"npx -y @acme/server-x data", one}, {"npx -y @acme/server-x ./data/", one},
			{"npx -y @acme/server-x ../data", one + "/sub"}, {"npx -y @acme/server-x ../one/data", two}, {"npx -y @acme/server-x " + one + "/data/.", two},
			{"npx @acme/server-x datalink", one}, {"npx @acme/server-x " + root + "/link/data", two}, {"npx @acme/server-x@1.2.3 data", one},
			{"npx -y @acme/server-x@latest data", root + "/link"}, {"env npx -y @acme/server-x data", one}, {"/usr/bin/env npx --yes @acme/server-x data", one},
			{root + "/lib/node_modules/.bin/x data", one}, {"node " + root + "/lib/node_modules/@acme/server-x/dist/index.js data", one},
			{"/opt/node/v22/bin/node --no-warnings ../lib/node_modules/@acme/server-x/dist/index.js data", one},
		},
		"a directory behind a flag":  {{"uvx fs --root=" + one + "/data", two}, {"uvx fs==2.0 --root=./data/", one}, {"uvx -q fs --root=data", one}},
		"a directory yet to be made": {{"uvx fs " + one + "/later/deep", two}, {"uvx fs ./later/deep", root + "/link"}, {"uvx fs ../one/later/deep/", two}},
		"a script":                   {{"python3 server.py", one}, {"python -u ./server.py", one}, {"python3.12 " + one + "/server.py", root + "/link"}},
		"a project of uv":            {{"uv --directory " + one + " run server.py", two}, {"uv --directory . run server.py", one}},
		"a program":                  {{"srv " + one, one}, {root + "/bin/srv " + one, two}, {"../bin/linked .", one}},
		"a program's version":        {{"foo .", one}, {"newfoo .", one}, {root + "/Cellar/foo/1.2.3/bin/foo .", one}},
		"a URL as an argument":       {{"npx mcp-remote https://h/mcp", one}, {"npx mcp-remote https://H:443/mcp/", two}},
	} {
		first := ""
		for _, s := range spellings {
			scope := CommandScope(strings.Fields(s.command), s.dir)
			if first == "" {
				first = scope
			} else if scope != first {
				t.Errorf("%s: %q in %s is another server than %q in %s", what, s.command, s.dir, spellings[0].command, spellings[0].dir)
			}
		}
	}
	// What the server makes is the same place as before.
	before := CommandScope([]string{"uvx", "fs", "./new"}, root+"/link")
	need.OK(t, os.Mkdir(filepath.Join(one, "new"), 0o755))
	need.Equal(t, CommandScope([]string{"uvx", "fs", "new"}, one), before, "a directory is another place once it is there")
	for _, same := range []string{"HTTPS://MCP.example.com:443/mcp?team=a", "https://mcp.example.com/mcp/?team=a", "https://mcp.example.com./x/../mcp?team=a&access_token=t"} {
		need.That(t, URLScope(same) == URLScope("https://mcp.example.com/mcp?team=a"), "%s is another server", same)
	}
	need.Equal(t, URLScope("http://127.0.0.1:80/"), URLScope("http://localhost"), "this machine is another one by its address")
}

// Servers that may hold other things are never taken for one.
func TestI4_OtherPlacesAreOtherServers(t *testing.T) {
	one, two := projects(t)
	type started struct{ command, dir string }
	seen := map[string]started{}
	for _, s := range []started{
		{"npx @acme/server-x", one}, {"npx @acme/server-x", two}, // it may work on where it stands
		{"npx @acme/server-x data", one}, {"npx @acme/server-x data", two}, {"npx @acme/server-y data", one},
		{"npx @acme/server-x ./later", one}, {"npx @acme/server-x ./later", two}, {"npx @acme/server-x --root=data", one}, {"npx @acme/server-x --home=data", one},
		{"python3 server.py", one}, {"python3 server.py", two}, {"uv --directory " + one + " run server.py", two}, {"uv --directory " + two + " run server.py", two},
		{"env ACCOUNT=a npx @acme/server-x", one}, {"env ACCOUNT=b npx @acme/server-x", one}, {"npx @acme/server-x --account=a@1", one}, {"npx @acme/server-x --account=a@2", one},
		{"npx mcp-remote https://h/a", one}, {"npx mcp-remote https://h/b", one}, {"npx mcp-remote https://h:8443/a", one},
	} {
		scope := CommandScope(strings.Fields(s.command), s.dir)
		if other, taken := seen[scope]; taken {
			t.Errorf("%q in %s is taken for %q in %s", s.command, s.dir, other.command, other.dir)
		}
		seen[scope] = s
	}
	need.That(t, URLScope("https://h/a%2Fb") != URLScope("https://h/c") && URLScope("https://h/?team=a") != URLScope("https://h/?team=b"), "two URLs are one server")
}

func TestURLs(t *testing.T) {
	need.Equal(t, URLName("https://user:pw@mcp.example.com:8443/mcp?x=1"), "mcp.example.com", "called")
	same := URLScope("https://mcp.example.com/mcp?team=a")
	for _, other := range []string{"https://user:pw@mcp.example.com/mcp?team=a", "HTTPS://MCP.example.com/mcp?team=a&api_key=s3cret#x"} {
		need.That(t, URLScope(other) == same, "%s is another scope", other)
	}
	for _, other := range []string{"https://mcp.example.com/mcp?team=b", "https://mcp.example.com/other?team=a"} {
		need.That(t, URLScope(other) != same, "%s is the same scope", other)
	}
	need.That(t, CommandScope([]string{"a", "b"}, "/x") != CommandScope([]string{"a", "b"}, "/y"), "the directory does not count")
}

func TestNamesAndScopes(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"npx -y @modelcontextprotocol/server-memory", "memory"},
		{"npx @acme/mcp-server-tracker@1.2.3 --flag", "tracker"},
		{"uvx mcp-server-git --repository .", "git"},
		{"uv run --quiet weather.py", "weather"},
		{"/opt/bin/github-mcp-server stdio", "github"},
		{"node ./dist/index.js", "index"},
		{"node --import ./trace.mjs /opt/lib/node_modules/@acme/server-notes/dist/index.js", "notes"},
		{"npx -p @acme/tools notes-mcp", "notes"},
		{"node /opt/lib/node_modules/@acme/server-notes/dist/index.js", "notes"},
		{"./mcp", "mcp"},
		{"", "server"},
	} {
		need.Equal(t, CommandName(strings.Fields(c.command)), c.want, c.command)
	}
}
