package outcome

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// What MCP servers answer a tools/call with. Members are looked up by their exact
// names: a struct would take "IsError" for "isError".

// JSON-RPC errors with which a server says that it did not take the request up.
var refusedCode = map[int]bool{-32700: true, -32600: true, -32601: true}

// members is a JSON object's members, nil when it is none.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' || json.Unmarshal(trimmed, &m) != nil {
		return nil
	}
	return m
}

// resultOfCall are the members of a response's result, read once.
func resultOfCall(r *ledger.RPCAnswer) map[string]json.RawMessage {
	if r.Members == nil {
		r.Members = members(r.Result)
	}
	return r.Members
}

func textMember(m map[string]json.RawMessage, name string) string {
	var s string
	if json.Unmarshal(m[name], &s) != nil {
		return ""
	}
	return s
}

// taskID is the id of the task that a server answered with instead of a tool's result:
// in a `task` member (revision 2025-11-25), or in the result itself (the tasks extension
// of 2026-07-28).
func taskID(m map[string]json.RawMessage) (id string, ok bool) {
	if m == nil || m["content"] != nil { // a tool's own result, whatever else is in it
		return "", false
	}
	if inner := members(m["task"]); inner != nil {
		m = inner
	}
	id = textMember(m, "taskId")
	return id, id != "" && textMember(m, "status") != ""
}

const awaitsInput = "input:"

// AwaitedInput reports whether an attempt awaits what the server asked for.
func AwaitedInput(awaits string) bool { return strings.HasPrefix(awaits, awaitsInput) }

// AwaitsInput is what an attempt awaits that was answered with input_required:
// the call that brings requestState back. A server that keeps no such state is
// recognised by the names of what it asked for, which the client repeats as the
// names of its inputResponses.
func AwaitsInput(requestState string, asked []string) string {
	if requestState == "" {
		sort.Strings(asked)
		requestState = "asked for " + strings.Join(asked, "\x00")
	}
	sum := sha256.Sum256([]byte(requestState))
	return awaitsInput + hex.EncodeToString(sum[:])
}

// NotYet reports whether an answer is none yet, because the server wants more input
// first. The attempt stays in flight then; awaits is what Recorder.Suspend records. An
// answer that is not whole is never one of these.
func NotYet(a ledger.Answer) (awaits string, ok bool) {
	if a.RPC == nil || a.RPC.Error || a.Err != nil || a.Truncated {
		return "", false
	}
	m := resultOfCall(a.RPC)
	if textMember(m, "resultType") != "input_required" {
		return "", false
	}
	return AwaitsInput(stateOf(m["requestState"]), slices.Collect(maps.Keys(members(m["inputRequests"])))), true
}

// unfinished reports whether the tool's result is still to come, as far as a whole answer
// says: more input is wanted, or a task goes on. How a task ends is never asked.
func unfinished(a ledger.Answer) bool {
	if a.RPC == nil || a.RPC.Error || a.Err != nil || a.Truncated {
		return false
	}
	_, wanted := NotYet(a)
	_, task := taskID(resultOfCall(a.RPC))
	return wanted || task
}

// stateOf is requestState as text. It should be a string; what is not counts as
// it was written.
func stateOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(bytes.TrimSpace(raw))
}

// byRPC judges a JSON-RPC response.
func byRPC(s *ledger.SettleRequest, a ledger.Answer) {
	switch {
	case a.RPC.Error && refusedCode[a.RPC.Code], notRun(a):
		s.Outcome, s.Proof = ledger.OutcomeFailed, ledger.Refused
	case !a.RPC.Error && !a.Truncated && resultOfCall(a.RPC) != nil && !toolFailed(a.RPC):
		s.Outcome = ledger.OutcomeCommitted
	}
}

// codeInvalidParams is what servers answer arguments with that they do not take,
// before the tool runs or, where its output does not fit, after.
const codeInvalidParams = -32602

// argumentsModel is how pydantic begins to tell what is wrong with the arguments
// of a function, in the Python SDK and in FastMCP.
var argumentsModel = lazyregexp.New(`^[0-9]+ validation errors? for (?:(.+)Arguments|call\[(.+)\])\n`)

