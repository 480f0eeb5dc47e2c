//go:build soak

package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// Two engines, each on a host of its own, ask one downstream no more often than its rate.
func TestE2E_TwoEnginesKeepOneRate(t *testing.T) {
	s := newSite(t)
	var mu sync.Mutex
	var first, last time.Time
	booked := map[string]bool{}
	books := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if last = time.Now(); first.IsZero() {
			first = last
		}
		if ref := r.URL.Query().Get("ref"); booked[ref] {
			fmt.Fprintf(w, `{"data":[{"id":"ch_%s","ref":%q}],"more":false}`, ref, ref)
			return
		}
		fmt.Fprint(w, `{"data":[],"more":false}`)
	}))
	defer books.Close()
	s.writePolicy(strings.Replace(fmt.Sprintf(onePolicy, books.URL), "concurrency: 8", "concurrency: 8, rate: 20/s", 1))
	store := need.Get(open.Create(t.Context(), s.ledger, open.Options{}))(t)
	defer store.Close()
	for range 2 {
		s.start("engine")
	}
	s.eventually("one is at work", func() bool {
		all, err := store.Leaders(t.Context())
		return err == nil && len(all.All) > 0
	})
	const many = 100
	for i := range many {
		_, token := doubt(t, store, fmt.Sprint("k", i))
		mu.Lock()
		booked[token] = true
		mu.Unlock()
	}
	s.eventually("all are read", func() bool {
		return need.Get(store.Counts(t.Context(), time.Now()))(t).ByState[ledger.Uncertain] == 0
	})
	mu.Lock()
	defer mu.Unlock()
	if took := last.Sub(first); took < many*time.Second/20*3/4 { // half of it, had each a rate of its own
		t.Errorf("%d questions in %s are more than 20 a second", many, took)
	}
}
