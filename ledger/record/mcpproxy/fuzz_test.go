package mcpproxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/record/mcpproxy"
	"indoubt/ledger/wire/mcpwire"
)

// readings are the calls that servers with lenient parsers could read in what
// they are sent: line by line, by carriage returns too, and as a stream.
func readings(sent []byte) []string {
	var calls []string
	var take func(raw json.RawMessage)
	take = func(raw json.RawMessage) {
		var batch []json.RawMessage
		if json.Unmarshal(raw, &batch) == nil {
			for _, element := range batch {
				take(element)
			}
			return
		}
		var r request
		_ = json.Unmarshal(raw, &r) // what was read before an error counts too
		if r.Method == "tools/call" {
			calls = append(calls, r.Params.Name)
		}
	}
	for _, line := range bytes.FieldsFunc(sent, func(c rune) bool { return c == '\n' || c == '\r' }) {
		take(line)
	}
	stream := json.NewDecoder(bytes.NewReader(sent))
	var streamed []json.RawMessage
	for {
		var raw json.RawMessage
		if stream.Decode(&raw) != nil {
			break
		}
		streamed = append(streamed, raw)
	}
	byLine := len(calls)
	for _, raw := range streamed {
		take(raw)
	}
	if more := calls[byLine:]; len(more) > byLine {
		return more
	}
	return calls[:byLine]
}

// FuzzProxyFrames: whatever a client says and a server answers, nothing panics or
// hangs, no call reaches the server that is not in the ledger, and none does twice.
func FuzzProxyFrames(f *testing.F) {
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"put","arguments":{"a":1}}}`
	for _, seed := range []string{
		call, call + "\n" + strings.Replace(call, `"id":1`, `"id":2`, 1), call + call, "[" + call + "]", `{"x":` + "\r" + call + "\r}",
		strings.Replace(call, `"method"`, `"METHOD"`, 1), strings.Replace(call, `"id":1`, `"id":1,"Method":"ping"`, 1),
		strings.Replace(call, "tools/call", `\u0074ools\/call`, 1), strings.Replace(call, `"id":1,`, "", 1),
		strings.Replace(call, `"arguments"`, `"requestState":"s","inputResponses":{},"arguments"`, 1),
		strings.Replace(call, ",", ",\n", -1), "\ufeff" + call, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n" + call,
		call + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`, `{"jsonrpc":"2.0","id":1e0,"method":"tools/list"}`, "null", "[]", "{}", "\n\n",
	} {
		for _, answer := range []string{
			`{"content":[]}`, `{"resultType":"input_required","requestState":"s"}`, `{"task":{"taskId":"t","status":"working"}}`,
			`{"taskId":"t","status":"completed"}`, `{"tools":[{"name":"put"}]}`, `{"tools":[{"name":"put","annotations":{"readOnlyHint":false,"ReadOnlyHint":true}}]}`, `x`,
		} {
			f.Add([]byte(seed), []byte(answer))
		}
	}
	f.Fuzz(func(t *testing.T, said, answer []byte) {
		if len(said) > 4096 || bytes.Contains(answer, []byte("\n")) {
			t.Skip()
		}
		synctest.Test(t, func(t *testing.T) { frames(t, said, answer) })
	})
}

// frames is one run of what a client says and a server answers.
func frames(t *testing.T, said, answer []byte) {
	store := inMemory()
	var mu sync.Mutex
	var sent bytes.Buffer
	var lines []string
	conn := newFake(func(f *fake, line []byte) {
		frame := mcpwire.Parse(line)
		mu.Lock()
		sent.Write(line)
		lines = append(lines, strings.TrimSuffix(string(line), "\n"))
		mu.Unlock()
		if frame.ID != nil {
			f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", frame.ID, answer)
		}
	})
	rules := record.Rules(func(string) record.KindRule {
		return record.KindRule{Deadline: 200 * time.Millisecond, Repeat: record.RepeatAllow}
	})
	p := mcpproxy.New(mcpproxy.Options{
		Recorder: record.New(store, rules, record.Options{}), In: bytes.NewReader(said), Out: io.Discard,
		Connect: func(context.Context) (mcpwire.Conn, error) { return conn, nil }, Server: "s", Scope: "x",
		InputPatience: 20 * time.Millisecond, Grace: 20 * time.Millisecond,
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // a task may go on
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case <-ended:
	case <-time.After(soon):
		t.Fatal("it hangs")
	}
	attempts := 0
	page := need.Get(store.Page(t.Context(), ledger.Query{Tab: ledger.TabAll, Order: ledger.OrderOldest, Limit: 1000, Now: time.Now()}))(t)
	for _, row := range page.Rows {
		attempts += row.AttemptCount
	}
	if calls := readings(sent.Bytes()); len(calls) > attempts {
		t.Errorf("%d calls %q reached the server, %d are recorded; sent:\n%s", len(calls), calls, attempts, sent.Bytes())
	}
	times := map[string]int{}
	for _, line := range bytes.Split(said, []byte("\n")) {
		times[string(line)]++
	}
	for _, line := range lines { // no token changes one here
		if times[line]--; times[line] < 0 {
			t.Errorf("%q reached the server more often than it was said", line)
		}
	}
}
