package roundtrip

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/transmit"
)

// mostRedirects bounds how many answered redirects a Transport remembers.
const mostRedirects = 10_000

// redirects are the writes that were answered with an address, by the request that a client
// which follows it makes.
type redirects struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]redirected
}

// redirected is a write that was answered with an address: its operation and its own address.
type redirected struct {
	operationID string
	url         *url.URL
}

// following are the digests by which a request is found that follows a redirect to u: it has the
// body of the request that was redirected, or its key and credential.
func following(req *http.Request, u *url.URL, key string, body []byte) (ids [][sha256.Size]byte) {
	at := strings.Join([]string{req.Method, strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), CleanPath(u), u.RawQuery}, "\n")
	ids = append(ids, sha256.Sum256(append([]byte(at+"\nbody\n"), body...)))
	if key != "" {
		ids = append(ids, sha256.Sum256([]byte(strings.Join([]string{at, "key", key, req.Header.Get("Authorization")}, "\n"))))
	}
	return ids
}

// keep notes that a write was answered with a redirect.
func (r *redirects) keep(w *httpWrite, sentTo *url.URL, operationID string, answer *http.Response) {
	to, err := sentTo.Parse(answer.Header.Get("Location"))
	if answer.StatusCode < 300 || answer.StatusCode > 399 || answer.Header.Get("Location") == "" || err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= mostRedirects {
		r.all = map[[sha256.Size]byte]redirected{}
	}
	for _, id := range following(w.req, to, w.key, w.body.data) {
		r.all[id] = redirected{operationID, w.req.URL}
	}
}

func (r *redirects) of(w *httpWrite) (from redirected, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range following(w.req, w.req.URL, w.key, w.body.data) {
		if from, is = r.all[id]; is {
			break
		}
	}
	return from, is
}

// follow makes a request that follows a redirect one of the operation that was redirected: what is
// recorded and asked is the request as it was first made, and it goes where it was sent now. Where
// that operation is in doubt and holds nothing back, the request stays the one that it is, and
// goes out beside it: its caller had the redirect as an answer. What settled and gave its name up
// is not followed any more.
func (w *httpWrite) follow() error {
	from, is := w.t.redirects.of(w)
	if !is {
		return nil
	}
	ctx, r := w.req.Context(), w.t.Recorder
	rec, err := r.Store().Read(ctx, ledger.Locator{ID: from.operationID})
	if err != nil {
		return notRecorded(err)
	}
	o := rec.Operation
	first := w.req.Clone(ctx)
	first.URL = from.url
	kind, rule, _ := w.t.kindOf(first)
	if rec.NameOver(ledger.BeginRequest{Safe: rule.Safe, Replay: rule.Repeat == record.RepeatReplay}) {
		return nil
	}
	if o.State.Open() && o.Gate == "" && w.key == "" {
		w.first = first
		if _, err := ledger.Tell(ctx, r.Store(), o.ID, ledger.Actor{Name: o.Actor, Machine: true}); err != nil {
			return notRecorded(err)
		}
		return nil
	}
	w.to, w.req, w.kind, w.rule = w.req.URL, first, kind, rule
	return w.readKey()
}

// asked is what the request asks and where: its host and its input, whatever its body is called;
// of one that follows a redirect those of the first one.
func (w *httpWrite) asked(in httpInput) (string, error) {
	req := w.req
	if w.first != nil {
		var err error
		req = w.first
		if in, err = inputOf(req, w.body.data); err != nil {
			return "", err
		}
	}
	in.ContentType = nil
	text, err := in.encoded()
	if err != nil {
		return "", err
	}
	print, err := ledger.Fingerprint(text)
	return strings.Join([]string{"http", transmit.Spelled(req.URL).Host, print}, "\n"), err
}
