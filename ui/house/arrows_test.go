package house

import (
	"os/exec"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// arrows say which packages of this program a package may import: writers stand on
// the ledger, the policy on its types, the engine on both, and the screens on all.
// "…" ends the name of a package that stands for those below it too; of several
// that fit, the longest counts.
var arrows = map[string]string{
	"ledger":                   "",
	"ledger/lazyregexp":        "",
	"ledger/need":              "",
	"ledger/boot":              "",
	"ledger/redact":            "ledger/wire/curl",
	"ledger/wire…":             "ledger ledger/boot ledger/wire…",
	"ledger/wire/curl":         "",
	"ledger/outcome":           "ledger ledger/redact ledger/wire…",
	"ledger/hostclock":         "ledger ledger/boot",
	"ledger/digestkey":         "ledger",
	"ledger/sqlite…":           "ledger ledger/boot ledger/digestkey ledger/hostclock ledger/store",
	"ledger/postgres…":         "ledger ledger/boot ledger/digestkey ledger/hostclock ledger/store",
	"ledger/open":              "ledger ledger/digestkey ledger/sqlite ledger/postgres ledger/store",
	"ledger/store":             "ledger ledger/digestkey ledger/hostclock",
	"ledger/ledgertest":        "ledger ledger/hostclock ledger/need ledger/store",
	"ledger/ledgertest/faults": "",
	"ledger/record":            "ledger ledger/outcome ledger/redact ledger/wire…",
	"ledger/record…":           "ledger ledger/outcome ledger/redact ledger/wire… ledger/record…",
	"policy":                   "ledger ledger/redact ledger/wire/carry policy/advice policy/expr policy/file policy/transport policy/verdict",
	"policy/advice":            "ledger policy/expr",
	"policy/expr":              "ledger",
	"policy/file":              "ledger ledger/redact policy/expr",
	"policy/transport":         "ledger ledger/redact policy/expr policy/file",
	"policy/verdict":           "ledger",
	"policy/mapping":           "ledger policy policy/expr",
	"policy/recipes":           "ledger policy",
	"reconcile/connect":        "ledger ledger/wire… policy/transport",
	"reconcile":                "ledger ledger/hostclock ledger/outcome ledger/redact ledger/wire… policy policy/advice policy/transport policy/verdict reconcile/connect",
	"reconcile/drill":          "ledger ledger/hostclock ledger/record ledger/record/roundtrip ledger/wire/transmit policy reconcile",
	"ui/safe":                  "",
	"ui/ticket":                "ledger policy policy/advice reconcile ui/safe",
	"ui/console…":              "ledger policy policy/advice reconcile ui/safe ui/ticket ui/act ui/console…",
	"ui/act":                   "ledger reconcile ui/safe ui/ticket",
	"ui/house":                 "",
	"ui/clients":               "ledger/redact",
	"ui/cli":                   "ledger ledger/open ledger/digestkey ledger/hostclock ledger/outcome ledger/redact ledger/record… ledger/wire… policy… reconcile… ui…",
	"ui/cli/base":              "ledger ledger/open ledger/digestkey ledger/record policy policy/file reconcile ui/safe ui/ticket",
	"ui/cli/care":              "ledger ledger/open policy policy/transport reconcile ui/cli/base ui/cli/rules ui/safe ui/ticket",
	"ui/cli/rules":             "ledger ledger/outcome ledger/redact policy policy/advice policy/recipes policy/transport policy/verdict reconcile reconcile/connect ui/cli/base ui/safe ui/ticket",
	"":                         "ui/cli",
}

// everywhere may be imported by all.
const everywhere = " ledger/lazyregexp"

// Arrows point down only, and a wire knows nothing of who uses it.
func TestArrowsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}", "indoubt/...").Output()
	need.OK(t, err, "go list")
	packages := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from, ok := arrowsOf(fields[0])
		if !ok {
			t.Errorf("%s stands nowhere: say in arrows what it may import", fields[0])
			continue
		}
		packages++
		for _, to := range fields[1:] {
			if to, own := strings.CutPrefix(to, "indoubt/"); own && !allows(from+everywhere, to) {
				t.Errorf("%s imports indoubt/%s; it may import: %s", fields[0], to, from)
			}
		}
	}
	need.That(t, packages >= 20, "%d packages are few", packages)
}

// Only the wiring, ledger/open, knows which store a ledger is in; tests open one by its
// name, too.
func TestOnlyTheWiringNamesAStore(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}{{range .TestImports}} {{.}}{{end}}{{range .XTestImports}} {{.}}{{end}}", "indoubt/...").Output()
	need.OK(t, err, "go list")
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from := strings.TrimPrefix(fields[0], "indoubt/")
		if allows("ledger/open ledger/sqlite… ledger/postgres…", from) {
			continue
		}
		for _, to := range fields[1:] {
			// pgtest starts servers; it is no store.
			if to := strings.TrimPrefix(to, "indoubt/"); allows("ledger/sqlite… ledger/postgres…", to) && to != "ledger/postgres/pgtest" {
				t.Errorf("%s imports %s", from, to)
			}
		}
	}
}

// arrowsOf are the arrows of the longest name that fits a package.
func arrowsOf(path string) (to string, ok bool) {
	path, longest := strings.TrimPrefix(strings.TrimPrefix(path, "indoubt"), "/"), -1
	for name, imports := range arrows {
		if fits(name, path) && len(name) > longest {
			to, ok, longest = imports, true, len(name)
		}
	}
	return to, ok
}

// allows reports whether a list of names has one that fits a package.
func allows(names, path string) bool {
	for _, name := range strings.Fields(names) {
		if fits(name, path) {
			return true
		}
	}
	return false
}

func fits(name, path string) bool {
	name, below := strings.CutSuffix(name, "…")
	return path == name || below && strings.HasPrefix(path, name+"/")
}
