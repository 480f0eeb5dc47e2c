package policy

import (
	"context"
	"time"

	"indoubt/ledger"
)

type position struct{ line, column int }
type pair struct {
	name  string
	value *template
}
type template struct{}
type costRule struct{}
type expression struct{}

// Problem is one thing wrong with a policy file.
type Problem struct {
	File         string
	Line, Column int    // 1-based
	Path         string // dotted, e.g. kinds.stripe.charge.read.found
	Message      string
	Excerpt      string
	Hint         string
}

// Errors are all problems of a file.
type Errors []Problem

func (e Errors) Error() string { return "" }

// Read is how the effect is looked for.
type Read struct{}

// Send is how it is sent again.
type Send struct{}

func Load(path string) (*Policy, error)                                           { return Default(), nil }
func Parse(name string, src []byte) (*Policy, error)                              { return Default(), nil }
func Default() *Policy                                                            { return &Policy{empty: true, defaults: &Kind{}} }
func Example() []byte                                                             { return nil }
func Watch(ctx context.Context, path string, onChange func(*Policy, error)) error { return nil }
func (p *Policy) match(name string) *Kind                                         { return p.defaults }
func (k *Kind) Title(op ledger.Operation) string                                  { return "" }
func (k *Kind) Target(op ledger.Operation) string                                 { return "" }
func (k *Kind) Link(op ledger.Operation) string                                   { return "" }
func (k *Kind) Costs(op ledger.Operation) (duplicate, miss ledger.Cost)           { return }
func (k *Kind) Price(rec ledger.Record) ledger.Pricing                            { return ledger.Pricing{} }
func (k *Kind) KeySafeUntil(rec ledger.Record) time.Time                          { return time.Time{} }
func (k *Kind) ProofAt(rec ledger.Record) (time.Time, bool)                       { return time.Time{}, false }
func (k *Kind) Odds(rec ledger.Record) Odds                                       { return Odds{} }
func (k *Kind) Advise(rec ledger.Record, now time.Time) Advice                    { return Advice{} }
func (k *Kind) AllowedBasis(rec ledger.Record, now time.Time) (basis ledger.Basis, why string, lapsesAt time.Time) {
	return
}
func (k *Kind) JudgeAnswer(ctx context.Context, rec ledger.Record, a ledger.Answer) (Ruling, error) {
	return Ruling{}, nil
}
func (k *Kind) Explain() string                                        { return "" }
func (r *Read) Request(rec ledger.Record, cursor any) (Request, error) { return Request{}, nil }
func (r *Read) SearchesByToken() bool                                  { return false }
func (r *Read) Judge(ctx context.Context, rec ledger.Record, a ledger.Answer) (Found, error) {
	return Found{}, nil
}
func (s *Send) Request(rec ledger.Record) (Request, error) { return Request{}, nil }
func (s *Send) Via() string                                { return "pipeline" }
