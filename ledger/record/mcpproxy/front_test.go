package mcpproxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record/mcpproxy"
	"indoubt/ledger/wire/mcpwire"
)

// several are scripted servers of those names behind a front, each in a world that has
// its files apart and the ledger in common. mode is of the one named.
func (w *world) several(mode map[string]string, names ...string) (worlds map[string]*world, servers []mcpproxy.Named) {
	worlds = map[string]*world{}
	for _, name := range names {
		own := *w
		own.journal, own.effects, own.mode = filepath.Join(w.dir, name+".journal"), filepath.Join(w.dir, name+".effects"), mode[name]
		o := own.options()
		o.Server, o.Scope = name, "mcp:"+name
		worlds[name], servers = &own, append(servers, mcpproxy.Named{Name: name, Options: o})
	}
	return worlds, servers
}

const frontPatience = 2 * time.Second

func (w *world) front(servers []mcpproxy.Named) *client {
	return w.clientOf(func(ctx context.Context, in io.Reader, out io.Writer) error {
		f := mcpproxy.NewFront(in, out, "1", func(line string) { w.Log(line) }, servers)
		f.Patience = frontPatience
		f.Run(ctx)
		return nil
	})
}

// answerTo is the answer with this id, whatever comes before it.
func (c *client) answerTo(id string) answer {
	c.Helper()
	for {
		line := c.hear()
		if a := parseAnswer(c, line); string(a.ID) == id && !strings.Contains(line, `"method"`) {
			return a
		}
	}
}

