package record

// Facts are what every error that a recorder makes says to programs beside its code: the same
// for the HTTP proxy, the MCP proxy and the command line.
type Facts struct {
	Operation  string `json:"operation,omitempty"` // its id
	SafeNewKey bool   `json:"safe_new_key"`        // the same under a new key acts once: nothing of it was sent, or is open
	Reconcile  any    `json:"reconcile,omitempty"` // how to ask what became of it
}

// SafeNewKey are the codes, with that fact. Any other code is of what kept a request from
// being recorded, and so from being sent.
var SafeNewKey = map[string]bool{
	"in_doubt":        false, // an earlier one may have landed
	"outcome_unknown": false, // this one may have
	"not_settled":     false, // it was sent, and what became of it is not recorded
	"in_progress":     false,
	"finished":        false,
	"refused":         false, // a person or a hold stands against it
	"other_caller":    false,
	"unknown_commit":  false, // nothing of it was sent here, and it may be open
	"committed":       false, // by another attempt than this one
	"abandoned":       false,
	"pending":         false,

	"key_missing":   true,
	"key_malformed": true,
	"key_reused":    true, // that is another request's
	"bad_request":   true,
	"not_passed":    true,
	"too_large":     true,
	"busy":          true,
	"not_recorded":  true,
	"never_sent":    true,
	"failed":        true, // it is known to have had no effect
	"unreachable":   true, // a read
}

// FactsOf are the facts of an error. ask is how its caller asks what became of an operation.
func FactsOf(code, operationID string, ask any) Facts {
	safe, known := SafeNewKey[code]
	f := Facts{Operation: operationID, SafeNewKey: safe || !known}
	if operationID != "" && !f.SafeNewKey {
		f.Reconcile = ask
	}
	return f
}
