package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/transport"
	"indoubt/reconcile/connect"
)

const (
	tripAfter     = 5                // failures in a row after which it is down
	probeAfter    = 15 * time.Second // how long it is left alone then, before one probe
	maxRetryAfter = time.Hour        // a downstream that asks for more is read again after this
	muteFor       = 15 * time.Second // before a check is tried again that this process cannot make
	softThrottle  = 5 * time.Second  // pause after a 429 that names no time
	politeness    = 8                // requests at once, where the policy states no concurrency
	inHand        = 4                // checks for each of them: most wait to be written down when many end
)

// downstreams keeps one governor for each outside system.
type downstreams struct {
	probe   time.Duration // see probeAfter
	now     ledger.Clock
	mu      sync.Mutex
	byScope map[string]*downstream
}

// downstream limits the requests to one outside system, and remembers how it
// answers and which operations are being checked there.
type downstream struct {
	name  string
	scope string // it is led within
	http  *connect.HTTP
	probe time.Duration
	now   ledger.Clock
	wall  ledger.Clock // the host's own, which requests go by

	mu     sync.Mutex
	rate   float64       // requests a second; 0: no rate
	every  time.Duration // between two requests; 0: no rate
	slots  chan struct{} // of requests made at once
	next   time.Time     // from when the next request may leave, where there is a rate
	busy   map[string]int
	rest   map[string]time.Time // checking these failed; until then they are left alone
	spoken time.Time            // when the newest answer came
	why    string               // the newest trouble
	failed int                  // requests in a row; from tripAfter on it is down
	since  time.Time            // when it went down or came up
	probes time.Time            // while it is down: when one request may find out whether it still is
	asking bool                 // that request is on its way
	paused time.Time            // it wants no request before this
	asked  time.Time            // since when it is paused
	lacks  string               // the secret without which no process asks it
	muted  time.Time            // since when
}

// waitError says that a downstream wants no request before a moment.
type waitError struct {
	until time.Time
	why   string
}

func (e *waitError) Error() string { return e.why }

// of is the governor of a kind's downstream, under the limits of the policy now.
func (d *downstreams) of(k *policy.Kind) *downstream {
	return d.within(scopeOf(k), k)
}

// to is the governor of a notifier. It is not that of its downstream: a notice that fails must
// not stop checks.
func (d *downstreams) to(n *policy.Notifier) *downstream { return d.within(n.Kind.Name, n.Kind) }

func (d *downstreams) within(scope string, k *policy.Kind) *downstream {
	rule := transport.Downstream{Name: k.Name}
	if k.Downstream != nil {
		rule = *k.Downstream
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	have := d.byScope[scope]
	if have == nil {
		if d.byScope == nil {
			d.byScope = map[string]*downstream{}
		}
		have = d.make(rule.Name, scope)
		d.byScope[scope] = have
	}
	have.limit(rule)
	return have
}

// limit takes over the limits of a policy.
func (d *downstream) limit(rule transport.Downstream) {
	if rule.Concurrency <= 0 {
		rule.Concurrency = politeness
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if rule.RatePerSecond != d.rate {
		d.rate, d.every = rule.RatePerSecond, every(rule)
		d.next = sooner(d.next, d.wall().Add(d.every))
	}
	if cap(d.slots) != rule.Concurrency {
		d.slots = make(chan struct{}, rule.Concurrency)
	}
}

func (all *downstreams) make(name, scope string) *downstream {
	return &downstream{name: name, scope: scope, probe: all.probe, http: &connect.HTTP{},
		now: all.now, wall: time.Now, since: all.now(), busy: map[string]int{}, rest: map[string]time.Time{}}
}

// state is up, down, or half_open where a probe may be made. It needs d.mu.
func (d *downstream) state() string {
	switch {
	case d.failed < tripAfter:
		return StateUp
	case d.now().Before(d.probes):
		return StateDown
	}
	return StateHalf
}

// blocked returns until when the downstream wants no request, and why; the zero
// time when it may be read.
func (d *downstream) blocked() (time.Time, string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if now.Before(d.paused) {
		return d.paused, d.waits()
	}
	if d.state() == StateDown {
		return d.probes, fmt.Sprintf("%s is down (%s); next probe in %s", d.name, d.why, ledger.Brief(d.probes.Sub(now)))
	}
	return time.Time{}, ""
}

// throttled says that it asked for a pause that is not over; "" where it did not.
func (d *downstream) throttled() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now().Before(d.paused) {
		return d.waits()
	}
	return ""
}

// waits needs d.mu.
func (d *downstream) waits() string {
	return fmt.Sprintf("%s asked to wait %s", d.name, ledger.Brief(d.paused.Sub(d.now())))
}

// query makes one request, within the downstream's limits. It waits out a short pause
// that the downstream asked for; a longer one, and a downstream that is down, give a
// *waitError.
func (d *downstream) query(ctx context.Context, ready func(), do func(context.Context) ledger.Answer) (answer ledger.Answer, err error) {
	var done func()
	for {
		if err := d.clear(ctx); err != nil {
			return ledger.Answer{}, err
		}
		if done, err = d.admit(ctx); err != nil {
			return ledger.Answer{}, err
		}
		if until, _ := d.blocked(); !until.After(d.now()) {
			break
		}
		done() // it asked for a pause meanwhile; what waits for its end must not come all at once
	}
	defer func() {
		done()
		runtime.Gosched() // the request that waits for its place leaves before this answer is judged
	}()
	if !d.mayAsk() {
		return answer, &waitError{d.now().Add(time.Second), d.name + " is being probed"}
	}
	ready() // its time has come
	answer = do(ctx)
	d.count(d.heard(ctx, answer))
	return answer, nil
}

// mayAsk reports whether a request may be made: of a downstream that is down, one at a time.
func (d *downstream) mayAsk() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.state()
	if state == StateDown || state == StateHalf && d.asking {
		return false
	}
	d.asking = state == StateHalf
	return true
}

