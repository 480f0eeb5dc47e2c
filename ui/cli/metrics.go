package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/record/httpproxy"
	"indoubt/reconcile"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
)

// metering writes one part of the page. Where it fails, the part is left out and indoubt_ledger_up is 0.
type metering func(context.Context, *exposition) error

// serveMetrics answers GET /metrics in the text format of Prometheus, and GET /healthz, until ctx ends. An address
// without a host is this machine's loopback: metrics tell what a house sells.
func serveMetrics(ctx context.Context, a *base.App, addr string, s ledger.Store, all ...metering,
) (shown string, done <-chan struct{}, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		if _, bad := strconv.Atoi(addr); bad != nil {
			return "", nil, base.Usage(fmt.Sprintf("--metrics %q is no address", addr), "write --metrics :9464 or --metrics 127.0.0.1:9464")
		}
		host, port = "", addr
	}
	host = cmp.Or(host, "127.0.0.1")
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		a.Warnf("metrics are served to everybody who reaches %s", host)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return "", nil, fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	serve := func(path, form string, write func(context.Context, io.Writer) error) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if !httpproxy.OwnHost(r.Host) { // a web page's own name for this machine
				http.Error(w, "metrics are served under an address or this machine's name", http.StatusMisdirectedRequest)
				return
			}
			var page bytes.Buffer
			if err := write(r.Context(), &page); err != nil {
				http.Error(w, "the ledger could not be asked: "+safe.Of(err.Error()).String(), http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", form)
			_, _ = w.Write(page.Bytes())
		})
	}
	serve("/metrics", "text/plain; version=0.0.4; charset=utf-8", func(ctx context.Context, w io.Writer) error {
		m := exposition{w: w}
		m.family("indoubt_build_info", "gauge", "1, with the version of the program.")
		m.sample(1, "version", cmp.Or(release, "development"), "go", runtime.Version())
		up := true
		for _, write := range all {
			var asked bytes.Buffer
			if write(ctx, &exposition{w: &asked}) != nil {
				up = false
				continue
			}
			_, _ = w.Write(asked.Bytes())
		}
		m.family("indoubt_ledger_up", "gauge", "1 where the ledger could be asked for this page; else nothing that it holds is on it.")
		m.flag(up)
		return m.err
	})
	serve("/healthz", "text/plain; charset=utf-8", func(ctx context.Context, w io.Writer) error {
		info, err := s.Info(ctx)
		if err == nil && (!info.Failover.At.IsZero() || info.Lacks != "") {
			return errors.New(cmp.Or(info.Lacks, "it failed over") + ", and no one has adopted it")
		}
		fmt.Fprintln(w, "ok")
		return err
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan struct{})
	go func() { _ = server.Serve(listener) }()
	go func() {
		defer close(ended)
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close()
		}
	}()
	return "http://" + listener.Addr().String() + "/metrics", ended, nil
}

