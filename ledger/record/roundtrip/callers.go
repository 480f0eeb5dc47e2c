package roundtrip

import (
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/ledger/wire/transmit"
)

// says is what a header tells of who makes a request. Where two requests differ in one:
//
//	           a digest is kept   no finished answer of the other's        its keys are others
//	nothing    no                 may be given                             no
//	perhaps    yes                but under a key that it gave, where      no
//	                              the policy names callers
//	account    yes                but where all are one account            under keys that it gave, likewise
//	caller     yes                                                         yes
type says int

const (
	nothing says = iota // noise of travel, or new at each try, or a part of what is asked
	perhaps             // any other
	account             // a credential
	caller              // the policy's `callers` names it
)

func (w *httpWrite) says(name string) says {
	isPerTry := hasAny(name, perTry, strings.EqualFold) || hasAny(name, perTryEnds, strings.HasSuffix)
	switch {
	case w.isCaller(name):
		return caller
	case isNoise(name), isPerTry, saysWhat(name), strings.EqualFold(name, w.rule.KeyHeader):
		return nothing
	case redact.Credential(name):
		return account
	}
	return perhaps
}

func (w *httpWrite) isCaller(name string) bool {
	return hasAny(name, w.rule.Callers, strings.EqualFold)
}

// oneAccount reports whether every credential leads to the same account.
func (w *httpWrite) oneAccount() bool { return w.rule.SameAccount || w.t.Scope != "" }

// counts reports whether a finished answer is refused where two requests differ in a header.
func (w *httpWrite) counts(name string) bool {
	if w.says(name) == perhaps {
		return w.key == "" || w.rule.Callers == nil
	}
	return w.countsAnyway(name)
}

// countsAnyway is counts where the other one was recorded while the policy named other callers:
// what it names now may have been missing then.
func (w *httpWrite) countsAnyway(name string) bool {
	switch w.says(name) {
	case caller, perhaps:
		return true
	case account:
		return !w.oneAccount()
	}
	return false
}

// areTwo reports whether a header in which two requests differ makes their callers two, and no
// stranger of either: the policy names it, and did so then, or both had it.
func (w *httpWrite) areTwo(name string, o ledger.Operation, req ledger.BeginRequest) bool {
	namedThen := req.Gate != "" && o.Gate != "" && ledger.GateNames(o.Gate) == ledger.GateNames(req.Gate)
	hadIt := o.Request.Callers[name] != "" && req.Request.Callers[name] != ""
	return w.isCaller(name) && (namedThen || hadIt)
}

// callersOf has a digest of each header that says who is asking, or may.
func (w *httpWrite) callersOf() (map[string]string, error) {
	said := map[string]string{}
	for name, values := range w.req.Header {
		if name = textproto.CanonicalMIMEHeaderKey(name); w.says(name) != nothing {
			said[name] = strings.Join(values, "\n")
		}
	}
	if u := w.req.URL.User; u != nil {
		said["Authorization"] += u.String()
	}
	for name, value := range said {
		digest, err := w.t.Recorder.Digest(value)
		if err != nil {
			return nil, fmt.Errorf("whose key it is: %w", err)
		}
		said[name] = digest[:ledger.CallerLength]
	}
	return said, nil
}

// saying has the headers of the request that are of some names, with what they hold.
func (w *httpWrite) saying(of func(name string) bool) (said []string) {
	for name, values := range w.req.Header {
		if name = textproto.CanonicalMIMEHeaderKey(name); of(name) {
			for _, v := range values {
				said = append(said, name+": "+v)
			}
		}
	}
	slices.Sort(said)
	return said
}

// scope keeps the keys of different origins apart, and of different `callers`; those that callers
// gave also by their credentials. Only a digest of these is kept, under a key outside the ledger.
// One scope for all callers stands for their credentials.
func (w *httpWrite) scope() (string, error) {
	scope := origin(w.req.URL)
	if w.t.Scope != "" {
		scope += " " + w.t.Scope
	}
	byCredential := w.key != "" && len(w.rule.KeyFrom) == 0 && !w.oneAccount()
	said := w.saying(func(name string) bool {
		return w.says(name) == caller || w.says(name) == account && byCredential
	})
	if u := w.req.URL.User; u != nil && byCredential {
		said = append(said, u.String())
	}
	if len(said) == 0 {
		return scope, nil
	}
	digest, err := w.t.Recorder.Digest(strings.Join(said, "\n"))
	if err != nil {
		return "", fmt.Errorf("the scope of its key: %w", err)
	}
	return scope + " " + digest, nil
}

func origin(u *url.URL) string {
	u = transmit.Spelled(u)
	return u.Scheme + "://" + u.Host
}

// stranger is the error for an answer about an operation that may be another caller's: err, with
// what the policy can say of the headers in which the two requests differ.
func (w *httpWrite) stranger(res ledger.BeginResult, err error) error {
	refused := res.Answer == ledger.AnswerNotYours
	if !refused && res.Answer != ledger.AnswerInDoubt && res.Answer != ledger.AnswerInProgress {
		return err
	}
	names := slices.DeleteFunc(res.Operation.Request.OtherCaller(w.request.HTTP, w.counts), w.isCaller)
	if len(names) == 0 {
		return err
	}
	line, differs := w.policyLine(names), strings.Join(names, ", ")
	switch n := w.t.strangers.meet(differs, refused); {
	case refused && n == 3:
		w.t.Recorder.Log("3 requests were refused (other_caller): they came with another " + differs + " than what is recorded. " + line)
	case !refused && n == 1:
		w.t.Recorder.Log(res.Operation.ID + " holds back what may be another caller's request, which came with another " + differs + ". " + line)
	}
	return &StrangerError{err, line}
}

// policyLine is what the policy can say of headers in which two requests differ.
func (w *httpWrite) policyLine(names []string) string {
	in := w.rule.Downstream + ": { "
	if w.rule.Downstream == "" {
		in = "NAME: { base: " + origin(w.req.URL) + ", "
	}
	callers := func(more []string) string {
		all := slices.Sorted(slices.Values(slices.Concat(w.rule.Callers, more)))
		return "callers: [" + strings.Join(slices.Compact(all), ", ") + "]"
	}
	var own, others, lines []string
	for _, name := range names {
		if redact.Credential(name) {
			own = append(own, name)
		} else {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		lines = append(lines, "Where "+strings.Join(others, " or ")+" says who asks, add to the policy: downstreams: { "+in+callers(others)+" } }.")
	}
	if len(own) > 0 {
		lines = append(lines, "Where "+strings.Join(own, " or ")+" is a credential of one account that was renewed, add to the policy: downstreams: { "+in+
			"same_account: true } }; where each caller has its own, "+callers(own)+".")
	}
	return strings.Join(lines, " ")
}

// strangers counts the requests that may be another caller's, by the headers in which they differ.
type strangers struct {
	mu  sync.Mutex
	all map[string]int
}

// mostStrangers bounds what is counted: names of headers are text of callers.
const mostStrangers = 1000

func (s *strangers) meet(differs string, refused bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= mostStrangers {
		s.all = map[string]int{}
	}
	of := fmt.Sprintf("%v %s", refused, differs)
	s.all[of]++
	return s.all[of]
}

// StrangerError is around the error of a request that was not sent, and that may be of another
// caller than the operation: Line is what the policy can say to tell them apart, or together.
type StrangerError struct {
	Err  error
	Line string
}

func (e *StrangerError) Error() string { return e.Err.Error() }
func (e *StrangerError) Unwrap() error { return e.Err }
