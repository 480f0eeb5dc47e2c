package drill

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// Effect is something that really happened at the downstream.
type Effect struct {
	Resource string
	ID       string // the receipt
	Account  string
	Body     json.RawMessage
	At       time.Time

	item fields // its body, which lists show; never changed
}

// answer is what the downstream said under an idempotency key.
type answer struct {
	Digest string // of the request that was answered
	Status int
	Body   json.RawMessage
	At     time.Time
}

// books are the downstream's own record of what happened. Nothing of indoubt reads them;
// what a drill scores against is here.
type books struct {
	mu      sync.Mutex
	effects []Effect
	ids     map[string]bool // of the effects
	answers map[string]answer
}

// commit keeps effects and the answer remembered for their key (account, resource and key,
// "" for none), as one.
func (b *books) commit(effects []Effect, key string, ans answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range effects {
		_ = json.Unmarshal(e.Body, &e.item) // it was made here
		b.effects, b.ids[e.ID] = append(b.effects, e), true
	}
	if key != "" {
		b.answers[key] = ans
	}
}

// taken reports whether an effect has this id.
func (b *books) taken(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids[id]
}

// remembered finds what was answered under the key, if it is still known.
func (b *books) remembered(key string, since time.Time) (ans answer, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ans, known = b.answers[key]
	return ans, known && !ans.At.Before(since)
}

// made are the effects of a resource, newest first.
func (b *books) made(res *resource) []Effect {
	return slices.DeleteFunc(b.Effects(""), func(e Effect) bool { return e.Resource != res.name })
}

// Effects are all that really happened, newest first, whose body holds the text.
func (b *books) Effects(text string) (some []Effect) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range slices.Backward(b.effects) {
		if strings.Contains(string(e.Body), text) {
			some = append(some, e)
		}
	}
	return some
}
