package roundtrip

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/ledger/wire/transmit"
)

var (
	// sentAgain say what is sent, or in what form it is answered. None of them
	// holds a secret; those of telling and of overrides are kept too.
	sentAgain = []string{
		"Accept", "Accept-Language", "Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Content-Md5", "Content-Digest", "Repr-Digest", "Digest",
		"X-Requested-With", HeaderKey,
	}
	// sentAgainEnds are the ends of others: Stripe-Version, Anthropic-Beta.
	sentAgainEnds = []string{"-Version", "-Beta"}
	// noise says nothing about a write, nor who asks: how it travels, what sent it, where it
	// is followed. A tenant may stand in Forwarded, X-Forwarded-Host, X-Forwarded-Prefix, Origin,
	// Referer and Baggage.
	noise = []string{
		"Accept-Charset", "Accept-Encoding", "B3", "Cache-Control", "Connection", "Content-Length", "Date", "Dnt", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Pragma", "Priority", "Proxy-Connection",
		"Sentry-Trace", "Te", "Traceparent", "Tracestate", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context",
		"X-Correlation-Id", "X-Forwarded-For", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-Ip", "X-Request-Id", "X-Stripe-Client-Telemetry", "X-Stripe-Client-User-Agent", HeaderSource, HeaderSession,
	}
	noiseBegins = []string{"Sec-", "X-B3-", "X-Stainless-"}
	// perTry are new at every try, say nothing of who asks, and are wanted by who answers.
	perTry     = []string{"X-Csrf-Token", "X-Xsrf-Token", "X-Csrftoken", "X-Recaptcha-Token", "X-Amz-Date", "X-Amz-Content-Sha256"}
	perTryEnds = []string{"-Request-Id", "-Correlation-Id", "-Trace-Id", "-Span-Id"}
)

func hasAny(name string, parts []string, has func(name, part string) bool) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return has(name, part) })
}

func isNoise(name string) bool {
	return hasAny(name, noise, strings.EqualFold) || hasAny(name, noiseBegins, strings.HasPrefix)
}

// saysWhat reports whether a header says what is sent.
func saysWhat(name string) bool {
	return hasAny(name, sentAgain, strings.EqualFold) || hasAny(name, telling, strings.EqualFold) || hasAny(name, overrides, strings.EqualFold) || hasAny(name, sentAgainEnds, strings.HasSuffix)
}

// kept is a request as it is sent, for the ledger. Headers that are not known to
// hold no secret are kept by their names alone. Where the body cannot be kept, or
// holds a secret, it says so, and nothing else of the request is kept.
func (w *httpWrite) kept(out sent) *ledger.Request {
	r := &ledger.Request{Method: w.req.Method, Origin: strings.ToLower(w.req.URL.Scheme + "://" + w.req.URL.Host)}
	if r.Lost = w.lost(out); r.Lost != "" {
		return r
	}
	u := *w.req.URL
	u.RawQuery = out.query
	r.Target = u.RequestURI()
	for name, values := range w.req.Header {
		tells := w.isCaller(name) && !redact.Credential(name) || saysWhat(name) || name == "Prefer"
		switch {
		case !w.isCaller(name) && isNoise(name), strings.EqualFold(name, w.rule.KeyHeader):
		case tells && !holdsSecret(name+": "+strings.Join(values, ", ")):
			if r.Header == nil {
				r.Header = map[string][]string{}
			}
			r.Header[name] = slices.Clone(values)
		default:
			r.Withheld = append(r.Withheld, name)
		}
	}
	slices.Sort(r.Withheld)
	if utf8.Valid(out.body) {
		r.Body = string(out.body)
	} else {
		r.Binary = slices.Clone(out.body)
	}
	return r
}

// lost says why a request cannot be kept whole, "" where it can.
func (w *httpWrite) lost(out sent) string {
	_, err := transmit.Decoded(w.req.Header, w.body.data, maxInputBody)
	switch {
	case len(out.body) > maxInputBody:
		return fmt.Sprintf("its body is longer than %d KiB, and not kept", maxInputBody>>10)
	case err != nil:
		return "its body is in a coding that cannot be looked into, and not kept"
	case holdsSecret(string(w.body.data)): // where the fields of the input show none: in a file, in a text
		return "its body holds what looks like a secret, and is not kept"
	}
	return ""
}

func holdsSecret(text string) bool {
	found := false
	redact.Replace(text, func(value string) string { found = true; return value })
	return found
}
