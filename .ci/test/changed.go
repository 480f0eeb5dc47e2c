package main

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// changed returns the packages with a file that differs from a revision, or is new to
// git, and all that import them. The tests of the source itself are always among them.
func changed(ctx context.Context, since string) ([]string, error) {
	files, err := lines(ctx, "git", "diff", "--name-only", since)
	if err != nil {
		return nil, err
	}
	unknown, err := lines(ctx, "git", "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	files = append(files, unknown...)
	if len(files) == 0 {
		return nil, nil
	}
	if slices.Contains(files, "go.mod") || slices.Contains(files, "go.sum") {
		return []string{"./..."}, nil
	}
	listed, err := lines(ctx, "go", "list", "-tags", "soak", "-f",
		"{{.ImportPath}}: {{range .Deps}}{{.}} {{end}}{{range .TestImports}}{{.}} {{end}}{{range .XTestImports}}{{.}} {{end}}", "./...")
	if err != nil {
		return nil, err
	}
	imports := map[string]map[string]bool{}
	for _, line := range listed {
		name, rest, _ := strings.Cut(line, ": ")
		imports[name] = map[string]bool{name: true}
		for _, to := range strings.Fields(rest) {
			imports[name][to] = true
		}
	}
	touched := map[string]bool{}
	for _, file := range files {
		for dir := path.Dir(file); ; dir = path.Dir(dir) { // a file of testdata belongs to the package above it
			if name := path.Join("indoubt", dir); imports[name] != nil {
				touched[name] = true
				break
			}
			if dir == "." {
				break
			}
		}
	}
	found := map[string]bool{"./ui/house": true}
	for name, to := range imports {
		for one := range touched {
			// A test may import a package that imports the one that was touched.
			if to[one] || slices.ContainsFunc(slices.Collect(maps.Keys(to)), func(t string) bool { return imports[t] != nil && imports[t][one] }) {
				found["."+strings.TrimPrefix(name, "indoubt")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// lines returns what a command prints.
func lines(ctx context.Context, name string, args ...string) ([]string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.FieldsFunc(string(out), func(c rune) bool { return c == '\n' }), nil
}
