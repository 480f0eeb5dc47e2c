package ledgertest

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

// Which operation of its name it is makes a token, under the ledger's key, where the name was given.
func tokens(t *testing.T, open Open) {
	t.Run("I13_TheSameKeyHasTheSameTokenInALedgerThatLostTheRow", func(t *testing.T) { tokenOfALostRow(t, open) })
	t.Run("I13_EveryBirthOfANameHasAnotherToken", func(t *testing.T) { anotherToken(t, open) })
	t.Run("I4_ATokenStays", func(t *testing.T) { tokenStays(t, open) })
}

const standIn = "indoubt-STANDIN"

// tokenless is a request that brings no token.
func tokenless(r *ledger.BeginRequest) { r.Token, r.StandIn, r.TTL = "", standIn, time.Minute }

// keyedDesk is a desk whose ledger has its key.
func keyedDesk(t *testing.T, open Open) *desk {
	d := newDesk(t, open)
	need.Get(d.s.DigestKey(ctx))(d)
	return d
}

// under is a desk with an empty ledger whose key that is; "": it has none.
func under(t *testing.T, key string) *desk {
	return newDesk(t, func(_ testing.TB, clock ledger.Clock, steady ledger.SteadyClock) ledger.Store {
		m := NewMemory(clock, steady)
		m.Store = store.New(m.db, Key(key), "")
		if key == "" {
			m.Store = store.New(m.db, nowhere{}, "")
			return m
		}
		need.Get(m.DigestKey(ctx))(t)
		return m
	})
}

// nowhere is where no key lies.
type nowhere struct{ Key }

func (nowhere) Path() string { return "" }

func tokenOfALostRow(t *testing.T, open Open) {
	d := keyedDesk(t, open)
	same := under(t, string(need.Get(d.s.DigestKey(ctx))(t)))
	fields := ledger.FieldsKey("card.charge", []string{"order"}, strings.Repeat("0", 32))
	for _, on := range []*desk{d, same, under(t, "")} {
		on.begun("before", tokenless) // it has nothing to do with the others
		on.begun("elsewhere", tokenless, func(r *ledger.BeginRequest) { r.Scope = "s" })
	}
	all := map[string]string{}
	for n := range 3 {
		for key, mod := range map[string]func(*ledger.BeginRequest){
			"k": func(r *ledger.BeginRequest) {
				r.Request = &ledger.Request{Target: "/?t=" + standIn, Body: standIn, Binary: []byte(standIn)}
			},
			fields: func(r *ledger.BeginRequest) {},
		} {
			was := d.begun(key, tokenless, mod)
			is := same.begun(key, tokenless, mod)
			a, b := was.Operation, is.Operation
			need.That(t, a.Token == b.Token && len(a.Token) == len(ledger.NewToken()) && strings.HasPrefix(a.Token, "indoubt-") && a.Token != standIn,
				"%s, %d: %q, %q", key, n, a.Token, b.Token)
			need.That(t, a.KeyToSend() == b.KeyToSend() && (a.KeyToSend() == "k" || ledger.MadeKey(a.KeyToSend())), "%s, %d: %q, %q", key, n, a.KeyToSend(), b.KeyToSend())
			if r := d.read(a.ID).Operation.Request; r != nil {
				need.Equal(t, [3]string{r.Target, r.Body, string(r.Binary)}, [3]string{"/?t=" + a.Token, a.Token, a.Token})
			}
			need.That(t, all[a.Token] == "" && (key == "k" || all[a.KeyToSend()] == ""), "%s, %d: %q was %q", key, n, a.Token, all[a.Token])
			all[a.Token], all[a.KeyToSend()] = key, key
			for on, res := range map[*desk]ledger.BeginResult{d: was, same: is} {
				on.settle(res.Attempt.ID, ledger.OutcomeCommitted)
				on.clock.Advance(time.Hour)
			}
		}
	}
	for _, key := range []string{"k", fields} { // no key, no token that anyone could make
		none := under(t, "").begun(key, tokenless).Operation
		need.That(t, none.Token == standIn && none.SentKey == "", "without the ledger's key: %q, %q", none.Token, none.SentKey)
	}
}

func anotherToken(t *testing.T, open Open) {
	d := keyedDesk(t, open)
	in := func(kind, scope string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) { r.Kind, r.Scope = kind, scope }
	}
	all := map[string]string{}
	born := func(on *desk, what, key string, mod ...func(*ledger.BeginRequest)) ledger.Operation {
		t.Helper()
		o := on.begun(key, append(mod, tokenless)...).Operation
		need.That(t, all[o.Token] == "" && o.Token != standIn, "%s has the token of %s: %s", what, all[o.Token], o.Token)
		all[o.Token] = what
		return o
	}
	first := born(d, "the first", "k", in("pay", "s"))
	born(d, "another kind", "k", in("refund", "s"))
	born(d, "another scope", "k", in("pay", "t"))
	born(d, "another name", "l", in("pay", "s"))
	born(d, "a kind that is longer", "bc", in("pa", ""))
	born(d, "a name that is", "c", in("pab", ""))
	born(under(t, "another key, of another ledger"), "another ledger", "k", in("pay", "s"))
	first = d.settle(first.LiveAttempt, ledger.OutcomeCommitted)
	d.decide(first, ledger.VerbRedact, func(p *ledger.Decision) { p.Key = true })
	d.clock.Advance(time.Hour)
	second := born(d, "one behind a name that was redacted", "k", in("pay", "s"))
	mask := ledger.Mask(need.Get(d.s.DigestKey(ctx))(t))
	need.Equal(t, [2]string{first.Token, second.Token}, [2]string{mask.Token("pay", "s", "k", 0), mask.Token("pay", "s", "k", 1)}, "which of the name")
	for _, key := range []string{ledger.InputKey(strings.Repeat("a", 32)), ledger.OwnKey(ledger.NewID())} {
		o := d.begun(key, tokenless).Operation
		need.That(t, o.Token == standIn && o.SentKey == "", "no one gave the name %s: %q, %q", key, o.Token, o.SentKey)
	}
}

func tokenStays(t *testing.T, open Open) {
	d := keyedDesk(t, open)
	fields := ledger.FieldsKey("card.charge", []string{"order"}, strings.Repeat("0", 32))
	given := d.begun(fields, func(r *ledger.BeginRequest) { r.SentKey, r.StandIn = "their own", standIn }).Operation
	need.Equal(t, [2]string{given.Token, given.KeyToSend()}, [2]string{"indoubt-" + fields, "their own"}, "what the caller gave")
	req := d.request("k")
	tokenless(&req)
	var first ledger.BeginResult
	for range 2 { // its answer was lost
		res := need.Get(ledger.Begin(ctx, d.s, req))(t)
		need.That(t, res.Answer == ledger.AnswerBegun && (first.Change == "" || res.Operation.Token == first.Operation.Token), "again: %+v", res.Operation)
		first = res
	}
	d.settle(first.Attempt.ID, ledger.OutcomeFailed)
	again := d.begun("k", tokenless, func(r *ledger.BeginRequest) { r.StandIn = "indoubt-OTHER" })
	need.That(t, again.Operation.ID == first.Operation.ID && again.Operation.Token == first.Operation.Token, "a further attempt: %+v", again.Operation)
}
