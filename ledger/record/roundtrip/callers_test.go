package roundtrip

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// sentBy posts as a team, and tells an answer, an error or the sending from each other.
func sentBy(t *testing.T, client *http.Client, s *shop, path, key string, header ...string) string {
	n := s.effects.Load()
	req := order(t.Context(), s.URL+path, key)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	switch {
	case s.effects.Load() > n:
		return "sent"
	case err == nil && resp.Header.Get(HeaderReplayed) == "true":
		return "replayed"
	case record.In(err).Answer == ledger.AnswerNotYours:
		return "other_caller"
	case record.In(err).Answer == ledger.AnswerInDoubt:
		return "held"
	}
	return fmt.Sprint(err)
}

// I4: what is in doubt, and what is done, is not sent again when the policy begins to tell callers
// apart, tells them apart by another header, or no longer does.
func TestI4_CallersAreToldApartInAnotherWay(t *testing.T) {
	type asked struct{ path, key string }
	var (
		doubt, done = asked{"/doubt", "A"}, asked{"/done", "B"}
		keyless     = asked{"/doubt?keyless", ""}
		byField     = asked{"/doubt?field", ""}
		doneByField = asked{"/done?field", ""}
	)
	const team, other = "X-Team", "X-Org"
	for _, c := range []struct {
		before, after []string
		own, another  string // told of what is done, by its caller and by another one
	}{
		{nil, []string{team}, "replayed", "sent"},
		{[]string{team}, []string{other}, "replayed", "other_caller"},
		{[]string{team}, nil, "replayed", "other_caller"},
		{[]string{team}, []string{team, other}, "replayed", "sent"},
		{[]string{team}, []string{}, "replayed", "other_caller"},
	} {
		for _, a := range []asked{doubt, done, keyless, byField, doneByField} {
			t.Run(fmt.Sprintf("%v then %v, %s", c.before, c.after, a.path), func(t *testing.T) {
				s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/doubt" {
						panic(http.ErrAbortHandler)
					}
				})
				rule := record.KindRule{Callers: c.before, Named: true}
				if strings.HasSuffix(a.path, "field") {
					rule.KeyFrom = []string{"query"}
				}
				tr, client, m := testTransport(t, rule)
				tr.Recorder = record.New(m, record.Rules(func(string) record.KindRule { return rule }), record.Options{})
				by := func(name string) string { return sentBy(t, client, s, a.path, a.key, team, name, other, "o") }
				need.Equal(t, by("t1"), "sent")
				rule.Callers = c.after
				own, another := c.own, c.another
				if strings.HasPrefix(a.path, "/doubt") {
					own, another = "held", "held"
				}
				need.Equal(t, by("t1"), own, "its own caller")
				need.Equal(t, by("t2"), another, "another one")
			})
		}
	}
}

// With same_account another credential is the same caller's, under a key and without one; without
// it no one is given what another credential asked for, and nothing goes out again beside a doubt.
func TestACredentialThatIsRenewed(t *testing.T) {
	for _, key := range []string{"k", ""} {
		for _, same := range []bool{true, false} {
			s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/doubt" {
					panic(http.ErrAbortHandler)
				}
			})
			tr, client, m := testTransport(t, record.KindRule{SameAccount: same})
			tr.Undelivered = func(*http.Request, string) {}
			by := func(path, credential string) string {
				own := key
				if key != "" {
					own += path
				}
				return sentBy(t, client, s, path, own, "Authorization", "Bearer "+credential)
			}
			need.Equal(t, by("/doubt", "one"), "sent")
			need.Equal(t, by("/doubt", "two"), "held", "key", key, "same account", same)
			o := need.Get(m.Read(t.Context(), ledger.Locator{ID: m.Changed()[0]}))(t).Operation
			need.That(t, o.Request.Callers["Authorization"] != "", "no digest of the credential")
			need.Equal(t, by("/done", "one"), "sent")
			done := need.Get(m.Read(t.Context(), ledger.Locator{ID: m.Changed()[len(m.Changed())-1]}))(t).Operation
			tr.Delivered(done.ID, false)
			want := map[bool]string{true: "replayed", false: "other_caller"}[same]
			need.Equal(t, by("/done", "two"), want, "key", key, "same account", same)
		}
	}
}

// Who is refused as another caller, or held back by what may be another caller's, is told what
// the policy can say of the header, and who runs the recorder is, too, once.
func TestWhatThePolicyCanSay(t *testing.T) {
	s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/doubt" {
			panic(http.ErrAbortHandler)
		}
	})
	var said []string
	tr, client, m := testTransport(t, record.KindRule{})
	tr.Recorder = record.New(m, record.Rules(func(string) record.KindRule { return record.KindRule{Downstream: "shop", Callers: []string{"X-Org"}} }),
		record.Options{Log: func(line string) { said = append(said, line) }})
	line := func(path, key string, header ...string) string {
		req := order(t.Context(), s.URL+path, key)
		req.Header.Set(header[0], header[1])
		_, err := client.Do(req)
		var stranger *StrangerError
		need.That(t, errors.As(err, &stranger), "%s: %v", path, err)
		return stranger.Line
	}
	const callers, account = "downstreams: { shop: { callers: [X-Org, X-Team] } }", "downstreams: { shop: { same_account: true } }"
	need.Equal(t, sentBy(t, client, s, "/doubt", ""), "sent")
	for range 2 {
		need.Contains(t, line("/doubt", "", "X-Team", "t2"), callers)
	}
	need.That(t, len(said) == 1 && strings.Contains(said[0], callers), "%q", said)
	need.Equal(t, sentBy(t, client, s, "/done", "k", "Authorization", "one"), "sent")
	for range 4 {
		need.Contains(t, line("/done", "k", "Authorization", "two"), account)
	}
	need.That(t, len(said) == 2 && strings.Contains(said[1], account), "%q", said)
}

// What the policy names and holds no secret is kept, for a person who sends it again.
func TestCallersAreKept(t *testing.T) {
	s := newShop(t, func(http.ResponseWriter, *http.Request) {})
	_, client, m := testTransport(t, record.KindRule{Callers: []string{"X-Team", "X-Api-Key", "X-Real-Ip"}})
	need.Equal(t, sentBy(t, client, s, "/", "k", "X-Team", "t1", "X-Api-Key", "key-1", "X-Real-Ip", "192.0.2.1", "X-Other", "o"), "sent")
	r := need.Get(m.Read(t.Context(), ledger.Locator{ID: m.Changed()[0]}))(t).Operation.Request
	need.That(t, r.Header["X-Team"] != nil && r.Header["X-Real-Ip"] != nil && r.Header["X-Api-Key"] == nil, "%v", r.Header)
	need.Equal(t, strings.Join(r.Withheld, " "), "X-Api-Key X-Other")
	need.Equal(t, len(r.Callers), 4, r.Callers)
}
