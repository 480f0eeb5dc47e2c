package drill

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/reconcile/connect"
)

// RulesOf loads a policy file for a recorder.
type RulesOf func(policyPath string) (record.Rules, error)

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
	if err := json.Unmarshal(line, &o); err != nil {
		return reply{Error: fmt.Sprintf("reading an order: %v", err)}
	}
	r, err := p.obey(ctx, o)
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// pipeline is one that writes to the outside world and records it.
type pipeline struct {
	posting
	store    ledger.Store
	recorder *record.Recorder
	http     connect.HTTP
	set      atomic.Pointer[time.Time] // what the clock was set to; nil: the machine's

	mu     sync.Mutex
	flying map[string]*flight // by the wish's name
}

// flight is one transmission on its way.
type flight struct {
	attempt string
	kind    string
	giveUp  context.CancelFunc
	since   time.Time
	done    chan struct{}
	answer  ledger.Answer
}

func newPipeline(ctx context.Context, at posting, rules RulesOf, open Open) (*pipeline, error) {
	p := &pipeline{posting: at, flying: map[string]*flight{}}
	r, err := rules(at.Policy)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	actor := ledger.Actor{Name: at.Name, Host: host, Machine: true}
	store, err := open(ctx, at.Ledger, p.now, actor)
	if err != nil {
		return nil, err
	}
	p.store = store
	p.recorder = record.New(store, r, record.Options{Actor: actor, Clock: p.now,
		Source: ledger.Source{Pipeline: at.Name, Host: host, PID: os.Getpid()}})
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

func (p *pipeline) obey(ctx context.Context, o order) (reply, error) {
	p.setClock(o.At)
	switch o.Do {
	case doBegin:
		return p.beginAll(ctx, o.Wishes)
	case doSend:
		r, err := p.beginAll(ctx, o.Wishes)
		if err == nil {
			for _, w := range o.Wishes {
				if r.Answers[w.Name] == ledger.AnswerBegun {
					go p.follow(ctx, w.Name)
				}
			}
		}
		return r, err
	case doSettle:
		return reply{}, p.settleAll(ctx, o.Names, true)
	case doWrite:
		r, err := p.beginAll(ctx, o.Wishes)
		if err != nil {
			return r, err
		}
		var begun []string
		for _, w := range o.Wishes {
			if r.Answers[w.Name] == ledger.AnswerBegun {
				begun = append(begun, w.Name)
			}
		}
		p.await(begun)
		p.setClock(o.Until)
		return r, p.settleAll(ctx, begun, false)
	case doLive:
		go p.live(ctx, o.Every)
		return reply{}, nil
	}
	return reply{}, fmt.Errorf("no such order: %q", o.Do)
}

func (p *pipeline) beginAll(ctx context.Context, wishes []wish) (reply, error) {
	r := reply{Answers: map[string]ledger.BeginAnswer{}}
	var mu sync.Mutex
	var all errgroup.Group
	for _, w := range wishes {
		all.Go(func() error {
			answer, err := p.begin(ctx, w)
			mu.Lock()
			defer mu.Unlock()
			r.Answers[w.Name] = answer
			return err
		})
	}
	return r, all.Wait()
}

// begin records the wish and, when that allows it, transmits it in the
// background. Nothing leaves before the attempt is durable (I1).
func (p *pipeline) begin(ctx context.Context, w wish) (ledger.BeginAnswer, error) {
	token := cmp.Or(w.Token, ledger.NewToken())
	q, err := p.transmission(w.Kind, w.Input, w.Key, token)
	if err != nil {
		return "", err
	}
	request, err := p.recorded(q)
	if err != nil {
		return "", err
	}
	source := ledger.Source{Pipeline: p.Name, Run: w.Run}
	res, err := p.recorder.Begin(ctx, record.Request{Kind: w.Kind, Key: w.Key, ID: w.ID, Token: token, Input: w.Input, HTTP: request,
		Source: source, Deadline: w.Deadline, TokenSent: carriesToken(w.Kind)})
	if err != nil || res.Answer != ledger.AnswerBegun {
		return res.Answer, err
	}
	q, err = p.transmission(w.Kind, res.Operation.Input, res.Operation.KeyToSend(), res.Operation.Token)
	if err != nil {
		return res.Answer, err
	}
	flight := &flight{attempt: res.Attempt.ID, kind: w.Kind, since: p.now(), done: make(chan struct{})}
	sending, giveUp := context.WithCancel(ctx)
	flight.giveUp = giveUp
	p.mu.Lock()
	p.flying[w.Name] = flight
	p.mu.Unlock()
	go func() {
		defer close(flight.done)
		defer giveUp()
		flight.answer = p.http.Send(sending, q)
	}()
	return res.Answer, nil
}

// await waits for answers, as long as the transmissions themselves do.
func (p *pipeline) await(names []string) {
	for _, name := range names {
		p.mu.Lock()
		f := p.flying[name]
		p.mu.Unlock()
		if f != nil {
			<-f.done
		}
	}
}

// follow settles one transmission when its answer comes. Whatever goes wrong
// is in the ledger, where it belongs: the operation stays in flight until its
// deadline and is in doubt then.
func (p *pipeline) follow(ctx context.Context, name string) {
	p.await([]string{name})
	_ = p.settleAll(ctx, []string{name}, false)
}

func (p *pipeline) settleAll(ctx context.Context, names []string, impatient bool) error {
	var all errgroup.Group
	for _, name := range names {
		p.mu.Lock()
		f := p.flying[name]
		delete(p.flying, name)
		p.mu.Unlock()
		if f == nil {
			return fmt.Errorf("nothing named %q is under way", name)
		}
		all.Go(func() error { return p.settle(ctx, f, impatient) })
	}
	return all.Wait()
}

// settle reports what became of a transmission. An impatient one gives up on an
// answer that has not come, as a client does at its timeout.
func (p *pipeline) settle(ctx context.Context, f *flight, impatient bool) error {
	gaveUp := false
	select {
	case <-f.done:
	default:
		if impatient {
			gaveUp = true
			f.giveUp()
		}
		<-f.done
	}
	a := f.answer
	if a.Err != nil && gaveUp {
		a.Class = ledger.ClassTimeout
		a.Err = fmt.Errorf("no answer after %.1f s", p.now().Sub(f.since).Seconds())
	}
	rec, err := p.store.Read(ctx, ledger.Locator{AttemptID: f.attempt})
	if err != nil {
		return err
	}
	_, err = p.recorder.Settle(ctx, outcome.JudgeAttempt(ctx, p.recorder.Rule(f.kind).Judge, rec, f.attempt, a))
	return err
}

// transmission is the request a pipeline makes of a wish: the token goes where
// the policy says that it goes, the key into the header where there is one.
func (p *pipeline) transmission(kind string, input json.RawMessage, key, token string) (connect.HTTPRequest, error) {
	way, ok := ways[kind]
	if !ok {
		return connect.HTTPRequest{}, fmt.Errorf("no pipeline knows how to send %s", kind)
	}
	body := fields{}
	if err := json.Unmarshal(input, &body); err != nil {
		return connect.HTTPRequest{}, fmt.Errorf("the input of %s: %w", kind, err)
	}
	switch way.token {
	case "":
	case "metadata":
		body["metadata"] = fields{"indoubt": token}
	default:
		body[way.token] = token
	}
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + p.Bearer}}
	if way.keyed {
		header.Set("Idempotency-Key", key)
	}
	return connect.HTTPRequest{Method: http.MethodPost, URL: p.Base + way.path, Header: header, Body: encode(body), Timeout: patience}, nil
}

