package identity

import (
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"indoubt/ledger/lazyregexp"
)

// launchers are programs that run the program that counts.
var launchers = map[string]bool{
	"npx": true, "npm": true, "pnpm": true, "yarn": true, "bunx": true, "bun": true, "node": true, "deno": true, "tsx": true,
	"uvx": true, "uv": true, "pipx": true, "python": true, "python3": true, "go": true, "env": true,
}

// verbs are words of launchers that stand before the program.
var verbs = map[string]bool{"exec": true, "dlx": true, "run": true, "tool": true, "x": true}

var (
	version    = lazyregexp.New(`(.)(?:@|==)[^/@]*$`)
	extension  = lazyregexp.New(`\.(?:js|mjs|cjs|ts|py|exe|sh|go|jar)$`)
	decoration = lazyregexp.New(`^(?:mcp-server-|server-|mcp-)|(?:-mcp-server|-server-mcp|-server|-mcp)$`)
	unnamely   = lazyregexp.New(`[^A-Za-z0-9_-]+`)
)

// CommandName is what a server is called when no name is given: the base name of its
// command, or of the package or script that a launcher (npx, uvx, node, …) runs,
// without what only says that it is a server. It never depends on what the
// server says of itself, because kinds must not change while it starts.
func CommandName(argv []string) string {
	base := decoration.ReplaceAllString(plainBase(spelt(argv)), "")
	if base = strings.Trim(unnamely.ReplaceAllString(base, "-"), "-"); base == "" {
		return "server"
	}
	return base
}

// spelt is the program, package or script that a command line runs, behind a launcher
// too, without its version: as it is written, whatever a link leads to.
func spelt(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	name := argv[0]
	if isLauncher(name) {
		for i, arg := range argv[1:] {
			if strings.HasPrefix(arg, "-") || verbs[arg] || isAssignment(arg) || valued[argv[i]] {
				continue
			}
			name = arg
			break
		}
	}
	for _, p := range []*lazyregexp.Regexp{npmPackage, pythonPackage} {
		if m := p.FindStringSubmatch(filepath.ToSlash(name)); m != nil {
			return m[1]
		}
	}
	return version.ReplaceAllString(name, "$1")
}

func plainBase(name string) string {
	base := path.Base(filepath.ToSlash(version.ReplaceAllString(name, "$1")))
	return extension.ReplaceAllString(base, "")
}

// URLName is what a server at a URL is called when no name is given: its host.
func URLName(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "server"
	}
	return u.Hostname()
}
