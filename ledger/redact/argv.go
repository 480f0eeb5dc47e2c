package redact

import (
	"path/filepath"
	"strings"

	"indoubt/ledger/wire/curl"
)

// Argv replaces the secrets in a command line by what stand makes of them.
func Argv(argv []string, stand func(secret string) string) []string {
	out := make([]string, len(argv))
	from := secretArguments(argv)
	for i, arg := range argv {
		name, value, assigned := strings.Cut(arg, "=")
		at, known := from[i]
		switch {
		case i == 0:
			out[i] = arg
		case known && !Harmless(arg[at:]):
			out[i] = arg[:at] + stand(arg[at:])
		case assigned && variableName(name) && Variable(name) && value != "" && !Harmless(value):
			out[i] = name + "=" + stand(value)
		default:
			out[i] = Replace(arg, stand)
		}
	}
	return out
}

// secretArguments are the arguments that are secret, and where in each that
// begins: what follows an option that is named like a secret, and what the
// programs that are known take as one.
func secretArguments(argv []string) map[int]int {
	from := map[int]int{}
	for i := 1; i+1 < len(argv); i++ {
		if arg := argv[i]; len(arg) > 3 && arg[0] == '-' && !strings.Contains(arg, "=") && Variable(arg) {
			i++
			from[i] = 0
		}
	}
	for i, arg := range argv { // behind sudo, timeout and env too
		name := strings.TrimSuffix(strings.ToLower(filepath.Base(arg)), ".exe")
		switch letter, known := secretOptions[name]; {
		case name == "curl":
			curlSecrets(argv[i:], i, from)
		case known && (name != "docker" && name != "podman" || len(argv) > i+1 && argv[i+1] == "login"):
			optionSecret(argv[i:], i, letter, from)
		default:
			continue
		}
		break
	}
	return from
}

// secretOptions are the short options of programs that take a password. Behind one
// with a +, only what is written together with it is a password.
var secretOptions = map[string]string{
	"sshpass": "-p", "redis-cli": "-a", "docker": "-p", "podman": "-p", "mongo": "-p", "mongosh": "-p", "mongodump": "-p", "mongorestore": "-p",
	"ldapsearch": "-w", "ldapadd": "-w", "ldapmodify": "-w", "ldapdelete": "-w", "sqlcmd": "-P", "mosquitto_pub": "-P", "http": "-a", "https": "-a", "xh": "-a",
	"mysql": "-p+", "mysqldump": "-p+", "mysqladmin": "-p+", "mysqlimport": "-p+", "mariadb": "-p+", "mariadb-dump": "-p+", "mariadb-admin": "-p+",
}

// optionSecret finds the first use of a program's option. One with a + takes no
// argument of its own: alone, it makes the program ask for the password.
func optionSecret(argv []string, at int, option string, from map[int]int) {
	option, joined := strings.CutSuffix(option, "+")
	for i := 1; i < len(argv); i++ {
		switch {
		case argv[i] == option && !joined && i+1 < len(argv):
			from[at+i+1] = 0
			return
		case len(argv[i]) > len(option) && strings.HasPrefix(argv[i], option):
			from[at+i] = len(option)
			return
		}
	}
}

// curlSecrets finds what curl's options take as secrets.
func curlSecrets(argv []string, at int, from map[int]int) {
	for _, o := range curl.Options(argv) {
		begin := -1
		switch o.Name {
		case "user", "proxy-user", "oauth2-bearer", "pass", "proxy-pass", "tlspassword", "proxy-tlspassword":
			begin = 0
		case "cookie":
			if strings.Contains(o.Value, "=") { // else it is a file
				begin = 0
			}
		case "cert", "proxy-cert":
			if i := strings.LastIndexByte(o.Value, ':'); i > 1 && !strings.ContainsAny(o.Value[i:], `/\\`) {
				begin = i + 1
			}
		case "header", "proxy-header":
			begin = headerSecret(o.Value)
		}
		if begin >= 0 && o.Value != "" {
			from[at+o.Arg] = o.At + begin
		}
	}
}

// headerSecret is where the secret in a header line begins, behind the scheme that
// a credential may have; -1 where there is none.
func headerSecret(line string) int {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !Variable(strings.TrimSpace(name)) {
		return -1
	}
	text := strings.TrimLeft(value, " \t")
	scheme, rest, two := strings.Cut(text, " ")
	if two && strings.EqualFold(strings.TrimSpace(name), "authorization") && !strings.Contains(scheme, "=") {
		text = rest
	}
	if text == "" {
		return -1
	}
	return len(line) - len(text)
}

// variableName reports whether NAME= or --name= can be an assignment.
func variableName(s string) bool {
	s = strings.TrimLeft(s, "-")
	if s == "" {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool {
		return c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}
