package httpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/record/roundtrip"
)

// problemType begins the type of every problem document; the rest is its code (README.md).
const problemType = "urn:indoubt:problem:"

// problem is a problem document (RFC 9457). Beside the standard members it says
// which operation it is about, and in `error` what the client libraries of APIs
// look for: many take an answer without it for a success, whatever its status.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	Code string `json:"code"` // the end of the type
	record.Facts
	Receipt string `json:"receipt,omitempty"` // the upstream's name for what was done
	Advice  string `json:"advice,omitempty"`

	Error apiError `json:"error"`

	retryAfter time.Duration // what a repeat may change; 0: nothing
}

// apiError is a problem as Stripe, OpenAI and those who follow them write one.
type apiError struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// inError says the problem once more for those libraries.
func (p *problem) inError() apiError {
	e := apiError{Type: "invalid_request_error", Code: p.Code}
	switch {
	case p.Status >= 500:
		e.Type = "api_error"
	case p.Status == http.StatusConflict || p.Status == http.StatusUnprocessableEntity:
		e.Type = "idempotency_error"
	}
	said := slices.DeleteFunc([]string{p.Title + ".", p.Detail, p.Advice}, func(s string) bool { return s == "" })
	if p.Operation != "" && !strings.Contains(p.Advice, p.Operation) {
		said = append(said, "Operation "+p.Operation+".")
	}
	e.Message = strings.Join(said, " ")
	return e
}

func newProblem(code string, status int, title, detail string) *problem {
	return &problem{Type: problemType + code, Code: code, Status: status, Title: title, Detail: detail}
}

func (p *problem) about(o ledger.Operation) *problem {
	p.Operation, p.Receipt = o.ID, o.Receipt()
	return p
}