// writeMetrics writes what the ledger holds and what this engine has done.
func writeMetrics(ctx context.Context, m *exposition, s ledger.Store, engine *reconcile.Engine, problem error, now time.Time) error {
	states, err := s.StateCounts(ctx, now)
	if err != nil {
		return err
	}
	states = fewKinds(states)
	counts, err := s.Counts(ctx, now)
	if err != nil {
		return err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	m.family("indoubt_operations", "gauge", "Operations by kind and state.")
	for _, c := range states {
		m.sample(float64(c.Count), "kind", c.Kind, "state", string(c.State))
	}
	m.family("indoubt_oldest_seconds", "gauge", "How long the oldest operation of a kind is in flight or in doubt.")
	for _, c := range states {
		if !c.Oldest.IsZero() {
			m.sample(max(now.Sub(c.Oldest).Seconds(), 0), "kind", c.Kind, "state", string(c.State))
		}
	}
	m.family("indoubt_list", "gauge", "Operations by where they stand in the console.")
	for _, tab := range append(slices.Clone(openTabs), ledger.TabSettled, ledger.TabAll) {
		m.sample(float64(counts.In(tab)), "list", string(tab))
	}
	m.sample(float64(counts.Conflicts), "list", "conflicts")
	m.family("indoubt_duplicates_open", "gauge", "Operations known to have landed twice and not dealt with yet.")
	m.sample(float64(counts.Twice))
	if err := outageMetrics(ctx, m, s, now); err != nil {
		return err
	}
	holds, err := s.Holds(ctx, now)
	if err != nil {
		return err
	}
	m.family("indoubt_holds", "gauge", "Holds in force. begins says whether they stop first sends, too.")
	if !slices.ContainsFunc(holds, func(h ledger.Hold) bool { return h.Scope == "all" && h.Begins }) {
		m.sample(0, "scope", "all", "begins", "true") // an alert ends when this is served again
	}
	for _, h := range holds {
		m.sample(1, "scope", string(h.Scope), "begins", strconv.FormatBool(h.Begins))
	}
	m.family("indoubt_engine_seconds", "gauge", "Seconds since an engine was last at work; none while no engine ever was.")
	if !info.EngineAt.IsZero() {
		m.sample(max(now.Sub(info.EngineAt).Seconds(), 0))
	}
	m.family("indoubt_last_event_timestamp_seconds", "gauge", "When the ledger last changed.")
	if !info.LastWrite.IsZero() {
		m.sample(float64(info.LastWrite.UnixMilli()) / 1000)
	}
	m.family("indoubt_backup_age_seconds", "gauge",
		"Seconds since the newest backup of the ledger's file that was read back, or its birth; none on a server.")
	if !info.Unsaved.IsZero() {
		m.sample(max(now.Sub(info.Unsaved).Seconds(), 0))
	}
	m.family("indoubt_failover", "gauge", "1 while the database of the ledger is another one than it was adopted in: nothing is begun or allowed.")
	m.flag(!info.Failover.At.IsZero())
	m.policy(problem)
	engineMetrics(m, engine)
	return nil
}

// policy says whether the policy file is what is worked by.
func (m *exposition) policy(problem error) {
	m.family("indoubt_policy_not_taken", "gauge", "1 while the policy file is broken, or was not put in force.")
	m.flag(problem != nil)
}

const metricsHelp = "serve metrics for Prometheus here, as :9464 (loopback unless a host is given)"

const (
	countedOutages = 500 // those with the newest errors
	countedRuns    = 1000
	namedKinds     = 200

	otherKinds = "other"
	brokenOff  = ledger.RunState("broken_off") // running, and no one drives it
)

// fewKinds bounds a label: where a pipeline makes a kind of each of its operations, those with the most operations are
// named, and the rest is summed up.
func fewKinds(states []ledger.StateCount) []ledger.StateCount {
	of := map[string]int{}
	for _, c := range states {
		of[c.Kind] += c.Count
	}
	if len(of) <= namedKinds {
		return states
	}
	kinds := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(of[b]-of[a], cmp.Compare(a, b)) })
	for _, kind := range append(kinds[namedKinds:], otherKinds) {
		delete(of, kind)
	}
	var named []ledger.StateCount
	rest := map[ledger.State]ledger.StateCount{}
	for _, c := range states {
		if of[c.Kind] > 0 {
			named = append(named, c)
			continue
		}
		sum := rest[c.State]
		c.Kind, c.Count = otherKinds, c.Count+sum.Count
		if c.Oldest.IsZero() || !sum.Oldest.IsZero() && sum.Oldest.Before(c.Oldest) {
			c.Oldest = sum.Oldest
		}
		rest[c.State] = c
	}
	return append(named, slices.Collect(maps.Values(rest))...)
}