// count notes whether a request was answered. One that this side has spoilt tells nothing.
func (d *downstream) count(bad error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asking = false
	was := d.failed
	switch now := d.now(); {
	case errors.Is(bad, context.Canceled) || errors.As(bad, new(*connect.Mistaken)):
		return
	case bad == nil:
		d.failed = 0
	default:
		d.failed++
		d.probes = now.Add(d.probe)
	}
	if (was < tripAfter) != (d.failed < tripAfter) { // down since it went down, however often it is probed
		d.since = d.now()
	}
}

// clear waits until the downstream may be read, where that is soon.
func (d *downstream) clear(ctx context.Context) error {
	until, why := d.blocked()
	if until.IsZero() {
		return nil
	}
	wait := until.Sub(d.now())
	if wait > patience {
		return &waitError{until, why}
	}
	return sleep(ctx, wait)
}

// room is how many more checks of it may be begun now: enough to keep it as busy as it may
// be, and one where that decides whether it answers again. It needs d.mu.
func (d *downstream) room() int {
	n := inHand * cap(d.slots)
	if d.rate > 0 {
		n = min(n, max(1, int(5*d.rate)))
	}
	if d.state() == StateHalf {
		n = 1
	}
	return max(n-len(d.busy), 0)
}

// look is how many operations that are due are worth a look: those that there is room for,
// behind those that are being checked or left alone; 0 where there is no room.
func (d *downstream) look() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	room := d.room()
	if room == 0 {
		return 0
	}
	maps.DeleteFunc(d.rest, func(_ string, until time.Time) bool { return !d.now().Before(until) })
	return room + len(d.busy) + len(d.rest)
}

// take begins the check of an operation that is due, where there is room, unless it is being
// checked or left alone.
func (d *downstream) take(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room() == 0 || d.busy[id] > 0 || d.now().Before(d.rest[id]) {
		return false
	}
	d.busy[id]++
	return true
}

// enter begins a check that a person asked for.
func (d *downstream) enter(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy[id]++
}

// leave ends a check. One that failed is not due again before some time.
func (d *downstream) leave(id string, failed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[id]--; d.busy[id] == 0 {
		delete(d.busy, id)
	}
	if failed {
		d.rest[id] = d.now().Add(troubleFor)
	}
}

func (d *downstream) checks(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.busy[id] > 0
}

