package mcpwire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		line      string
		kind      Kind
		id        string
		method    string
		duplicate bool
		lookalike bool
		call      bool
	}{
		{`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"a","arguments":{}}}`, Request, "0", "tools/call", false, false, true},
		{` { "params" : {} , "x" : [{"id":1}], "method" : "tools\/call" , "id" : 12345678901234567890123 } `, Request, "12345678901234567890123", "tools/call", false, false, true},
		{`{"id":"a\u0062","m\u0065thod":"ping"}`, Request, `"a\u0062"`, "ping", false, false, false},
		{`{"id":null,"method":"ping"}`, Request, "null", "ping", false, false, false},
		{`{"method":"notifications/initialized"}`, Notification, "", "notifications/initialized", false, false, false},
		{`{"id":3,"result":{"a":1,"a":2}}`, Response, "3", "", true, false, false},
		{`{"id":3,"result":{"a":{"b":1,"b":2}}}`, Response, "3", "", false, false, false},
		{`{"id":3,"error":{"code":-32600}}`, Response, "3", "", false, false, false},
		{`{"id":3,"id":4,"result":{}}`, Response, "4", "", true, false, false},
		{`{"id":3,"method":"ping","method":"tools/call"}`, Request, "3", "tools/call", true, false, true},
		{`{"id":3,"method":"tools/call","method":"ping"}`, Request, "3", "ping", true, false, true},
		{`{"id":3,"method":"ping","Method":"tools/call"}`, Request, "3", "ping", false, true, true},
		{`{"id":3,"METHOD":"tools/call","params":{}}`, Other, "3", "", false, true, true},
		{`{"id":3,"method":7,"Method":"tools/call"}`, Other, "3", "", false, true, true},
		{`{"id":3,"method":"x","params":{"Name":"a"}}`, Request, "3", "x", false, true, false},
		{`{"id":3,"method":"x","params":{"name":"a","name":"b"}}`, Request, "3", "x", true, false, false},
		{`{"id":3,"method":"x","params":{"arguments":{"a":[{"b":1,"\u0062":2}]}}}`, Request, "3", "x", true, false, false},
		{`{"id":3,"method":"x","params":{"arguments":{"a":[{"b":1},{"b":2}],"b":"b"}}}`, Request, "3", "x", false, false, false},
		{`{"id":3,"method":"x","params":{"_meta":{"k":1,"k":2}}}`, Request, "3", "x", true, false, false},
		{`{"id":3,"method":"x","params":["a"]}`, Request, "3", "x", false, false, false},
		{`[{"id":1,"method":"ping"},{"id":2,"method":"tools/call"},5]`, Batch, "", "", false, false, false},
		{`[]`, Other, "", "", false, false, false},
		{`{}`, Other, "", "", false, false, false},
		{`{"id":3}`, Other, "3", "", false, false, false},
		{`"tools/call"`, Other, "", "", false, false, false},
		{`server listening on 3000`, Other, "", "", false, false, false},
		{`{"method":"tools/call"} {}`, Other, "", "", false, false, false},
		{`{"method":"tools/call",}`, Other, "", "", false, false, false},
		{"\xef\xbb\xbf{}", Other, "", "", false, false, false},
		{``, Other, "", "", false, false, false},
		{strings.Repeat("[", 1_000_000), Other, "", "", false, false, false},
		{`{"method":"x","params":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, Other, "", "", false, false, false},
		{`[` + strings.Repeat(`{},`, maxElements) + `{"method":"tools/call"}]`, Other, "", "", false, false, false},
	} {
		f := Parse([]byte(tt.line + "\n"))
		if f.Kind != tt.kind || string(f.ID) != tt.id || f.Method != tt.method || f.Duplicate != tt.duplicate ||
			f.Lookalike != tt.lookalike || f.ToolCall() != tt.call || string(f.Raw) != tt.line+"\n" {
			t.Errorf("%.80s: %v id %s method %q duplicate %v lookalike %v call %v", tt.line, f.Kind, f.ID, f.Method, f.Duplicate, f.Lookalike, f.ToolCall())
		}
	}
	f := Parse(append(bytes.Repeat([]byte(" "), MaxLine), "{}"...))
	need.That(t, f.Kind == Other, "a line above the limit was looked at")
}

func TestIDKey(t *testing.T) {
	for _, same := range [][2]string{{`1`, `1.0`}, {`10`, `1e1`}, {`"é"`, `"\u00e9"`}, {`null`, `null`}} {
		a, b := IDKey([]byte(same[0])), IDKey([]byte(same[1]))
		need.That(t, a == b, "%s is %s, %s is %s", same[0], a, same[1], b)
	}
	ids := []string{``, `""`, `"1"`, `1`, `-1`, `null`, `"null"`, `1.5`, `9007199254740993`, `9007199254740992`, `9007199254740993.0`, `1e999999999`}
	seen := map[string]string{}
	for _, id := range ids {
		other, ok := seen[IDKey(json.RawMessage(id))]
		need.That(t, !ok, "%q and %q are one", id, other)
		seen[IDKey(json.RawMessage(id))] = id
	}
}

func TestSplice(t *testing.T) {
	for _, tt := range []struct {
		line, value, path, want string
	}{
		{`{"id": 7 , "params" : { "arguments" : {"a":1}, "x":1}}` + "\r\n", `{"b":2}`, "params.arguments", `{"id": 7 , "params" : { "arguments" : {"b":2}, "x":1}}` + "\r\n"},
		{`{"id":"x","result":{}}`, `12345678901234567890`, "id", `{"id":12345678901234567890,"result":{}}`},
		{`{"params":{"name":"a"}}`, `{}`, "params.arguments", `{"params":{"name":"a","arguments":{}}}`},
		{`{"params":{ }}`, `{}`, "params.arguments", `{"params":{ "arguments":{}}}`},
		{`{"params":{"arguments":1,"arguments":2}}`, `{}`, "params.arguments", ""},
		{`{"params":{},"params":{}}`, `{}`, "params.arguments", ""},
		{`{"params":[]}`, `{}`, "params.arguments", ""},
		{`{}`, `{}`, "params.arguments", ""},
		{`[]`, `{}`, "id", ""},
		{`{"id":1}`, `nothing`, "id", ""},
		{`{"id":1`, `2`, "id", ""},
	} {
		got, ok := Set([]byte(tt.line), []byte(tt.value), strings.Split(tt.path, ".")...)
		need.That(t, string(got) == tt.want && ok == (tt.want != ""), "set %s in %s: %s %v", tt.path, tt.line, got, ok)
	}
	for _, tt := range []struct{ line, want string }{
		{`{"result":{"tools":[ {"name":"a]"} ],"n":1}}` + "\n", `{"result":{"tools":[ {"name":"a]"} ,{"x":1}],"n":1}}` + "\n"},
		{`{"result":{"tools":[ ]}}`, `{"result":{"tools":[ {"x":1}]}}`},
		{`{"result":{"tools":{}}}`, ""},
		{`{"result":{}}`, ""},
	} {
		got, ok := Append([]byte(tt.line), []byte(`{"x":1}`), "result", "tools")
		need.That(t, string(got) == tt.want && ok == (tt.want != ""), "append to %s: %s %v", tt.line, got, ok)
	}
}

// Who asks with what is nested too deep is to be answered: its id is told, and no more.
func TestParseTellsTheIDOfWhatIsTooDeep(t *testing.T) {
	deep := strings.Repeat("[", maxDepth) + `"]{\""` + strings.Repeat("]", maxDepth)
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"a,{","method":"tools/call","params":{"name":"x","arguments":` + deep + `}}`: `"a,{" request`,
		`{"params":` + deep + `,"id":7,"method":"ping","x":{}}`:                                             `7 request`,
		`{"id":7,"result":` + deep + `}`:                                                                    `7 response`,
		`{"method":"x","params":` + deep + `}`:                                                              ` notification`,
		`{"id":7,"result":` + deep[1:] + `}`:                                                                ` other`,
		`[{"id":7,"method":"x","params":` + deep + `}]`:                                                     ` other`,
		`{"id":7,"result":` + deep:                                                                          ` other`,
		`{"id":7,"result":` + deep + `,"s":"\`:                                                              ` other`,
		strings.Repeat(`{"id":`, 20_000):                                                                    ` other`,
		strings.Repeat("x ", 20_000):                                                                        ` other`,
	} {
		f := Parse([]byte(line))
		need.That(t, string(f.ID)+" "+f.TooDeep.String() == want && f.Kind == Other && f.Members == nil, "%.60s: %v %s %v, want %s", line, f.Kind, f.ID, f.TooDeep, want)
	}
}

// What Parse says must be what the standard library's decoder says, where that
// one knows; and a look must not change the line.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"a":[1,"]}"]},"_meta":{}}}`,
		`[{"id":1,"method":"x"},{"method":"y"},3]`, `{"id":"\ud800","result":{"tools":[{}]}}`, "{\"a\":\"\xff\"}", `{"Method":"tools/call"}`, ` null `, `{"id":1e5}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		frame := Parse(line)
		frame.ToolCall()
		need.Must(t, bytes.Equal(frame.Raw, before), "the line was changed")
		var want map[string]json.RawMessage
		isObject := json.Unmarshal(line, &want) == nil && want != nil
		need.Must(t, isObject == (frame.Members != nil) || len(want) > maxMembers, "object %v, members %v", isObject, frame.Members)
		if frame.Members != nil {
			need.Must(t, len(want) == len(frame.Members), "members %v, want %v", frame.Members, want)
			for name, value := range want {
				need.Must(t, bytes.Equal(value, frame.Members[name]), "%q is %s, want %s", name, frame.Members[name], value)
			}
		}
		for _, path := range [][]string{{"id"}, {"params", "arguments"}} {
			out, ok := Set(line, []byte(`{"new":1}`), path...)
			need.Must(t, !ok || json.Valid(out), "set %v made %q", path, out)
			if ok && frame.Kind != Other && !frame.Duplicate && len(path) > 1 {
				again := Parse(out)
				need.Must(t, again.Kind == frame.Kind && again.Method == frame.Method, "set %v made %q of it", path, out)
			}
		}
		out, ok := Append(line, []byte(`{"new":1}`), "result", "tools")
		need.Must(t, !ok || json.Valid(out), "append made %q", out)
	})
}

// However a stream is cut into reads, its events are the same, and nothing in it
// makes more than one line.
func FuzzSSE(f *testing.F) {
	for _, seed := range []string{"data: {}\n\n", "\xef\xbb\xbfdata:a\r\ndata: b\rid:1\nretry:5\n\r\n", ": x\n\nevent: m\ndata\n\n", "data: cut", "id:\x00\ndata:\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := allEvents(t, newEvents(bytes.NewReader(body)))
		drip := allEvents(t, newEvents(oneByte{bytes.NewReader(body)}))
		need.Must(t, len(whole) == len(drip), "%d events whole, %d dripping", len(whole), len(drip))
		for i, v := range whole {
			if !bytes.Equal(v.data, drip[i].data) || v.name != drip[i].name || v.id != drip[i].id || v.wait != drip[i].wait {
				t.Fatalf("event %d: %+v, dripping %+v", i, v, drip[i])
			}
			line := oneLine(v.data)
			need.Must(t, bytes.IndexByte(line, '\n') == len(line)-1 && bytes.IndexByte(line, '\r') < 0, "%q is more than a line", line)
			var before, after bytes.Buffer
			if json.Compact(&before, v.data) == nil && (json.Compact(&after, line) != nil || !bytes.Equal(before.Bytes(), after.Bytes())) {
				t.Fatalf("%q became %q", v.data, line)
			}
		}
	})
}

type oneByte struct{ r *bytes.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func allEvents(t *testing.T, e *events) []event {
	var found []event
	for {
		v, err := e.next()
		if err != nil {
			return found
		}
		found = append(found, v)
		need.Must(t, len(found) <= 1<<20, "it does not end")
	}
}
