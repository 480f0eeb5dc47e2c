package drill

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/record/roundtrip"
	"indoubt/ledger/wire/transmit"
	"indoubt/policy"
)

// wish is one thing a pipeline wants written.
type wish struct {
	Name  string // among those of a world
	Kind  string
	Key   string
	ID    string
	Token string
	Run   string
	Input json.RawMessage
}

// shows is what the request of a wish and its effect have in common with no other's.
func (w wish) shows() string {
	if w.Kind == "legacy.charge" { // which takes no token
		return string(w.Input[1 : len(w.Input)-1])
	}
	return w.Token
}

// pipeline is a program that writes to the outside world, with a client that records. It has
// a clock and a ledger of its own.
type pipeline struct {
	name   string
	base   string
	store  ledger.Store
	client http.Client
	set    atomic.Pointer[time.Time] // what the clock was set to; nil: the machine's
	dead   atomic.Bool               // nothing that it still wants is recorded
	ctx    context.Context           // of its requests
	hangUp context.CancelFunc

	mu     sync.Mutex
	flying map[string]*flight // that may be given up, by the wish's name
}

// flight is a request on its way.
type flight struct {
	wish
	until  time.Time // what the clock is set to once it is begun, unless zero
	giveUp func()    // waits no longer for its answer
	done   chan struct{}
	err    error
}

// ofFlight names the flight in the context of its request.
type ofFlight struct{}

func flightOf(ctx context.Context) *flight { return ctx.Value(ofFlight{}).(*flight) }

// hire makes a pipeline.
func (w *World) hire(name string) (*pipeline, error) {
	p := &pipeline{name: name, base: w.Downstream.URL(), flying: map[string]*flight{}}
	p.setClock(w.now())
	host, _ := os.Hostname()
	actor := ledger.Actor{Name: name, Host: host, Machine: true}
	var err error
	if p.store, err = w.options.Open(context.Background(), w.LedgerPath, p.now, actor); err != nil {
		return nil, err
	}
	p.ctx, p.hangUp = context.WithCancel(context.Background())
	rules := w.options.Rules(func() *policy.Policy { return w.policy })
	p.client.Transport = &roundtrip.Transport{
		Recorder: record.New(mortal{p.store, &p.dead}, rules, record.Options{Actor: actor, Clock: p.now}),
		Kind: func(r *http.Request) string {
			kind, _ := w.policy.KindFor(r.Method, r.URL.Host, r.URL.Path)
			return kind
		},
		IDs: func(r *http.Request) (id, token string) {
			f := flightOf(r.Context())
			return f.ID, f.Token
		},
		Sender: transmit.Sender{Dial: p.dial},
	}
	return p, nil
}

// kill ends it where it stands, as kill -9 does: its connections are cut, and nothing that
// it had begun is settled.
func (p *pipeline) kill() {
	p.dead.Store(true)
	p.hangUp()
}

// mortal is the ledger of a pipeline, which a dead one does not reach.
type mortal struct {
	ledger.Store
	dead *atomic.Bool
}

func (m mortal) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	if m.dead.Load() {
		return ledger.Applied{}, ledger.ErrGone
	}
	return m.Store.Change(ctx, at, id, rule)
}

func (p *pipeline) now() time.Time {
	if t := p.set.Load(); t != nil {
		return *t
	}
	return time.Now()
}

func (p *pipeline) setClock(t time.Time) {
	if t.IsZero() {
		p.set.Store(nil)
		return
	}
	p.set.Store(&t)
}

// send starts the request of a wish.
func (p *pipeline) send(w wish, until time.Time) *flight {
	f := &flight{wish: w, until: until, done: make(chan struct{})}
	p.mu.Lock()
	p.flying[w.Name] = f
	p.mu.Unlock()
	go func() {
		defer close(f.done)
		f.err = p.post(context.WithValue(p.ctx, ofFlight{}, f), w)
	}()
	return f
}

// post makes the request of a wish and reads its answer.
func (p *pipeline) post(ctx context.Context, w wish) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+resources[w.Kind].path, bytes.NewReader(w.Input))
	if err != nil {
		return err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + bearer},
		roundtrip.HeaderKey: {w.Key}, roundtrip.HeaderSource: {p.name + "@" + w.Run}}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// dial connects for the one attempt of a request, which is begun by now.
func (p *pipeline) dial(ctx context.Context, network, address string) (net.Conn, error) {
	f := flightOf(ctx)
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		p.mu.Lock()
		f.giveUp = func() { conn.SetReadDeadline(time.Unix(1, 0)) }
		p.mu.Unlock()
	}
	if !f.until.IsZero() {
		p.setClock(f.until)
	}
	return conn, err
}

// giveUp waits no longer for answers that have not come, as a client does at its timeout.
func (p *pipeline) giveUp(wishes []wish) error {
	var all []*flight
	p.mu.Lock()
	for _, w := range wishes {
		f := p.flying[w.Name]
		if f == nil || f.giveUp == nil {
			p.mu.Unlock()
			return fmt.Errorf("nothing named %q is under way", w.Name)
		}
		f.giveUp()
		delete(p.flying, w.Name)
		all = append(all, f)
	}
	p.mu.Unlock()
	for _, f := range all {
		<-f.done
		if record.In(f.err).Answer != ledger.AnswerInDoubt {
			return fmt.Errorf("%s was to be in doubt: %w", f.Name, cmp.Or(f.err, errors.New("it was answered")))
		}
	}
	return nil
}
