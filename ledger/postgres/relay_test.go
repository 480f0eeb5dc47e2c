package postgres

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// relay stands between a store and its server. It counts how often the store waits for
// the server, and cuts connections at a byte.
type relay struct {
	t      testing.TB
	server string

	mu     sync.Mutex
	turns  int  // how often the store began to send after it had an answer
	asking bool // the store was the last to send
	armed  bool
	up     int // bytes to the server until the cut, from when it is armed; below 0: no cut
	down   int // bytes to the store
	sent   [2]int
	gone   bool // the server cannot be reached
	conns  map[net.Conn]bool
}

// through puts a relay before the server of a ledger's address.
func through(t testing.TB, address string) (*relay, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, server: u.Host, conns: map[net.Conn]bool{}, up: -1, down: -1}
	t.Cleanup(func() { l.Close(); r.drop() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	u.Host = l.Addr().String()
	return r, u.String()
}

func (r *relay) serve(store net.Conn) {
	defer store.Close()
	r.mu.Lock()
	away := r.gone
	r.mu.Unlock()
	if away {
		return
	}
	server, err := net.Dial("tcp", r.server)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.conns[store], r.conns[server] = true, true
	r.mu.Unlock()
	done := make(chan bool, 2)
	go r.pass(server, store, true, done)
	go r.pass(store, server, false, done)
	<-done
	store.Close()
	server.Close()
	<-done
	r.mu.Lock()
	delete(r.conns, store)
	delete(r.conns, server)
	r.mu.Unlock()
}

func (r *relay) pass(to, from net.Conn, up bool, done chan bool) {
	defer func() { done <- true }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			allowed, cut := r.account(n, up)
			if _, err := to.Write(buffer[:allowed]); err != nil || cut {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// account counts bytes, and reports how many may pass.
func (r *relay) account(n int, up bool) (allowed int, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if up && !r.asking {
		r.turns++
	}
	r.asking = up
	if !r.armed {
		return n, false
	}
	way, limit := 0, r.up
	if !up {
		way, limit = 1, r.down
	}
	if limit >= 0 && r.sent[way]+n >= limit {
		n, cut = limit-r.sent[way], true
		r.armed = false
	}
	r.sent[way] += n
	return n, cut
}

// arm cuts the connection after so many more bytes; below 0, not.
func (r *relay) arm(up, down int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.up, r.down, r.sent = true, up, down, [2]int{}
}

// disarm tells how many bytes have gone each way since it was armed.
func (r *relay) disarm() (up, down int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = false
	return r.sent[0], r.sent[1]
}

// away has the server be reached no more, or again.
func (r *relay) away(yes bool) {
	r.mu.Lock()
	r.gone = yes
	r.mu.Unlock()
	if yes {
		r.drop()
	}
}

// leave has no connection be made any more; those that are go on.
func (r *relay) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
}

func (r *relay) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

// trips is how many round trips a call takes.
func (r *relay) trips(call func()) int {
	r.mu.Lock()
	r.turns, r.asking = 0, false
	r.mu.Unlock()
	call()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns
}
