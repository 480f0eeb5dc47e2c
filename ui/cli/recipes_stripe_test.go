package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// stripeAccount answers as Stripe's lists do: newest first, a cursor that is an
// id, and only what its key may see.
type stripeAccount struct {
	intents []map[string]any // newest first
	asked   int
}

func (s *stripeAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked++
	q := r.URL.Query()
	data, more, on := []map[string]any{}, false, q.Get("starting_after") == ""
	for _, p := range s.intents {
		switch {
		case q.Get("created[gte]") == "" || r.Header.Get("Authorization") != "Bearer sk_live_acme":
		case !on:
			on = p["id"] == q.Get("starting_after")
		case len(data) == 2: // Stripe's limit is 100
			more = true
		default:
			data = append(data, p)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "url": r.URL.Path, "has_more": more, "data": data})
}

func (s *stripeAccount) add(id, token, status string, failed any) {
	p := map[string]any{"id": id, "object": "payment_intent", "customer": "cus_9", "amount": 4200, "currency": "usd", "status": status,
		"last_payment_error": failed, "metadata": map[string]any{"order": "7"}}
	if token != "" {
		p["metadata"].(map[string]any)["indoubt"] = token
	}
	s.intents = append([]map[string]any{p}, s.intents...)
}

func TestI6_RecipeStripe(t *testing.T) {
	account := &stripeAccount{}
	api := httptest.NewServer(account)
	defer api.Close()
	b := newBenchAlone(t)
	b.recipe("stripe", "https://api.stripe.com", api.URL)
	t.Setenv("STRIPE_KEY", "sk_live_acme")
	const input = `{"customer":"cus_9","amount":4200,"currency":"usd","metadata":{"order":"7"}}`
	b.known(1, "stripe.charge", input, "pi_1")
	account.add("pi_1", b.token(1), "succeeded", nil)
	for n, status := range []string{2: "succeeded", 3: "requires_capture", 4: "canceled", 5: "requires_payment_method", 6: "requires_action", 7: "requires_payment_method", 8: ""} {
		if n < 2 {
			continue
		}
		b.doubt(n, "stripe.charge", input)
		var failed any
		if n == 7 {
			failed = map[string]any{"code": "card_declined"}
		}
		if status != "" {
			account.add(fmt.Sprintf("pi_%d", n), b.token(n), status, failed)
		}
	}
	account.add("pi_else", "", "succeeded", nil)
	b.doubt(9, "stripe.charge", input)
	b.now = b.now.Add(11 * time.Minute)
	b.wantVerdict("not there, and nothing is newer", 8, ledger.NotSeen, "sent before")
	b.known(10, "stripe.charge", input, "pi_10")
	account.add("pi_10", b.token(10), "succeeded", nil)
	b.now = b.now.Add(time.Hour)
	b.wantVerdict("paid, on a later page", 2, ledger.Landed, "pi_2")
	b.wantVerdict("authorized", 3, ledger.Landed, "pi_3")
	b.wantVerdict("canceled", 4, ledger.CannotTell, "")
	b.wantVerdict("not paid yet", 5, ledger.CannotTell, "")
	b.wantVerdict("the bank asks", 6, ledger.CannotTell, "")
	b.wantVerdict("declined", 7, ledger.NotThere, "")
	b.wantVerdict("not there", 8, ledger.NotThere, "")
	need.That(t, account.asked >= 10, "%d pages", account.asked)
	// A key of another account or mode sees none of it, and that proves nothing.
	other := newBenchAlone(t)
	other.recipe("stripe", "https://api.stripe.com", api.URL)
	t.Setenv("STRIPE_KEY", "sk_test_acme")
	other.known(1, "stripe.charge", input, "pi_1")
	other.doubt(2, "stripe.charge", input)
	other.now = other.now.Add(11 * time.Minute)
	other.wantVerdict("another key", 2, ledger.CannotTell, "finds no other")
}
