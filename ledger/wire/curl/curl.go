// Package curl reads the command lines of curl. The options say how many requests
// it makes and which arguments are secret; its exit code says whether it had a
// connection, and what it writes says the status. The package imports nothing of indoubt.
package curl

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
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
// it ran in, which may name a configuration file.
func NeverConnected(argv, env []string, exit int) bool {
	return (exit == 6 || exit == 7) && len(argv) > 0 && Is(argv[0]) && connectsOnce(argv) && (ignoresFiles(argv) || !configured(env))
}

// SaysUnconnected reports whether standard error has curl's message that it had
// no connection: the name did not resolve, or the connection was refused.
func SaysUnconnected(stderr []byte) bool {
	for line := range bytes.Lines(stderr) {
		if bytes.HasPrefix(line, []byte("curl: (5) ")) || bytes.HasPrefix(line, []byte("curl: (6) ")) || bytes.HasPrefix(line, []byte("curl: (7) ")) {
			return true
		}
	}
	return false
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

// once are the options under which curl makes one request of one URL over
// one connection. With any other it may send twice, or elsewhere: redirects,
// retries, several transfers, what asks for a password first, data inside the
// handshake. An option that is not known counts as such.
var once = sync.OnceValue(func() map[string]bool {
	once := map[string]bool{}
	for _, name := range strings.Fields(`basic cacert capath cert cert-type ciphers compressed compressed-ssh connect-timeout connect-to cookie cookie-jar crlfile data data-ascii
		data-binary data-raw data-urlencode disable dump-header expect100-timeout fail fail-with-body form form-string get globoff head header http1.0 http1.1 http2 include
		insecure interface ipv4 ipv6 json junk-session-cookies keepalive-time key key-type limit-rate local-port max-filesize max-time netrc netrc-optional no-buffer no-keepalive
		no-progress-meter noproxy oauth2-bearer output pass path-as-is pinnedpubkey progress-bar proxy proxy-header proxy-user referer remote-header-name remote-name
		remote-time request request-target resolve show-error show-headers silent speed-limit speed-time ssl-no-revoke stderr tls-max tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3
		trace-time upload-file url url-query user user-agent verbose write-out`) {
		once[name] = true
	}
	return once
})

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

// connectsOnce reports whether a command line asks for one request of one
// URL over one connection.
func connectsOnce(argv []string) bool {
	urls, uploads, globs := 0, 0, true
	options := Options(argv)
	for i, o := range options {
		if !once()[o.Name] || o.At > 0 && strings.HasPrefix(argv[o.Arg], "--") || o.Name == "disable" && i > 0 {
			return false
		}
		globs = globs && o.Name != "globoff"
	}
	for _, o := range options {
		switch o.Name {
		case "url":
			urls++
			if !address(o.Value, globs) {
				return false
			}
		case "upload-file":
			uploads++
			if uploads > 1 || globs && strings.ContainsAny(o.Value, "{[") {
				return false
			}
		}
	}
	return urls == 1
}

// address reports whether a URL is one HTTP address: not a pattern of many, and
// not an address of another protocol.
func address(url string, globs bool) bool {
	scheme := regexp.MustCompile(`(?i)^https?://`).FindString(url)
	rest := url[len(scheme):]
	other := regexp.MustCompile(`(?i)^(?:[a-z][a-z0-9+.-]*://|(?:ftp|dict|ldap|imap|smtp|pop3)\.|[-@])`)
	if scheme == "" && other.MatchString(url) || rest == "" {
		return false
	}
	ipv6 := regexp.MustCompile(`^(?:[^/?#@]*@)?\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?\]`)
	return !globs || !strings.ContainsAny(ipv6.ReplaceAllString(rest, ""), "{[")
}

// ignoresFiles reports whether -q keeps curl from its configuration, which
// it does as the first argument only.
func ignoresFiles(argv []string) bool {
	return len(argv) > 1 && (argv[1] == "--disable" || strings.HasPrefix(argv[1], "-q"))
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
