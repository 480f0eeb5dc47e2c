package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"indoubt/ledger/lazyregexp"
	"indoubt/policy/recipes"
)

// several reads the servers of a client's configuration file. An entry that cannot be
// served is said and left out.
func (c mcpCommand) several(path string) ([]way, error) {
	system, err := clientSystem(c.env)
	if err != nil {
		return nil, err
	}
	entries, err := system.Entries(path, recipes.ServerName, c.env)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, &failure{Exit: exitNotFound, Code: "no_config", Message: "there is no " + short(path), Hint: "name the file that has your servers, as .mcp.json"}
	case err != nil:
		return nil, &failure{Exit: exitError, Code: "config", Message: short(path) + ": " + err.Error(), Hint: "mend the file, or name another one", cause: err}
	}
	var ways []way
	for _, e := range entries {
		w := way{name: strings.Trim(unfitName.ReplaceAllString(e.Name, "-"), "-_"), named: e.Scope, argv: e.Command, dir: e.Dir, url: e.URL}
		w.Server = e.Server
		if w.name == "" && e.Err == nil {
			e.Err = errors.New("its name has no letter")
		}
		if e.Err != nil {
			c.errOut.Printf("indoubt: %s is left out: %s\n", e.Name, e.Err)
			continue
		}
		if slices.ContainsFunc(ways, func(other way) bool { return other.name == w.name }) {
			return nil, usage(fmt.Sprintf("two servers of %s are called %s", short(path), w.name), "give one of them another name")
		}
		if w.url == "" {
			w.reach = c.starts(e.Command, e.Dir, append(os.Environ(), e.Env...))
		} else {
			header := http.Header{}
			for name, value := range e.Headers {
				header.Set(name, value)
			}
			w.reach = dial(e.URL, header)
		}
		ways = append(ways, w)
	}
	if len(ways) == 0 {
		return nil, usage("there is no server in "+short(path)+" that can be served", "")
	}
	return ways, nil
}

// unfitName is what clients do not take in the name of a tool.
var unfitName = lazyregexp.New(`[^A-Za-z0-9_-]+`)
