package pgtest

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Relay stands between programs and their server. It counts how often they wait for the
// server, delays what they say to each other, and cuts connections, at a byte or at once.
type Relay struct {
	Delay time.Duration // of each way; set before the first connection

	server string

	mu     sync.Mutex
	turns  int  // how often the client began to send after it had an answer
	asking bool // the client was the last to send
	armed  bool
	last   bool     // the cut ends it: no connection goes on, and none is made after it
	on     net.Conn // the client's end of the connection that is cut; nil: of any
	up     int      // bytes to the server until the cut, from when it is armed; below 0: no cut
	down   int      // bytes to the client
	sent   [2]int
	text   []byte                // where the client says it, its connection is cut
	answer bool                  // and not before the server was told
	gone   bool                  // the server cannot be reached
	silent bool                  // what is said arrives nowhere, and no connection ends
	conns  map[net.Conn]net.Conn // the servers' ends, by the clients'
}

// Through puts a relay before the server of a ledger's address.
func Through(t testing.TB, address string) (*Relay, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{server: u.Host, conns: map[net.Conn]net.Conn{}, up: -1, down: -1}
	t.Cleanup(func() { l.Close(); r.Drop() })
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

func (r *Relay) serve(client net.Conn) {
	defer client.Close()
	r.mu.Lock()
	away := r.gone
	r.mu.Unlock()
	if away {
		return
	}
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", r.server)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	if away = r.gone; !away { // else it was cut for good since
		r.conns[client] = server
	}
	r.mu.Unlock()
	if away {
		return
	}
	done := make(chan bool, 2)
	go r.pass(client, server, true, done)
	go r.pass(client, server, false, done)
	<-done
	client.Close()
	server.Close()
	<-done
	r.mu.Lock()
	delete(r.conns, client)
	r.mu.Unlock()
}

// parcel is what was said at once, and when it arrives.
type parcel struct {
	said []byte
	due  time.Time
}

func (r *Relay) pass(client, server net.Conn, up bool, done chan bool) {
	to, from := client, server
	if up {
		to, from = server, client
	}
	way := make(chan parcel, 1024)
	go func() {
		defer close(way)
		for buffer := make([]byte, 64<<10); ; {
			n, err := from.Read(buffer)
			if n > 0 {
				allowed, cut := r.account(client, buffer[:n], up)
				way <- parcel{append([]byte{}, buffer[:allowed]...), time.Now().Add(r.Delay)}
				if cut {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() {
		done <- true
		for range way { // the connections are closed
		}
	}()
	for p := range way {
		time.Sleep(time.Until(p.due))
		if r.isSilent() {
			continue
		}
		if _, err := to.Write(p.said); err != nil {
			return
		}
	}
}

// account counts bytes of a connection, and reports how many may pass.
func (r *Relay) account(client net.Conn, said []byte, up bool) (allowed int, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(said)
	if up && len(r.text) > 0 && bytes.Contains(said, r.text) {
		r.armed, r.on, r.up, r.down, r.sent, r.text = true, client, 0, -1, [2]int{}, nil
		if r.answer {
			r.up, r.down = -1, 0
		}
	}
	if up && !r.asking {
		r.turns++
	}
	r.asking = up
	if !r.armed || r.on != nil && r.on != client {
		return n, false
	}
	way, limit := 0, r.up
	if !up {
		way, limit = 1, r.down
	}
	if limit >= 0 && r.sent[way]+n >= limit {
		n, cut = limit-r.sent[way], true
		if r.armed = false; r.last { // through another connection the client could learn what became of it
			r.gone = true
			r.drop(client)
		}
	}
	r.sent[way] += n
	return n, cut
}

// Arm cuts the connection after so many more bytes; below 0, not.
func (r *Relay) Arm(up, down int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed, r.last, r.on, r.up, r.down, r.sent = true, false, nil, up, down, [2]int{}
}

// ArmAt cuts the connection on which the client says a text: before the server has it, or
// before its answer. For good: no connection goes on then, and none is made.
func (r *Relay) ArmAt(text string, answer, forGood bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text, r.answer, r.last = []byte(text), answer, forGood
}

// Disarm tells how many bytes have gone each way since it was armed.
func (r *Relay) Disarm() (up, down int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = false
	return r.sent[0], r.sent[1]
}

// Away has the server be reached no more, or again.
func (r *Relay) Away(yes bool) {
	r.mu.Lock()
	r.gone = yes
	r.mu.Unlock()
	if yes {
		r.Drop()
	}
}

// Silence has what is said arrive nowhere, without the end of a connection, or arrive again.
func (r *Relay) Silence(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = yes
}

func (r *Relay) isSilent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silent
}

// Leave has no connection be made any more; those that are go on.
func (r *Relay) Leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
}

// Drop cuts all connections.
func (r *Relay) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(nil)
}

// drop cuts all connections but that of a client.
func (r *Relay) drop(but net.Conn) {
	for client, server := range r.conns {
		if client != but {
			client.Close()
			server.Close()
		}
	}
}

// Trips is how many round trips a call takes.
func (r *Relay) Trips(call func()) int {
	r.mu.Lock()
	r.turns, r.asking = 0, false
	r.mu.Unlock()
	call()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns
}
