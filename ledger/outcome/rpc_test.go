package outcome

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func rpcResult(result string) ledger.Answer {
	return ledger.Answer{Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Result: json.RawMessage(result)}}
}

func rpcFailure(code int, message string) ledger.Answer {
	return ledger.Answer{Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Error: true, Code: code, Message: message}}
}

// The frames are as servers send them.
const (
	mcpDone    = `{"content":[{"type":"text","text":"{\"effect\":\"created\"}"}]}`
	mcpError   = `{"content":[{"type":"text","text":"MCP error -32602: Structured content does not match the tool's output schema"}],"isError":true}`
	mcpAsks    = `{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{"message":"Who?"}}},"requestState":"eyJzIjoxfQ"}`
	mcpTask    = `{"resultType":"task","taskId":"786512e2","status":"working","createdAt":"2026-08-01T10:30:00Z","lastUpdatedAt":"2026-08-01T10:30:00Z","ttlMs":60000,"pollIntervalMs":5000}`
	mcpTask25  = `{"task":{"taskId":"786512e2","status":"working","ttl":60000,"pollInterval":2500}}`
	mcpTaskEnd = `{"resultType":"complete","taskId":"786512e2","status":"completed","ttlMs":null,"result":{"content":[],"structuredContent":{"effect":"updated"}}}`
)

func TestI2_WhatAnMCPAnswerMeans(t *testing.T) {
	reset := errors.New("read: connection reset by peer")
	cut := rpcResult(mcpDone)
	cut.Truncated = true
	lost := func(a ledger.Answer) ledger.Answer {
		a.Err = errors.New("no answer came")
		return a
	}
	status := func(code int) ledger.Answer { return ledger.Answer{Via: "mcp", Sent: true, Status: code} }
	with := func(a ledger.Answer, code int) ledger.Answer { a.Status = code; return a }
	for _, c := range []struct {
		name    string
		answer  ledger.Answer
		outcome ledger.Outcome
		proof   ledger.Proof
		class   ledger.ErrorClass
	}{
		{"a result", rpcResult(mcpDone), "committed", "", ""},
		{"a result over HTTP", with(rpcResult(mcpDone), 200), "committed", "", ""},
		{"an empty result", rpcResult(`{}`), "committed", "", ""},
		{"a result that is null", rpcResult(`null`), "uncertain", "", "tool_error"},
		{"a result that is a text", rpcResult(`"failed"`), "uncertain", "", "tool_error"},
		{"a result that is a list", rpcResult(`[{"type":"text","text":"ok"}]`), "uncertain", "", "tool_error"},
		{"isError false", rpcResult(`{"content":[],"isError":false,"structuredContent":{"effect":"deleted"}}`), "committed", "", ""},
		{"another spelling is another member", rpcResult(`{"content":[],"IsError":true}`), "committed", "", ""},
		{"isError", rpcResult(`{"content":[{"type":"text","text":"disk full"}],"isError":true}`), "uncertain", "", "tool_error"},
		{"isError that is no boolean", rpcResult(`{"content":[],"isError":"true"}`), "uncertain", "", "tool_error"},
		{"isError that carries -32602", rpcResult(mcpError), "uncertain", "", "tool_error"},
		{"a result that was cut", cut, "uncertain", "", "tool_error"},
		{"parse error", rpcFailure(-32700, "Parse error"), "failed", "refused", ""},
		{"invalid request", rpcFailure(-32600, "Invalid Request"), "failed", "refused", ""},
		{"method not found", with(rpcFailure(-32601, "Method not found"), 404), "failed", "refused", ""},
		{"-32602 after the effect", rpcFailure(-32602, "Output validation error"), "uncertain", "", "tool_error"},
		{"internal error", with(rpcFailure(-32603, "Internal error"), 500), "uncertain", "", "tool_error"},
		{"an error without a code", rpcFailure(0, "rejected by transport"), "uncertain", "", "tool_error"},
		{"a capability is missing", rpcFailure(-32021, "Missing required client capability"), "uncertain", "", "tool_error"},
		{"nothing was sent", ledger.Answer{Via: "mcp", Err: errors.New("executable file not found")}, "failed", "never_sent", ""},
		{"not sent, and yet answered", ledger.Answer{Via: "mcp", RPC: &ledger.RPCAnswer{Result: json.RawMessage(mcpDone)}}, "committed", "", ""},
		{"the server ended", ledger.Answer{Via: "mcp", Sent: true, Err: errors.New("EOF"), Class: "eof"}, "uncertain", "", "eof"},
		{"reset", ledger.Answer{Via: "mcp", Sent: true, Err: reset, Class: "reset"}, "uncertain", "", "reset"},
		{"a gateway's 404", lost(status(404)), "uncertain", "", "4xx"},
		{"a refusal, the transport knows", status(401), "failed", "refused", ""},
		{"a gateway's 200", status(200), "uncertain", "", "2xx"},
		{"a gateway's 503", status(503), "uncertain", "", "5xx"},
		{"killed at its deadline", ledger.Answer{Via: "mcp", Sent: true, Err: errors.New("deadline"), Class: "deadline"}, "uncertain", "", "deadline"},
		{"input is wanted", rpcResult(mcpAsks), "uncertain", "", "awaits"},
		{"a task works", rpcResult(mcpTask), "uncertain", "", "awaits"},
		{"a task has ended", rpcResult(mcpTaskEnd), "uncertain", "", "awaits"},
		{"a task, 2025-11-25", rpcResult(mcpTask25), "uncertain", "", "awaits"},
		{"a task failed with a refusal's code", rpcResult(`{"resultType":"complete","taskId":"t","status":"failed","error":{"code":-32601,"message":"no"}}`), "uncertain", "", "awaits"},
		{"a task was cancelled", rpcResult(`{"taskId":"t","status":"cancelled"}`), "uncertain", "", "awaits"},
		{"a task is handed out as failed", rpcResult(`{"task":{"taskId":"t","status":"failed"}}`), "uncertain", "", "awaits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Judge(t.Context(), nil, first, c.answer)
			if s.Outcome != c.outcome || s.Proof != c.proof || s.ErrorClass != c.class {
				t.Errorf("got %s proof %q class %q (%s)", s.Outcome, s.Proof, s.ErrorClass, s.Error)
			}
			need.That(t, s.Outcome == ledger.OutcomeCommitted || s.Error != "" || c.answer.Status == 200, "it does not say what was wrong")
		})
	}
}

