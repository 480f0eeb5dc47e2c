package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// PolicyText is a policy as it was put in force, the same for every process of the ledger
// from then on. It stands in the history as an event of the verb PolicyApplied.
type PolicyText struct {
	Number   int64  // 1, 2, …; 0: none was ever put in force
	Digest   string // of what it says; see policy.Policy
	Text     string // of its file; "" where the caller has it
	At       time.Time
	Actor    Actor
	Reason   string
	ChangeID string
	Lapsed   bool // it is from before the ledger was adopted, and was not applied anew
}

// Lapsed is said where the policy in force is from before the ledger was adopted.
const Lapsed = "the ledger was adopted, and its policy has to be applied anew: nothing is checked or released until then"

// ApplyAnew is the command that ends that.
const ApplyAnew = "indoubt policy apply --reason …"

// PolicyApplied is the verb of the event that puts a policy in force.
const PolicyApplied = "policy"

// policyDetail is what the event holds beside its number, which is its version.
type policyDetail struct {
	Digest string `json:"digest"`
	Text   string `json:"text"`
}

// Older is what the database refuses a begin with that names an older policy than the one in
// force.
const Older = "this was begun under an older policy than the one in force: read that one, and ask again"

// ByOlder reports whether a begin was refused because its policy is not in force any more.
func ByOlder(err error) bool {
	var guard *GuardError
	return errors.As(err, &guard) && guard.Message == Older
}

// Event is how the policy stands in the history.
func (p PolicyText) Event() (Event, error) {
	detail, err := json.Marshal(policyDetail{p.Digest, p.Text})
	return Event{ID: p.ChangeID, At: p.At, Verb: PolicyApplied, Actor: p.Actor, Reason: p.Reason, Version: p.Number, Detail: detail}, err
}

// PolicyOf is the policy of an event.
func PolicyOf(e Event) (PolicyText, error) {
	var d policyDetail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return PolicyText{}, fmt.Errorf("the policy of event %d cannot be read: %w", e.Seq, err)
	}
	return PolicyText{Number: e.Version, Digest: d.Digest, Text: d.Text, At: e.At, Actor: e.Actor, Reason: e.Reason, ChangeID: e.ID}, nil
}

// Follows refuses a policy that is not the next one: another was put in force meanwhile.
// Errors: *RefusedError (code moved).
func (p PolicyText) Follows(last PolicyText) error {
	if p.Number == last.Number+1 {
		return nil
	}
	return &RefusedError{Verb: "apply", Code: "moved", Why: fmt.Sprintf("policy %d is in force, put there by %s", last.Number, last.Actor.Name), Hint: "look at what differs, and apply it again"}
}
