package drill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// entry is a line of the books: what was written at once.
type entry struct {
	Effects []Effect
	Key     string // that the answer is remembered under: account, resource and key; "" for none
	Answer  answer
}

// books are the downstream's own record of what happened, in memory and in a file of JSON
// lines to go on from. Nothing of indoubt reads them; what a drill scores against is here.
type books struct {
	file *os.File

	mu      sync.Mutex
	effects []Effect
	ids     map[string]bool // of the effects
	answers map[string]answer
}

func openBooks(path string) (*books, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the downstream's books: %w", err)
	}
	b := &books{file: file, ids: map[string]bool{}, answers: map[string]answer{}}
	lines, end := json.NewDecoder(file), int64(0)
	for {
		var e entry
		if lines.Decode(&e) != nil { // at the end, or at a line that a kill cut
			break
		}
		b.take(e)
		end = lines.InputOffset()
	}
	_, err = file.Seek(end, io.SeekStart)
	if err = errors.Join(err, file.Truncate(end)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return b, nil
}

func (b *books) close() error { return b.file.Close() }

func (b *books) take(e entry) {
	for _, effect := range e.Effects {
		_ = json.Unmarshal(effect.Body, &effect.item) // it was made here
		b.effects, b.ids[effect.ID] = append(b.effects, effect), true
	}
	if e.Key != "" {
		b.answers[e.Key] = e.Answer
	}
}

// commit writes effects and the answer remembered for their key, as one.
func (b *books) commit(e entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.file.Write(append(encode(e), '\n')); err != nil {
		return err
	}
	b.take(e)
	return nil
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
