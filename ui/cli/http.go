package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/record/httpproxy"
	"indoubt/ledger/record/roundtrip"
	"indoubt/ledger/wire/transmit"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

type httpFlags struct {
	listen, upstream, source, scope, grace, metrics string
	hosts                                           []string
	maxBody                                         int
	requireKey, remote                              bool
}

func newHTTPCommand(a *base.App) *cobra.Command {
	var flags httpFlags
	cmd := &cobra.Command{
		Use: "http --listen ADDR --upstream URL", GroupID: base.GroupRecord,
		Short: "Record the writes of any HTTP client, as a proxy",
		Long: `Stands in front of one upstream. Point a client at it instead of at the upstream:
reads (GET HEAD OPTIONS TRACE) stream through untouched, every other request is
recorded before a byte of it leaves, sent once, and settled before its answer
ends. What was answered once is answered again for the same Idempotency-Key, with
"Idempotency-Replayed: true"; what is in flight or in doubt is not sent again.

Where there is no answer of the upstream's the client gets a problem document
(RFC 9457) whose "code" says why:
  400 key_missing, key_malformed   409 in_progress, in_doubt, finished, refused, other_caller
  422 key_reused                   503 never_sent: safe to repeat
  502, 504 outcome_unknown         503 not_recorded, held: safe to repeat
The answer to a write names its operation in the header Indoubt-Operation.

The kind of a write is that of the policy whose match: fits, else
http.<host>.<method>. Without an Idempotency-Key the key is made as the policy
says; the same request again is a new request once the first is committed and its
answer was delivered. Keys of different credentials never meet, unless --scope or the
policy says so (callers: and same_account: of a downstream); the same request under one
key with two is 409 other_caller. No header is stored that could be a secret.
Indoubt-Source: PIPELINE@RUN names the caller.

On SIGTERM nothing new is taken; what is in flight may finish for --grace.`,
		Example: `  indoubt http --listen 127.0.0.1:8080 --upstream https://api.example.com
  curl -X POST -H 'Idempotency-Key: INV-1042' -d amount=4200 http://127.0.0.1:8080/v1/charges`,
		Args: base.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveHTTP(cmd.Context(), a, flags) },
	}
	f := cmd.Flags()
	f.StringVar(&flags.listen, "listen", "127.0.0.1:8080", "the address to listen on; port 0 takes a free one")
	f.StringVar(&flags.upstream, "upstream", "", "the address that requests are for, such as https://api.example.com")
	f.StringVar(&flags.source, "source", "", "the pipeline, or PIPELINE@RUN, of callers that do not say (INDOUBT_SOURCE)")
	f.StringVar(&flags.scope, "scope", "", "one scope for the keys of all callers; for credentials that change between tries")
	f.StringArrayVar(&flags.hosts, "allow-host", nil, "a name by which clients may call this proxy, beside addresses, localhost, this machine's name and the upstream's")
	f.BoolVar(&flags.requireKey, "require-key", false, "refuse a write without an Idempotency-Key, where the policy makes none")
	f.IntVar(&flags.maxBody, "max-body", roundtrip.DefaultMaxRequest>>20, "the longest body of a write, in MiB")
	f.StringVar(&flags.grace, "grace", "10s", "how long what is in flight may finish after SIGTERM")
	f.StringVar(&flags.metrics, "metrics", "", metricsHelp)
	f.BoolVar(&flags.remote, "allow-remote", false, "listen beyond this machine: every client that reaches it can write to the upstream")
	return cmd
}

func serveHTTP(ctx context.Context, a *base.App, flags httpFlags) error {
	upstream, err := upstreamOf(flags.upstream)
	if err != nil {
		return err
	}
	grace, err := positive("--grace", flags.grace)
	if err != nil {
		return err
	}
	if flags.maxBody < 1 || flags.maxBody > 1024 {
		return base.Usage(fmt.Sprintf("--max-body %d is not between 1 and 1024", flags.maxBody), "it is in MiB")
	}
	if err := listenable(flags.listen, flags.remote); err != nil {
		return err
	}
	live, recorder, err := liveRecorder(ctx, a, sourceOf(a, flags.source), "pipeline", nil)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", flags.listen)
	if err != nil {
		return &base.Failure{Code: "error", Message: "cannot listen: " + err.Error(), Hint: "give --listen another address", Cause: err}
	}
	defer l.Close()
	if itself(l.Addr(), upstream) {
		return base.Usage("--upstream is the address of this proxy itself", "name the server that the requests are for")
	}
	writes := &writeLog{a: a, live: live, became: map[string]int{}}
	proxy, err := httpproxy.New(httpproxy.Options{Upstream: upstream, Hosts: flags.hosts, Transport: &roundtrip.Transport{
		Recorder: recorder, Scope: flags.scope, RequireKey: flags.requireKey, MaxRequest: int64(flags.maxBody) << 20, Report: writes.wrote,
		Kind: func(r *http.Request) string {
			kind, _ := live.InForce().KindFor(r.Method, r.URL.Host, roundtrip.CleanPath(r.URL))
			return kind
		},
	}})
	if err != nil {
		return base.Usage("--upstream: "+err.Error(), "")
	}
	log.SetOutput(io.Discard) // net/http quotes what it does not understand of an answer there
	a.ErrOut.Printf("listening on http://%s, upstream %s, ledger %s\n", l.Addr(), transmit.WithoutSecrets(upstream), base.Short(a.LedgerName()))
	defer base.OutlivePipes()() // the log may go to a pipe
	if flags.metrics != "" {
		asked := func(ctx context.Context, _ *exposition) error {
			_, err := recorder.Store().Info(ctx)
			return err
		}
		shown, _, err := serveMetrics(ctx, a, flags.metrics, recorder.Store(), writes.metrics, asked)
		if err != nil {
			return err
		}
		a.ErrOut.Println("metrics at " + shown)
	}
	err = proxy.Serve(ctx, l, grace)
	drain(a.ErrOut, recorder, grace)
	if err != nil {
		return fmt.Errorf("the proxy ended: %w", err)
	}
	return nil
}