// recorded is a request as a recorder of HTTP keeps it, so that a person can send it again.
func (p *pipeline) recorded(q connect.HTTPRequest) (*ledger.Request, error) {
	caller, err := p.recorder.Digest(q.Header.Get("Authorization"))
	if err != nil {
		return nil, err
	}
	return &ledger.Request{Method: q.Method, Origin: p.Base, Target: strings.TrimPrefix(q.URL, p.Base), Body: string(q.Body),
		Header: map[string][]string{"Content-Type": q.Header["Content-Type"]}, Withheld: []string{"Authorization"},
		Callers: map[string]string{"Authorization": caller[:ledger.CallerLength]}}, nil
}

// patience is how long a pipeline waits for an answer, unless it is told to
// give up before.
const patience = 30 * time.Second

// ways are how each kind reaches the downstream.
var ways = map[string]struct {
	path  string
	token string // where the token goes; empty: nowhere
	keyed bool
}{
	"stripe.charge": {"/v1/payment_intents", "metadata", true},
	"bank.payout":   {"/v1/payouts", "metadata", false},
	"x.post":        {"/posts", "ref", false},
	"mail.send":     {"/send", "message_id", false},
	"legacy.charge": {"/legacy/charge", "", false},
	"deploy":        {"/deploys", "note", false},
}

func carriesToken(kind string) bool { return ways[kind].token != "" }
