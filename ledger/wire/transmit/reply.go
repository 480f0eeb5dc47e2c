package transmit

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"indoubt/ledger"
)

// Reply is an answer whose head has come. Its body is read from it as it comes,
// and a bounded copy of it is kept. One goroutine reads; Extend and Abort may be
// called from others.
type Reply struct {
	*http.Response // the head; read the body from the Reply

	answer ledger.Answer
	sent   *sendDeadline
	life   *lifetime
	keep   int64
	done   bool
}

// Read reads the body. After io.EOF or any other error the Answer is final.
func (r *Reply) Read(p []byte) (int, error) {
	if r.done {
		if r.answer.Err != nil {
			return 0, r.answer.Err
		}
		return 0, io.EOF
	}
	n, err := r.Body.Read(p)
	kept := min(int64(n), r.keep-int64(len(r.answer.Body)))
	r.answer.Body = append(r.answer.Body, p[:kept]...)
	r.answer.Truncated = r.answer.Truncated || kept < int64(n)
	switch {
	case err == io.EOF:
		r.finish(nil)
	case err != nil:
		r.finish(err)
		err = r.answer.Err
	}
	return n, err
}

// Answer is what is known of the answer. Before the end of the body was read it
// is a truncated one; this ends the exchange then.
func (r *Reply) Answer() ledger.Answer {
	if !r.done {
		r.answer.Truncated = true
		r.finish(nil)
	}
	return r.answer
}

// Extend moves the end of the exchange.
func (r *Reply) Extend(until time.Time) { r.life.extend(until) }

func (r *Reply) finish(err error) {
	if r.done {
		return
	}
	r.done = true
	if err != nil {
		r.answer.Truncated = true
		r.answer = Failed(r.answer, r.life.cause(err))
	}
	if len(r.Trailer) > 0 { // what came behind the body
		behind := r.Trailer.Clone()
		maps.Copy(behind, r.answer.Header)
		r.answer.Header = behind
	}
	r.answer.EndedAt = time.Now()
	r.sent.seal()
	r.Body.Close()
	r.life.end()
}

// lifetime is a context whose end can be moved.
type lifetime struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
}

func newLifetime(parent context.Context, end time.Time) *lifetime {
	l := &lifetime{}
	l.ctx, l.cancel = context.WithCancelCause(parent)
	l.timer = time.AfterFunc(time.Until(end), func() { l.cancel(context.DeadlineExceeded) })
	return l
}

func (l *lifetime) extend(end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() == nil && l.timer.Stop() {
		l.timer.Reset(time.Until(end))
	}
}

func (l *lifetime) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	l.cancel(errOver)
}

var errOver = errors.New("the exchange is over")

// cause is the reason for an error: why the exchange was ended, if it was.
func (l *lifetime) cause(err error) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return err
}

// Class groups an error by what it is, never by what it says. Errors that mean
// that no connection came about have no class.
func Class(err error) ledger.ErrorClass {
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrPastDeadline):
		return ledger.ClassDeadline
	case errors.Is(err, context.Canceled):
		return ledger.ClassKilled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return ledger.ClassTimeout
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return ledger.ClassReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ledger.ClassEOF
	}
	return ""
}

// Failed closes an answer that did not come whole. An address in the error
// loses its query and its password, which may be secrets. What broke while it was
// written or read is said without its ports, which are others each time.
func Failed(a ledger.Answer, err error) ledger.Answer {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "read" || op.Op == "write") {
		err = fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	var in *url.Error
	if errors.As(err, &in) {
		if u, bad := url.Parse(in.URL); bad == nil {
			err = fmt.Errorf("%s %s: %w", in.Op, WithoutSecrets(u), in.Err)
		} else {
			err = fmt.Errorf("%s: %w", in.Op, in.Err)
		}
	}
	a.Err, a.Class, a.EndedAt = err, Class(err), time.Now()
	return a
}

// WithoutSecrets is an address as it may be shown: without user, query and
// fragment.
func WithoutSecrets(u *url.URL) string {
	if u == nil {
		return ""
	}
	shown := *u
	shown.User, shown.RawQuery, shown.Fragment, shown.ForceQuery = nil, "", "", false
	return shown.String()
}

// Encoded reports whether a body is not what its Content-Type says, but something
// that has to be decoded first.
func Encoded(h http.Header) bool {
	for _, v := range h.Values("Content-Encoding") {
		for _, c := range strings.Split(v, ",") {
			if c = strings.ToLower(strings.TrimSpace(c)); c != "" && c != "identity" {
				return true
			}
		}
	}
	return false
}

// Why a body could not be decoded.
var (
	ErrCoding = errors.New("its coding cannot be undone here")
	ErrBroken = errors.New("the answer's coding is broken: it was cut on the way, or changed")
)

// Decoded undoes a body's Content-Encoding: what is compressed cannot be judged,
// and a secret in it would be stored unseen. It errs with ErrCoding for a coding
// that is not known and for more than limit bytes, and with ErrBroken, beside
// what could be read, for what does not come to its end.
func Decoded(h http.Header, body []byte, limit int64) ([]byte, error) {
	if !Encoded(h) {
		return body, nil
	}
	var r io.Reader
	var err error
	in := bytes.NewReader(body)
	switch strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ","))) {
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(in)
	case "deflate":
		if r, err = zlib.NewReader(in); errors.Is(err, zlib.ErrHeader) { // many leave its frame out
			in.Reset(body)
			r, err = flate.NewReader(in), nil
		}
	default:
		return nil, ErrCoding
	}
	if err != nil {
		return nil, ErrBroken
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case int64(len(plain)) > limit:
		return nil, ErrCoding
	case err != nil || in.Len() > 0:
		return plain, ErrBroken
	}
	return plain, nil
}
