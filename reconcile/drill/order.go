package drill

import (
	"encoding/json"
	"time"
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
	doSend   = "send"   // start the requests of the wishes
	doGiveUp = "giveup" // wait no longer for the answers to the wishes
	doWrite  = "write"  // make the request of one wish, and hear its answer
	doLive   = "live"   // from now on also write by itself, by the machine's clock
)

type order struct {
	Do string `json:"do"`
	// At is the time it is; zero: the machine's. Until is the time it is when a
	// write is answered.
	At     time.Time     `json:"at,omitzero"`
	Until  time.Time     `json:"until,omitzero"`
	Wishes []wish        `json:"wishes,omitempty"`
	Every  time.Duration `json:"every,omitempty"` // live: about how often
}

// wish is one thing a pipeline wants written.
type wish struct {
	Name  string          `json:"name"` // among orders only
	Kind  string          `json:"kind"`
	Key   string          `json:"key"`
	ID    string          `json:"id"`
	Token string          `json:"token"`
	Run   string          `json:"run,omitempty"`
	Input json.RawMessage `json:"input"`
}

// shows is what the request of a wish and its effect have in common with no other's.
func (w wish) shows() string {
	if w.Kind == "legacy.charge" { // which takes no token
		return string(w.Input[1 : len(w.Input)-1])
	}
	return w.Token
}

// reply answers an order.
type reply struct {
	Error string `json:"error,omitempty"`
}
