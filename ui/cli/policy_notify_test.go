package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"indoubt/ledger/need"
)

// The trial shows what would be sent, to whom, and sends nothing.
func TestPolicyTryNotifySendsNothing(t *testing.T) {
	t.Setenv("NOTIFY_TEST_HOOK", "sesame-hook")
	var sent atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent.Add(1) }))
	t.Cleanup(server.Close)
	b := newBenchAlone(t)
	b.policy = b.file("notify.yaml", fmt.Sprintf(`version: 1
notify:
  oncall: { on: [opened, tenfold], http: { post: "%s/${env.NOTIFY_TEST_HOOK}", json: { text: "${input.text}" } } }
  bare: { on: over, only: [other.*], command: [say, "${input.text}", "${env.NOTIFY_TEST_NONE}"] }
kinds: { pay: }
`, server.URL))
	for i := range 6 {
		b.want(106, "run", "--kind", "pay", "--key", fmt.Sprint("k", i), "--", "sh", "-c", "exit 1")
	}
	out := b.want(0, "policy", "try", "--notify")
	for _, want := range []string{"oncall is told opened", "oncall is told tenfold", "POST " + server.URL + "/${env.NOTIFY_TEST_HOOK}", "bare is told over", "NOTIFY_TEST_NONE is not set", "Nothing was sent."} {
		need.That(t, strings.Contains(out, want), "no %q in\n%s", want, out)
	}
	var list struct{ Incidents []struct{ ID string } }
	need.OK(t, json.Unmarshal(b.json(0, "incident", "list").Data, &list))
	var tried struct{ Notices []noticeJSON }
	need.OK(t, json.Unmarshal(b.json(0, "policy", "try", "--notify", "--incident", list.Incidents[0].ID, "--event", "opened").Data, &tried))
	if len(tried.Notices) != 1 || !strings.Contains(tried.Notices[0].Text, "6 errors: 6 to look at") || !strings.HasSuffix(tried.Notices[0].Text, "incident:"+list.Incidents[0].ID) {
		t.Errorf("%+v", tried)
	}
	if strings.Contains(out, "sesame") || strings.Contains(fmt.Sprint(tried), "sesame") || sent.Load() > 0 {
		t.Errorf("sent %d, or the secret is shown:\n%s", sent.Load(), out)
	}
	if all := b.want(0, "list"); strings.Contains(all, "notify.") {
		t.Errorf("a trial is recorded:\n%s", all)
	}
	for args, exit := range map[string]int{"--notify nobody": 3, "--notify --event opend": 2, "pay --event opened": 2} {
		b.want(exit, append([]string{"policy", "try"}, strings.Fields(args)...)...)
	}
}
