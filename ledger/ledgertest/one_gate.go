package ledgertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"

	"github.com/anishathalye/porcupine"
)

// What a Call does. A deadline passes by itself, at some time between From and To. Who allows
// a send has it written down first, in a change of its own.
const (
	callBegin  = "begin"
	callSettle = "settle"
	callAllow  = "allow"
	callPasses = "passes"
	callWrites = "writes down"
	callDecide = "decide"
)

// Call is what one client asked of one gate. Its times are of a clock that all clients
// share.
type Call struct {
	Does         string
	Client       int
	Gate, Name   string
	Attempt      string
	Outcome      ledger.Outcome
	Answer, Held string // the answer, and whose name it is about
	From, To     int64
}

const (
	// gateNames are the names, of two kinds, that ask the same at one gate.
	gateNames = 6
	// deadlineSeen is how long after a deadline every reader takes it as passed, by the clocks
	// of another host.
	deadlineSeen = 2 * time.Second
)

// atGate is a client of one gate.
type atGate struct {
	s      ledger.Store
	client int
	gate   string
	r      *rand.Rand
	tick   func() int64
	calls  []Call
	err    error
	n      int
}

func (g *atGate) did(c Call, call func() (answer, held string, err error)) Call {
	c.Client, c.Gate, c.From = g.client, g.gate, g.tick()
	err := ledger.ErrBusy
	for n := 0; n < 20 && errors.Is(err, ledger.ErrBusy); n++ { // on a busy machine; nothing is recorded then
		c.Answer, c.Held, err = call()
	}
	c.To = g.tick()
	if err != nil {
		g.err = errors.Join(g.err, fmt.Errorf("%+v: %w", c, err))
	}
	g.calls = append(g.calls, c)
	return c
}

func (g *atGate) id() string {
	g.n++
	return fmt.Sprintf("%s-%d-%d", g.gate, g.client, g.n)
}

func (g *atGate) begin(name string, deadline time.Duration) Call {
	id := g.id()
	kind := "k" + name[:1] // so that half of them are of another kind
	c := g.did(Call{Does: callBegin, Name: name, Attempt: id}, func() (string, string, error) {
		res, err := ledger.Begin(ctx, g.s, ledger.BeginRequest{ChangeID: "c" + id, OperationID: "o" + id, AttemptID: id, Actor: billing,
			Kind: kind, Key: name + g.gate, Gate: g.gate, Target: name + g.gate, Sender: "pipeline", Deadline: deadline})
		return string(res.Answer), strings.TrimSuffix(res.Operation.Key, g.gate), err
	})
	if c.Answer == string(ledger.AnswerBegun) && deadline == ledger.MinDeadline {
		passes := c
		passes.Does, passes.Answer, passes.To = callPasses, "", c.To+int64(deadline+deadlineSeen)
		g.calls = append(g.calls, passes)
	}
	return c
}

func (g *atGate) settle(c Call, outcome ledger.Outcome) {
	g.did(Call{Does: callSettle, Name: c.Name, Attempt: c.Attempt, Outcome: outcome}, func() (string, string, error) {
		req := ledger.SettleRequest{ChangeID: "s" + string(outcome) + c.Attempt, AttemptID: c.Attempt, Outcome: outcome, Actor: billing}
		if outcome == ledger.OutcomeFailed {
			req.Proof = ledger.Refused
		}
		applied, err := ledger.Settle(ctx, g.s, req)
		return string(applied.After.State), c.Name, err
	})
}

// person looks at what is in doubt under a name, and allows one more send of it, or says
// what became of it.
func (g *atGate) person(name, does string) {
	c := g.did(Call{Does: does, Name: name}, func() (answer, held string, err error) {
		id := g.id()
		rec, err := g.s.Read(ctx, ledger.Locator{Kind: "k" + name[:1], Key: name + g.gate})
		if err != nil || rec.State() != ledger.Uncertain {
			return "no", name, err
		}
		o := rec.Operation
		if does == callDecide {
			_, err = ledger.Decide(ctx, g.s, ledger.Decision{ChangeID: id, ID: o.ID, Version: o.Version, Actor: maya, Reason: "because",
				Verb: pick(g.r, ledger.VerbConfirm, ledger.VerbDeny)})
		} else {
			_, err = ledger.Allow(ctx, g.s, ledger.AllowRequest{ChangeID: id, AllowID: "g" + id, OperationID: o.ID, Version: o.Version, Actor: maya, Reason: "because",
				Sender: "pipeline", Basis: ledger.BasisRiskAccepted, ExpiresAt: rec.Now.Add(time.Hour)})
		}
		var moved *ledger.MovedError
		if errors.As(err, &moved) {
			return "moved", name, nil
		}
		return "yes", name, err
	})
	if does == callAllow && c.Answer != "no" {
		c.Does = callWrites
		g.calls = append(g.calls, c)
	}
}

