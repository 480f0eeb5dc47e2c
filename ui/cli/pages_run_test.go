//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ui/cli"
)

// pages have blocks that are run as a reader runs them: from top to bottom, in one shell.
// A block's language says what becomes of it:
//
//	sh          it runs, and has to exit with 0
//	sh-serve    it runs beside the rest, until the end of the page
//	python      it runs
//	output      it is what the block above prints; … stands for any text, on a line of its own for any lines
//	yaml NAME   a name behind any language: it is put into this file
//
// Blocks of any other language have a reason in notRun.
//
// The soak lane runs the blocks that need curl, python3, sqlite3 or awk.
var pages = []string{"policy/mapping/README.md", "ui/README.md", ".github/CONTRIBUTING.md", ".github/ARCHITECTURE.md"}

var pagesOfOthers = []string{"README.md", "ledger/README.md", "ledger/record/README.md", "policy/README.md", "reconcile/README.md"}

var notRun = map[string]string{
	"sh-make":   "TestThePagesOnANewSystem runs it",
	"sh-long":   "it takes many minutes: INDOUBT_FRESH=long runs it on a new system",
	"sh-system": "it needs systemd, docker, accounts or cron",
	// What needs a PostgreSQL server is run by TestContractInPostgreSQL and TestE2E_ALedgerInPostgreSQL.
	"sh-postgres": "a server", "sql-postgres": "a server",
	"sh-fleet": "a server: TestE2E_OneLedgerForAFleet",
	"sql":      "TestContractInGo runs it",
	"sh-agent": "it rewrites a client's files: TestThePagePutsAnAgentBehindIndoubt",
	// What replaces the ledger is run, and compared, by TestI10_E2E_ABackupIsRestoredAsThePageSays.
	"sh-restore": "it replaces", "sh-snapshot": "it replaces", "sh-dump": "it replaces", "sh-failover": "it replaces",
	"sh-adopt":   "it adopts",
	"sh-release": "it is the end of that", "sh-unlooked": "it is the end of that", "output-unlooked": "shown by it",
	"output-restore": "shown by it", "output-snapshot": "shown by it", "output-dump": "shown by it", "output-failover": "shown by it",
	"output-adopt": "shown by it", "output-release": "shown by it",
	"go":   "the examples of ledger/record compile",
	"json": "TestPageConfiguresMCP, or it shows a form", "ini": "TestTheUnitsOfSystemd", "filter": "TestThePageNamesEveryFilter",
	"text": "a picture", "mermaid": "a picture", "yaml": "an excerpt, or TestTheConfigurationIsTakenOrSaidToBeWrong",
	"yaml-ci": "TestE2E_ALedgerInPostgreSQL", "yaml-job": "TestE2E_ALedgerInPostgreSQL", "yaml-sidecar": "TestE2E_ALedgerInPostgreSQL",
}

// blocksOn are the blocks of a page in a language.
func blocksOn(t *testing.T, page, language string) []string {
	t.Helper()
	var out []string
	for _, b := range need.Blocks(t, "../../"+page, language) {
		out = append(out, b.Text)
	}
	return out
}

// Every block of every page does what the page says.
func TestThePagesRun(t *testing.T) {
	for _, name := range pages {
		t.Run(name, func(t *testing.T) { runPage(t, name) })
	}
	for _, name := range pagesOfOthers {
		t.Run(name+" has a rule for each block", func(t *testing.T) { scriptOf(newPage(t), name) })
	}
}

// pageScript is what the blocks of a page do, one after the other.
type pageScript struct {
	text  string
	here  *strings.Replacer
	ran   map[int]need.Block
	wants map[int]need.Block // what the blocks above them print
}

func scriptOf(p *page, name string) pageScript {
	p.Helper()
	api := httptest.NewServer(&otherSide{lost: map[string]bool{}})
	p.Cleanup(api.Close)
	s := pageScript{ran: map[int]need.Block{}, wants: map[int]need.Block{}}
	s.here = strings.NewReplacer("https://tickets.example.com", api.URL, "https://api.example.com", api.URL, "https://api.example", api.URL,
		"127.0.0.1:8080", freeAddress(p.T), "/var/lib/indoubt", p.dir+"/lib", " /tmp/", " "+p.dir+"/", "/backup/", p.dir+"/")
	var out strings.Builder
	last := -1
	// Who reads the page of operators or of the console has a ledger.
	if name == "reconcile/README.md" || name == "ui/README.md" {
		fmt.Fprintln(&out, "indoubt init")
	}
	fmt.Fprintln(&out, "set -e\ntrap 'test -z \"$served\" || kill $served' EXIT\nserved=")
	for i, b := range need.Blocks(p, "../../"+name, "") {
		text := s.here.Replace(b.Text)
		switch {
		case b.Name != "":
			path := strings.Replace(b.Name, "~", "$HOME", 1)
			fmt.Fprintf(&out, "mkdir -p \"$(dirname %s)\"\ncat > %s <<'END OF THE BLOCK'\n%sEND OF THE BLOCK\n", path, path, text)
			continue
		case b.Language == "sh":
			fmt.Fprintf(&out, "printf '\\001%d\\n'\n%s", i, text)
		case b.Language == "python":
			fmt.Fprintf(&out, "printf '\\001%d\\n'\npython3 - <<'END OF THE BLOCK'\n%sEND OF THE BLOCK\n", i, text)
		case b.Language == "sh-serve":
			port := regexp.MustCompile(`127\.0\.0\.1:(\d+)`).FindStringSubmatch(text)[1]
			fmt.Fprintf(&out, "printf '\\001%d\\n'\nserve() {\nexec %s}\nserve >>served.log 2>&1 & served=\"$served $!\"\n"+
				"until bash -c ': </dev/tcp/127.0.0.1/%s' 2>/dev/null; do sleep 0.05; done\n", i, text, port)
		case b.Language == "output":
			need.That(p, last >= 0, "%s:%d: no block above it runs", name, b.Line)
			s.wants[last] = b
			continue
		default:
			need.That(p, notRun[b.Language] != "", "%s:%d: %s is a language without a rule", name, b.Line, b.Language)
			continue
		}
		s.ran[i], last = b, i
	}
	s.text = out.String()
	return s
}

