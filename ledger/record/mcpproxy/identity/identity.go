// Package identity tells MCP servers apart: by what scope their calls are known in
// the ledger, and by what name people know them. It is a leaf.
package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"indoubt/ledger/lazyregexp"
)

// Which server it is decides which calls may be the same. Too fine, and a call in
// doubt is sent again because something was spelt otherwise; too coarse, and the
// answer of one server is taken for another's. So what only spells the same thing
// in another way is levelled, and what may lead elsewhere counts.

// NamedScope is the scope of a server that is known by a given name.
func NamedScope(name string) string { return "mcp:" + name }

// CommandScope is the scope of a server that is a command in a directory. Programs
// that only run the program that counts, versions, and spellings of a path do not
// count. The directory counts where the command names no other place: then it is
// what the server may work on.
func CommandScope(argv []string, dir string) string {
	l := line{dir: realPath(dir, "")}
	l.read(argv)
	parts := map[string]any{"program": l.program, "args": l.args}
	if !l.placed {
		parts["dir"] = l.dir
	}
	return scopeOf(parts)
}

// Program is what a command line in a directory runs, behind a launcher too: the package
// that is installed there, without its version, else the file.
func Program(argv []string, dir string) string {
	l := line{dir: realPath(dir, "")}
	l.read(argv)
	return l.program
}

// line is a command line as it counts.
type line struct {
	dir     string // where its relative paths begin
	program string
	args    []string
	placed  bool // one of args names a place
}

// quiet are flags of launchers that say nothing about the server.
var quiet = map[string]bool{
	"-y": true, "--yes": true, "-q": true, "--quiet": true, "-s": true, "--silent": true, "-u": true, "-B": true, "-O": true, "-E": true,
	"--prefer-offline": true, "--no-warnings": true, "--enable-source-maps": true, "--no-deprecation": true,
}

// valued are flags of launchers whose value is the next word.
var valued = map[string]bool{
	"--directory": true, "--project": true, "--cwd": true, "--prefix": true, "-C": true, "--package": true, "-p": true,
	"--from": true, "--with": true, "--python": true, "--env-file": true, "--require": true, "-r": true, "--import": true,
}

// enters are those of them that name the directory the program runs in.
var enters = map[string]bool{"--directory": true, "--cwd": true, "-C": true}

// read takes the words in, launcher by launcher.
func (l *line) read(argv []string) {
	launched := false
	for len(argv) > 1 && isLauncher(argv[0]) {
		at := l.flags(argv)
		if at >= len(argv) {
			break
		}
		argv, launched = argv[at:], true
	}
	if len(argv) == 0 {
		return
	}
	l.program = installed(argv[0], l.dir, !launched)
	for _, arg := range argv[1:] {
		l.add(arg)
	}
}

// flags takes in what stands between a launcher and what it runs, and returns where
// that is.
func (l *line) flags(argv []string) (at int) {
	for at = 1; at < len(argv); at++ {
		switch arg := argv[at]; {
		case verbs[arg] || quiet[arg]:
		case valued[arg] && at+1 < len(argv):
			at++
			l.add(arg)
			l.add(argv[at])
			if enters[arg] {
				l.dir = realPath(argv[at], l.dir)
			}
		case strings.HasPrefix(arg, "-") || isAssignment(arg):
			l.add(arg)
		default:
			return at
		}
	}
	return at
}

func (l *line) add(arg string) {
	plain, isPath := levelled(arg, l.dir)
	l.args, l.placed = append(l.args, plain), l.placed || isPath
}

// isAssignment tells NAME=value from a package with its version (name==1.2).
func isAssignment(word string) bool {
	return strings.Contains(word, "=") && !strings.Contains(word, "==")
}

func isLauncher(word string) bool {
	base := plainBase(word)
	return launchers[base] || interpreter.MatchString(base)
}