// drain lets what is known get into the ledger before the process ends.
func drain(errOut *safe.Writer, r *record.Recorder, grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if n := r.Drain(ctx); n > 0 {
		errOut.Printf("warning: %s outcomes could not be recorded and are in doubt\n", ledger.Count(n))
	}
}

// liveRecorder is the recorder of a program that runs on, under the policy as
// its file changes; said is told of that, and role is what it is called where it has no
// name. A policy that cannot be read from the start stops it: it may name what must not be
// stored.
func liveRecorder(ctx context.Context, a *base.App, source ledger.Source, role string, said func(string)) (*base.LivePolicy, *record.Recorder, error) {
	if err := a.MayChange("record"); err != nil {
		return nil, nil, err
	}
	store, err := a.Rules().Ledger(ctx, base.ToCreate)
	if err != nil {
		return nil, nil, err
	}
	if err := base.Copied(ctx, store); err != nil {
		return nil, nil, err
	}
	live := a.WatchPolicy(ctx, said)
	e := a.Engine(store, live.InForce, false, a.Tell) // makes reads that are asked for
	go e.Guard(ctx, a.Tell)                           // says when no other engine checks
	return live, record.New(store, recordingRules(live.Numbered), record.Options{
		Actor: a.Machine(source.Pipeline, base.OSUser(), role), Source: source, Clock: a.Clock, Log: a.Tell, Elsewhere: base.Elsewhere(a), Renew: live.Look,
		Reader: readNow{e},
	}), nil
}

func upstreamOf(s string) (*url.URL, error) {
	if s == "" {
		return nil, base.Usage("--upstream is needed", "it names the server that requests are for: --upstream https://api.example.com")
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, base.Usage("--upstream is no http or https address", "write it as https://api.example.com")
	}
	return u, nil
}

// listenable refuses an address that others than this machine reach.
func listenable(address string, remote bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return base.Usage(fmt.Sprintf("--listen %q is no address with a port", address), "write it as 127.0.0.1:8080")
	}
	if ip, err := netip.ParseAddr(host); remote || strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback() {
		return nil
	}
	return &base.Failure{Code: "refused", Message: fmt.Sprintf("--listen %s is reached from other machines, and every client that reaches it can write to the upstream", address),
		Hint: "listen on 127.0.0.1, or say --allow-remote"}
}

// itself reports whether the upstream is where we listen.
func itself(at net.Addr, upstream *url.URL) bool {
	_, port, err := net.SplitHostPort(at.String())
	theirs := cmp.Or(upstream.Port(), map[string]string{"http": "80", "https": "443"}[upstream.Scheme])
	if err != nil || port != theirs {
		return false
	}
	host := upstream.Hostname()
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// writeLog says on standard error what became of each write.
type writeLog struct {
	a    *base.App
	live *base.LivePolicy

	mu     sync.Mutex
	broken string         // the problem with the policy file that was said last
	became map[string]int // of writes: how many
}

// metrics says what became of the writes that this proxy was asked for.
func (l *writeLog) metrics(_ context.Context, m *exposition) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.family("indoubt_writes_total", "counter", "Writes that this proxy was asked for, by what became of them.")
	for _, what := range slices.Sorted(maps.Keys(l.became)) {
		m.sample(float64(l.became[what]), "outcome", what)
	}
	m.policy(l.live.Problem())
	return nil
}

func (l *writeLog) wrote(r roundtrip.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	problem := ""
	if err := l.live.Problem(); err != nil {
		problem = base.FirstLine(base.AsFailure(err).Message)
	}
	if problem != "" && problem != l.broken {
		l.a.ErrOut.Println("warning: the last good policy stays: " + problem)
	}
	l.broken = problem
	l.became[r.What]++
	l.a.ErrOut.Println(writeLine(time.Now(), r))
}

// writeLine is one line of the log: what was asked, what became of it, and why.
func writeLine(now time.Time, r roundtrip.Report) string {
	parts := []string{now.Format(time.TimeOnly), r.Method, r.Path, r.What}
	if r.Status != 0 {
		parts = append(parts, fmt.Sprint(r.Status))
	}
	if r.OperationID != "" {
		parts = append(parts, r.OperationID)
	}
	line := strings.Join(append(parts, "("+r.Took.Round(time.Millisecond).String()+")"), " ")
	if r.Why != "" {
		line += " " + base.FirstLine(r.Why)
	}
	return line
}