// PlayGate lets a client begin what is identical under several keys and kinds, beside
// others that do: some of it settles in each way, late too, and some is allowed to go out
// again. Where die is given, it is called between the first begin that was told to send
// and its settle, with all that was called until then.
func PlayGate(s ledger.Store, gate string, client int, r *rand.Rand, tick func() int64, die func([]Call)) ([]Call, error) {
	g := &atGate{s: s, client: client, gate: gate, r: r, tick: tick}
	for range 8 {
		deadline := pick(r, time.Hour, time.Hour, ledger.MinDeadline)
		if die != nil {
			deadline = ledger.MinDeadline
		}
		c := g.begin(fmt.Sprintf("%d-%d", r.IntN(2), r.IntN(gateNames/2)), deadline)
		switch {
		case c.Answer == string(ledger.AnswerInDoubt) && r.IntN(2) == 0:
			g.person(c.Held, callAllow)
			c = g.begin(c.Held, time.Hour)
			if c.Answer == string(ledger.AnswerBegun) {
				g.settle(c, pick(r, ledger.OutcomeCommitted, ledger.OutcomeFailed, ledger.OutcomeUncertain))
			}
			continue
		case c.Answer != string(ledger.AnswerBegun):
			continue
		case die != nil:
			die(g.calls)
		}
		switch r.IntN(8) {
		case 0:
			g.settle(c, ledger.OutcomeCommitted)
		case 1, 2: // in doubt at first, and answered late
			g.settle(c, ledger.OutcomeUncertain)
			fallthrough
		default:
			g.settle(c, pick(r, ledger.OutcomeFailed, ledger.OutcomeFailed, ledger.OutcomeFailed, ledger.OutcomeCommitted))
		}
	}
	return g.calls, g.err
}

// CrowdGate lets a client begin one request n times, each time under a key of its own. What
// is left in doubt is begun again a few times before a person says what became of it.
func CrowdGate(s ledger.Store, gate string, client, n int, r *rand.Rand, tick func() int64) ([]Call, error) {
	g := &atGate{s: s, client: client, gate: gate, r: r, tick: tick}
	for i := range n {
		c := g.begin(fmt.Sprintf("%d-%d-%d", i%2, client, i), time.Hour)
		if c.Answer != string(ledger.AnswerBegun) {
			continue
		}
		outcome := pick(r, ledger.OutcomeCommitted, ledger.OutcomeFailed, ledger.OutcomeUncertain)
		g.settle(c, outcome)
		if outcome == ledger.OutcomeUncertain {
			for again := range 3 {
				g.begin(fmt.Sprintf("%d-%d-%d-%d", i%2, client, i, again), time.Hour)
			}
			g.person(c.Name, callDecide)
		}
	}
	return g.calls, g.err
}

// Alone returns an error where two calls of a gate were surely open at one time: between
// the return of a begin and the call that ends what it began. It says how many were begun
// and how many were in doubt for a while.
func Alone(calls []Call) (begun, doubts int, err error) {
	type span struct {
		Call
		until int64
	}
	ends := map[string]Call{} // by name: the call that ends it
	for _, c := range calls {
		switch {
		case c.Does == callDecide && c.Answer == "yes":
			ends[c.Name] = c
		case c.Does == callSettle && c.Outcome == ledger.OutcomeUncertain:
			doubts++
		case c.Does == callSettle:
			ends[c.Name] = c
		}
	}
	var open []span
	for _, c := range calls {
		if c.Does != callBegin {
			continue
		}
		switch ended, ok := ends[c.Name]; {
		case c.Answer == string(ledger.AnswerBegun) && ok:
			open = append(open, span{c, ended.From})
		case c.Answer == string(ledger.AnswerBegun):
			err = errors.Join(err, fmt.Errorf("nothing ends %+v", c))
		case c.Answer != string(ledger.AnswerInProgress) && c.Answer != string(ledger.AnswerInDoubt):
			err = errors.Join(err, fmt.Errorf("a new key is answered: %+v", c))
		}
	}
	slices.SortFunc(open, func(a, b span) int { return int(a.To - b.To) })
	for i, o := range open[1:] {
		if before := open[i]; o.To < before.until {
			err = errors.Join(err, fmt.Errorf("%+v was begun while this was open: %+v", o, before))
		}
	}
	return len(open), doubts, err
}

