//go:build soak && unix

package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger/need"
)

// payments is a Stripe that loses the answer to its first payment, and gives it again under
// the same key.
type payments struct {
	mu    sync.Mutex
	all   []map[string]any
	keyed map[string]map[string]any
}

func (p *payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") != "Bearer sk_test_page" || r.URL.Path != "/v1/payment_intents" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet {
		found := []map[string]any{}
		for _, intent := range p.all {
			if intent["customer"] == r.URL.Query().Get("customer") {
				found = append(found, intent)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "has_more": false, "data": found})
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if again := p.keyed[key]; again != nil {
		w.Header().Set("Idempotent-Replayed", "true")
		_ = json.NewEncoder(w).Encode(again)
		return
	}
	_ = r.ParseForm()
	var amount int
	_, _ = fmt.Sscan(r.Form.Get("amount"), &amount)
	intent := map[string]any{"id": fmt.Sprint("pi_", len(p.all)+1), "object": "payment_intent", "status": "succeeded",
		"customer": r.Form.Get("customer"), "amount": amount, "currency": r.Form.Get("currency"),
		"metadata": map[string]any{"order": r.Form.Get("metadata[order]"), "indoubt": r.Form.Get("metadata[indoubt]")}}
	if p.keyed == nil {
		p.keyed = map[string]map[string]any{}
	}
	p.keyed[key] = intent
	if p.all = append(p.all, intent); len(p.all) == 1 {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(intent)
}

// A charge through the proxy, with the recipe as it is printed but for Stripe's address: the
// answer is lost, and asked for again under the same key, inside the client's call.
func TestALostAnswerOfStripeIsAskedForAgain(t *testing.T) {
	need.Program(t, "curl")
	p := newPage(t)
	stripe := &payments{}
	api := httptest.NewServer(stripe)
	t.Cleanup(api.Close)
	at := freeAddress(t)
	_, port, _ := strings.Cut(at, ":")
	exit, out := p.run(strings.NewReplacer("UPSTREAM", api.URL, "ADDRESS", at, "PORT", port).Replace(`set -e
export STRIPE_KEY=sk_test_page
indoubt policy init stripe
sed -i.was -e 's|https://api.stripe.com|UPSTREAM|' -e 's|POST api.stripe.com|POST 127.0.0.1|' ~/.config/indoubt/policy.yaml
trap 'kill $served' EXIT
indoubt http --listen ADDRESS --upstream UPSTREAM >served.log 2>&1 & served=$!
until bash -c ': </dev/tcp/127.0.0.1/PORT' 2>/dev/null; do sleep 0.05; done
echo BEGIN
curl -sS -w ' %{http_code}\n' http://ADDRESS/v1/payment_intents -H "Authorization: Bearer $STRIPE_KEY" -H 'Idempotency-Key: INV-1042' \
  -d customer=cus_9 -d amount=4200 -d currency=usd -d 'metadata[order]=INV-1042'
indoubt log
`), "sh")
	_, out, _ = strings.Cut(out, "BEGIN\n")
	want := regexp.MustCompile(`^.*"id":"pi_1".*\n 200\n` +
		`.*begin    pending  .*\n.*settle   pending → uncertain  .*no answer.*\n` +
		`.*begin    uncertain → pending  .*a second send cannot act twice.*\n.*settle   pending → committed  .*\n$`)
	need.That(t, exit == 0 && want.MatchString(out), "exit %d, and it printed\n%s", exit, out)
	need.That(t, len(stripe.all) == 1, "%d payments", len(stripe.all))
}

// The lines that the recipe of Kubernetes shows a pipeline carry what its checks look for.
func TestTheLinesOfTheKubernetesRecipe(t *testing.T) {
	p := newPage(t)
	text := string(need.Get(os.ReadFile("../../policy/recipes/kubernetes.yaml"))(t))
	lines := regexp.MustCompile(`(?m)^ *# (indoubt run .*)$`).FindAllStringSubmatch(text, -1)
	need.Must(t, len(lines) == 2, "%d lines", len(lines))
	policyIn(p, text)
	job := `{"metadata":{"generateName":"nightly-","namespace":"batch"}}`
	need.OK(t, os.WriteFile(filepath.Join(p.dir, "job.json"), []byte(job), 0o600))
	// A kubectl that labels a file as the real one does, and takes jobs and images.
	need.OK(t, os.WriteFile(filepath.Join(p.dir, "bin", "kubectl"), []byte(`#!/bin/sh
case "$*" in
"label --local --filename job.json --output json indoubt="*) echo '{"metadata":{"generateName":"nightly-","namespace":"batch","labels":{"indoubt":"'"${7#indoubt=}"'"}}}' ;;
"--context my-cluster create --filename job.sent.json --output json") cp job.sent.json created; echo '{"metadata":{"name":"nightly-1","namespace":"batch"}}' ;;
"--context my-cluster set image deployment/web app=web:4.18 --namespace shop") echo set ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
`), 0o700))
	for _, line := range lines {
		exit, out := p.run("export INDOUBT_POLICY=$HOME/policy.yaml\n"+line[1], "sh")
		need.That(t, exit == 0 && !strings.Contains(out, "indoubt:"), "%s\nexit %d: %s", line[1], exit, out)
	}
	_, out := p.indoubt("list", "--json")
	var list struct {
		Data struct {
			Operations []struct {
				ID, Kind, State, Token string
			}
		}
	}
	need.OK(t, json.Unmarshal([]byte(out), &list))
	for _, o := range list.Data.Operations {
		need.Equal(t, o.State, "committed", o.Kind)
		if o.Kind == "kubectl.job" {
			created := string(need.Get(os.ReadFile(filepath.Join(p.dir, "created")))(t))
			need.Contains(t, created, `"indoubt":"`+o.Token+`"`)
			_, shown := p.indoubt("show", o.ID, "--json")
			need.That(t, regexp.MustCompile(`"token_sent": ?true`).MatchString(shown), "its token is not known to be sent: %s", shown)
		}
	}
	need.Equal(t, len(list.Data.Operations), 2, "operations")
}
