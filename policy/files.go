package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFiles is how many files a policy may have.
const maxFiles = 200

// Files are the files of a policy: all that end in .yaml or .yml in a directory, or a file
// and those in the directory beside it that has its name with .d for its ending
// (policy.yaml, policy.d/*.yaml). A file that is missing beside such a directory is left
// out; without either it is an error.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	dir, files := besides(path), []string(nil)
	switch {
	case err == nil && info.IsDir():
		dir = path
	case err == nil:
		files = []string{path}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("policy: %w", err)
	}
	entries, failed := os.ReadDir(dir)
	if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		return nil, fmt.Errorf("policy: %w", failed)
	}
	for _, e := range entries {
		if ending := filepath.Ext(e.Name()); !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (ending == ".yaml" || ending == ".yml") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	switch {
	case len(files) == 0 && err == nil:
		return nil, Errors{{File: path, Message: "no file in this directory ends in .yaml", Hint: "`indoubt policy init` writes an example"}}
	case len(files) == 0:
		return nil, fmt.Errorf("policy: %w", err)
	case len(files) > maxFiles:
		return nil, Errors{{File: dir, Message: fmt.Sprintf("there are more than %d files", maxFiles), Hint: "put several kinds into one"}}
	}
	return files, nil
}

// besides is the directory of further files of a policy file.
func besides(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + ".d" }

// Beside is where further files of the policy at this path stand. further reports that
// the path is such a file itself, beside a policy that is there.
func Beside(path string) (dir string, further bool) {
	for _, ending := range []string{".yaml", ".yml"} {
		main, ok := strings.CutSuffix(filepath.Dir(path), ".d")
		if info, err := os.Stat(main + ending); ok && err == nil && !info.IsDir() {
			return filepath.Dir(path), true
		}
	}
	return besides(path), false
}

// file is the text of a policy file.
type file struct {
	name string
	text []byte
}

// Load reads, merges and checks the files of a policy. Problems of their content come as
// Errors; that a file cannot be read comes as the error of the system.
func Load(path string) (*Policy, error) {
	files, err := contents(path)
	if err != nil {
		return nil, err
	}
	return parse(path, files, nil)
}

// contents are the texts of all files of a policy. The errors are those of Load.
func contents(path string) (all []file, err error) {
	names, err := Files(path)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := content(name)
		if err != nil {
			return nil, err
		}
		all = append(all, file{name, text})
	}
	return all, nil
}

// content is the text of a policy file, which has an end even where the file has
// none.
func content(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("policy: %s is a directory", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if len(text) > maxFile {
		return nil, Errors{{File: path, Message: fmt.Sprintf("the file is larger than %d KiB", maxFile>>10), Hint: "move kinds into files of " + besides(filepath.Base(path))}}
	}
	return text, nil
}

// merged are the trees of several files as one. The lines of each follow those of the one
// before it, so that a line names its file.
func merged(name string, files []file) (*source, *node, Errors) {
	whole, root, problems := &source{name: name}, (*node)(nil), Errors(nil)
	for _, f := range files {
		src := newSource(f.name, f.text)
		tree, wrong := parseYAML(src, f.text)
		problems = append(problems, wrong...)
		whole.files = append(whole.files, span{f.name, len(whole.lines)})
		if tree != nil {
			tree.shift(len(whole.lines))
		}
		whole.lines = append(whole.lines, src.lines...)
		switch {
		case tree == nil:
		case root == nil:
			root = tree
		case tree.kind != mappingNode || root.kind != mappingNode:
			problems = append(problems, whole.problem(tree.place, "a policy is a mapping (name: value)", "begin with `kinds:`"))
		default:
			problems = append(problems, root.join(whole, tree)...)
		}
	}
	return whole, root, problems
}

// join adds what stands in another file.
func (n *node) join(src *source, other *node) (problems Errors) {
	for _, e := range other.entries {
		i := slices.IndexFunc(n.entries, func(have entry) bool { return have.name == e.name })
		if i < 0 {
			n.entries = append(n.entries, e)
			continue
		}
		have := n.entries[i].value
		switch {
		case e.name == "version" && e.value.text == have.text:
		case slices.Contains([]string{"words", "downstreams", "kinds", "notify"}, e.name) && have.kind == mappingNode && e.value.kind == mappingNode && n.path == "":
			problems = append(problems, have.join(src, e.value)...)
		default:
			first, line := src.at(have.key.line)
			problems = append(problems, src.problem(e.named(), fmt.Sprintf("stands in %s:%d, too", filepath.Base(first), line), "leave one of the two out"))
		}
	}
	return problems
}

// shift moves a tree down by lines.
func (n *node) shift(lines int) {
	if n.line > 0 {
		n.line += lines
	}
	if n.key.line > 0 {
		n.key.line += lines
	}
	for _, e := range n.entries {
		e.value.shift(lines)
	}
	for _, item := range n.items {
		item.shift(lines)
	}
}