// asShown reports whether what was printed is what a page shows.
func asShown(page, printed string) bool {
	line := regexp.MustCompile("(?m)^…$\n?").ReplaceAllString(regexp.QuoteMeta(strings.TrimSpace(page)), "(?s:.*)")
	return regexp.MustCompile("^" + strings.ReplaceAll(line, "…", ".*") + "$").MatchString(strings.TrimSpace(printed))
}

func runPage(t *testing.T, name string) {
	p := newPage(t)
	s := scriptOf(p, name)
	for _, program := range []string{"curl", "python3", "sqlite3", "awk"} {
		if strings.Contains(s.text, program+" ") && os.Getenv("INDOUBT_FRESH") != "inside" {
			need.That(t, slices.Contains(pagesOfOthers, name), "%s needs %s: the soak lane runs it", name, program)
			need.Program(t, program)
		}
	}
	exit, out := p.run(s.text, "sh")
	parts := regexp.MustCompile("(?ms)\x01(\\d+)\n([^\x01]*)").FindAllStringSubmatch(out, -1)
	for _, part := range parts {
		i, _ := strconv.Atoi(part[1])
		b, want := s.ran[i], s.wants[i]
		if t.Logf("%s:%d printed\n%s", name, b.Line, part[2]); want.Text == "" {
			continue
		}
		if !asShown(s.here.Replace(want.Text), part[2]) {
			t.Errorf("%s:%d: the page shows\n%s\nand the block above it printed\n%s", name, want.Line, want.Text, part[2])
		}
	}
	need.That(t, exit == 0 && len(parts) == len(s.ran), "%s: exit %d, and %d of %d blocks ran\n%s", name, exit, len(parts), len(s.ran), out)
}

// otherSide is what the pages write to. It loses the answer to the first request about
// each of lostFor, after it has done what was asked.
type otherSide struct {
	mu      sync.Mutex
	charges []map[string]any
	tickets []map[string]any
	lost    map[string]bool
}

var lostFor = []string{"INV-2", "INV-5"}

func (o *otherSide) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	kept, what := &o.charges, "charges"
	if r.URL.Path == "/tickets" {
		kept, what = &o.tickets, "tickets"
	}
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(map[string]any{what: append([]map[string]any{}, *kept...), "more": false})
		return
	}
	effect := map[string]any{}
	if json.Unmarshal(body, &effect) != nil {
		form, _ := url.ParseQuery(string(body))
		for name := range form {
			effect[name] = form.Get(name)
		}
	}
	effect["id"] = fmt.Sprintf("%s_%d", what[:2], 100+len(*kept))
	*kept = append(*kept, effect)
	if invoice, _ := effect["invoice"].(string); slices.Contains(lostFor, invoice) && !o.lost[invoice] {
		o.lost[invoice] = true
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(effect)
}

// page is a place where blocks run: this program on the PATH, in a home of their own.
type page struct {
	*testing.T
	dir string
}

func newPage(t *testing.T) *page {
	t.Helper()
	p := &page{T: t, dir: place(t)}
	need.OK(t, os.MkdirAll(filepath.Join(p.dir, "bin"), 0o700))
	need.OK(t, os.Symlink(program, filepath.Join(p.dir, "bin", "indoubt")))
	return p
}

func (p *page) env() []string {
	return []string{"HOME=" + p.dir, "PATH=" + p.dir + "/bin:" + os.Getenv("PATH"), "TZ=UTC", "LANG=C.UTF-8"}
}

// run runs a program on a text, there.
func (p *page) run(source string, program ...string) (exit int, output string) {
	p.Helper()
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env()
	cmd.Stdin = strings.NewReader(source)
	out, err := cmd.CombinedOutput()
	need.Must(p, err == nil || cmd.ProcessState != nil, "%v", err)
	return cmd.ProcessState.ExitCode(), string(out)
}

// indoubt runs one command line there.
func (p *page) indoubt(args ...string) (exit int, output string) {
	p.Helper()
	if shipped {
		return p.run("", append([]string{program}, args...)...)
	}
	for i, arg := range args {
		if arg == "policy.yaml" {
			args[i] = filepath.Join(p.dir, arg)
		}
	}
	var out bytes.Buffer
	exit = cli.Inside(p.Context(), append(p.env(), "INDOUBT_LEDGER="+filepath.Join(p.dir, ".local/state/indoubt/ledger.db")), 0, &out, &out, args...)
	return exit, out.String()
}

// policyIn writes a policy into that place.
func policyIn(p *page, text string) {
	p.Helper()
	need.OK(p, os.WriteFile(filepath.Join(p.dir, "policy.yaml"), []byte(text), 0o600))
}
