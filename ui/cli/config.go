package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/adrg/xdg"
	"github.com/goccy/go-yaml"

	"indoubt/ledger"
	"indoubt/ui/console"
)

// config is how a person wants the console to look, and which ledgers they work with.
type config struct {
	Theme    string               `yaml:"theme"`
	Filter   string               `yaml:"filter"`
	Columns  []string             `yaml:"columns"`
	Mouse    *bool                `yaml:"mouse"`
	Context  string               `yaml:"context"` // in force where nothing names another one
	Contexts map[string]workplace `yaml:"contexts"`
}

// configPath is where the configuration is.
func configPath(env func(string) string) string {
	return filepath.Join(cmp.Or(env("XDG_CONFIG_HOME"), xdg.ConfigHome), "indoubt", "config.yaml")
}

// readConfig reads the file at path; without one it is empty. A mistake in it is no
// reason not to open the console at night: the error is for the screen to say.
func readConfig(path string) (config, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return config{}, nil
	}
	var c config
	if err == nil && len(bytes.TrimSpace(text)) > 0 {
		err = yaml.UnmarshalWithOptions(text, &c, yaml.Strict())
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return config{}, fmt.Errorf("%s is not taken: %s", path, first)
	}
	return c, nil
}

func (c config) check() error {
	if !slices.Contains(append(console.Themes(), ""), c.Theme) {
		return fmt.Errorf("theme %q is none of %s", c.Theme, strings.Join(console.Themes(), ", "))
	}
	for _, name := range c.Columns {
		if !slices.Contains(console.Columns(), name) {
			return fmt.Errorf("column %q is none of %s", name, strings.Join(console.Columns(), ", "))
		}
	}
	if _, err := ledger.ParseFilter(c.Filter); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	for name, one := range c.Contexts {
		if _, err := ledger.ParseFilter(one.Filter); err != nil {
			return fmt.Errorf("filter of context %s: %w", name, err)
		}
		if one.Ledger == "" {
			return fmt.Errorf("context %s names no ledger", name)
		}
	}
	if c.Context != "" && c.Contexts[c.Context].Ledger == "" {
		return fmt.Errorf("there is no context %q among contexts", c.Context)
	}
	return nil
}

// pastFilters is the file that remembers which filters were used, the newest last.
type pastFilters string

func pastFiltersPath() pastFilters {
	return pastFilters(filepath.Join(xdg.StateHome, "indoubt", "filters"))
}

// read gives those that are still filters; a file that cannot be read has none.
func (p pastFilters) read() []string {
	text, err := os.ReadFile(string(p))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		_, err := ledger.ParseFilter(line)
		return line == "" || err != nil
	})
}

// write keeps all of them, in a file that only this account reads.
func (p pastFilters) write(all []string) error {
	if err := os.MkdirAll(filepath.Dir(string(p)), 0o700); err != nil {
		return fmt.Errorf("remember the filter: %w", err)
	}
	made, err := os.CreateTemp(filepath.Dir(string(p)), ".filters-")
	if err != nil {
		return fmt.Errorf("remember the filter: %w", err)
	}
	_, err = made.WriteString(strings.Join(all, "\n") + "\n")
	if err = errors.Join(err, made.Close()); err == nil {
		err = os.Rename(made.Name(), string(p))
	}
	if err != nil {
		return fmt.Errorf("remember the filter: %w", errors.Join(err, os.Remove(made.Name())))
	}
	return nil
}
