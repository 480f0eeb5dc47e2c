package record

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"indoubt/ledger"
	"indoubt/ledger/redact"
)

// digestPrefix marks a digest that stands for a redacted value. It is an HMAC
// under a key outside the ledger: equal secrets stay equal, and a ledger that
// is copied does not help to guess them.
const digestPrefix = "redacted:"

type redactor struct {
	mu     sync.Mutex
	secret []byte
	ask    func(context.Context) ([]byte, error) // for the ledger's
}

// digest stands for one secret value.
func (r *redactor) digest(value string) (string, error) {
	secret, err := r.key()
	if err != nil {
		return "", err
	}
	return digestPrefix + ledger.KeyedDigest(secret, value), nil
}

// Digest stands for a secret that must not be stored but has to be told from
// others, such as the credential that partitions keys: an HMAC under the
// recorder's key, in hex. It errs when there is no key.
func (r *Recorder) Digest(value string) (string, error) {
	d, err := r.redact.digest(value)
	return strings.TrimPrefix(d, digestPrefix), err
}

// CommandLine is a command line with digests in the place of its secrets.
func (r *Recorder) CommandLine(argv []string) ([]string, error) {
	p, err := r.redact.request(nil, &ledger.Command{Argv: argv}, nil)
	if err != nil {
		return nil, err
	}
	return p.command.Argv, nil
}

// key returns the secret, asked for on first need.
func (r *redactor) key() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.secret) > 0 {
		return r.secret, nil
	}
	secret, err := r.ask(context.Background())
	if err != nil {
		return nil, fmt.Errorf("the key for redaction: %w", err)
	}
	r.secret = secret
	return secret, nil
}

func (r *redactor) request(input json.RawMessage, c *ledger.Command, paths []string) (pass, error) {
	p := pass{redactor: r}
	if c != nil {
		copied := *c
		copied.Argv = redact.Argv(c.Argv, p.stand)
		p.command = &copied
	}
	cleaned, err := p.read(input, paths)
	p.input, p.err = cleaned, cmp.Or(p.err, err)
	// Longer values first: one that holds another is replaced whole.
	slices.SortStableFunc(p.values, func(a, b string) int { return len(b) - len(a) })
	return p, p.err
}

// pass is one walk over a request, and what came of it. Its first error sticks.
type pass struct {
	redactor *redactor
	input    json.RawMessage
	command  *ledger.Command
	redacted bool     // something was replaced
	values   []string // what was, long enough to be looked for in an answer
	err      error
}

// stand replaces one secret text by its digest.
func (p *pass) stand(value string) string {
	if redact.Harmless(value) { // filled in at each run
		return value
	}
	p.keep(value)
	for _, sep := range []string{" ", ":"} { // "Bearer SECRET", "user:SECRET"
		if _, rest, ok := strings.Cut(value, sep); ok && len(rest) >= 6 {
			p.keep(rest)
		}
	}
	return p.digest(value)
}

func (p *pass) digest(value string) string {
	d, err := p.redactor.digest(value)
	if err != nil && p.err == nil {
		p.err = err
	}
	p.redacted = true
	return d
}

// keep remembers a value, so that an answer that repeats it is not stored with
// it. Short ones would take harmless text out too.
func (p *pass) keep(value string) {
	if len(value) >= 4 {
		p.values = append(p.values, value)
	}
}

func (p *pass) read(input json.RawMessage, paths []string) (json.RawMessage, error) {
	if len(input) == 0 {
		return nil, nil
	}
	v, err := ledger.DecodeJSON(input)
	if err != nil {
		return nil, fmt.Errorf("the input is not JSON: %w", err)
	}
	if ledger.NotText(input) { // before it is written anew
		return nil, ledger.ErrNotText
	}
	inArgv := p.redacted
	p.redacted = false
	for _, path := range paths {
		steps, err := ledger.ParsePath(path)
		if err != nil {
			return nil, fmt.Errorf("redact: %w", err)
		}
		v = p.at(v, steps)
	}
	v = (&redact.Walker{Stand: p.stand}).Value("", v)
	changed := p.redacted
	p.redacted = changed || inArgv
	if !changed {
		return input, nil // as it came, byte for byte
	}
	return ledger.EncodeJSON(v), nil
}

// at replaces what a path leads to, whatever it is.
func (p *pass) at(v any, steps []string) any {
	if len(steps) == 0 {
		return p.whole(v)
	}
	step, rest := steps[0], steps[1:]
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if step == "*" || step == name {
				v[name] = p.at(member, rest)
			}
		}
	case []any:
		for i := range v {
			if step == "*" || step == strconv.Itoa(i) {
				v[i] = p.at(v[i], rest)
			}
		}
	}
	return v
}

// whole replaces one value by its digest, and remembers the texts in it.
func (p *pass) whole(v any) any {
	switch t := v.(type) {
	case nil:
		return nil
	case string:
		if t == "" || strings.HasPrefix(t, digestPrefix) {
			return t
		}
		return p.stand(t)
	case json.Number:
		return p.stand(t.String())
	}
	p.texts(v)
	// Equal values must give equal digests, however they were written.
	if canonical, err := ledger.Fingerprint(ledger.EncodeJSON(v)); err == nil {
		return p.digest(canonical)
	}
	return p.digest(string(ledger.EncodeJSON(v)))
}

func (p *pass) texts(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, m := range v {
			p.texts(m)
		}
	case []any:
		for _, m := range v {
			p.texts(m)
		}
	case string:
		p.keep(v)
	}
}

// mostSecrets bounds what a long-lived recorder remembers of attempts that are
// never settled.
const mostSecrets = 10_000

// AddSecrets keeps values out of what is stored of an attempt's outcome.
func (r *Recorder) AddSecrets(attemptID string, secrets ...string) {
	if len(secrets) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.secrets {
		if len(r.secrets) < mostSecrets {
			break
		}
		delete(r.secrets, id)
	}
	r.secrets[attemptID] = append(r.secrets[attemptID], secrets...)
}

// Secrets are the values that must not be stored of an attempt's outcome.
func (r *Recorder) Secrets(attemptID string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.secrets[attemptID])
}

func (r *Recorder) forget(attemptID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.secrets, attemptID)
	r.sent.drop(attemptID)
}
