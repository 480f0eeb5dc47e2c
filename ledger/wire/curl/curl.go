// Package curl reads the command lines of curl. The options say which arguments are
// secret, and whether an exit code shows that it never had a connection. The package
// imports nothing of indoubt.
package curl

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Is reports whether a program is curl by its name.
func Is(program string) bool {
	name := strings.ToLower(filepath.Base(program))
	return name == "curl" || name == "curl.exe"
}

// NeverConnected reports whether a curl that ended with an exit code had no
// connection at all: its name did not resolve or the connection was refused, and
// the command line asks for one request of one address. env is the environment
// it ran in: a configuration file can hold any option, and -q, which comes first,
// keeps curl from it.
func NeverConnected(argv, env []string, exit int) bool {
	return (exit == 6 || exit == 7) && len(argv) > 0 && Is(argv[0]) && AsksOnce(argv) && (Options(argv)[0].Name == "disable" || !configured(env))
}

// Option is one option of a curl command line, under its long name, or one
// of its URLs, under the name "url".
type Option struct {
	Name  string
	Value string // "" for one without
	Arg   int    // the argument that holds the value
	At    int    // where in that argument it begins
}

// short are curl's short options. A name with = takes a value.
var short = map[byte]string{
	'#': "progress-bar", '0': "http1.0", '1': "tlsv1", '2': "sslv2", '3': "sslv3", '4': "ipv4", '6': "ipv6", ':': "next", 'a': "append", 'A': "user-agent=",
	'b': "cookie=", 'B': "use-ascii", 'c': "cookie-jar=", 'C': "continue-at=", 'd': "data=", 'D': "dump-header=", 'e': "referer=", 'E': "cert=", 'f': "fail",
	'F': "form=", 'g': "globoff", 'G': "get", 'h': "help=", 'H': "header=", 'i': "include", 'I': "head", 'j': "junk-session-cookies", 'J': "remote-header-name",
	'k': "insecure", 'K': "config=", 'l': "list-only", 'L': "location", 'm': "max-time=", 'M': "manual", 'n': "netrc", 'N': "no-buffer", 'o': "output=",
	'O': "remote-name", 'p': "proxytunnel", 'P': "ftp-port=", 'q': "disable", 'Q': "quote=", 'r': "range=", 'R': "remote-time", 's': "silent", 'S': "show-error",
	't': "telnet-option=", 'T': "upload-file=", 'u': "user=", 'U': "proxy-user=", 'v': "verbose", 'V': "version", 'w': "write-out=", 'x': "proxy=", 'X': "request=",
	'y': "speed-time=", 'Y': "speed-limit=", 'z': "time-cond=", 'Z': "parallel",
}

// long are the long options that take a value.
var long = sync.OnceValue(func() map[string]bool {
	takes := map[string]bool{}
	for _, name := range strings.Fields(`cacert capath cert-type ciphers connect-timeout connect-to crlfile data-ascii data-binary data-raw data-urlencode expect100-timeout
		form-string interface json keepalive-time key key-type limit-rate local-port max-filesize noproxy oauth2-bearer pass pinnedpubkey proxy-cert proxy-header proxy-key
		proxy-pass proxy-tlspassword proxy1.0 resolve retry retry-delay retry-max-time stderr tls-max tlspassword tlsuser unix-socket url url-query`) {
		takes[name] = true
	}
	for _, name := range short {
		if name, ok := strings.CutSuffix(name, "="); ok && name != "help" {
			takes[name] = true
		}
	}
	return takes
})

// once are the options under which curl makes one request of one URL over one connection.
// With any other it may send twice, or elsewhere.
var once = strings.Fields(`cacert cert compressed connect-timeout data data-ascii data-binary data-raw data-urlencode dump-header fail fail-with-body form globoff
	header include insecure json key max-time no-buffer noproxy oauth2-bearer output proxy request show-error silent url user user-agent verbose write-out`)

// Options reads a curl command line.
func Options(argv []string) (out []Option) {
	for i := 1; i < len(argv); i++ {
		arg := argv[i]
		next := func(name string) {
			o := Option{Name: name, Arg: i}
			if i+1 < len(argv) {
				i++
				o.Arg, o.Value = i, argv[i]
			}
			out = append(out, o)
		}
		switch {
		case arg == "--":
			for i++; i < len(argv); i++ {
				out = append(out, Option{"url", argv[i], i, 0})
			}
		case strings.HasPrefix(arg, "--"):
			name, value, joined := strings.Cut(arg[2:], "=")
			switch {
			case joined:
				out = append(out, Option{name, value, i, len(arg) - len(value)})
			case long()[name]:
				next(name)
			default:
				out = append(out, Option{Name: name, Arg: i})
			}
		case len(arg) > 1 && arg[0] == '-':
			for at := 1; at < len(arg); at++ {
				name, takes := strings.CutSuffix(short[arg[at]], "=")
				if takes && at+1 < len(arg) {
					out = append(out, Option{name, arg[at+1:], i, at + 1})
					break
				} else if takes {
					next(name)
				} else {
					out = append(out, Option{Name: name, Arg: i})
				}
			}
		default:
			out = append(out, Option{"url", arg, i, 0})
		}
	}
	return out
}

// AsksOnce reports whether a command line asks for one request of one HTTP address that
// is no pattern, over one connection.
func AsksOnce(argv []string) bool {
	urls := 0
	for i, o := range Options(argv) {
		switch {
		case o.Name == "disable" && i == 0:
		case !slices.Contains(once, o.Name) || o.At > 0 && strings.HasPrefix(argv[o.Arg], "--"):
			return false
		case o.Name == "url":
			urls++
			if !strings.HasPrefix(o.Value, "http://") && !strings.HasPrefix(o.Value, "https://") || strings.ContainsAny(o.Value, "{[") {
				return false
			}
		}
	}
	return urls == 1
}

// configured reports whether curl has, or may have, a configuration file: it
// can hold any option.
func configured(env []string) bool {
	if runtime.GOOS == "windows" { // beside the program too, and elsewhere
		return true
	}
	var dirs []string
	for _, name := range []string{"CURL_HOME", "XDG_CONFIG_HOME", "HOME"} {
		for i := len(env) - 1; i >= 0; i-- { // the last one counts
			if dir, ok := strings.CutPrefix(env[i], name+"="); ok {
				dirs = append(dirs, dir)
				break
			}
		}
	}
	u, err := user.Current()
	if err != nil {
		return true
	}
	for _, dir := range append(dirs, u.HomeDir) {
		for _, name := range []string{".curlrc", "curlrc", ".config/curlrc"} {
			if dir == "" {
				continue
			}
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
				return true
			}
		}
	}
	return false
}
