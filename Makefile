# Spillway. `make` lists the targets. A machine with Go and make is enough for demo, build and test; check needs a C compiler too,
# because Go's race detector does.

GO         ?= go
FUZZTIME   ?= 10s
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0

# Everything but the tests of whole processes, which always run anew: Go's test cache cannot see the binary that they start.
PACKAGES    = $$($(GO) list ./... | grep -v '^spillway/test/')

.DEFAULT_GOAL := help
.PHONY: help build demo test rooms processes rooms-stdnet processes-stdnet check bench race fuzz fmt vet static tidy benchmarks modules vuln clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

build: ## build bin/spillway
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o bin/spillway ./cmd/spillway

demo: build ## show it on loopback: nearest first, measured spill, a dead datacenter without a lost request, loops cut, a bulkhead (about two minutes)
	bin/spillway demo all

test: rooms processes rooms-stdnet processes-stdnet ## run all tests, on raw sockets and with the tag stdnet (-k: to the end, whatever fails)

rooms:
	$(GO) test $(PACKAGES)

processes:
	$(GO) test -count=1 ./test/...

rooms-stdnet:
	$(GO) test -tags stdnet $(PACKAGES)

processes-stdnet:
	SPILLWAY_TAGS=stdnet $(GO) test -count=1 -tags stdnet $$($(GO) list ./test/... | grep -v '/tidy$$')

check: fmt vet static tidy modules race benchmarks ## everything that can be wrong without a test failing

fmt: ## gofmt changes nothing
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }

vet: ## go vet, with and without stdnet
	$(GO) vet ./...
	$(GO) vet -tags stdnet ./...

static: ## staticcheck, with and without stdnet
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(STATICCHECK) -tags stdnet ./...

tidy: ## the rules of the house (test/tidy)
	$(GO) test -count=1 ./test/tidy

modules: ## go.mod and go.sum are complete and what was downloaded is what they say
	$(GO) mod tidy -diff
	$(GO) mod verify

race: ## packages and whole processes under the race detector, with and without stdnet (needs a C compiler)
	$(GO) test -race $(PACKAGES)
	SPILLWAY_RACE=1 $(GO) test -count=1 ./test/e2e/...
	$(GO) test -race -tags stdnet $(PACKAGES)
	SPILLWAY_RACE=1 SPILLWAY_TAGS=stdnet $(GO) test -count=1 -tags stdnet ./test/e2e/...

benchmarks: ## every benchmark once, so that none can rot
	$(GO) test -run '^$$' -bench . -benchtime 1x ./...

bench: build ## measure CPU and allocations per request, beside HAProxy where it is installed
	$(GO) run ./test/bench

fuzz: ## every fuzz target for FUZZTIME (10s)
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for name in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$name"; $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; \
	done

vuln: ## known vulnerabilities in what the binary calls (fetches the vulnerability database)
	$(GO) run $(GOVULNCHECK) ./...

clean: ## remove what build made
	rm -rf bin dist
