//go:build soak

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// mistake is a call that an agent gets wrong, what it does about it, and the call
// that it makes then: the same one where the arguments were right all along.
type mistake struct {
	name   string
	server string
	wrong  toolCall
	mend   func(w *workplace)
	right  *toolCall              // nil: the same call
	truth  func(w *workplace) int // how often the corrected call has acted
}

// workplace is what an agent works in: a directory, and a session with the server.
type workplace struct {
	*testing.T
	*conversation
	dir string
}

func (w *workplace) path(name string) string { return filepath.Join(w.dir, name) }

func (w *workplace) write(name, text string) {
	w.Helper()
	need.OK(w, os.WriteFile(w.path(name), []byte(text), 0o644))
}

// count is how often a text is in a file; none where there is no file.
func (w *workplace) count(name, text string) int {
	data, _ := os.ReadFile(w.path(name))
	return strings.Count(string(data), text)
}

func (w *workplace) run(argv ...string) string {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func (w *workplace) lines(argv ...string) int { return strings.Count(w.run(argv...), "\n") }

// commit makes a first commit, past the server.
func (w *workplace) commit() {
	w.run("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "first")
}

func mistakes(dir string) []mistake {
	at := func(name string) string { return filepath.Join(dir, name) }
	on := func(c toolCall) *toolCall { return &c }
	entityOf := func(name string) toolCall {
		return toolCall{"create_entities", object{"entities": []object{{"name": name, "entityType": "person", "observations": []string{}}}}}
	}
	edit := toolCall{"edit_file", object{"path": at("a.txt"), "edits": []object{{"oldText": "two", "newText": "three"}}}}
	move := toolCall{"move_file", object{"source": at("a.txt"), "destination": at("b.txt")}}
	commit := toolCall{"git_commit", object{"path": dir, "message": "subject"}}
	commits := func(w *workplace) int { return w.lines("git", "log", "--format=%H", "--grep=subject") }
	sh := func(command string) toolCall {
		return toolCall{"run_command", object{"command": command, "workdir": dir}}
	}
	thought := object{"thought": "x", "nextThoughtNeeded": true, "thoughtNumber": 1, "totalThoughts": 2}
	answered := func(*workplace) int { return 1 } // it leaves nothing behind that could be counted
	return []mistake{
		{"write into no directory", "filesystem", toolCall{"write_file", object{"path": at("sub/a.txt"), "content": "one"}},
			func(w *workplace) { w.call("create_directory", object{"path": at("sub")}) }, nil, func(w *workplace) int { return w.count("sub/a.txt", "one") }},
		{"edit no file", "filesystem", edit, func(w *workplace) { w.call("write_file", object{"path": at("a.txt"), "content": "one two"}) }, nil,
			func(w *workplace) int { return w.count("a.txt", "three") }},
		{"edit what is not there", "filesystem", edit, func(w *workplace) { w.write("a.txt", "one two") }, nil, func(w *workplace) int { return w.count("a.txt", "three") }},
		{"move no file", "filesystem", move, func(w *workplace) { w.write("a.txt", "one") }, nil, func(w *workplace) int { return w.count("b.txt", "one") }},
		{"move onto a file", "filesystem", toolCall{"move_file", object{"source": at("c.txt"), "destination": at("d.txt")}},
			func(w *workplace) { os.Remove(at("d.txt")) }, nil, func(w *workplace) int { return w.count("d.txt", "here") }},
		{"write outside", "filesystem", toolCall{"write_file", object{"path": "/outside.txt", "content": "one"}}, nil,
			on(toolCall{"write_file", object{"path": at("a.txt"), "content": "one"}}), func(w *workplace) int { return w.count("a.txt", "one") }},
		{"directory below a file", "filesystem", toolCall{"create_directory", object{"path": at("c.txt/sub")}},
			func(w *workplace) { os.Remove(at("c.txt")) }, nil, func(w *workplace) int { return w.lines("find", ".", "-name", "sub") }},
		{"observe nobody", "memory", toolCall{"add_observations", object{"observations": []object{{"entityName": "Ada", "contents": []string{"countess"}}}}},
			func(w *workplace) { c := entityOf("Ada"); w.call(c.tool, c.arguments) }, nil, func(w *workplace) int { return w.count("memory.jsonl", "countess") }},
		{"arguments that do not fit", "memory", toolCall{"create_entities", object{"entities": "Ada"}}, nil, on(entityOf("Ada")),
			func(w *workplace) int { return w.count("memory.jsonl", `"Ada"`) }},
		{"an argument is missing", "memory", toolCall{"create_relations", object{"relations": []object{{"from": "Ada", "to": "Bob"}}}}, nil,
			on(toolCall{"create_relations", object{"relations": []object{{"from": "Ada", "to": "Bob", "relationType": "knows"}}}}),
			func(w *workplace) int { return w.count("memory.jsonl", `"knows"`) }},
		{"no such tool", "memory", toolCall{"create_entity", object{"name": "Ada"}}, nil, on(entityOf("Ada")), func(w *workplace) int { return w.count("memory.jsonl", `"Ada"`) }},
		{"nothing to commit", "git", commit, func(w *workplace) { w.write("a.txt", "one"); w.run("git", "add", "a.txt") }, nil, commits},
		{"no such branch", "git", toolCall{"git_checkout", object{"path": dir, "target": "topic"}}, func(w *workplace) { w.commit(); w.run("git", "branch", "topic") }, nil,
			func(w *workplace) int { return strings.Count(w.run("git", "symbolic-ref", "HEAD"), "refs/heads/topic") }},
		{"no such repository", "git", toolCall{"git_commit", object{"path": at("new"), "message": "subject", "allowEmpty": true}},
			func(w *workplace) { w.run("git", "init", "-q", "new") }, nil, func(w *workplace) int { return w.lines("git", "-C", "new", "log", "--format=%H") }},
		{"a tag on nothing", "git", toolCall{"git_tag", object{"path": dir, "mode": "create", "tagName": "v1"}}, func(w *workplace) { w.commit() }, nil,
			func(w *workplace) int { return w.lines("git", "tag") }},
		{"an argument of another name", "git", toolCall{"git_add", object{"path": dir, "files": []string{"c.txt"}}}, nil,
			on(toolCall{"git_add", object{"path": dir, "paths": []string{"c.txt"}}}), func(w *workplace) int { return w.lines("git", "diff", "--cached", "--name-only") }},
		{"stage no file", "git", toolCall{"git_add", object{"path": dir, "paths": []string{"a.txt"}}}, func(w *workplace) { w.write("a.txt", "one") }, nil,
			func(w *workplace) int { return w.lines("git", "diff", "--cached", "--name-only") }},
		{"push to no remote", "git", toolCall{"git_push", object{"path": dir, "remote": "origin", "branch": "main"}},
			func(w *workplace) {
				w.commit()
				w.run("git", "init", "-q", "--bare", "far.git")
				w.run("git", "remote", "add", "origin", at("far.git"))
			}, nil,
			func(w *workplace) int { return w.lines("git", "-C", "far.git", "log", "main", "--format=%H") }},
		{"tests are red", "commands", sh("test -f fixed && echo green >>log"), func(w *workplace) { w.write("fixed", "") }, nil, func(w *workplace) int { return w.count("log", "green") }},
		{"no such directory to work in", "commands", toolCall{"run_command", object{"command": "echo green >>log", "workdir": at("sub")}},
			func(w *workplace) { os.Mkdir(at("sub"), 0o755) }, nil, func(w *workplace) int { return w.count("sub/log", "green") }},
		{"no command", "commands", toolCall{"run_command", object{}}, nil, on(sh("echo green >>log")), func(w *workplace) int { return w.count("log", "green") }},
		{"no such tool", "commands", toolCall{"run_script", object{"script": "true"}}, nil, on(sh("echo green >>log")), func(w *workplace) int { return w.count("log", "green") }},
		{"a number as text", "everything", toolCall{"get-sum", object{"a": 1, "b": "x"}}, nil, on(toolCall{"get-sum", object{"a": 1, "b": 2}}), answered},
		{"a thought without its number", "sequential-thinking", toolCall{"sequentialthinking", object{"thought": "x"}}, nil,
			on(toolCall{"sequentialthinking", thought}), answered},
	}
}

// worksIn is the command of a server that works in a directory.
func (b toolbox) worksIn(dir, server string) []string {
	script := map[string]string{
		"filesystem":          b.path("@modelcontextprotocol", "server-filesystem", "dist", "index.js"),
		"memory":              b.path("@modelcontextprotocol", "server-memory", "dist", "index.js"),
		"everything":          b.path("@modelcontextprotocol", "server-everything", "dist", "index.js"),
		"sequential-thinking": b.path("@modelcontextprotocol", "server-sequential-thinking", "dist", "index.js"),
		"git":                 b.path("@cyanheads", "git-mcp-server", "dist", "index.js"),
		"commands":            b.path("mcp-server-commands", "build", "index.js"),
	}[server]
	if server == "filesystem" {
		return []string{b.node, script, dir}
	}
	return []string{b.node, script}
}

// TestNoMistakeOfAnAgentBlocksIt: what a server refuses is called again once its cause
// is mended, in the same session and without a policy, and acts once.
func TestNoMistakeOfAnAgentBlocksIt(t *testing.T) {
	box := npm(t)
	t.Parallel()
	for _, m := range mistakes("") {
		t.Run(m.server+"/"+m.name, func(t *testing.T) {
			s := newMCPSite(t, anyPolicy)
			s.T = t
			dir := filepath.Join(s.dir, "work")
			need.OK(t, os.Mkdir(dir, 0o755))
			for _, one := range mistakes(dir) {
				if one.server == m.server && one.name == m.name {
					m = one
				}
			}
			w := &workplace{T: t, dir: dir}
			for _, name := range []string{"c.txt", "d.txt"} {
				w.write(name, map[string]string{"c.txt": "here", "d.txt": "there"}[name])
			}
			if m.name == "edit what is not there" {
				w.write("a.txt", "one")
			}
			s.env = append(s.env, "MEMORY_FILE_PATH="+w.path("memory.jsonl"), "MCP_TRANSPORT_TYPE=stdio", "MCP_LOG_LEVEL=error", "LOGS_DIR="+filepath.Join(s.dir, "logs"),
				"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
			if m.server == "git" {
				w.run("git", "init", "-q", "-b", "main")
			}
			w.conversation = s.session(proxied(m.server, box.worksIn(dir, m.server)))
			defer w.close()

			first := w.call(m.wrong.tool, m.wrong.arguments)
			if !strings.Contains(first, `"isError":true`) && !strings.Contains(first, `"error":`) || strings.Contains(first, "indoubt/outcome") {
				t.Fatalf("the mistake is answered with %s", first)
			}
			if m.mend != nil {
				m.mend(w)
			}
			right := m.wrong
			if m.right != nil {
				right = *m.right
			}
			again := w.call(right.tool, right.arguments)
			if strings.Contains(again, "repeat this call, and it is sent") { // the very same, told once
				again = w.call(right.tool, right.arguments)
			}
			if strings.Contains(again, `"isError":true`) || strings.Contains(again, `"error":`) || strings.Contains(again, "indoubt/outcome") {
				t.Errorf("the corrected call is answered with %s", again)
			}
			if n := m.truth(w); n != 1 {
				t.Errorf("it acted %d times", n)
			}
			t.Logf("%.90s … recorded: %v", strings.TrimPrefix(first, `{"result":`), s.recorded())
		})
	}
}
