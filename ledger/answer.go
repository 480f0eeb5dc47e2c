package ledger

import (
	"encoding/json"
	"time"
)

// Answer is what came back from a downstream, whichever way it was asked. The
// zero Answer means that nothing was sent and nothing came.
type Answer struct {
	Via  string // http, command, mcp, sql
	Err  error  // why no complete answer came; nil when one did
	Sent bool   // at least one byte of the request was written, or the process was started
	// Class is how the answer failed to come; empty when a complete one came.
	Class ErrorClass

	Status    int                 // HTTP status; 0 when none was read
	Header    map[string][]string // canonical names
	Body      []byte              // bounded
	Unframed  bool                // only the end of the connection says where the body ends
	Truncated bool                // Body, Stdout, Rows or RPC.Result is not all there was

	Exited bool // the process ended by itself with code Exit
	Exit   int
	Signal string // what killed it
	Stdout []byte // bounded tail
	Stderr []byte // bounded tail
	// Doubt is why an answer that looks like a success does not show one: only the
	// kind's own rule can say that it is committed.
	Doubt string
	// Unconnected: it ran, and is known not to have had a connection at all.
	Unconnected bool
	// Tree says whether the process and all that it had started were seen to be
	// gone; TreeNone: it was not looked for. TreeForeign: the processes that are
	// left belong to another account, so that only root can see them.
	Tree        Tree
	TreeForeign bool

	RPC *RPCAnswer // the JSON-RPC response, nil when none came
	// Rows is the rows a query returned, as a JSON array of objects (nil when none
	// came back).
	Rows json.RawMessage

	BeganAt, EndedAt time.Time
}

// RPCAnswer is one JSON-RPC response: a result or an error.
type RPCAnswer struct {
	Result  json.RawMessage // the result member as it came; nil for an error
	Error   bool            // it is an error response, with Code and Message
	Code    int
	Message string
	Tool    string // that was called; "" when that is not known
	// Members are the result's, where they have been read: a long answer is read once.
	Members map[string]json.RawMessage
}

// Ruling is what the kind's own rules say about an answer. Decided is false
// when none of them applies. Already says that the answer means "it is there
// already"; it counts only after an earlier attempt in doubt.
type Ruling struct {
	Decided bool
	Outcome Outcome
	Proof   Proof
	Already bool
	Receipt string
}
