//go:build soak

package open

import (
	"context"
	"errors"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/tables"
)

// meddled is a place whose copies are ended by something else than the store's own Finish.
type meddled struct {
	Place
	finish func(own func() error) error
}

type meddledFresh struct {
	tables.Fresh
	finish func(own func() error) error
}

func (m meddled) Fresh(ctx context.Context, id, was string, o Options) (tables.Fresh, error) {
	f, err := m.Place.(fresh).Fresh(ctx, id, was, o)
	if err != nil {
		return nil, err
	}
	return meddledFresh{f, m.finish}, nil
}

func (f meddledFresh) Finish(ctx context.Context, meta map[string]string) error {
	return f.finish(func() error { return f.Fresh.Finish(ctx, meta) })
}

// homes are how many of two places let something be begun.
func homes(t testing.TB, id string, places ...Place) (n int) {
	t.Helper()
	for _, at := range places {
		s, err := at.Open(t.Context(), Options{})
		if err != nil {
			continue
		}
		if begins(s, id) == nil {
			n++
		}
		need.OK(t, s.Close())
	}
	return n
}

// I3: whether the copy became a ledger is not always told. The old one is none then, until the
// same command has looked.
func TestI3_ACopyThatMayBeWholeIsTheLedger(t *testing.T) {
	eachTarget(t, func(t *testing.T, from, to Place) {
		lost := errors.New("no answer came")
		_, err := Copy(t.Context(), from, meddled{to, func(own func() error) error { return errors.Join(own(), lost) }}, Options{}, CopyOptions{Progress: quiet})
		var trouble ledger.Trouble
		need.That(t, errors.As(err, &trouble) && trouble.Code == "moving", "%v", err)
		need.Equal(t, homes(t, "lost", from, to), 1, "ledgers")
		_, err = Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet})
		need.OK(t, err)
		need.Equal(t, homes(t, "ended", to), 1, "ledgers")
	})
}

// I3: two commands that copy the same ledger to the same place never leave two ledgers.
func TestI3_TwoCopiesAtOnce(t *testing.T) {
	for name, second := range map[string]func(context.Context, Place, Place) error{
		"another that ends it": func(ctx context.Context, from, to Place) error {
			_, err := Copy(ctx, from, to, Options{}, CopyOptions{Progress: quiet})
			return err
		},
		"another that is cut off": func(ctx context.Context, from, to Place) error {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			_, err := Copy(ctx, from, to, Options{}, CopyOptions{Progress: func(string, int, int, int64) { stop() }})
			return err
		},
	} {
		for _, at := range []string{"events compared", "finish"} {
			t.Run(name+", at "+at, func(t *testing.T) {
				eachTarget(t, func(t *testing.T, from, to Place) {
					meanwhile := func() {
						err := second(t.Context(), from, to)
						t.Logf("the second: %v", err)
						n := homes(t, "meanwhile", from, to)
						need.That(t, n <= 1, "%d ledgers meanwhile", n)
					}
					done := false
					_, err := Copy(t.Context(), from, meddled{to, func(own func() error) error {
						if at == "finish" {
							meanwhile()
						}
						return own()
					}}, Options{}, CopyOptions{Progress: func(table string, _, _ int, _ int64) {
						if table == at && !done {
							done = true
							meanwhile()
						}
					}})
					t.Logf("the first: %v", err)
					n := homes(t, "after", from, to)
					need.That(t, n <= 1, "%d ledgers", n)
					if s, failed := to.Open(t.Context(), Options{ReadOnly: true}); failed == nil { // then it has all
						recs := need.Get(s.Records(t.Context(), []string{"meanwhile"}))(t)
						need.OK(t, s.Close())
						old := need.Get(from.Open(t.Context(), Options{ReadOnly: true}))(t)
						was := need.Get(old.Records(t.Context(), []string{"meanwhile"}))(t)
						need.OK(t, old.Close())
						need.That(t, len(recs) >= len(was), "what was begun meanwhile is not in the copy")
					}
				})
			})
		}
	}
}