var (
	interpreter = lazyregexp.New(`^(?:python|pypy|node|nodejs)[\d.]*$`)
	// A package that is installed somewhere, by npm, uv or pipx.
	npmPackage    = lazyregexp.New(`^.*/node_modules/((?:@[^/]+/)?[^/]+)(?:/.*)?$`)
	pythonPackage = lazyregexp.New(`^.*/(?:uv/tools|pipx/venvs)/([^/]+)/.*$`)
	versionPart   = lazyregexp.New(`/v?\d+(?:\.\d+)+[^/]*`)
)

// installed is a program as it is known wherever it is: by its package, without the
// version that happens to be installed, and else by its path. A program that a
// launcher runs is a package, unless there is such a file.
func installed(word, dir string, command bool) string {
	file := ""
	switch {
	case !command:
		file = existing(word, dir)
	case filepath.Base(word) != word:
		file = realPath(word, dir)
	default:
		if found, err := exec.LookPath(word); err == nil {
			file = realPath(found, dir)
		}
	}
	if file == "" {
		return version.ReplaceAllString(word, "$1")
	}
	file = filepath.ToSlash(file)
	for _, p := range []*lazyregexp.Regexp{npmPackage, pythonPackage} {
		if m := p.FindStringSubmatch(file); m != nil {
			return m[1]
		}
	}
	return versionPart.ReplaceAllString(file, "")
}

// levelled is an argument as it counts, and whether it names a place.
func levelled(arg, dir string) (plain string, isPath bool) {
	name, value, assigned := strings.Cut(arg, "=")
	if !assigned || strings.ContainsAny(name, "/\\ ") {
		name, value = "", arg
	} else {
		name += "="
	}
	if strings.HasPrefix(value, "http://") || strings.HasPrefix(value, "https://") {
		return name + plainURL(value), true
	}
	if value == "" || strings.Contains(value, "://") || name == "" && strings.HasPrefix(value, "-") {
		return arg, false
	}
	dots := strings.HasPrefix(filepath.ToSlash(value), "./") || strings.HasPrefix(filepath.ToSlash(value), "../") || value == "." || value == ".."
	if filepath.IsAbs(value) || dots {
		return name + realPath(value, dir), true
	}
	if file := existing(value, dir); file != "" {
		return name + file, true
	}
	return arg, false
}

// existing is the real path of what there is of that name, or "".
func existing(name, dir string) string {
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return realPath(file, "")
}

// realPath is a path without symbolic links, as far as it is there: a directory
// that the server has yet to make is the same one afterwards.
func realPath(name, dir string) string {
	if !filepath.IsAbs(name) && dir != "" {
		name = filepath.Join(dir, name)
	}
	name = filepath.Clean(name)
	for at, rest := name, ""; ; {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		up := filepath.Dir(at)
		if up == at {
			return name
		}
		at, rest = up, filepath.Join(filepath.Base(at), rest)
	}
}

// URLScope is the scope of a server at a URL. Credentials in it do not count:
// they change while the server stays the same.
func URLScope(address string) string { return scopeOf(map[string]any{"url": plainURL(address)}) }

var (
	secretParameter = lazyregexp.New(`(?i)key|token|secret|password|auth|sig|credential`)
	usualPort       = map[string]string{"http": "80", "https": "443"}
)

// plainURL is a URL without what only spells it.
func plainURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	u.Scheme = strings.ToLower(u.Scheme)
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if host == "127.0.0.1" || host == "::1" {
		host = "localhost"
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Host = host; port != "" && port != usualPort[u.Scheme] {
		u.Host += ":" + port
	}
	u.Path, u.RawPath = strings.TrimSuffix(path.Clean("/"+u.Path), "/"), ""
	query := u.Query()
	for name := range query {
		if secretParameter.MatchString(name) {
			query.Del(name)
		}
	}
	u.RawQuery, u.ForceQuery = query.Encode(), false
	return u.String()
}

func scopeOf(parts map[string]any) string {
	text, err := json.Marshal(parts) // in the order of the names
	if err != nil {
		panic(err) // only texts come here
	}
	sum := sha256.Sum256(text)
	return "mcp:" + hex.EncodeToString(sum[:16])
}