// heard notes how the downstream is, and returns what speaks against another request
// soon.
func (d *downstream) heard(ctx context.Context, a ledger.Answer) error {
	if a.Err != nil && ctx.Err() != nil {
		return context.Canceled // this side hung up; that says nothing about the other
	}
	if pause, wanted := retryAfter(a, d.now()); wanted {
		d.pause(pause, a.Status)
	}
	var bad error
	switch {
	case errors.As(a.Err, new(*connect.Mistaken)):
		return a.Err // the mistake is on this side
	case a.Err != nil && a.Status == 0:
		bad = fmt.Errorf("no answer: %w", a.Err)
		if a.Class != "" {
			bad = fmt.Errorf("no answer: %s", a.Class)
		}
	case a.Status >= 500:
		bad = fmt.Errorf("answered %d", a.Status)
	case a.Status == http.StatusUnauthorized:
		bad = errors.New("answered 401: its credentials are not accepted")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if bad != nil {
		d.why = bad.Error()
	} else {
		d.spoken = d.now()
	}
	return bad
}

func (d *downstream) pause(until time.Time, status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if until.After(d.paused) {
		if d.now().After(d.paused) {
			d.asked = d.now()
		}
		d.paused = until
		d.why = fmt.Sprintf("answered %d", status)
	}
}

// lack notes the secret without which no process asks it; "" for none.
func (d *downstream) lack(secret string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if secret != d.lacks {
		d.lacks, d.muted = secret, d.now()
	}
}

func (d *downstream) health() Health {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := Health{Downstream: d.name, State: d.state(), Since: d.since, Why: d.why, Answered: d.spoken}
	if d.lacks != "" {
		h.State, h.Since, h.Why = StateNoKey, d.muted, d.lacks
		return h
	}
	switch {
	case h.State != StateUp:
	case d.now().Before(d.paused):
		h.State, h.Since, h.Until = StateSlow, d.asked, d.paused
	case d.spoken.IsZero():
		h.State = StateNew
	}
	if h.State == StateUp {
		h.Why = ""
	}
	return h
}

// Health returns how each downstream answers that was read so far.
func (e *reader) Health() []Health {
	e.downs.mu.Lock()
	all := slices.Collect(maps.Values(e.downs.byScope))
	e.downs.mu.Unlock()
	out := ledger.Each(all, (*downstream).health)
	slices.SortFunc(out, func(a, b Health) int { return strings.Compare(a.Downstream, b.Downstream) })
	return out
}

// retryAfter is the moment before which a downstream wants no request (RFC 9110
// §10.2.3: seconds or a date).
func retryAfter(a ledger.Answer, now time.Time) (time.Time, bool) {
	switch a.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusForbidden: // GitHub says it with 403
	default:
		return time.Time{}, false
	}
	said := strings.TrimSpace(http.Header(a.Header).Get("Retry-After"))
	until := time.Time{}
	if seconds, err := strconv.ParseFloat(said, 64); err == nil && seconds >= 0 {
		until = now.Add(time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second)))
	} else if date, err := http.ParseTime(said); err == nil {
		until = date
	}
	switch {
	case until.After(now.Add(maxRetryAfter)):
		return now.Add(maxRetryAfter), true
	case until.After(now):
		return until, true
	case a.Status == http.StatusTooManyRequests:
		return now.Add(softThrottle), true
	}
	return time.Time{}, false
}

const (
	// tardy is how late a request may still leave after its time.
	tardy = 50 * time.Millisecond
	// leastPatience is how far ahead times are given away, where two requests are not further apart.
	leastPatience = 10 * time.Second
)

// every is the time between two reads of a downstream; 0 where it has no rate. It
// is so much longer than the rate says that no second, or no longer stretch for
// which the rate allows one request, sees more than that when some come late.
func every(rule transport.Downstream) time.Duration {
	if rule.RatePerSecond <= 0 {
		return 0
	}
	between := float64(time.Second) / rule.RatePerSecond
	return time.Duration(math.Min(math.Ceil(between+float64(tardy)*min(1, 1/rule.RatePerSecond)), float64(365*24*time.Hour)))
}

// admit waits for a free slot and, where there is a rate, for the next time of it. A caller
// that is late, because the program or its clock stood still, takes another time: requests
// that waited must not leave all at once. A time that is too far ahead gives a *waitError.
func (d *downstream) admit(ctx context.Context) (done func(), err error) {
	d.mu.Lock()
	slots := d.slots
	d.mu.Unlock()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for late := tardy; ; late *= 2 { // longer each time, else a slow machine would never do anything
		at, err := d.reserve(ctx)
		if err != nil {
			<-slots
			return nil, err
		}
		if at.IsZero() || d.wall().Sub(at) <= late {
			return func() { <-slots }, nil
		}
	}
}

// reserve takes the next time of the rate and waits for it; the zero time where there is no
// rate. Times that pass unused are not saved up.
func (d *downstream) reserve(ctx context.Context) (at time.Time, err error) {
	d.mu.Lock()
	if d.every == 0 {
		d.mu.Unlock()
		return at, nil
	}
	now := d.wall()
	if at = now; d.next.After(now) {
		at = d.next
	}
	wait := at.Sub(now)
	if wait > max(leastPatience, 2*d.every) {
		d.mu.Unlock()
		return at, &waitError{d.now().Add(wait), fmt.Sprintf("the rate of %s is used up for %s", d.name, ledger.Brief(wait))}
	}
	d.next = at.Add(d.every)
	d.mu.Unlock()
	return at, sleep(ctx, wait)
}