func (c *client) begin() answer {
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	a := c.answerTo("0")
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

// listing is every page of a list.
func (c *client) listing(method, member string) (items []string, pages int) {
	c.Helper()
	for cursor := ""; ; pages++ {
		id, params := fmt.Sprintf(`"%s%d"`, method, pages), "{}"
		if cursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
		var page struct{ Result map[string]json.RawMessage }
		need.OK(c, json.Unmarshal([]byte(c.answerTo(id).line), &page))
		var list []struct{ Name, URI string }
		need.OK(c, json.Unmarshal(page.Result[member], &list))
		for _, item := range list {
			items = append(items, item.Name+item.URI)
		}
		cursor = ""
		_ = json.Unmarshal(page.Result["nextCursor"], &cursor)
		if cursor == "" {
			return items, pages + 1
		}
	}
}

// The tools of several servers are told apart by their names; each call is of the kind and
// scope that it has behind a proxy of its server alone.
func TestSeveralServersAreOne(t *testing.T) {
	w := newWorld(t)
	worlds, servers := w.several(nil, "a", "a__b")
	c := w.front(servers)
	need.Contains(t, c.begin().line, `"name":"indoubt"`)
	tools, pages := c.listing("tools/list", "tools")
	need.Equal(t, strings.Join(tools, " "), "a__put a__silent a__pay a__b__put a__b__silent a__b__pay a__get a__b__get indoubt_status")
	need.Equal(t, pages, 2)
	for i, tool := range []string{"a__put", "a__b__put", "a__b__get"} {
		c.ask(fmt.Sprint(i+1), tool, `{"x":1}`).wantDone(t, tool[strings.LastIndex(tool, "_")+1:])
	}
	var kinds []string
	for _, o := range w.operations() {
		kinds = append(kinds, o.Kind+" "+o.Scope+" "+string(o.State))
	}
	need.Equal(t, strings.Join(kinds, ", "), "mcp.a.put mcp:a committed, mcp.a__b.put mcp:a__b committed")
	worlds["a"].wantEffects(1)
	worlds["a__b"].wantEffects(1)

	for _, name := range []string{"put", "x__put", "indoubt_status_a"} {
		need.Contains(t, c.ask("9", name, `{}`).line, "not known here")
	}
	for _, c2 := range []struct{ line, said string }{
		{`{"jsonrpc":"2.0","id":20,"method":"ping"}`, `"result":{}`},
		{`{"jsonrpc":"2.0","id":20,"method":"what/ever"}`, "-32601"},
		{`{"jsonrpc":"2.0","id":20,"method":"initialize","params":{}}`, "begun already"},
		{`{"jsonrpc":"2.0","id":20,"method":"tools/list","params":{"cursor":"?"}}`, "-32602"},
		{`{"jsonrpc":"2.0","id":20,"method":"tasks/get","params":{"taskId":"t-9"}}`, "no task of this id"},
		{`{"jsonrpc":"2.0","id":20,"method":"tools/call","params":{"name":"a__put","name":"a__pay"}}`, "occurs twice"},
		{`[{"jsonrpc":"2.0","id":20,"method":"ping"}]`, "a batch is not taken"},
		{`{"id":20}`, "not a JSON-RPC message"},
		{`nonsense`, "not a JSON-RPC message"},
	} {
		c.say(c2.line)
		need.Contains(t, c.hear(), c2.said)
	}
	need.OK(t, c.leave())
}

// A tool whose name would lead to another server is not offered.
func TestSeveralServersOneNameIsOneServers(t *testing.T) {
	w := newWorld(t)
	_, servers := w.several(nil, "a", "a__b")
	for i, tools := range []string{`{"name":"b__put"},{"name":"put"}`, `{"name":"put"}`} {
		servers[i].Connect = func(context.Context) (mcpwire.Conn, error) {
			return newFake(func(f *fake, line []byte) {
				if asked := mcpwire.Parse(line); asked.Kind == mcpwire.Request {
					f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"capabilities":{"tools":{}},"tools":[%s]}}`+"\n", asked.ID, tools)
				}
			}), nil
		}
	}
	c := w.front(servers)
	c.begin()
	tools, _ := c.listing("tools/list", "tools")
	need.Equal(t, strings.Join(tools, " "), "a__put a__b__put indoubt_status")
	need.OK(t, c.leave())
}

// A lost answer is held back as behind a proxy alone, and the tool that it names is there.
func TestI2_SeveralServersALostAnswer(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Deadline = 5 * time.Second
		_, servers := w.several(nil, "a", "b")
		c := w.front(servers)
		c.begin()
		lost := c.unanswered("1", "b__silent", `{"x":1}`)
		need.Contains(t, lost.line, "ask the tool indoubt_status with operation")
		again := c.ask("2", "b__silent", `{"x":1}`)
		again.wantOutcome(t, "unknown")
		need.Equal(t, again.Result.StructuredContent.Operation, lost.Result.StructuredContent.Operation)
		need.Equal(t, c.ask("3", "indoubt_status", `{}`).Result.StructuredContent.Operations[0].Kind, "mcp.b.silent")
		c.ask("4", "a__put", `{}`).wantDone(t, "put")
		need.OK(t, c.leave())
	})
}

// One that ends under a call leaves that call in doubt and the others alone, and comes
// back with the next call.
func TestI10_OneOfSeveralServersEnds(t *testing.T) {
	w := newWorld(t)
	worlds, servers := w.several(nil, "a", "b")
	c := w.front(servers)
	c.begin()
	c.listing("tools/list", "tools")
	c.call("1", "a__slow", `{}`)
	c.call("2", "b__die_after", `{}`)
	c.answerTo("2").wantOutcome(t, "unknown")
	tools, _ := c.listing("tools/list", "tools")
	need.Contains(t, strings.Join(tools, " "), "b__put")
	worlds["a"].release()
	c.answerTo("1").wantDone(t, "slow")
	w.eventually("it is started again", func() bool {
		c.call("4", "b__put", `{}`)
		return c.answerTo("4").Error == nil
	})
	c.call("5", "b__die_after", `{}`)
	c.answerTo("5").wantOutcome(t, "unknown")
	worlds["b"].wantEffects(2) // die_after once, put once
	need.OK(t, c.leave())
	for _, o := range w.operations() {
		if o.Kind == "mcp.b.die_after" {
			w.wantState(o, ledger.Uncertain)
		} else {
			w.wantState(o, ledger.Committed)
		}
	}
}

// One that says nothing, and one that cannot be started, hold the others up for a moment
// at most.
func TestOneOfSeveralServersIsSlow(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		_, servers := w.several(map[string]string{"deaf": "deaf", "mute": "mute"}, "a", "deaf", "mute", "none")
		servers[3].Connect = func(context.Context) (mcpwire.Conn, error) { return nil, errors.New("no such command") }
		c := w.front(servers)
		need.Contains(t, c.begin().line, `"protocolVersion":"2025-11-25"`)
		for range 2 {
			tools, _ := c.listing("tools/list", "tools")
			need.Equal(t, strings.Join(tools, " "), "a__put a__silent a__pay a__get indoubt_status")
		}
		c.call("1", "a__put", `{}`)
		c.answerTo("1").wantDone(t, "put")
		c.call("2", "none__put", `{}`)
		need.Contains(t, c.answerTo("2").line, "no such command", "not sent: the MCP server none is not there")
		c.call("3", "deaf__put", `{}`) // is held, and nothing of it is recorded
		c.call("4", "a__put", `{"x":2}`)
		c.answerTo("4").wantDone(t, "put")
		need.Equal(t, len(w.operations()), 2)
		need.OK(t, c.leave())
	})
}

// A call that is held for a server that ends before it takes up a session is held for the
// next start, and answered where that ends, too.
func TestOneOfSeveralServersEndsAgainAndAgain(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		_, servers := w.several(map[string]string{"brief": "brief"}, "a", "brief")
		c := w.front(servers)
		c.begin()
		c.call("1", "brief__put", `{}`)
		need.Contains(t, c.answerTo("1").line, "not sent: the MCP server brief is not there")
		need.Equal(t, len(w.operations()), 0)
		need.OK(t, c.leave())
	})
}

// One that could not be started is started again by a later call, for a client that opens
// no session too.
func TestOneOfSeveralServersIsNotThereYet(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		worlds, servers := w.several(nil, "a", "b")
		var there atomic.Bool
		servers[0].Connect = func(ctx context.Context) (mcpwire.Conn, error) {
			if !there.Load() {
				return nil, errors.New("no such command")
			}
			return worlds["a"].server(ctx)
		}
		c := w.front(servers)
		need.Contains(t, c.ask("1", "a__put", `{}`).line, "not sent: the MCP server a is not there (no such command). A later call of it starts it again")
		there.Store(true)
		w.eventually("it is started", func() bool { return c.ask("2", "a__put", `{}`).Error == nil })
		worlds["a"].wantEffects(1)
		need.OK(t, c.leave())
	})
}

// Ids and tokens of servers are told apart: an answer goes to the one that asked. Those of
// the client belong to one request at a time.
func TestSeveralServersIdsAreApart(t *testing.T) {
	w := newWorld(t)
	worlds, servers := w.several(map[string]string{"a": "asks", "b": "asks"}, "a", "b")
	c := w.front(servers)
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	asked := map[string]bool{}
	for len(asked) < 2 {
		var f struct {
			ID     json.RawMessage
			Method string
		}
		need.OK(t, json.Unmarshal([]byte(c.hear()), &f))
		if f.Method == "roots/list" {
			asked[string(f.ID)] = true
			c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"for":%s}}`, f.ID, f.ID))
		}
	}
	for name, own := range worlds {
		at := map[string]string{"a": "0", "b": "1"}[name]
		own.eventually("its answer has come", func() bool { return strings.Contains(own.fromClient(), `"for"`) })
		need.Contains(t, own.fromClient(), `{"jsonrpc":"2.0","id":0,"result":{"for":"indoubt:`+at+`:1:0"}}`)
	}
	for _, id := range []string{`"indoubt:1:7:0"`, `"indoubt:9:1:0"`, `"indoubt:-1:1:0"`, `"other"`, "0"} { // of none
		c.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"for":"none"}}`)
	}
	c.call("1", "a__slow", `{}`)
	w.eventually("it is sent", func() bool { return len(effectsIn(t, worlds["a"].effects)) == 1 })
	c.call("1", "b__put", `{}`)
	need.Contains(t, c.answerTo("1").line, "still outstanding")
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	c.call("2", "b__task", `{}`)
	need.Equal(t, c.answerTo("2").Result.Task.TaskID, "t-1")
	c.say(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t-1"}}`)
	need.Contains(t, c.answerTo("3").line, `"status":"working"`)
	worlds["a"].release()
	w.eventually("a cancelled call is recorded to its end", func() bool {
		for _, o := range w.operations() {
			if o.Kind == "mcp.a.slow" {
				return o.State == ledger.Committed
			}
		}
		return false
	})
	need.That(t, !strings.Contains(worlds["a"].fromClient(), "tasks/get") && !strings.Contains(worlds["b"].fromClient(), `"none"`), "b heard %s", worlds["b"].fromClient())
	need.OK(t, c.leave())
}