// invalidParams reports whether a message is what SDKs say of params that they cannot
// read.
func invalidParams(said string) bool {
	return strings.EqualFold(said, "invalid params") || said == "Invalid request parameters" || strings.HasPrefix(said, "invalid params: unmarshaling ") ||
		strings.HasPrefix(said, "failed to deserialize parameters: ")
}

// notRun reports whether an answer is what an MCP SDK says by itself instead of
// running the tool: that there is no such tool, that it is off, or that the
// arguments are not what it takes. What it says of a tool's output comes after the
// effect. A tool that says nearly the same of something else is told by its name.
func notRun(a ledger.Answer) bool {
	tool, said := a.RPC.Tool, a.RPC.Message
	switch {
	case tool == "" || a.Truncated:
		return false
	case a.RPC.Error && a.RPC.Code == codeInvalidParams:
		if invalidParams(said) {
			return true
		}
	case !a.RPC.Error && toolFailed(a.RPC):
		m := resultOfCall(a.RPC)
		if len(m["content"]) > MaxResult {
			return false // no SDK says that much
		}
		var content []json.RawMessage
		if said = strings.Join(texts(a.RPC), ""); json.Unmarshal(m["content"], &content) != nil || len(content) != 1 || m["structuredContent"] != nil {
			return false
		}
	default:
		return false
	}
	said = strings.TrimPrefix(said, "MCP error -32602: ")
	switch said {
	case "Tool " + tool + " not found", "Tool " + tool + " disabled", // TypeScript
		"Unknown tool: " + tool, "Unknown tool: '" + tool + "'", // Python, C#, Java
		"unknown tool " + strconv.Quote(tool), "tool '" + tool + "' not found: tool not found": // Go
		return true
	}
	for _, begins := range []string{"Input validation error: ", "Invalid arguments for tool " + tool + ": ", `validating "arguments": `} {
		if strings.HasPrefix(said, begins) {
			return true
		}
	}
	for _, begins := range []string{"Error executing tool " + tool + ": ", "Error calling tool '" + tool + "': ", ""} {
		if rest, ok := strings.CutPrefix(said, begins); ok {
			m := argumentsModel.FindStringSubmatch(rest)
			return m != nil && (m[1] == tool || m[2] == tool)
		}
	}
	return false
}

// toolFailed reports whether a result says isError, or may be meant to.
func toolFailed(r *ledger.RPCAnswer) bool {
	m := resultOfCall(r)
	if _, ok := taskID(m); ok {
		return true
	}
	said, there := m["isError"]
	return there && string(said) != "false" && string(said) != "null"
}

// rpcError says in one line what was wrong with a JSON-RPC response.
func rpcError(a ledger.Answer) string {
	switch {
	case a.RPC.Error && a.RPC.Code == 0:
		return a.RPC.Message
	case a.RPC.Error:
		return fmt.Sprintf("JSON-RPC error %d: %s", a.RPC.Code, a.RPC.Message)
	case a.Truncated:
		return "the answer was cut"
	case resultOfCall(a.RPC) == nil:
		return "the result is no tool's: " + excerpt(a.RPC.Result, false)
	case unfinished(a):
		if id, ok := taskID(resultOfCall(a.RPC)); ok {
			return "the server goes on with it as the task " + excerpt([]byte(id), false)
		}
		return "no final answer came"
	case toolFailed(a.RPC):
		return joined("the tool reported an error", excerpt([]byte(strings.Join(texts(a.RPC), " ")), false))
	}
	return ""
}

// texts are the text parts of a tool's result.
func texts(r *ledger.RPCAnswer) []string {
	var parts []json.RawMessage
	if json.Unmarshal(resultOfCall(r)["content"], &parts) != nil {
		return nil
	}
	var out []string
	for _, part := range parts {
		if m := members(part); textMember(m, "type") == "text" {
			out = append(out, textMember(m, "text"))
		}
	}
	return out
}

// spoken are the parts of a tool's result that may say something of it: the structured
// content, then each text. What is longer than is kept is not searched.
func spoken(r *ledger.RPCAnswer) (out []json.RawMessage) {
	m := resultOfCall(r)
	if structured := m["structuredContent"]; len(structured) <= MaxResult {
		out = append(out, structured)
	}
	if len(m["content"]) <= MaxResult {
		for _, text := range texts(r) {
			out = append(out, json.RawMessage(text))
		}
	}
	return out
}