func outageMetrics(ctx context.Context, m *exposition, s ledger.Store, now time.Time) error {
	outages, err := s.Outages(ctx, now, countedOutages)
	if err == nil {
		err = s.Sums(ctx, outages, now)
	}
	if err != nil {
		return err
	}
	runs, err := s.Runs(ctx, ledger.RunQuery{Open: true, Limit: countedRuns})
	if err != nil {
		return err
	}
	phases, fates, states, untaken := map[ledger.Phase]int{}, map[ledger.Fate]int{}, map[ledger.RunState]int{}, 0
	for _, in := range outages {
		phases[in.PhaseAt(now)]++
		for fate, sum := range in.Fates {
			fates[fate] += sum.N
		}
		if in.TakenAt(now) != "" || in.Fates[ledger.FateOpen].N+in.Fates[ledger.FateNotLanded].N == 0 {
			continue
		}
		need, err := s.Page(ctx, ledger.Query{Tab: ledger.TabNeedsYou, Now: now, Limit: 1, Filter: ledger.Filter{Terms: []ledger.Term{{Field: "outage", Value: in.ID}}}})
		if err != nil {
			return err
		}
		untaken += len(need.Rows)
	}
	for _, r := range runs {
		if r.State == ledger.RunRunning && r.DrivenBy(now) == "" {
			r.State = brokenOff
		}
		states[r.State]++
	}
	m.family("indoubt_outages", "gauge", "Outages, by phase.")
	for _, p := range []ledger.Phase{ledger.PhaseGrowing, ledger.PhaseQuiet, ledger.PhaseOver} {
		m.sample(float64(phases[p]), "phase", string(p))
	}
	m.family("indoubt_outages_untaken", "gauge", "Outages with something that needs a person, which no one has taken.")
	m.sample(float64(untaken))
	m.family("indoubt_outage_errors", "gauge", "Errors of these outages, by what became of them.")
	for _, f := range ledger.Fates {
		m.sample(float64(fates[f]), "fate", string(f))
	}
	m.family("indoubt_runs", "gauge", "Decision runs that are not finished, by state.")
	for _, state := range []ledger.RunState{ledger.RunRunning, ledger.RunWaiting, ledger.RunPaused, ledger.RunStopped, brokenOff} {
		m.sample(float64(states[state]), "state", string(state))
	}
	return nil
}

func engineMetrics(m *exposition, engine *reconcile.Engine) {
	counted := func(of map[reconcile.Count]uint64, what string) {
		for _, k := range slices.SortedFunc(maps.Keys(of), func(a, b reconcile.Count) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.What, b.What))
		}) {
			m.sample(float64(of[k]), "kind", k.Kind, what, k.What)
		}
	}
	reads, sends := engine.Counters()
	m.family("indoubt_reads_total", "counter", "Checks that this engine made, by kind and verdict.")
	counted(reads, "verdict")
	m.family("indoubt_sends_total", "counter", "Notices that this engine sent, by kind and outcome.")
	counted(sends, "outcome")
	m.family("indoubt_downstream_state", "gauge", "1 for the state a downstream is in: new (no answer came yet), up, down, half_open (being probed) or throttled.")
	for _, h := range engine.Health() {
		for _, state := range []string{reconcile.StateNew, reconcile.StateUp, reconcile.StateDown, reconcile.StateNoKey, reconcile.StateHalf, reconcile.StateSlow} {
			m.flag(h.State == state, "downstream", h.Downstream, "state", state)
		}
	}
}

// exposition writes the text format of Prometheus, version 0.0.4.
type exposition struct {
	w    io.Writer
	name string
	err  error
}

func (m *exposition) family(name, kind, help string) {
	m.name = name
	m.printf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes one value of the family, with labels as name, value pairs.
func (m *exposition) sample(v float64, labels ...string) {
	pairs := make([]string, 0, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+label(labels[i+1])+`"`)
	}
	named := m.name
	if len(pairs) > 0 {
		named += "{" + strings.Join(pairs, ",") + "}"
	}
	m.printf("%s %s\n", named, strconv.FormatFloat(v, 'g', -1, 64))
}

func (m *exposition) flag(is bool, labels ...string) {
	m.sample(map[bool]float64{true: 1}[is], labels...)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// label is a value between the quotes of the format, which has its own escape for a
// line feed; what a terminal would act on is written out.
func label(value string) string {
	lines := strings.Split(value, "\n")
	for i := range lines {
		lines[i] = labelEscapes.Replace(safe.Exact(lines[i]).String())
	}
	return strings.Join(lines, `\n`)
}

func (m *exposition) printf(format string, args ...any) {
	if m.err == nil {
		_, m.err = fmt.Fprintf(m.w, format, args...)
	}
}
