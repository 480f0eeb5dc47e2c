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

// entry is a line of the books.
type entry struct {
	Effect Effect
	Key    string // that it is remembered under: account, resource and key; "" for none
}

// books are the downstream's own record of what happened, in memory and in a file of JSON
// lines to go on from. Nothing of indoubt reads them; what a drill scores against is here.
type books struct {
	file *os.File

	mu      sync.Mutex
	effects []Effect
	ids     map[string]bool            // of the effects
	answers map[string]json.RawMessage // by key
}

func openBooks(path string) (*books, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the downstream's books: %w", err)
	}
	b := &books{file: file, ids: map[string]bool{}, answers: map[string]json.RawMessage{}}
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
	_ = json.Unmarshal(e.Effect.Body, &e.Effect.item) // it was made here
	b.effects, b.ids[e.Effect.ID] = append(b.effects, e.Effect), true
	if e.Key != "" {
		b.answers[e.Key] = e.Effect.Body
	}
}

// errBusy says that a write waited for too long and was not made.
var errBusy = errors.New("too busy: this was not done")

// commit writes an effect and its key, as one, unless it could not until by. Who waited for a
// slow disk must not make an effect later than the policy says that one can come: all who have
// looked since have seen that it is not there.
func (b *books) commit(e entry, by time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().After(by) {
		return errBusy
	}
	if _, err := b.file.Write(append(encode(e), '\n')); err != nil {
		return err
	}
	b.take(e)
	return nil
}

func (b *books) taken(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids[id]
}

func (b *books) remembered(key string) (body []byte, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, known = b.answers[key]
	return body, known
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