// wish is one name of a gate, and gate all of them: what begin, settle and allow mean for
// them, said a second time and more simply than the rules do.
type (
	wish struct {
		live     string // an attempt in flight
		past     bool   // its deadline has passed, and is not written down
		tries    int
		unproven int // attempts in doubt
		landed   bool
		allowed  bool
	}
	gate [gateNames]wish
)

func (w wish) state() ledger.State {
	switch {
	case w.past:
		return ledger.Uncertain
	case w.live != "":
		return ledger.Pending
	case w.landed:
		return ledger.Committed
	case w.unproven > 0:
		return ledger.Uncertain
	case w.tries > 0:
		return ledger.Failed
	}
	return ""
}

// expire writes down that the deadline has passed: an earlier attempt may have landed.
func (w *wish) expire() {
	if w.past {
		w.past = false
		w.settle(w.live, ledger.OutcomeUncertain)
	}
}

func nameAt(i int) string { return fmt.Sprintf("%d-%d", i%2, i/2) }

// begin is what a call of a begin is told.
func (g gate) begin(at int, attempt string) (answer, held string, _ gate) {
	w := &g[at]
	w.expire()
	switch w.state() {
	case ledger.Pending:
		return string(ledger.AnswerInProgress), nameAt(at), g
	case ledger.Committed:
		return string(ledger.AnswerFinished), nameAt(at), g
	case ledger.Uncertain:
		if !w.allowed {
			return string(ledger.AnswerInDoubt), nameAt(at), g
		}
	default:
		for i, other := range g {
			switch other.state() {
			case ledger.Pending:
				return string(ledger.AnswerInProgress), nameAt(i), g
			case ledger.Uncertain:
				return string(ledger.AnswerInDoubt), nameAt(i), g
			}
		}
	}
	w.live, w.allowed = attempt, false
	w.tries++
	return string(ledger.AnswerBegun), nameAt(at), g
}

// settle says that an attempt has ended, and what it was told then.
func (w *wish) settle(attempt string, outcome ledger.Outcome) (state ledger.State, possible bool) {
	switch {
	case w.live == attempt:
		w.live, w.past = "", false
	case w.unproven == 0:
		return "", false
	case outcome == ledger.OutcomeUncertain: // which is known
		return w.stored(), true
	default:
		w.unproven--
	}
	w.allowed = false
	switch outcome {
	case ledger.OutcomeCommitted:
		w.landed = true
	case ledger.OutcomeUncertain:
		w.unproven++
	}
	return w.stored(), true
}

// stored is the state as it is written down.
func (w wish) stored() ledger.State {
	w.past = false
	return w.state()
}

var gateModel = porcupine.Model{
	Init: func() any { return gate{} },
	Step: func(state, input, output any) (bool, any) {
		g, in := state.(gate), input.(Call)
		at := 0
		for nameAt(at) != in.Name {
			at++
		}
		w := &g[at]
		switch in.Does {
		case callBegin:
			answer, held, next := g.begin(at, in.Attempt)
			return answer == in.Answer && held == in.Held, next
		case callSettle:
			told, possible := w.settle(in.Attempt, in.Outcome)
			return possible && string(told) == in.Answer, g
		case callAllow:
			possible := w.stored() == ledger.Uncertain
			w.allowed = true
			return possible, g
		case callWrites:
			w.expire()
			return true, g
		case callPasses:
			w.past = w.past || w.live == in.Attempt
			return true, g
		}
		return false, g
	},
	Equal: func(a, b any) bool { return a == b },
}

// Explained returns an error unless some order of the calls of one gate explains every
// answer. What can change nothing is left out, so that there are fewer orders to look at: an
// allow that was refused, and a deadline that passes after its attempt has been settled.
func Explained(calls []Call) error {
	var history []porcupine.Operation
	var told strings.Builder
	settled := map[string]int64{}
	for _, c := range calls {
		if at, is := settled[c.Attempt]; c.Does == callSettle && (!is || c.To < at) {
			settled[c.Attempt] = c.To
		}
	}
	for _, c := range calls {
		if c.Does == callAllow && c.Answer != "yes" {
			continue
		}
		if at, is := settled[c.Attempt]; is && c.Does == callPasses {
			c.To = min(c.To, at)
		}
		history = append(history, porcupine.Operation{ClientId: c.Client, Input: c, Call: c.From, Return: c.To})
		fmt.Fprintf(&told, "\n%+v", c)
	}
	if result := porcupine.CheckOperationsTimeout(gateModel, history, 30*time.Second); result != porcupine.Ok {
		return fmt.Errorf("no order of these calls explains the answers (%s):%s", result, told.String())
	}
	return nil
}
