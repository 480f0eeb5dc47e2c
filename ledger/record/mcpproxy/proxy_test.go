package mcpproxy_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// A tool counts as a write until the server has told its client that it only reads.
func TestI1_AToolIsAWriteUntilItIsListed(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.ask("0", "get", `{"a":1}`).wantDone(t, "get")
	w.wantState(w.only(), ledger.Committed)
	c.listTools()
	c.ask("2", "get", `{"a":2}`).wantDone(t, "get")
	need.Equal(t, len(w.operations()), 1)
	need.OK(t, c.leave())
}

func TestPolicyBeforeAnnotations(t *testing.T) {
	w := newWorld(t)
	w.rules = map[string]record.KindRule{"get": {Access: "write"}, "put": {Access: "read"}}
	c := w.client()
	c.ask("1", "put", `{}`).wantDone(t, "put")
	c.ask("2", "get", `{}`).wantDone(t, "get")
	if o := w.only(); o.Kind != "mcp.scripted.get" {
		t.Errorf("%s is recorded", o.Kind)
	}
}

// TestLinesPassAsTheyAre: nothing but the client's own bytes reaches the server,
// and nothing but the server's reaches the client.
func TestLinesPassAsTheyAre(t *testing.T) {
	w := newWorld(t)
	w.mode = "noise asks"
	c := w.client()
	need.Equal(t, c.hear(), "listening on standard input…\n", "log line")
	need.Equal(t, c.hear(), `{"jsonrpc":"2.0","id":0,"method":"roots/list"}`+"\n", "the server's request")
	said := []string{
		`{ "params":{"x":[1, 2],"é":"\u00e9"},"method" : "echo/odd","extra":{"a":1,"a":2},"id":0,"jsonrpc":"2.0"}`,
		`{"result":{"roots":[]},"jsonrpc":"2.0","id":0}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9007199254740993,"progress":0.10}}`,
		`{"jsonrpc":"2.0","id":9007199254740993,"Method":"ping","method":"echo/odd","params":null}`,
		`   `,
		`{"params":{"arguments":{"z":1,"a":12345678901234567890,"é":1.0},"name":"put","_meta":{"progressToken":0},"more":1},"method":"tools\/call","id":"1","jsonrpc":"2.0","trace":[]}`,
	}
	for i, line := range said {
		c.say(line)
		switch i {
		case 0, 3:
			id := []string{0: "0", 3: "9007199254740993"}[i]
			want := `{"result" : {"b":1, "a":{"big":12345678901234567890}, "unknown":null } , "id":` + id + `,"jsonrpc":"2.0","extra":[1,2]}` + "\n"
			need.Equal(t, c.hear(), want, "answer")
		case 5:
			want := `{"jsonrpc":"2.0","id":"1","result":{"content":[{"type":"text","text":"did put"}],"structuredContent":{"big":9007199254740993}}}` + "\n"
			need.Equal(t, c.hear(), want, "answer")
		}
	}
	// An answer to the server may overtake what is ahead of it; the rest is in order.
	got, want := w.fromClient(), strings.Join(said, "\n")+"\n"
	reordered := func(s string) string { return strings.Replace(s, said[1]+"\n", "", 1) }
	need.That(t, reordered(got) == reordered(want) && strings.Contains(got, said[1]), "the server got\n%s\nwant\n%s", got, want)
	if o := w.only(); o.State != ledger.Committed || string(o.Input) != `{"z":1,"a":12345678901234567890,"é":1.0}` {
		t.Errorf("recorded: %s %s", o.State, o.Input)
	}
}