// TestI2_WhatSDKsRefuseBeforeAToolRuns: their own words for an unknown tool and for
// arguments that do not fit are refusals of this very tool; words about its output,
// other words, and the same words of another tool are not.
func TestI2_WhatSDKsRefuseBeforeAToolRuns(t *testing.T) {
	for _, c := range []struct {
		said        string
		error, tool bool // refused as an error -32602, as a tool's result
	}{
		{"MCP error -32602: Tool pay not found", true, true},
		{"Tool pay disabled", true, true},
		{"MCP error -32602: Input validation error: Invalid arguments for tool pay: [\n  {}\n]", true, true},
		{"MCP error -32602: Invalid arguments for tool pay: [{}]", true, true},
		{"Unknown tool: pay", true, true},
		{"Unknown tool: 'pay'", true, true},
		{`unknown tool "pay"`, true, true},
		{"tool 'pay' not found: tool not found", true, true},
		{"Input validation error: 'ref' is a required property", true, true},
		{"Error executing tool pay: 1 validation error for payArguments\nref\n  Field required", true, true},
		{"Error calling tool 'pay': 2 validation errors for call[pay]\nref\n  Missing", true, true},
		{"1 validation error for call[pay]\nref", true, true},
		{`validating "arguments": validating root: required: missing properties: ["ref"]`, true, true},
		{"Invalid params", true, false},
		{"Invalid request parameters", true, false},
		{"failed to deserialize parameters: missing field `ref`", true, false},
		{`invalid params: unmarshaling "{}" into a *mcp.CallToolParamsRaw: bad`, true, false},
		{"MCP error -32602: Output validation error: Tool pay has an output schema but no structured content was provided", false, false},
		{"MCP error -32602: Tool pay has an output schema but no structured content was provided", false, false},
		{"MCP error -32602: Output validation error: Invalid structured content for tool pay: []", false, false},
		{"Output validation error: outputSchema defined but no structured output returned", false, false},
		{"Error executing tool pay: 1 validation error for payOutput\nid\n  Field required", false, false},
		{"Error executing tool pay: 1 validation error for Order\nid\n  Field required", false, false},
		{"Error executing tool pay: Unknown tool: pay", false, false},
		{"validating tool output: required", false, false},
		{"Tool hammer not found", false, false},
		{"Unknown tool: hammer", false, false},
		{"Invalid arguments for tool hammer: []", false, false},
		{"the gateway said: Tool pay not found", false, false},
		{"Tool pay not found\nand another line", false, false},
		{"", false, false},
	} {
		text, _ := json.Marshal(c.said)
		failure, result := rpcFailure(-32602, c.said), rpcResult(`{"content":[{"type":"text","text":`+string(text)+`}],"isError":true}`)
		failure.RPC.Tool, result.RPC.Tool = "pay", "pay"
		other := failure
		other.RPC = &ledger.RPCAnswer{Error: true, Code: -32603, Message: c.said, Tool: "pay"}
		two := rpcResult(`{"content":[{"type":"text","text":` + string(text) + `},{"type":"text","text":"paid"}],"isError":true}`)
		two.RPC.Tool = "pay"
		structured := rpcResult(`{"content":[{"type":"text","text":` + string(text) + `}],"structuredContent":{},"isError":true}`)
		structured.RPC.Tool = "pay"
		fine := rpcResult(`{"content":[{"type":"text","text":` + string(text) + `}]}`)
		fine.RPC.Tool = "pay"
		for name, want := range map[string]struct {
			answer ledger.Answer
			is     ledger.Outcome
		}{
			"error":         {failure, map[bool]ledger.Outcome{true: "failed", false: "uncertain"}[c.error]},
			"isError":       {result, map[bool]ledger.Outcome{true: "failed", false: "uncertain"}[c.tool]},
			"another error": {other, "uncertain"}, "two texts": {two, "uncertain"}, "with structured content": {structured, "uncertain"},
			"a tool that nobody named": {rpcFailure(-32602, c.said), "uncertain"}, "no error": {fine, map[bool]ledger.Outcome{true: "uncertain", false: "committed"}[failedWords.MatchString(c.said)]},
		} {
			if s := Judge(t.Context(), nil, first, want.answer); s.Outcome != want.is || want.is == "failed" && s.Proof != ledger.Refused {
				t.Errorf("%q as %s: %s %s, want %s", c.said, name, s.Outcome, s.Proof, want.is)
			}
		}
	}
}

