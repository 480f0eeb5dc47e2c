//go:build soak

package cli_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// A pod's name is a label. Two of one name, where each process is number 1, are two: one
// sends, and one engine leads until it ends.
func TestI3_E2E_TwoPodsOfOneName(t *testing.T) {
	need.Program(t, "unshare")
	s := newSite(t)
	pod := func(args ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", `hostname pod-0 && exec "$@"`, "pod"}, args...)...)
	}
	if out, err := pod("true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	books := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[],"more":false}`) }))
	defer books.Close()

	begin := func() result {
		return s.startAs(pod(program, "begin", "--json", "--kind", "post", "--key", "k", "--input", `{"n":1}`)).finish()
	}
	if r := begin(); r.Exit != 0 {
		t.Fatalf("exit %d\n%s%s", r.Exit, r.Out, r.Err)
	}
	if r := begin(); r.Exit != 7 {
		t.Fatalf("the second one: exit %d\n%s%s", r.Exit, r.Out, r.Err)
	}

	s.writePolicy(fmt.Sprintf(onePolicy, books.URL))
	store := need.Get(open.Open(t.Context(), s.ledger, open.Options{ReadOnly: true}))(t)
	defer store.Close()
	leader := func() string {
		all, err := store.Leaders(context.Background())
		if err != nil || len(all.All) == 0 || !all.All[0].Leads(all.Now) {
			return ""
		}
		return all.All[0].Holder
	}
	var engines []*process
	for range 2 {
		engines = append(engines, s.startAs(pod(program, "engine")))
		s.eventually("an engine leads", func() bool { return leader() != "" })
	}
	first := leader()
	_ = engines[0].cmd.Process.Kill()
	_ = engines[0].cmd.Wait()
	s.eventually("the other leads", func() bool { now := leader(); return now != "" && now != first })
	_ = engines[1].cmd.Process.Kill()
	_ = engines[1].cmd.Wait()
}