func (p *problem) write(w http.ResponseWriter) {
	p.Error, p.Facts = p.inError(), record.FactsOf(p.Code, p.Operation, "indoubt check "+p.Operation)
	body, err := json.Marshal(p)
	if err != nil { // its texts are valid by json's own making
		http.Error(w, p.Title, p.Status)
		return
	}
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	if p.Operation != "" {
		h.Set(roundtrip.HeaderOperation, p.Operation)
	}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	} else { // a library that tries again would wait for the same answer
		h.Set("X-Should-Retry", "false")
		h.Set("Stripe-Should-Retry", "false")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

func (p *problem) advise(advice string) *problem {
	p.Advice = advice
	return p
}

// heldFor is after how long at most what is held may come again: a hold can be released before its time.
const heldFor = time.Minute

// problems are those of what was not taken, and of what the ledger answers. %s is why.
var problems = []*problem{
	newProblem("key_missing", http.StatusBadRequest, "This write needs an Idempotency-Key", "%s"),
	newProblem("key_malformed", http.StatusBadRequest, "The Idempotency-Key is none", "%s"),
	newProblem("bad_request", http.StatusBadRequest, "This request is not taken", "Nothing was recorded or sent: %s."),
	newProblem("too_large", http.StatusRequestEntityTooLarge, "The body is too long to be recorded", "%s"),
	newProblem("busy", http.StatusServiceUnavailable, "Too much is under way at once", "Nothing was recorded or sent: %s."),
	newProblem("not_recorded", http.StatusServiceUnavailable, "The write could not be recorded, so it was not sent", "%s"),
	newProblem("in_doubt", http.StatusConflict, "An earlier attempt is in doubt", "It may have taken effect; nothing was sent now.").
		advise("Do not send it under another key. The same request again gets the answer when the doubt is settled; look at it: "),
	newProblem("in_progress", http.StatusConflict, "The same write is in flight", "Nothing was sent now.").
		advise("Send the same again then: it gets the answer of the one in flight."),
	newProblem("key_reused", http.StatusUnprocessableEntity, "The Idempotency-Key belongs to another request", "Nothing was sent.").
		advise("Use a new key for a new request, and the same request under the same key."),
	newProblem("other_caller", http.StatusConflict, "The same request came with another %s",
		"It may be another caller's, so that its answer is not given away; nothing was sent now.").advise("For another request use a new key."),
	newProblem("held", http.StatusServiceUnavailable, "Begins are held", "Nothing was recorded or sent: %s.").
		advise("Send the same again later."),
	newProblem("refused", http.StatusConflict, "It is not to be sent", "%s").advise("Look at it: "),
	newProblem("finished", http.StatusConflict, "It is done already, and there is no answer to repeat", "Nothing was sent now.").
		advise("Take it as done; its effect is named by the receipt where there is one. Look at it: "),
}

func because(code, why string) *problem {
	p := *problems[slices.IndexFunc(problems, func(p *problem) bool { return p.Code == code })]
	p.Title, p.Detail = strings.ReplaceAll(p.Title, "%s", why), strings.ReplaceAll(p.Detail, "%s", why)
	return &p
}

func problemOfNotTaken(e *roundtrip.NotTakenError) *problem {
	why, again := e.Why, time.Second
	if e.Problem == "not_recorded" {
		again = 5 * time.Second
		if why = record.ToCaller(e.Err); errors.Is(e, roundtrip.ErrShutdown) {
			why = e.Err.Error()
		}
	}
	p := because(e.Problem, why)
	switch {
	case e.Problem == "bad_request" && e.Err != nil:
		p.Title, p.Detail = "The request could not be read to its end", "Nothing was recorded or sent."
		if errors.Is(e, os.ErrDeadlineExceeded) {
			p.Title, p.Status = "The request did not come to its end", http.StatusRequestTimeout
		}
	case p.Status == http.StatusServiceUnavailable:
		p.Advice, p.retryAfter = "It is safe to send it again later.", again
	}
	return p
}

func problemOf(err error) *problem {
	p := meaning(err)
	var stranger *roundtrip.StrangerError
	if errors.As(err, &stranger) {
		p.Advice = stranger.Line + " " + p.Advice
	}
	return p
}

func meaning(err error) *problem {
	var (
		taken    *roundtrip.NotTakenError
		answered *record.AnswerError
		failed   *record.FailedError
	)
	switch {
	case errors.As(err, &taken):
		return problemOfNotTaken(taken)
	case errors.As(err, &answered):
		return problemOfAnswer(answered)
	case errors.As(err, &failed):
		p := newProblem("never_sent", http.StatusServiceUnavailable, "The upstream could not be reached", "No byte of the request left.").about(failed.Operation)
		p.Advice, p.retryAfter = "It is safe to send it again.", time.Second
		return p
	case errors.Is(err, context.Canceled): // the client has gone
		return newProblem("bad_request", http.StatusBadRequest, "The client left", "")
	}
	p := newProblem("unreachable", http.StatusBadGateway, "The upstream gave no answer", "Nothing was to be recorded.")
	p.retryAfter = time.Second
	return p
}

func problemOfAnswer(e *record.AnswerError) *problem {
	o := e.Operation
	p := because(string(e.Answer), e.Why).about(o)
	if strings.HasSuffix(p.Advice, ": ") {
		p.Advice += show(o)
	}
	switch lost, sent := errors.AsType[*roundtrip.LostError](e); {
	case e.Answer == ledger.AnswerNotYours:
		p.Receipt = ""
	case e.Answer == ledger.AnswerHeld:
		p.retryAfter = max(time.Second, min(heldFor, time.Until(e.Until)))
		if e.Until.IsZero() {
			p.retryAfter = heldFor
		}
	case e.Answer == ledger.AnswerInProgress && e.Gated:
		p.Advice = newOnce("has ended", o)
	case e.Answer == ledger.AnswerInProgress: // what has taken long takes as long again, and is in doubt at its deadline
		p.retryAfter = max(time.Second, min(time.Since(o.StartedAt), time.Until(o.DeadlineAt)))
	case e.Gated:
		p.Advice = newOnce("is settled", o)
	case e.Told:
		p.Advice = "The same request again is taken for another one, and sent. Look at this one first: " + show(o)
	case sent:
		advice := p.Advice
		p = newProblem("outcome_unknown", http.StatusBadGateway, "It was sent, and no whole answer came", "It may have taken effect.").about(o)
		if p.Advice = advice; lost.Class == ledger.ClassTimeout || lost.Class == ledger.ClassDeadline {
			p.Status = http.StatusGatewayTimeout
		}
	}
	return p
}

// newOnce is the advice about what has the same input under another key: who only sends
// again until it is let through would do it twice.
func newOnce(ended string, o ledger.Operation) string {
	return "It has another caller, or another key: " + o.KeyToSend() + ". Do not send it again without looking: once that one " + ended + ", this is a new request; look at it: " + show(o)
}

func show(o ledger.Operation) string { return "indoubt show " + o.ID }
