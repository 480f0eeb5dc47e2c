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

	"indoubt/ui/console/draw"
)

// config is how a person wants the console to look.
type config struct {
	Theme string `yaml:"theme"`
	Mouse bool   `yaml:"mouse"`
}

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
	if err == nil && c.Theme != "" && !slices.Contains(draw.Themes, c.Theme) {
		err = fmt.Errorf("theme %q is none of %s", c.Theme, strings.Join(draw.Themes, ", "))
	}
	if err != nil {
		return config{}, fmt.Errorf("%s is not taken: %s", path, firstLine(err.Error()))
	}
	return c, nil
}
