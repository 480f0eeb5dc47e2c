package record

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"indoubt/ledger"
)

// isCurl reports whether a program is curl by its name.
func isCurl(program string) bool {
	name := strings.ToLower(filepath.Base(program))
	return name == "curl" || name == "curl.exe"
}

// CommandAnswer adds to a command's answer what the exit code of a program that
// is known says: how the answer failed to come, and whether the program never
// had a connection. env is the environment it ran in.
func CommandAnswer(a ledger.Answer, argv, env []string) ledger.Answer {
	if !a.Exited || a.Exit == 0 || len(argv) == 0 || !isCurl(argv[0]) {
		return a
	}
	if a.Class == "" {
		a.Class = curlClass(a.Exit)
	}
	a.Unconnected = a.Err == nil && (a.Exit == 6 || a.Exit == 7) && curlConnectsOnce(argv) && (curlIgnoresFiles(argv) || !curlConfigured(env))
	return a
}

// curlClass is the error class of a curl exit code, which the odds use.
func curlClass(exit int) ledger.ErrorClass {
	switch exit {
	case 28:
		return ledger.ClassTimeout
	case 52, 18: // empty reply, partial file
		return ledger.ClassEOF
	case 55, 56: // send and receive failures
		return ledger.ClassReset
	}
	return ledger.ClassExit
}

// curlUnconnected finds curl's word that it had no connection: names that do not
// resolve, and refused connections.
var curlUnconnected = regexp.MustCompile(`(?m)^curl: \([567]\) `)

// curlOption is one option of a curl command line, under its long name, or one
// of its URLs, under the name "url".
type curlOption struct {
	name  string
	value string // "" for one without
	arg   int    // the argument that holds the value
	at    int    // where in that argument it begins
}

// curlShort are curl's short options. A name with = takes a value.
var curlShort = map[byte]string{
	'#': "progress-bar", '0': "http1.0", '1': "tlsv1", '2': "sslv2", '3': "sslv3", '4': "ipv4", '6': "ipv6", ':': "next", 'a': "append", 'A': "user-agent=",
	'b': "cookie=", 'B': "use-ascii", 'c': "cookie-jar=", 'C': "continue-at=", 'd': "data=", 'D': "dump-header=", 'e': "referer=", 'E': "cert=", 'f': "fail",
	'F': "form=", 'g': "globoff", 'G': "get", 'h': "help=", 'H': "header=", 'i': "include", 'I': "head", 'j': "junk-session-cookies", 'J': "remote-header-name",
	'k': "insecure", 'K': "config=", 'l': "list-only", 'L': "location", 'm': "max-time=", 'M': "manual", 'n': "netrc", 'N': "no-buffer", 'o': "output=",
	'O': "remote-name", 'p': "proxytunnel", 'P': "ftp-port=", 'q': "disable", 'Q': "quote=", 'r': "range=", 'R': "remote-time", 's': "silent", 'S': "show-error",
	't': "telnet-option=", 'T': "upload-file=", 'u': "user=", 'U': "proxy-user=", 'v': "verbose", 'V': "version", 'w': "write-out=", 'x': "proxy=", 'X': "request=",
	'y': "speed-time=", 'Y': "speed-limit=", 'z': "time-cond=", 'Z': "parallel",
}

// curlLong are long options that take a value. Those of curlOnce that do not
// stand here take none.
var curlLong = func() map[string]bool {
	takes := map[string]bool{}
	for _, name := range strings.Fields(`cacert capath cert-type ciphers connect-timeout connect-to crlfile data-ascii data-binary data-raw data-urlencode expect100-timeout
		form-string interface json keepalive-time key key-type limit-rate local-port max-filesize noproxy oauth2-bearer pass pinnedpubkey proxy-cert proxy-header proxy-key
		proxy-pass proxy-tlspassword proxy1.0 resolve retry retry-delay retry-max-time stderr tls-max tlspassword tlsuser unix-socket url url-query`) {
		takes[name] = true
	}
	for _, name := range curlShort {
		if name, ok := strings.CutSuffix(name, "="); ok && name != "help" {
			takes[name] = true
		}
	}
	return takes
}()

