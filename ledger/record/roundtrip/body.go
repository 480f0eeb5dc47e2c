package roundtrip

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"indoubt/ledger/redact"
)

const (
	// bodyPart is what every request's body may hold without asking.
	bodyPart = 64 << 10
	// mostMemory is what the bodies of writes may hold together, in bytes, however
	// slowly their clients send them.
	mostMemory = 128 << 20
	// roomPatience is how long a body waits for others to end.
	roomPatience = 5 * time.Second
)

// allowance counts what bodies hold together. Its zero value is empty.
type allowance struct {
	mu   sync.Mutex
	used int64
}

func (m *allowance) take(n, most int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > most {
		return false
	}
	m.used += n
	return true
}

// spooled is a body in memory. Each of its users holds it.
type spooled struct {
	in   *allowance
	most int64
	took int64
	held atomic.Int32
	data []byte
}

func (s *spooled) hold() { s.held.Add(1) }

// letGo is the end of one use. After the last one its memory is free for others.
func (s *spooled) letGo() {
	if s.held.Add(-1) == 0 {
		s.in.take(-s.took, s.most)
	}
}

// grow makes room for size bytes in all.
func (s *spooled) grow(ctx context.Context, size int64) error {
	if more := size - max(s.took, bodyPart); more > 0 {
		timeout := time.NewTimer(roomPatience)
		defer timeout.Stop()
		for !s.in.take(more, s.most) {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-timeout.C:
				return &NotTakenError{Problem: "busy", Why: "the bodies of other requests take all the memory there is for them"}
			}
		}
		s.took += more
	}
	s.data = slices.Grow(s.data, int(size)-len(s.data))
	return nil
}

// readBody takes the whole body into memory, to its bound. It is held once.
func (t *Transport) readBody(req *http.Request) (*spooled, error) {
	bound := cmp.Or(t.MaxRequest, DefaultMaxRequest)
	s := &spooled{in: &t.bodies, most: max(mostMemory, 2*bound)}
	s.hold()
	if req.Body == nil || req.Body == http.NoBody {
		return s, nil
	}
	defer req.Body.Close()
	if err := s.read(req, bound); err != nil {
		s.letGo()
		return nil, err
	}
	return s, nil
}

func (s *spooled) read(req *http.Request, bound int64) error {
	length := req.ContentLength
	if length > bound {
		return tooLarge(bound)
	}
	for {
		if len(s.data) == cap(s.data) {
			size := max(4<<10, 2*int64(cap(s.data)))
			if length > 0 {
				size = min(size, length+1) // and one more, to see the end
				if int64(cap(s.data)) >= bodyPart {
					size = length + 1
				}
			}
			if err := s.grow(req.Context(), size); err != nil {
				return err
			}
		}
		n, err := req.Body.Read(s.data[len(s.data):cap(s.data)])
		s.data = s.data[:len(s.data)+n]
		switch {
		case int64(len(s.data)) > bound:
			return tooLarge(bound)
		case err == io.EOF && length > 0 && int64(len(s.data)) != length:
			return unread(io.ErrUnexpectedEOF)
		case err == io.EOF:
			return nil
		case err != nil:
			return unread(err)
		}
	}
}

func tooLarge(bound int64) error {
	return &NotTakenError{Problem: "too_large", Why: fmt.Sprintf("A write's body may be %d bytes long; nothing was sent.", bound)}
}

func unread(err error) error { return &NotTakenError{Problem: "bad_request", Err: err} }

// isRecorded reports whether a header has a part in what is recorded: it names the
// request, its caller or its source, or says what is written.
func isRecorded(name string) bool {
	return slices.Contains([]string{HeaderKey, HeaderSource, HeaderSession, "Content-Type", "Content-Encoding", "Content-Length"}, name) ||
		slices.Contains(overrides, name) || slices.Contains(telling, name) || redact.Credential(name)
}

// Counts reports whether a header has a part in what is recorded of a request.
func (t *Transport) Counts(req *http.Request, name string) bool {
	_, rule, _ := t.classify(req)
	return isRecorded(http.CanonicalHeaderKey(name)) || hasAny(name, rule.Callers, strings.EqualFold)
}
