package clients

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tailscale/hujson"

	"indoubt/ledger/need"
)

// desk is a person's files.
type desk struct {
	*testing.T
	System
	path string
}

func newDesk(t *testing.T, text string) *desk {
	dir := t.TempDir()
	d := &desk{T: t, System: System{Home: dir, Dir: filepath.Join(dir, "project")}, path: filepath.Join(dir, "project", ".mcp.json")}
	need.OK(t, os.Mkdir(d.Dir, 0o755))
	d.put(text)
	return d
}

func (d *desk) put(text string) {
	d.Helper()
	need.OK(d, os.WriteFile(d.path, []byte(text), 0o640))
}

func (d *desk) text() string { return string(need.Get(os.ReadFile(d.path))(d)) }

var wrapping = Wrapping{Program: "/opt/bin/indoubt", Flags: []string{"--ledger", "/l.db"}, Known: func(word string) string {
	return map[string]string{"@modelcontextprotocol/server-memory": "memory"}[word]
}}

func (d *desk) install(w Wrapping, names ...string) *Plan {
	d.Helper()
	p := need.Get(d.Install(d.path, w, names))(d)
	if p.Changed() {
		need.OK(d, p.Write())
	}
	return p
}

func (d *desk) uninstall(names ...string) *Plan {
	d.Helper()
	p := need.Get(d.Uninstall(d.path, names))(d)
	if p.Changed() {
		need.OK(d, p.Write())
	}
	return p
}

// starts is what a client would start: the entry of that name, as it reads it.
func (d *desk) starts(name string) string {
	d.Helper()
	plain := need.Get(hujson.Standardize([]byte(strings.TrimPrefix(d.text(), "\ufeff") + "\n")))(d)
	type entry struct {
		Type, Command, URL string
		Args               []string
		Env, Headers       map[string]string
	}
	var c struct {
		MCPServers, Servers map[string]entry
		Projects            map[string]struct{ MCPServers map[string]entry }
	}
	need.OK(d, json.Unmarshal(plain, &c))
	all := []map[string]entry{c.MCPServers, c.Servers}
	for _, p := range c.Projects {
		all = append(all, p.MCPServers)
	}
	for _, servers := range all {
		if e, ok := servers[name]; ok {
			return strings.Join(slices.DeleteFunc(append([]string{e.Type, e.URL, e.Command}, e.Args...), func(w string) bool { return w == "" }), " ")
		}
	}
	d.Fatalf("no %s in %s", name, d.text())
	return ""
}

// configs are what clients read, in many spellings: `s` is the entry that is looked at,
// beside one whose transport indoubt does not speak.
var configs = map[string]struct{ text, want string }{
	"one line":          {`{"mcpServers":{"s":{"command":"npx","args":["-y","@modelcontextprotocol/server-memory"]}}}`, "--server memory --scope s -- npx -y @modelcontextprotocol/server-memory"},
	"no args":           {"{\n  \"mcpServers\": {\n    \"s\": {\n      \"command\": \"./srv\"\n    }\n  }\n}\n", "--server s -- ./srv"},
	"empty args":        {`{"mcpServers":{"s":{"args":[],"command":"srv"}}}`, "--server s -- srv"},
	"args in lines":     {"{\n\t\"mcpServers\": {\n\t\t\"s\": {\n\t\t\t\"args\": [\n\t\t\t\t\"a b\",\n\t\t\t\t\"--\"\n\t\t\t],\n\t\t\t\"command\": \"srv\"\n\t\t}\n\t}\n}", "--server s -- srv a b --"},
	"comments":          {"// ours\n{ /* x */ \"servers\": { // here\n \"s\": { \"type\": \"stdio\", /* y */ \"command\": /* z */ \"srv\", \"args\": [ // first\n \"a\", /* b */ \"c\", ], }, }, }\n// end", "stdio --server s -- srv a c"},
	"CRLF and a mark":   {"\ufeff{\r\n  \"servers\": {\r\n    \"s\": {\r\n      \"command\": \"srv\",\r\n      \"args\": [\r\n        \"a\"\r\n      ]\r\n    }\r\n  }\r\n}\r\n", "--server s -- srv a"},
	"headers alike":     {`{"mcpServers":{"s":{"type":"http","url":"https://h/mcp","headers":{"X-A":"1","X_A":"2"}}}}`, "stdio --server s --url https://h/mcp --header-env X-A=INDOUBT_HEADER_X_A --header-env X_A=INDOUBT_HEADER_X_A_"},
	"a URL":             {`{"mcpServers":{"s":{"type":"http","url":"https://h/mcp","headers":{"Authorization":"Bearer x","X-Team":"${TEAM}"}}}}`, "stdio --server s --url https://h/mcp --header-env Authorization=INDOUBT_HEADER_AUTHORIZATION --header-env X-Team=INDOUBT_HEADER_X_TEAM"},
	"a URL and no more": {"{\"servers\":{\n  \"s\": {\n    // far away\n    \"url\": \"https://h/mcp\"\n  }\n}}", "--server s --url https://h/mcp"},
	"a person's file":   {`{"numStartups": 7, "projects": {"/home/ada/a": {"allowedTools": [], "mcpServers": {"s": {"type":"stdio","command":"uvx","args":["mcp-server-git"],"env":{}}}}}}`, "stdio --server s -- uvx mcp-server-git"},
	"a strange name":    {`{"mcpServers":{"s":{"command":"srv","args":["\u00e4\\\"<"]},"my / ~server":{"command":"x"}}}`, `--server s -- srv ä\"<`},
}