// Prompts go by name, resources by who has listed them, else by who has them.
func TestSeveralServersPromptsAndResources(t *testing.T) {
	w := newWorld(t)
	heard := map[string][]string{}
	var mu sync.Mutex
	var servers []mcpproxy.Named
	for _, name := range []string{"a", "b"} {
		o := w.options()
		o.Server, o.Scope = name, "mcp:"+name
		o.Connect = func(context.Context) (mcpwire.Conn, error) {
			return newFake(func(conn *fake, line []byte) {
				f, result := mcpwire.Parse(line), ""
				switch f.Method {
				case "initialize":
					result = `{"protocolVersion":"2025-06-18","capabilities":{"prompts":{},"completions":{},"resources":{"subscribe":` + fmt.Sprint(name == "b") + `}},"serverInfo":{"name":"x","version":"1"},"instructions":"Mind ` + name + `."}`
				case "prompts/list":
					result = `{"prompts":[{"name":"greet"}]}`
				case "resources/list":
					result = `{"resources":[{"uri":"file:///` + name + `"},{"uri":"file:///both"}]}`
				case "resources/read":
					mu.Lock()
					heard[name] = append(heard[name], string(f.Params["uri"]))
					mu.Unlock()
					if string(f.Params["uri"]) == `"made:of-b"` && name == "a" {
						conn.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"none"}}`+"\n", f.ID)
						return
					}
					result = `{"of":"` + name + `"}`
				case "prompts/get", "completion/complete":
					result = `{"of":"` + name + `","asked":` + string(f.Members["params"]) + `}`
				default:
					return
				}
				conn.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", f.ID, result)
			}), nil
		}
		servers = append(servers, mcpproxy.Named{Name: name, Options: o})
	}
	c := w.front(servers)
	hello := c.begin().line
	need.Contains(t, hello, `"subscribe":true`)
	need.Contains(t, hello, "Of the tools that begin with b__: Mind b.")
	prompts, _ := c.listing("prompts/list", "prompts")
	need.Equal(t, strings.Join(prompts, " "), "a__greet b__greet")
	resources, _ := c.listing("resources/list", "resources")
	need.Equal(t, strings.Join(resources, " "), "file:///a file:///both file:///b file:///both")
	for _, q := range []struct{ method, params, said string }{
		{"prompts/get", `{"name":"b__greet"}`, `"of":"b","asked":{"name":"greet"}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"b__greet"}}`, `"of":"b","asked":{"ref":{"type":"ref/prompt","name":"greet"}}`},
		{"resources/read", `{"uri":"file:///b"}`, `"of":"b"`},
		{"resources/read", `{"uri":"made:of-b"}`, `"of":"b"`},
		{"resources/read", `{"uri":"file:///both"}`, `"of":"a"`},
		{"logging/setLevel", `{"level":"info"}`, "no server that is there"},
	} {
		c.say(`{"jsonrpc":"2.0","id":7,"method":"` + q.method + `","params":` + q.params + `}`)
		need.Contains(t, c.answerTo("7").line, q.said)
	}
	mu.Lock()
	defer mu.Unlock()
	need.Equal(t, strings.Join(heard["a"], " "), `"made:of-b" "file:///both"`, "a is asked what b alone has listed")
}

// I11: a line of the client's stays one line, whatever its marks say.
func TestI11_SeveralServersAnIdIsNoLine(t *testing.T) {
	w := newWorld(t)
	worlds, servers := w.several(nil, "a", "b")
	c := w.front(servers)
	c.begin()
	inside := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"put","arguments":{"x":1}}}`
	for life := range 3 {
		mark := string(need.Get(json.Marshal(fmt.Sprintf("indoubt:0:%d:[\n%s\n]", life, inside)))(t))
		c.say(`{"jsonrpc":"2.0","id":` + mark + `,"result":{}}`)
		c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + mark + `,"progress":1}}`)
	}
	c.ask("8", "a__put", `{"x":2}`).wantDone(t, "put")
	worlds["a"].wantEffects(1)
	need.Equal(t, len(w.operations()), 1)
}
