package transport

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
	"indoubt/policy/expr"
	"indoubt/policy/file"
)

// Downstream is an outside system several kinds share.
type Downstream struct {
	Name          string
	Base          string
	RatePerSecond float64       // 0: not limited
	Concurrency   int           // 0: not limited by the policy
	Remembers     time.Duration // how long it remembers an idempotency key; 0: not at all
	KeyHeader     string
	Replays       bool     // it answers a repeat under a remembered key with the answer it gave first
	Callers       []string // headers that say who asks, each another one's where it differs; nil: not stated
	SameAccount   bool     // all credentials lead to one account, so that another one is the same caller's
	Line          int

	Outage ledger.Burst // when lost answers are one

	Via     string // http, mcp or sql; "" where only commands or pipelines reach it
	base    *expr.Template
	headers []Pair
	mcp     *mcpServer
	sql     *sqlDatabase
}

// ReadDownstream reads what stands under the name of a downstream.
func ReadDownstream(d *file.Decoder, e file.Entry) *Downstream {
	ds := &Downstream{Name: e.Name, Line: e.Value.Key.Line}
	var stated []*file.Node // of callers
	d.Fields(e.Value, file.Table{
		"base":         func(n *file.Node) { readBase(d, ds, n) },
		"mcp":          func(n *file.Node) { readServer(d, ds, n) },
		"sql":          func(n *file.Node) { readDatabase(d, ds, n) },
		"headers":      func(n *file.Node) { ds.headers = readHeaders(d, n) },
		"rate":         file.Parsed(d, &ds.RatePerSecond, file.ParseRate, "a rate is written 20/s, 600/m or 1000/h"),
		"concurrency":  d.Integer(&ds.Concurrency, 1, 1000),
		"outage":       readOutage(d, &ds.Outage),
		"callers":      func(n *file.Node) { stated = append(stated, n); readCallers(d, ds, n) },
		"same_account": func(n *file.Node) { stated = append(stated, n); d.Boolean(&ds.SameAccount)(n) },
		"key": d.Mapping(file.Table{
			"header": func(n *file.Node) {
				if d.Text(&ds.KeyHeader)(n); n.Kind == file.Scalar && !headerName(ds.KeyHeader) {
					d.Fail(n.Place, fmt.Sprintf("%q is not a header name", ds.KeyHeader), "")
				}
			},
			"remembers": d.Duration(&ds.Remembers),
			"replays":   d.Boolean(&ds.Replays),
		}),
	})
	for _, n := range stated {
		if ds.Via != "http" {
			d.Fail(n.Place, "only requests over HTTP have headers, and this has no `base`", "say base: https://…, or leave it out")
		}
	}
	return ds
}

// maxBurst bounds how many errors open an outage: they are kept until they do.
const maxBurst = 100

func readOutage(d *file.Decoder, b *ledger.Burst) file.Reader {
	return d.Mapping(file.Table{"errors": d.Integer(&b.Errors, 1, maxBurst), "within": d.Second(&b.Within), "gap": d.Second(&b.Gap)})
}

// is notes what a downstream is; it is one thing.
func (ds *Downstream) is(d *file.Decoder, n *file.Node, via string) {
	if ds.Via != "" && ds.Via != via {
		d.Fail(n.Place, fmt.Sprintf("a downstream is one thing, and this one is %s already", ds.Via), "make two of it")
		return
	}
	ds.Via = via
}

// Reach is what a request may go to: its kind's own downstream, nil for none, and all of the file.
type Reach struct {
	Own *Downstream
	All map[string]*Downstream
}

// named finds the server or database that a request names, else the kind's own.
func (r Reach) named(d *file.Decoder, name, field, via string, at file.Place) *Downstream {
	ds := r.Own
	if name != "" {
		ds = r.All[name]
	}
	switch {
	case ds == nil && name != "":
		d.Fail(at, fmt.Sprintf("there is no downstream %q", name), ledger.DidYouMean(name, slices.Sorted(maps.Keys(r.All))))
	case ds == nil:
		d.Fail(at, fmt.Sprintf("does not say which `%s`", field), fmt.Sprintf("say `%s:` here or `downstream:` in the kind", field))
	case ds.Via != via:
		d.Fail(at, fmt.Sprintf("downstream %q is not reached over %s", ds.Name, via), fmt.Sprintf("say `%s:` in it", via))
	default:
		return ds
	}
	return nil
}
