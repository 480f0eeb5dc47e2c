//go:build unix

package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/policy/mapping"
)

// The page on dead letters, from the file that Redis has to one that a check has settled.
func TestTheImportPageWalks(t *testing.T) {
	const page = "policy/mapping/README.md"
	p := newPage(t)
	policyIn(p, blocksOn(t, page, "yaml")[0])
	blocks := blocksOn(t, page, "sh")
	need.OK(t, os.WriteFile(filepath.Join(p.dir, "night.yaml"), []byte(blocksOn(t, page, "yaml-mapping")[0]), 0o600))
	need.OK(t, os.WriteFile(filepath.Join(p.dir, "failed.jsonl"), []byte(`{"class":"Invoice","uuid":"u-1","enqueued_at":1750000000,"recipient":"ada@example.org","template":"t","exception":"timeout"}
{"class":"Heartbeat","uuid":"u-2"}
`), 0o600))
	said := p.sh(strings.Join(blocks, "\n"))
	need.Contains(t, said, "2 rows read: 2 would be recorded", "2 rows read: 2 recorded", "1 landed", "2 rows read: 0 recorded, 2 there already", "2 rows read: 1 recorded, 1 left out by the mapping")
	exit, list := p.indoubt("list", "--json")
	need.That(t, exit == 0, "exit %d", exit)
	need.Contains(t, list, `"receipt":"m-771"`, `mail \"welcome\" to eve@example.org`, `"kind":"mail.Invoice"`, `"error_class":"timeout"`)
}

// Every mapping and every field has its row on the page.
func TestTheImportPageHasEveryField(t *testing.T) {
	text := string(need.Get(os.ReadFile("../../policy/mapping/README.md"))(t))
	for _, name := range append(mapping.Fields(), mapping.Names()...) {
		need.That(t, regexp.MustCompile("(?m)^\\|[^|\n]*`"+name+"`").MatchString(text), "no row names %s", name)
	}
}
