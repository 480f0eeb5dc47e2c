package outcome

import (
	"encoding/json"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// TestI2_ASuccessThatSaysError: what well-known interfaces put into a 200, an exit 0 or a
// tool's result when nothing was done proves no effect. What only looks like it does.
func TestI2_ASuccessThatSaysError(t *testing.T) {
	asked := first
	asked.Operation.Input = json.RawMessage(`{"method":"POST","path":"/","content_type":"application/json","body":{"a":1}}`)
	form := first
	form.Operation.Input = json.RawMessage(`{"method":"POST","path":"/","content_type":"application/x-www-form-urlencoded","body":{"a":"1"}}`)
	tool := func(result string) ledger.Answer {
		return ledger.Answer{Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Result: json.RawMessage(result)}}
	}
	refusing := ruled(ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed}, nil)
	cases := map[string]struct {
		rules  Rules
		rec    ledger.Record
		answer ledger.Answer
		want   ledger.Outcome
	}{
		"GraphQL":                        {nil, first, answered(200, `{"data":null,"errors":[{"message":"x"}]}`), ledger.OutcomeUncertain},
		"GraphQL without errors":         {nil, first, answered(200, `{"data":{},"errors":[]}`), ledger.OutcomeCommitted},
		"JSON-RPC":                       {nil, first, answered(200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000}}`), ledger.OutcomeUncertain},
		"JSON-RPC without an error":      {nil, first, answered(200, `{"jsonrpc":"2.0","id":1,"result":{},"error":null}`), ledger.OutcomeCommitted},
		"ok: false":                      {nil, first, answered(200, `{"ok":false}`), ledger.OutcomeUncertain},
		"ok: true":                       {nil, first, answered(200, `{"ok":true,"error":""}`), ledger.OutcomeCommitted},
		"success: false":                 {nil, first, answered(201, `{"success":false,"message":"declined"}`), ledger.OutcomeUncertain},
		"Success: false":                 {nil, first, answered(200, `{"Success":false,"Data":null}`), ledger.OutcomeUncertain},
		"success: 0":                     {nil, first, answered(200, `{"success":0}`), ledger.OutcomeUncertain},
		"success: \"false\"":             {nil, first, answered(200, `{"success":"false"}`), ledger.OutcomeUncertain},
		"none of several":                {nil, first, answered(200, `{"success":[],"id":1}`), ledger.OutcomeCommitted},
		"behind a byte order mark":       {nil, first, answered(200, "\ufeff"+`{"ok":false}`), ledger.OutcomeUncertain},
		"JSON-RPC, several":              {nil, first, answered(200, `[{"id":1,"result":1},{"id":2,"error":{"code":-1}}]`), ledger.OutcomeUncertain},
		"a list":                         {nil, first, answered(200, `[{"id":1,"error":null},2]`), ledger.OutcomeCommitted},
		"a bulk with errors":             {nil, first, answered(200, `{"errors":true,"items":[]}`), ledger.OutcomeUncertain},
		"a bulk without":                 {nil, first, answered(200, `{"errors":false,"items":[]}`), ledger.OutcomeCommitted},
		"error: 0":                       {nil, first, answered(200, `{"error":0}`), ledger.OutcomeCommitted},
		"JSend: error":                   {nil, first, answered(200, `{"status":"error","message":"no such account"}`), ledger.OutcomeUncertain},
		"JSend: fail":                    {nil, first, answered(200, `{"status":"fail","data":{"amount":"is missing"}}`), ledger.OutcomeUncertain},
		"JSend: success":                 {nil, first, answered(200, `{"status":"success","data":{"id":1}}`), ledger.OutcomeCommitted},
		"JSend, of a command":            {nil, first, exited(0, `{"status":"error","message":"x"}`, ""), ledger.OutcomeUncertain},
		"a payment that failed":          {nil, first, answered(200, `{"id":"pay_1","status":"failed","message":"declined"}`), ledger.OutcomeCommitted},
		"so, without an id":              {nil, first, answered(200, `{"status":"failed","message":"declined"}`), ledger.OutcomeCommitted},
		"a job in error":                 {nil, first, answered(200, `{"id":7,"status":"error","message":"it did not start"}`), ledger.OutcomeCommitted},
		"JSend, with no id":              {nil, first, answered(200, `{"id":null,"status":"error","message":"no such account"}`), ledger.OutcomeUncertain},
		"a status, and nothing beside":   {nil, first, answered(200, `{"status":"error","started":1}`), ledger.OutcomeCommitted},
		"a status that is a number":      {nil, first, answered(200, `{"status":500,"message":"x"}`), ledger.OutcomeCommitted},
		"lines, one of them an error":    {nil, first, answered(200, "{\"progress\":1}\n{\"error\":\"no space left\"}\n", "Content-Type", "application/x-ndjson"), ledger.OutcomeUncertain},
		"so, called JSON":                {nil, first, answered(200, "{\"progress\":1}\r\n{\"errors\":[1]}\r\n", "Content-Type", "application/json"), ledger.OutcomeUncertain},
		"lines":                          {nil, first, answered(200, "{\"progress\":1}\n{\"error\":null}\n"), ledger.OutcomeCommitted},
		"lines that a command wrote":     {nil, first, exited(0, "{\"level\":\"warn\",\"error\":\"reset, tried again\"}\n{\"level\":\"info\"}\n", ""), ledger.OutcomeCommitted},
		"text behind JSON":               {nil, first, answered(200, "{\"error\":1} is what it said"), ledger.OutcomeCommitted},
		"inside of what was made":        {nil, first, answered(200, `{"id":1,"request":{"ok":false}}`), ledger.OutcomeCommitted},
		"an XML Error":                   {nil, first, answered(200, `<?xml version="1.0"?><Error><Code>InternalError</Code></Error>`), ledger.OutcomeUncertain},
		"a SOAP Fault":                   {nil, first, answered(200, `<s:Envelope xmlns:s="x"><s:Header><Error/></s:Header><s:Body><s:Fault/></s:Body></s:Envelope>`), ledger.OutcomeUncertain},
		"another XML":                    {nil, first, answered(200, `<Result><Error/></Result>`), ledger.OutcomeCommitted},
		"gRPC":                           {nil, first, answered(200, "", "Grpc-Status", "14"), ledger.OutcomeUncertain},
		"gRPC that is done":              {nil, first, answered(200, "", "Grpc-Status", "0"), ledger.OutcomeCommitted},
		"gRPC without a status":          {nil, first, answered(200, "\x00\x00\x00\x00\x00", "Content-Type", "application/grpc+proto"), ledger.OutcomeUncertain},
		"gRPC on the web":                {nil, first, answered(200, "\x00\x00\x00\x00\x01a\x80\x00\x00\x00\x10grpc-status:13\r\n", "Content-Type", "application/grpc-web+proto"), ledger.OutcomeUncertain},
		"gRPC on the web that is done":   {nil, first, answered(200, "\x00\x00\x00\x00\x01a\x80\x00\x00\x00\x0fgrpc-status:0\r\n", "Content-Type", "application/grpc-web+proto"), ledger.OutcomeCommitted},
		"gRPC on the web, cut":           {nil, first, answered(200, "\x00\x00\x00\x00\x09a", "Content-Type", "application/grpc-web"), ledger.OutcomeUncertain},
		"gRPC on the web, as text":       {nil, first, answered(200, "AAAAAAFhgAAAAA9ncnBjLXN0YXR1czowDQo=", "Content-Type", "application/grpc-web-text"), ledger.OutcomeCommitted},
		"so, in pieces":                  {nil, first, answered(200, "AAAAAAFhgAAAABA=Z3JwYy1zdGF0dXM6MTMNCg==", "Content-Type", "application/grpc-web-text"), ledger.OutcomeUncertain},
		"a stream with an error":         {nil, first, answered(200, "data: {}\n\nevent: error\ndata: {}\n\n", "Content-Type", "text/event-stream"), ledger.OutcomeUncertain},
		"a stream whose data is one":     {nil, first, answered(200, "data: {\"error\":{\"type\":\"server_error\"}}\n\n", "Content-Type", "text/event-stream"), ledger.OutcomeUncertain},
		"a stream":                       {nil, first, answered(200, "event: done\ndata: event: error\n\n", "Content-Type", "text/event-stream; charset=utf-8"), ledger.OutcomeCommitted},
		"HTML to JSON":                   {nil, asked, answered(200, "<html>Sign in</html>", "Content-Type", "text/html; charset=utf-8"), ledger.OutcomeUncertain},
		"a refusal in HTML to JSON":      {nil, asked, answered(403, "<html>Forbidden</html>", "Content-Type", "text/html"), ledger.OutcomeUncertain},
		"a refusal in HTML to a form":    {nil, form, answered(403, "<html>Forbidden</html>", "Content-Type", "text/html"), ledger.OutcomeFailed},
		"too often, and when to come":    {nil, asked, answered(429, `{"ok":false}`, "Retry-After", "30"), ledger.OutcomeFailed},
		"too often, and nothing else":    {nil, asked, answered(429, `{"ok":false}`), ledger.OutcomeUncertain},
		"HTML to a form":                 {nil, form, answered(200, "<html>Thank you</html>", "Content-Type", "text/html"), ledger.OutcomeCommitted},
		"a command":                      {nil, first, exited(0, `{"success": false}`, ""), ledger.OutcomeUncertain},
		"structured content":             {nil, first, tool(`{"content":[],"structuredContent":{"ok":false}}`), ledger.OutcomeUncertain},
		"a text of JSON":                 {nil, first, tool(`{"content":[{"type":"text","text":"{\"error\":\"upstream connect error\"}"}]}`), ledger.OutcomeUncertain},
		"a text that says error":         {nil, first, tool(`{"content":[{"type":"text","text":"❌ Error 504 Gateway Timeout"}]}`), ledger.OutcomeUncertain},
		"a text that says failed":        {nil, first, tool(`{"content":[{"type":"text","text":"Payment failed: insufficient funds"}]}`), ledger.OutcomeUncertain},
		"a text that says failed to":     {nil, first, tool(`{"content":[{"type":"text","text":"Failed to create payment: ETIMEDOUT"}]}`), ledger.OutcomeUncertain},
		"a count of what failed":         {nil, first, tool(`{"content":[{"type":"text","text":"{\"failed\":0}"}]}`), ledger.OutcomeCommitted},
		"a text about an error":          {nil, first, tool(`{"content":[{"type":"text","text":"made an issue: Error in prod"}]}`), ledger.OutcomeCommitted},
		"a text about errors":            {nil, first, tool(`{"content":[{"type":"text","text":"errors.log written, 0 failed"}]}`), ledger.OutcomeCommitted},
		"a text":                         {nil, first, tool(`{"content":[{"type":"text","text":"done"}]}`), ledger.OutcomeCommitted},
		"lines that a tool wrote":        {nil, first, tool(`{"content":[{"type":"text","text":"{\"error\":\"reset, tried again\"}\n{\"done\":true}"}]}`), ledger.OutcomeCommitted},
		"the kind's rule says refused":   {refusing, first, answered(200, `{"ok":false}`), ledger.OutcomeFailed},
		"the kind's rule says committed": {ruled(ledger.Ruling{Decided: true, Outcome: ledger.OutcomeCommitted}, nil), first, answered(200, `{"ok":false}`), ledger.OutcomeCommitted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := Judge(t.Context(), c.rules, c.rec, c.answer)
			need.That(t, s.Outcome == c.want, "%s: %s", s.Outcome, s.Error)
			doubt := c.want == ledger.OutcomeUncertain && c.answer.Status < 400
			need.That(t, (s.ErrorClass == classSaysError && s.Error != "") == doubt, "class %q: %s", s.ErrorClass, s.Error)
		})
	}
}