// TestI1_NothingSlipsPast: what a lenient server could read as a call, and is not
// clearly one, is answered with an error and goes no further.
func TestI1_NothingSlipsPast(t *testing.T) {
	lines := []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"put","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"put","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"METHOD":"tools\u002fcall","params":{"name":"put","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping","params":{"name":"put","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"\u0074ools/call","params":{"name":"put","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get"},"params":{"name":"put"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get","name":"put","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get","Name":"put","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put","arguments":{"a":1,"a":2}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put","arguments":{},"ARGUMENTS":{"a":2}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","Params":{"name":"put"},"params":{"name":"get"}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put"}}]`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},[{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"put"}}]]`, // two are answered
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"put"}}`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"put"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["put"]}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put","x":NaN}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put"}} {"jsonrpc":"2.0"}`,
		"\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/c` + "\xff" + `all","params":{"name":"put"}}`,
		`{"x":` + "\r" + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put"}}` + "\r" + `}`,
		`{"jsonrpc":"2.0","id":1,`,
		`"method":"tools/call","params":{"name":"put"}}`,
	}
	w := newWorld(t)
	c := w.client()
	answers := 0
	for _, line := range lines {
		c.say(line)
		if !strings.HasPrefix(line, `{"jsonrpc":"2.0","method"`) { // a notification is answered by nobody
			answers++
		}
	}
	answers++ // the batch of two
	for range answers {
		need.Contains(t, c.hear(), `"error":{"code":-32`, "indoubt did not pass this on")
	}
	c.say(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"put","arguments":{"x":` + tooDeep + `}}}`)
	if a := c.answered("9"); a.Error == nil || !strings.Contains(a.Error.Message, "nested deeper") {
		t.Errorf("what is nested too deep is answered %s", a.line)
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	c.answered("2")
	need.Equal(t, w.fromClient(), `{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n", "the server got")
	need.Equal(t, len(w.operations()), 0, "operations")
}

func TestAnIDInUseIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.call("7", "slow", `{}`)
	w.eventually("the call is with the server", func() bool { return len(effectsIn(t, w.effects)) == 1 })
	c.say(`{"jsonrpc":"2.0","id":7.0,"method":"ping"}`)
	if a := c.answered("7.0"); a.Error == nil || a.Error.Code != -32600 {
		t.Fatalf("the id of a call in flight is taken again: %s", a.line)
	}
	w.release()
	c.answered("7").wantDone(t, "slow")
	c.say(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	need.Equal(t, c.hear(), `{"jsonrpc":"2.0","id":7,"result":{}}`+"\n", "after the answer the id is free")
}

func TestTokenEntersWhereThePolicySays(t *testing.T) {
	w := newWorld(t)
	w.rules = map[string]record.KindRule{
		"put":  {TokenInto: "metadata.indoubt"},
		"add":  {TokenAppend: "entities[0].observations"},
		"miss": {TokenAppend: "entities[3].observations"},
	}
	c := w.client()
	lines := []string{
		`{"id":1, "jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"n":12345678901234567890 , "metadata":{ "x":1.0 }},"name":"put"},"z":0}`,
		`{"id":2,"jsonrpc":"2.0","method":"tools/call","params":{"name":"add","arguments":{"entities":[{"name":"a","observations":["o" ]},{"observations":[]}]}}}`,
		`{"id":3,"jsonrpc":"2.0","method":"tools/call","params":{"name":"miss","arguments":{"entities":[]}}}`,
		`{"id":4,"jsonrpc":"2.0","method":"tools/call","params":{"name":"put"}}`,
		`{"id":5,"jsonrpc":"2.0","method":"tools/call","params":{"name":"put","arguments":{"metadata":{"indoubt":"token"}}}}`,
	}
	for i, line := range lines {
		c.say(line)
		c.answered(fmt.Sprint(i + 1))
	}
	ops := w.operations()
	need.Must(t, len(ops) == len(lines), "%d operations", len(ops))
	tok := func(i int) string { return ops[i].Token }
	want := []string{
		`{"id":1, "jsonrpc":"2.0","method":"tools/call","params":{"arguments":{"n":12345678901234567890 , "metadata":{ "x":1.0 ,"indoubt":"` + tok(0) + `"}},"name":"put"},"z":0}`,
		`{"id":2,"jsonrpc":"2.0","method":"tools/call","params":{"name":"add","arguments":{"entities":[{"name":"a","observations":["o" ,"` + tok(1) + `"]},{"observations":[]}]}}}`,
		lines[2],
		`{"id":4,"jsonrpc":"2.0","method":"tools/call","params":{"name":"put","arguments":{"metadata":{"indoubt":"` + tok(3) + `"}}}}`,
		lines[4], // its place is taken, and nobody else's text gives way
	}
	if got := w.fromClient(); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("the server got\n%swant\n%s", got, strings.Join(want, "\n"))
	}
	for i, sent := range []bool{true, true, false, true, false} {
		if ops[i].TokenSent != sent {
			t.Errorf("call %d: token sent is %v", i+1, ops[i].TokenSent)
		}
	}
	if string(ops[1].Input) != `{"entities":[{"name":"a","observations":["o" ]},{"observations":[]}]}` {
		t.Errorf("the input is recorded without the token: %s", ops[1].Input)
	}
}

