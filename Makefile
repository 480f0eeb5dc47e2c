# build  the program, one static file            demo  the console over a simulated outage
# test   every rule, in minutes, with Go, git and make alone
# quick  the tests of what you changed since the last quick   soak  every test: kills, storms, servers, the race detector
# bench  the measurements against their limits   lint  formatting and .golangci.yaml
# screenshots  the pictures of README.md, made from the real program
# package  what a release holds, in .build/dist; publishes nothing

GO      ?= go
TIMEOUT ?= 40m
BENCH   ?= .
COUNT   ?= 1
SEED    ?= 1
# The linters come through the module proxy and are built once, in about a minute.
# Where they cannot be had, lint fails: it must not pass in silence.
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# What no program and no test reaches is deleted.
DEADCODE = golang.org/x/tools/cmd/deadcode@v0.52.0
GORELEASER = github.com/goreleaser/goreleaser/v2@v2.14.0

# One set of flags, so that the program, its tests and the linter share what is compiled,
# in whatever folder the checkout lies. What is linked here has no tables for a debugger, so
# none are made: that is an eighth of compiling.
export GOFLAGS += -trimpath -gcflags=all=-dwarf=false

# The race detector needs cgo, and cgo a C compiler; nothing else here does.
CC_FOUND := $(shell command -v gcc || command -v clang || command -v cc)
ifneq ($(CC_FOUND),)
# SQLite is C translated to Go. Its data lies outside of Go's memory, where the
# race detector does not look: watching that code would find nothing, and tests
# would take three times as long. Nor does it watch what computes and shares nothing
# that is ours: expressions, YAML, and what measures and draws text. The mutex tells
# the detector itself who waits for whom. A package that uses sync.Map must be watched:
# its copy of that code may be linked for all, and then races are seen where none are.
UNWATCHED := modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory internal/sync \
  regexp regexp/syntax github.com/goccy/go-yaml/... github.com/antlr4-go/antlr/v4 \
  $(addprefix cel.dev/cel-go/,parser/... checker interpreter common/ast) \
  charm.land/lipgloss/v2/... charm.land/bubbles/v2/... $(addprefix github.com/charmbracelet/,ultraviolet x/...) \
  $(addprefix github.com/,clipperhouse/... rivo/uniseg mattn/go-runewidth lucasb-eyer/go-colorful)
RACE := -race $(foreach p,$(UNWATCHED),-gcflags=$(p)=-race=false)
# Tests start themselves as other processes, and each of these would sleep for a
# second before it ends, so that its other goroutines may still race.
SOAKENV := CGO_ENABLED=1 GORACE=atexit_sleep_ms=0
else
SOAKENV := CGO_ENABLED=0
endif

.PHONY: build demo test quick soak bench lint screenshots pages package clean

# The version is the tag, and what was added to it; without a tag the program
# names itself by what the Go command knows.
VERSION = $(shell git describe --tags --dirty 2>/dev/null)

build:
	@CGO_ENABLED=0 GO="$(GO)" .ci/build -ldflags "-s -w -X indoubt/ui/cli.release=$(VERSION)" -o indoubt .

demo: build
	./indoubt demo --seed $(SEED)

# What vet finds, lint finds, too. A stack names its functions and lines without the tables
# of a debugger, which take a third of the linking. The packages that take longest start
# first.
TESTS = $(GO) run ./.ci/test
FLAGS = -vet=off -ldflags='-s -w' -timeout $(TIMEOUT) -count $(COUNT)
FIRST = ./ui/cli ./ledger/sqlite ./reconcile ./ledger/postgres ./reconcile/drill ./ui/console/feed ./ui/console

# The fast lane: every file of tests without the tag soak. It needs Go, git and make. Tests
# hold little for a short time: to collect it less often saves an eighth of the processor.
test: build
	@CGO_ENABLED=0 GOGC=400 INDOUBT_TEST_PROGRAM=$(CURDIR)/indoubt $(TESTS) $(AGAIN) $(FLAGS) -p 2 -parallel 4 $(FIRST) ./...

# Go knows which results still hold.
quick: build
	@CGO_ENABLED=0 GOGC=400 INDOUBT_TEST_PROGRAM=$(CURDIR)/indoubt $(GO) test -vet=off -ldflags='-s -w' -p 2 -parallel 4 ./...

# The slow lane: all tests, with the race detector where there is a C compiler. Many wait
# for processes and clocks: three packages at a time, and four tests of each, keep two
# processors busy, and not so busy that clocks run out.
soak: build
	@$(SOAKENV) GOGC=200 INDOUBT_LANE=soak INDOUBT_TEST_PROGRAM=$(CURDIR)/indoubt $(TESTS) -again $(RACE) -tags soak $(FLAGS) -p 3 -parallel 4 $(FIRST) ./...

# Benchmarks run one package at a time: two at once would measure each other.
bench:
	@mkdir -p .build
	CGO_ENABLED=0 $(GO) test -tags soak -p 1 -run '^$$' -bench '$(BENCH)' -count $(COUNT) -timeout 60m ./... > .build/bench.txt 2>&1 || true
	@awk -f .ci/bench.awk .build/bench.txt

lint:
	CGO_ENABLED=0 $(GO) run $(GOLANGCI) run --build-tags soak ./... ./.ci/test
	@echo "look for functions that nothing calls"
	@found=$$(CGO_ENABLED=0 $(GO) run $(DEADCODE) -tags soak -test ./...) && [ -z "$$found" ] || { echo "$$found"; exit 1; }
	@echo "look for sync.Map in what is not watched for races"
	@names=$$(echo '$(UNWATCHED)' | sed 's/ /|/g; s:/\.\.\.:(/[^ ]*)?:g'); \
	found=$$($(GO) list -deps -test -tags soak -f '{{range .GoFiles}}{{$$.ImportPath}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}' ./... \
	  | grep -E "^($$names) " | cut -d' ' -f2 | xargs -r grep -nE '^[^/]*\<sync\.Map\>'); \
	[ -z "$$found" ] || { echo "$$found"; exit 1; }
	@echo "build for darwin, what differs there"
	@GOOS=darwin CGO_ENABLED=0 $(GO) build -gcflags='all=-N -l' ./ledger ./ledger/record/... ./ledger/wire/...

# Node packages go to a hidden folder; chromium and node must be on the machine.
screenshots: build
	@mkdir -p .build/screenshots
	@cp screenshots/package.json screenshots/package-lock.json .build/screenshots/
	cd .build/screenshots && npm ci --ignore-scripts --no-audit --no-fund --loglevel error
	node screenshots/shoot.mjs $(SCENES)

# Completions, made by the program, and manual pages, made from its commands by a test.
pages: build
	@rm -rf .build/pages && mkdir -p .build/pages/completions .build/pages/man
	@for shell in bash zsh fish; do ./indoubt completion $$shell > .build/pages/completions/indoubt.$$shell || exit 1; done
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) INDOUBT_TEST_MANUAL=$(CURDIR)/.build/pages/man CGO_ENABLED=0 $(GO) test ./ui/cli -count=1 -run TestEachCommandHasAManualPage
	@gzip -9n .build/pages/man/*.1

# The Debian package is installed on a new system root, where one can be made.
package:
	$(GO) run $(GORELEASER) release --snapshot --clean --timeout 3h --skip=publish$(shell docker info >/dev/null 2>&1 || echo ,docker)
	CGO_ENABLED=0 $(GO) test ./ui/cli -count=1 -run TestThePackage -v

clean:
	rm -rf indoubt .build
