package drill

import (
	"encoding/json"
	"time"

	"indoubt/ledger"
)

// Orders go to a pipeline as lines of JSON on its standard input; it answers
// each with one line on its standard output. The first line is its posting.

// posting says who a pipeline is and where it works.
type posting struct {
	Name   string `json:"name"`
	Ledger string `json:"ledger"`
	Policy string `json:"policy"`
	Base   string `json:"base"`
	Bearer string `json:"bearer"`
	Seed   uint64 `json:"seed"`
}

// What a pipeline can be told to do.
const (
	doBegin  = "begin"  // begin the wishes and transmit them; answer as soon as they are begun
	doSettle = "settle" // settle the wishes named, giving up on answers that have not come
	doSend   = "send"   // as begin, and settle when the answers come
	doWrite  = "write"  // begin, transmit, await the answers, settle
	doLive   = "live"   // from now on also write by itself, by the machine's clock
)

type order struct {
	Do string `json:"do"`
	// At is the time it is; zero: the machine's. Until is the time it is when a
	// write settles.
	At     time.Time     `json:"at,omitzero"`
	Until  time.Time     `json:"until,omitzero"`
	Wishes []wish        `json:"wishes,omitempty"`
	Names  []string      `json:"names,omitempty"`
	Every  time.Duration `json:"every,omitempty"` // live: about how often
}

// wish is one thing a pipeline wants written.
type wish struct {
	Name     string          `json:"name"` // among orders only
	Kind     string          `json:"kind"`
	Key      string          `json:"key"`
	ID       string          `json:"id,omitempty"`
	Token    string          `json:"token,omitempty"`
	Run      string          `json:"run,omitempty"`
	Input    json.RawMessage `json:"input"`
	Deadline time.Duration   `json:"deadline,omitempty"`
}

// reply answers an order. Answers are the ledger's, by the wish's name.
type reply struct {
	Error   string                        `json:"error,omitempty"`
	Answers map[string]ledger.BeginAnswer `json:"answers,omitempty"`
}