func TestInstallAndBack(t *testing.T) {
	for name, c := range configs {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, c.text)
			plain := d.starts("s")
			need.That(t, d.install(wrapping).Servers[0].Changes, "nothing changes")
			got := d.starts("s")
			want := strings.Replace(c.want, "--server", "/opt/bin/indoubt mcp --ledger /l.db --server", 1)
			need.Equal(t, got, want)
			once := d.text()
			need.That(t, !d.install(wrapping).Changed(), "a second install changes something")

			// What a person writes elsewhere stays, and our entries start what they did.
			begin := strings.IndexByte(once, '{') + 1
			d.put(once[:begin] + " \"mine\": 1,\n" + once[begin:])
			d.uninstall()
			need.Equal(t, d.starts("s"), plain)
			need.Contains(t, d.text(), ` "mine": 1,`)
		})
	}
}

func TestAChangedEntryIsUndoneByFields(t *testing.T) {
	d := newDesk(t, `{"mcpServers": {"s": {"command": "npx", "args": ["-y", "pkg"]}}}`)
	d.install(wrapping)
	d.put(strings.Replace(d.text(), `"pkg"`, `"pkg@2", "--fast"`, 1))
	need.Equal(t, d.starts("s"), "/opt/bin/indoubt mcp --ledger /l.db --server s -- npx -y pkg@2 --fast")
	d.uninstall()
	need.Equal(t, d.text(), `{"mcpServers": {"s": {"command": "npx", "args": ["-y", "pkg@2", "--fast"]}}}`)
}

// What a person gave indoubt in the environment is not sent to the server as a header.
func TestAnEnvironmentForIndoubtIsNoHeader(t *testing.T) {
	text := `{"mcpServers": {"s": {"url": "https://h/mcp", "headers": {"A": "1", "B": "2"}}}}`
	for _, put := range []string{`"env": {"X": "/x", "Y": "/y", `, `"env": {"X": "/x", `} {
		d := newDesk(t, text)
		d.install(wrapping)
		d.put(strings.Replace(strings.Replace(d.text(), `"env": {`, put, 1), `"2"}`, `"2", "P": "/p", "Q": "/q"}`, 1))
		d.uninstall()
		need.Equal(t, d.text(), text)
	}
}

func TestOneOfSeveral(t *testing.T) {
	text := `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}`
	d := newDesk(t, text)
	d.install(wrapping, "a")
	need.Equal(t, d.starts("b"), "y")
	d.install(wrapping, "b")
	d.uninstall("a")
	need.Equal(t, d.starts("a"), "x")
	d.uninstall()
	need.Equal(t, d.starts("a"), "x")
	need.Equal(t, d.starts("b"), "y")
	if _, err := d.Install(d.path, wrapping, []string{"none"}); err == nil {
		t.Error("a server that is not there was installed")
	}
}

