package drill

import (
	"bufio"
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
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/record/roundtrip"
	"indoubt/ledger/wire/transmit"
	"indoubt/policy"
)

// RulesOf are a recorder's rules under a policy.
type RulesOf func(inForce func() *policy.Policy) record.Rules

// RunPipeline is the main function of a pipeline process. It does what its
// orders say until its standard input ends: when the program that started it is gone,
// however that came, it goes too.
func RunPipeline(ctx context.Context, in io.Reader, out io.Writer, rules RulesOf, open Open) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	if !lines.Scan() {
		return errors.New("a pipeline of the demo is started by `indoubt demo` and takes its orders from it")
	}
	var at posting
	if err := json.Unmarshal(lines.Bytes(), &at); err != nil {
		return fmt.Errorf("reading the posting: %w", err)
	}
	p, err := newPipeline(ctx, at, rules, open)
	if err != nil {
		return err
	}
	defer p.store.Close()
	answers := json.NewEncoder(out)
	if err := answers.Encode(reply{}); err != nil {
		return err
	}
	orders := make(chan []byte)
	go func() {
		defer stop() // ends an order that is being carried out, too
		for lines.Scan() {
			select {
			case orders <- slices.Clone(lines.Bytes()):
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case line := <-orders:
			if err := answers.Encode(p.answer(ctx, line)); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// answer carries out one order.
func (p *pipeline) answer(ctx context.Context, line []byte) reply {
	var o order
	err := json.Unmarshal(line, &o)
	if err == nil {
		err = p.obey(ctx, o)
	}
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{}
}

// pipeline is a program that writes to the outside world, with a client that records.
type pipeline struct {
	posting
	store  ledger.Store
	client http.Client
	set    atomic.Pointer[time.Time] // what the clock was set to; nil: the machine's

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

func newPipeline(ctx context.Context, at posting, rules RulesOf, open Open) (*pipeline, error) {
	p := &pipeline{posting: at, flying: map[string]*flight{}}
	text, err := policy.Load(at.Policy)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	actor := ledger.Actor{Name: at.Name, Host: host, Machine: true}
	if p.store, err = open(ctx, at.Ledger, p.now, actor); err != nil {
		return nil, err
	}
	p.client.Transport = &roundtrip.Transport{
		Recorder: record.New(p.store, rules(func() *policy.Policy { return text }), record.Options{Actor: actor, Clock: p.now}),
		Kind: func(r *http.Request) string {
			kind, _ := text.KindFor(r.Method, r.URL.Host, r.URL.Path)
			return kind
		},
		IDs: func(r *http.Request) (id, token string) {
			f := flightOf(r.Context())
			return f.ID, f.Token
		},
		Sender: &transmit.Sender{Dial: p.dial},
	}
	return p, nil
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

func (p *pipeline) obey(ctx context.Context, o order) error {
	p.setClock(o.At)
	switch o.Do {
	case doSend:
		for _, w := range o.Wishes {
			p.flying[w.Name] = p.send(ctx, w, time.Time{})
		}
		return nil
	case doGiveUp:
		return p.giveUp(o.Wishes)
	case doWrite:
		f := p.send(ctx, o.Wishes[0], o.Until)
		<-f.done
		return f.err
	case doLive:
		go p.live(ctx, o.Every)
		return nil
	}
	return fmt.Errorf("no such order: %q", o.Do)
}

// send starts the request of a wish.
func (p *pipeline) send(ctx context.Context, w wish, until time.Time) *flight {
	f := &flight{wish: w, until: until, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.err = p.post(context.WithValue(ctx, ofFlight{}, f), w)
	}()
	return f
}

// post makes the request of a wish and reads its answer.
func (p *pipeline) post(ctx context.Context, w wish) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Base+paths[w.Kind], bytes.NewReader(w.Input))
	if err != nil {
		return err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + p.Bearer},
		roundtrip.HeaderKey: {w.Key}, roundtrip.HeaderSource: {p.Name + "@" + w.Run}}
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
		var lost *record.DoubtError
		if !errors.As(f.err, &lost) {
			return fmt.Errorf("%s was to be in doubt: %w", f.Name, cmp.Or(f.err, errors.New("it was answered")))
		}
	}
	return nil
}

// paths are where each kind is written.
var paths = map[string]string{
	"stripe.charge": "/v1/payment_intents",
	"bank.payout":   "/v1/payouts",
	"x.post":        "/posts",
	"mail.send":     "/send",
	"legacy.charge": "/legacy/charge",
	"deploy":        "/deploys",
}
