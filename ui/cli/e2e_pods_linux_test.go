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
// sends, and the engines know each other.
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
	var engines []*process
	for range 2 {
		engines = append(engines, s.startAs(pod(program, "engine")))
	}
	s.eventually("both engines are at work", func() bool {
		all, err := store.Engines(context.Background())
		return err == nil && len(all) == 2 && all[0].Holder != all[1].Holder
	})
	for _, e := range engines {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
	}
}