// Entries that cannot stand behind indoubt stay, and it is said why.
func TestWhatStaysAsItIs(t *testing.T) {
	for entry, why := range map[string]string{
		`{"type":"sse","url":"https://h/sse"}`:                            "transport is sse",
		`{"url":"https://h/mcp","oauth":{"clientId":"x"}}`:                "logs in",
		`{"url":"https://login/mcp"}`:                                     "logs in",
		`{"url":"https://login/mcp","headers":{"X-Team":"a"}}`:            "logs in",
		`{"url":"https://h/mcp","headers":{"a":"b"},"env":{}}`:            "both headers and env",
		`{"url":"https://h/mcp","command":"x"}`:                           "not known",
		`{"command":"x","args":[1]}`:                                      "not known",
		`{}`:                                                              "neither",
		`{"command":"indoubt","args":["mcp","--deadline","1m","--","x"]}`: "already",
	} {
		text := `{"mcpServers":{"s":` + entry + `}}`
		d := newDesk(t, text)
		w := wrapping
		w.Login = func(url string) bool { return strings.Contains(url, "login") }
		p := d.install(w)
		need.That(t, d.text() == text && strings.Contains(p.Servers[0].Why, why), "%s: %+v", entry, p.Servers)
	}
	d := newDesk(t, `{"mcpServers":{"s":{"url":"https://login/mcp","headers":{"Authorization":"Bearer x"}}}}`)
	w := wrapping
	w.Login = func(string) bool { t.Error("asked although it has a credential"); return true }
	need.That(t, d.install(w).Changed(), "it stays")
	for _, text := range []string{"{", "[]", `{"a":1}`, `{"mcpServers":[]}`, `{"mcpServers":{"s":{"command":"a","command":"b"}}}`, `{"mcpServers":{"s":{},"s":{}}}`,
		`{"mcpServers":{"s":{"command":"a"}},"mcpServers":{"s":{"command":"a"}}}`, `{"mcp":{"servers":{}},"mcp":{"servers":{}}}`, `{"projects":{"/p":{"mcpServers":{}},"/p":{"mcpServers":{}}}}`} {
		d.put(text)
		if _, err := d.Install(d.path, wrapping, nil); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// Entries of one name are one server, in whichever file and however it is started; two
// entries of one file are two.
func TestI4_AnEntrysNameIsItsServer(t *testing.T) {
	scope := func(name, entry string) string {
		c := need.Get(Parse([]byte(`{"mcpServers":{` + string(hujson.String(name)) + `:` + entry + `}}`)))(t)
		names, err := c.Servers[0].Wrap(wrapping)
		need.OK(t, err)
		return names.Scope
	}
	memory := `{"command":"npx","args":["@modelcontextprotocol/server-memory"]}`
	need.Equal(t, scope("memory", memory), scope("memory", `{"command":"node","args":["/x/memory.js"]}`))
	seen := map[string]string{}
	for _, name := range []string{"memory", "notes", "a b", "a/b", "記憶", "記録"} {
		at := scope(name, memory)
		need.That(t, seen[at] == "", "%s and %s are one server", name, seen[at])
		seen[at] = name
	}
}

func TestTheFileIsReplacedAtOnce(t *testing.T) {
	d := newDesk(t, `{"mcpServers": {"s": {"command": "x"}}}`)
	link := filepath.Join(d.Dir, "link.json")
	need.OK(t, os.Symlink(d.path, link))
	p := need.Get(d.Install(link, wrapping, nil))(t)
	need.OK(t, p.Write())
	target, err := os.Readlink(link)
	need.That(t, err == nil && target == d.path, "the link is gone: %v", err)
	info := need.Get(os.Stat(d.path))(t)
	need.That(t, info.Mode().Perm() == 0o640, "its mode is %v", info.Mode())

	p = need.Get(d.Uninstall(d.path, nil))(t)
	d.put(d.text() + "\n")
	need.That(t, errors.Is(p.Write(), ErrChanged) && strings.HasSuffix(d.text(), "\n"), "a foreign change is overwritten")
	need.Equal(t, len(need.Get(filepath.Glob(filepath.Join(d.Dir, ".*.json.*")))(t)), 0, "a part of a file is left")
}

// What is shown of a plan has no secret in it, neither of the entry nor of its neighbours.
func TestI11_APlanShowsNoSecret(t *testing.T) {
	d := newDesk(t, `{"mcpServers": {
  "a": {"command": "x", "env": {"API_KEY": "hunter2hunter2"}},
  "b": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer sk-0123456789abcdef0123"}},
  "c": {"command": "x", "args": ["--password", "hunter3hunter3", "--token=hunter4hunter4"]},
  "odd": {"command": "x", "args": [1, "hunter7"], "env": "hunter8", "api_key": "odd"}
}}`)
	for _, plan := range []*Plan{d.install(wrapping), d.uninstall()} {
		shown := string(need.Get(json.Marshal(plan.Servers))(t))
		need.Contains(t, shown, `"name":"a"`)
		need.Lacks(t, shown, "hunter")
		need.Lacks(t, shown, "sk-0123")
	}
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct{ os, client, want string }{
		{"linux", "claude", "/p/.mcp.json /h/.claude.json /h/.config/Claude/claude_desktop_config.json"},
		{"darwin", "claude", "/p/.mcp.json /h/.claude.json /h/Library/Application Support/Claude/claude_desktop_config.json"},
		{"linux", "cursor", "/p/.cursor/mcp.json /h/.cursor/mcp.json"},
		{"linux", "code", "/p/.vscode/mcp.json /h/.config/Code/User/mcp.json /h/.config/Code - Insiders/User/mcp.json"},
	} {
		paths, ok := System{OS: c.os, Home: "/h", Dir: "/p"}.Places(c.client)
		need.That(t, ok, c.client)
		need.Equal(t, filepath.ToSlash(strings.Join(paths, " ")), c.want)
	}
}