// curlOnce are the options under which curl makes one request of one URL over
// one connection. With any other it may send twice, or elsewhere: redirects,
// retries, several transfers, what asks for a password first, data inside the
// handshake. An option that is not known counts as such.
var curlOnce = func() map[string]bool {
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
}()

// curlOptions reads a curl command line.
func curlOptions(argv []string) (out []curlOption) {
	for i := 1; i < len(argv); i++ {
		arg := argv[i]
		next := func(name string) {
			o := curlOption{name: name, arg: i}
			if i+1 < len(argv) {
				i++
				o.arg, o.value = i, argv[i]
			}
			out = append(out, o)
		}
		switch {
		case arg == "--":
			for i++; i < len(argv); i++ {
				out = append(out, curlOption{"url", argv[i], i, 0})
			}
		case strings.HasPrefix(arg, "--"):
			name, value, joined := strings.Cut(arg[2:], "=")
			switch {
			case joined:
				out = append(out, curlOption{name, value, i, len(arg) - len(value)})
			case curlLong[name]:
				next(name)
			default:
				out = append(out, curlOption{name: name, arg: i})
			}
		case len(arg) > 1 && arg[0] == '-':
			for at := 1; at < len(arg); at++ {
				name, takes := strings.CutSuffix(curlShort[arg[at]], "=")
				if takes && at+1 < len(arg) {
					out = append(out, curlOption{name, arg[at+1:], i, at + 1})
					break
				} else if takes {
					next(name)
				} else {
					out = append(out, curlOption{name: name, arg: i})
				}
			}
		default:
			out = append(out, curlOption{"url", arg, i, 0})
		}
	}
	return out
}

// curlHidesErrors reports whether a curl command line exits 0 when the server
// answers with an error.
func curlHidesErrors(argv []string) bool {
	if len(argv) == 0 || !isCurl(argv[0]) {
		return false
	}
	for _, o := range curlOptions(argv) {
		if o.name == "fail" || o.name == "fail-with-body" {
			return false
		}
	}
	return true
}

// curlConnectsOnce reports whether a command line asks for one request of one
// URL over one connection, so that "could not connect" is the whole story.
func curlConnectsOnce(argv []string) bool {
	urls, uploads, globs := 0, 0, true
	options := curlOptions(argv)
	for i, o := range options {
		if !curlOnce[o.name] || o.at > 0 && strings.HasPrefix(argv[o.arg], "--") || o.name == "disable" && i > 0 {
			return false
		}
		globs = globs && o.name != "globoff"
	}
	for _, o := range options {
		switch o.name {
		case "url":
			urls++
			if !curlAddress(o.value, globs) {
				return false
			}
		case "upload-file":
			uploads++
			if uploads > 1 || globs && strings.ContainsAny(o.value, "{[") {
				return false
			}
		}
	}
	return urls == 1
}

var (
	curlScheme  = regexp.MustCompile(`(?i)^https?://`)
	curlGuessed = regexp.MustCompile(`(?i)^(?:[a-z][a-z0-9+.-]*://|(?:ftp|dict|ldap|imap|smtp|pop3)\.|[-@])`) // another protocol's, or no address
	curlIPv6    = regexp.MustCompile(`^(?:[^/?#@]*@)?\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._~-]+)?\]`)
)

// curlAddress reports whether a URL is one HTTP address, and no pattern of many.
func curlAddress(url string, globs bool) bool {
	scheme := curlScheme.FindString(url)
	rest := url[len(scheme):]
	if scheme == "" && curlGuessed.MatchString(url) || rest == "" {
		return false
	}
	return !globs || !strings.ContainsAny(curlIPv6.ReplaceAllString(rest, ""), "{[")
}

// curlIgnoresFiles reports whether -q keeps curl from its configuration, which
// it does as the first argument only.
func curlIgnoresFiles(argv []string) bool {
	return len(argv) > 1 && (argv[1] == "--disable" || strings.HasPrefix(argv[1], "-q"))
}

// curlConfigured reports whether curl has, or may have, a configuration file: it
// can hold any option.
func curlConfigured(env []string) bool {
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
