package main

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report collects what the tests of a run say.
type report struct {
	began   time.Time
	output  map[[2]string][]string // by package and test
	tests   map[string]int         // that have ended, by package
	failed  map[string][]string    // top-level tests, by package
	broken  map[string]bool        // packages that ended before all their tests had run
	raced   bool                   // a data race was seen, which is no matter of luck
	skipped []string
	over    []string
	flaky   []string
	summary map[string]string // the last line of go test, by package
}

func newReport() *report {
	return &report{began: time.Now(), output: map[[2]string][]string{}, tests: map[string]int{},
		failed: map[string][]string{}, broken: map[string]bool{}, summary: map[string]string{}}
}

func (r *report) line(text string) {
	var e event
	if !e.parse(text) {
		fmt.Print(text)
		return
	}
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Print(e.Output)
	case "output":
		r.output[key] = append(r.output[key], e.Output)
		if isBroken(e.Output) {
			r.broken[e.Package] = true
		}
		r.raced = r.raced || isRace(e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			r.packageEnded(e)
			return
		}
		r.testEnded(e, key)
	}
}

// isBroken reports whether a line says that the whole test program ended.
func isBroken(line string) bool {
	for _, start := range []string{"panic: ", "fatal error: ", "*** Test killed"} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

func isRace(line string) bool { return strings.HasPrefix(line, "WARNING: DATA RACE") }

func (r *report) testEnded(e event, key [2]string) {
	r.tests[e.Package]++
	if e.Action != "fail" && slices.ContainsFunc(r.output[key], isRace) { // a race of its neighbours can fall into it
		fmt.Print(strings.Join(r.output[key], ""))
	}
	switch e.Action {
	case "fail":
		fmt.Print(strings.Join(r.output[key], ""))
		if !strings.Contains(e.Test, "/") {
			r.failed[e.Package] = append(r.failed[e.Package], e.Test)
		}
	case "skip":
		r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(r.output[key])))
	}
	delete(r.output, key)
}

func (r *report) packageEnded(e event) {
	for _, line := range r.output[[2]string{e.Package, ""}] {
		if word, _, ok := strings.Cut(line, "\t"); ok && slices.Contains([]string{"ok  ", "?   ", "FAIL", "---"}, word) {
			r.summary[e.Package] = line
		} else if e.Action == "fail" {
			fmt.Print(line)
		}
	}
	for key, lines := range r.output {
		if key[0] == e.Package && key[1] != "" { // it has not come to its end
			fmt.Print(strings.Join(lines, ""))
			r.broken[e.Package] = true
		}
		if key[0] == e.Package {
			delete(r.output, key)
		}
	}
	if e.Action == "fail" && r.failed[e.Package] == nil {
		r.failed[e.Package] = []string{}
	}
	if r.tests[e.Package] == 0 {
		return
	}
	budget := budgetOf(e.Package)
	fmt.Printf("%4.0f s  %s: %s, %d tests in %.1f of %.0f s\n", time.Since(r.began).Seconds(), e.Package, e.Action, r.tests[e.Package], e.Elapsed, budget)
	if e.Elapsed > budget {
		r.over = append(r.over, fmt.Sprintf("%s: %.1f of %.0f s", e.Package, e.Elapsed, budget))
	}
}

// repeat runs what failed once more, by package and the pattern of its tests. It
// returns err where something fails again, where no test failed (a compiler did), and
// after a data race.
func (r *report) repeat(err error, run func(name, pattern string) (*report, error)) error {
	if len(r.failed) == 0 || r.raced {
		return err
	}
	var still error
	for _, name := range slices.Sorted(maps.Keys(r.failed)) {
		tests := slices.Compact(slices.Sorted(slices.Values(r.failed[name])))
		pattern := "^(" + strings.Join(tests, "|") + ")$"
		if len(tests) == 0 || r.broken[name] {
			pattern = "." // others did not come to their turn
		}
		fmt.Printf("Once more: %s %s\n", name, pattern)
		once, failed := run(name, pattern)
		if failed != nil {
			still = err
			continue
		}
		if len(tests) == 0 {
			tests = []string{"(the package)"}
		}
		for _, test := range tests {
			r.flaky = append(r.flaky, name+" "+test)
		}
		r.summary[name] = once.summary[name]
	}
	return still
}

// budgets are the seconds that a package's tests may take on two quiet cores, in the
// fast lane and in the slow one.
//
//go:embed budget.txt
var budgets string

// other is the budget of a package that has no line.
const other = 2

// budgetOf returns the budget of a package, in seconds.
func budgetOf(name string) float64 {
	for line := range strings.Lines(budgets) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != name {
			continue
		}
		column := 1
		if os.Getenv("INDOUBT_LANE") == "soak" {
			column = 2
		}
		if seconds, err := strconv.ParseFloat(f[column], 64); err == nil {
			return seconds
		}
	}
	return other
}

var place = regexp.MustCompile(`^\s+\w+\.go:\d+: `)

// reason returns the last thing that a skipped test said.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if place.MatchString(line) {
			return strings.TrimSpace(place.ReplaceAllString(line, ""))
		}
	}
	return "it does not say why"
}

func (r *report) end(dir string) {
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		fmt.Println("Left in the temporary folder, and removed:")
		for _, e := range entries {
			fmt.Println("  " + e.Name())
		}
	}
	list("Skipped", r.skipped)
	list("Over their budget", r.over)
	if len(r.flaky) > 0 {
		list("FLAKY: failed, and passed when run once more", r.flaky)
	}
	for _, name := range slices.Sorted(maps.Keys(r.summary)) {
		fmt.Print(r.summary[name])
	}
}

func list(title string, lines []string) {
	fmt.Printf("%s: %d\n", title, len(lines))
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println("  " + line)
	}
}