func TestIndoubtStatus(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Deadline = 4 * time.Second
		c := w.client()
		c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if line := c.hear(); !strings.Contains(line, `"nextCursor":"2"`) || strings.Contains(line, "indoubt_status_scripted") {
			t.Errorf("the first of two pages: %s", line)
		}
		c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"2"}}`)
		line := c.hear()
		if !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":2,"result":{ "tools":[ `+listed+` ,{"name":"indoubt_status_scripted"`) || !strings.HasSuffix(line, "}}] }}\n") {
			t.Errorf("the last page: %s", line)
		}
		if a := c.ask("3", "indoubt_status_scripted", `{}`); a.Result.IsError || len(a.Result.StructuredContent.Operations) != 0 {
			t.Errorf("nothing is in doubt: %s", a.line)
		}
		held := c.unanswered("4", "silent", `{"a":1}`)
		id := held.Result.StructuredContent.Operation
		if a := c.ask("5", "indoubt_status_scripted", `{}`); len(a.Result.StructuredContent.Operations) != 1 || a.Result.StructuredContent.Operations[0].Operation != id {
			t.Errorf("what is in doubt: %s", a.line)
		}
		if a := c.ask("6", "indoubt_status_scripted", `{"operation":"`+id+`"}`); a.Result.IsError || a.Result.StructuredContent.Operations[0].Outcome != "unknown" {
			t.Errorf("one operation: %s", a.line)
		}
		other := w.options()
		other.Server, other.Scope = "another", "mcp:another"
		d := w.clientWith(other)
		for i, arguments := range []string{`{}`, `{"operation":"` + id + `"}`} {
			if a := d.ask(strconv.Itoa(i), "indoubt_status_another", arguments); a.Result.IsError || len(a.Result.StructuredContent.Operations) != 1 || a.Result.StructuredContent.Operations[0].Operation != id {
				t.Errorf("the status tool of another server, asked %s: %s", arguments, a.line)
			}
		}
		if a := d.ask("7", "indoubt_status_another", `{"operation":"0199-nothing"}`); !a.Result.IsError {
			t.Errorf("an operation that is not there: %s", a.line)
		}
		need.Lacks(t, strings.Join(w.heard(), ""), "indoubt_status_scripted")
	})
}

// TestStatusTellsWhatIsUnderWay: a call whose answer has not come may have had its
// effect already. It does not say that nothing is open.
func TestStatusTellsWhatIsUnderWay(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.call("1", "slow", `{"a":1}`)
	w.eventually("the call is under way", func() bool { return len(effectsIn(t, w.effects)) == 1 })
	o := w.only()
	for i, session := range []*client{c, w.client()} {
		a := session.ask("9", "indoubt_status_scripted", `{}`)
		list := a.Result.StructuredContent.Operations
		need.Must(t, len(list) == 1 && list[0].Operation == o.ID && list[0].Outcome == "pending",
			"session %d: %s", i, a.line)
		for _, says := range []string{"1 are under way", "Do not repeat", "go on with what does not depend", "Ask again after 20"} {
			if !strings.Contains(a.Result.Content[0].Text, says) {
				t.Errorf("session %d is not told %q: %s", i, says, a.Result.Content[0].Text)
			}
		}
	}
	w.release()
	c.answered("1").wantDone(t, "slow")
	if a := c.ask("2", "indoubt_status_scripted", `{}`); len(a.Result.StructuredContent.Operations) != 0 || !strings.Contains(a.Result.Content[0].Text, "No tool call") {
		t.Errorf("afterwards: %s", a.line)
	}
}

func TestStatusToolsHaveNamesOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	for server, want := range map[string]string{"bank": "indoubt_status_bank", "mcp.example.com": "indoubt_status_mcp_example_com",
		strings.Repeat("long-", 20): "indoubt_status_long_long_long_long_long_long_lon"} {
		o := w.options()
		o.Server = server
		c := w.clientWith(o)
		if a := c.ask("1", want, `{}`); a.Error != nil || a.Result.IsError {
			t.Errorf("%s has no tool %s: %s", server, want, a.line)
		}
	}
}