// TestRulesComeFirst: what a kind's policy says of an MCP answer counts, but not
// of one that is none yet.
func TestRulesComeFirst(t *testing.T) {
	refused := ruled(ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed}, nil)
	s := Judge(t.Context(), refused, first, rpcResult(mcpError))
	need.That(t, s.Outcome == ledger.OutcomeFailed && s.Proof == ledger.Refused, "isError that the policy calls refused: %s", s.Outcome)
	need.Equal(t, Judge(t.Context(), refused, first, rpcResult(mcpTask)).Outcome, ledger.OutcomeUncertain, "a working task that the policy calls refused")
}

func TestMCPResultIsKept(t *testing.T) {
	s := Judge(t.Context(), nil, first, rpcResult(mcpDone))
	need.That(t, string(s.Result) == mcpDone && s.Status == -1, "result %s, status %d", s.Result, s.Status)
	long := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 2*MaxResult) + `"}]}`
	s = Judge(t.Context(), nil, first, rpcResult(long))
	need.That(t, len(s.Result) <= MaxResult+100 && s.Outcome == ledger.OutcomeCommitted, "%s with %d bytes of a long result", s.Outcome, len(s.Result))
	s = Judge(t.Context(), nil, first, rpcResult(`{"content":[{"type":"text","text":"use Bearer abcdefghij"}],"isError":true}`))
	need.That(t, !strings.Contains(s.Error+string(s.Result), "abcdefghij"), "a secret stays: %s %s", s.Error, s.Result)
}

func TestNotYet(t *testing.T) {
	for _, c := range []struct {
		name, result, awaits string
	}{
		{"input with a state", mcpAsks, "input:64339b1ddcd2f0c75e956ef14a8c9ae9713b033e5b921048e1f7c0b4796d4fea"},
		{"input without a state", `{"resultType":"input_required","inputRequests":{"b":{},"a":{}}}`, AwaitsInput("", []string{"a", "b"})},
		{"input of nothing", `{"resultType":"input_required"}`, AwaitsInput("", nil)},
		{"a task", mcpTask, ""},
		{"a task of 2025-11-25", mcpTask25, ""},
		{"a result", mcpDone, ""},
		{"a tool that speaks of tasks", `{"content":[],"taskId":"t","status":"working"}`, ""},
		{"a tool with a member of that name", `{"content":[],"task":{"taskId":"t","status":"working"}}`, ""},
		{"no object", `[1]`, ""},
		{"null", `null`, ""},
	} {
		awaits, ok := NotYet(rpcResult(c.result))
		need.That(t, awaits == c.awaits && ok == (c.awaits != ""), "%s: %q %v, want %q", c.name, awaits, ok, c.awaits)
	}
	_, ok := NotYet(rpcFailure(-32042, mcpAsks))
	need.That(t, !ok, "an error is an answer")
	broken := rpcResult(mcpAsks)
	broken.Err = errors.New("EOF")
	_, ok = NotYet(broken)
	need.That(t, !ok, "an answer that is not whole")
	need.That(t, AwaitsInput("a", nil) != AwaitsInput("b", nil) && AwaitsInput("", []string{"a"}) != AwaitsInput("", []string{"b"}), "different continuations are one")
}
