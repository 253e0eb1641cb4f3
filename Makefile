# Warren. Needs Go (see go.mod) and make, nothing else; `make race` needs a C compiler.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X warren/ctl/command.Version=$(VERSION)
TOOLS    = rabbitmqctl rabbitmq-queues rabbitmq-diagnostics rabbitmq-upgrade

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

export CGO_ENABLED = 0

.PHONY: build run test race lint bench fmt clean soak bench-full bench-parts upgrade-test

build:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/warren ./ctl/warren
	@for t in $(TOOLS); do ln -sf warren bin/$$t; done

run: build
	bin/warren cluster start --nodes 3

test: build
	$(GO) test -timeout 280s ./...

race: export CGO_ENABLED = 1
race: build
	$(GO) test -race -timeout 20m ./...

lint:
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

fmt:
	gofmt -w $$(git ls-files '*.go')

# Longer than `make test` allows. SEEDS= how many simulated histories, SEED= one of them, CRASHES= how many kill -9,
# BACKLOG= how many messages lie in a queue, CHAOS= for how many minutes three real nodes are harmed under load (CHAOS_SEED=
# the same harm again), FAILOVERS= how many are timed.
SEEDS     ?= 50000
CRASHES   ?= 30
BACKLOG   ?= 10000000
CHAOS     ?= 20
FAILOVERS ?= 30
soak:
	SEEDS=$(SEEDS) SEED=$(SEED) $(GO) test -timeout 12h -count=1 -v -run 'TestSimulation$$' ./dataplane/gm/gmtest ./dataplane/mirror ./dataplane/queue
	CRASHES=$(CRASHES) BACKLOG=$(BACKLOG) $(GO) test -timeout 2h -count=1 -v -run 'Kill|Backlog' ./dataplane/backingqueue/store
	CHAOS=$(CHAOS) CHAOS_SEED=$(CHAOS_SEED) FAILOVERS=$(FAILOVERS) $(GO) test -timeout 12h -count=1 -v -run 'TestChaos$$|TestFailoverTime' ./integration
	LONG=1 $(GO) test -timeout 1h -count=1 -run 'TestMirrorIsSuspended|TestPowerFailureOrders' ./integration

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./dataplane/... ./bench/...

# Builds an older commit and rolls clusters of it to this build and back, under load. Needs the history.
upgrade-test: build
	UPGRADE=1 $(GO) test -timeout 20m -count=1 -v -run 'TestRollingUpgrade' ./integration

clean:
	rm -rf bin .warren
