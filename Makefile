# Warren. Needs Go (see go.mod) and make, nothing else; `make race` needs a C compiler.
GO      ?= go
VERSION ?= $(or $(patsubst v%,%,$(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null)),0.1.0)
LDFLAGS  = -s -w -X warren/ctl/command.Version=$(VERSION)
TOOLS    = rabbitmqctl rabbitmq-queues rabbitmq-diagnostics rabbitmq-upgrade

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Tests that `make test` leaves out.
TAGS = soak,compare,upgrade

export CGO_ENABLED = 0

.PHONY: build run test race lint bench bench-full bench-parts fmt clean soak upgrade-test

build:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/warren ./ctl/warren
	@for t in $(TOOLS); do ln -sf warren bin/$$t; done
	$(GO) build -trimpath -o bin/warren-bench ./bench/warren-bench

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
	$(GO) vet -tags $(TAGS) ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(STATICCHECK) -tags $(TAGS) ./...

fmt:
	gofmt -w $$(git ls-files '*.go')

# Longer than `make test` allows: the simulations and the crash tests with larger numbers (SEEDS= how many histories, SEED= one of
# them, CRASHES= how many kill -9), and every test of a file *_soak_test.go. Those take numbers too: BACKLOG= how many messages lie in
# a queue, CHAOS= for how many minutes three real nodes are harmed under load (CHAOS_SEED= the same harm again), FAILOVERS= how many are
# timed, CONNECTIONS=, MESSAGES=, FIND=. One that fails does not keep the others from running.
SEEDS     ?= 50000
CRASHES   ?= 30
soak:
	SEEDS=$(SEEDS) SEED=$(SEED) $(GO) test -timeout 12h -count=1 -v -run 'TestSimulation$$' ./dataplane/gm/gmtest ./dataplane/mirror ./dataplane/queue
	CRASHES=$(CRASHES) $(GO) test -timeout 2h -count=1 -v -run 'TestKill$$' ./dataplane/backingqueue/store
	@failed=; for dir in $$(find . -name '*_soak_test.go' -exec dirname {} + | sort -u); do \
		tests=$$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(.*/\1/p' $$dir/*_soak_test.go | paste -sd '|' -); \
		echo "$(GO) test -tags soak -run '^($$tests)$$' $$dir"; \
		$(GO) test -tags soak -timeout 12h -count=1 -v -run "^($$tests)$$" $$dir || failed="$$failed $$dir"; \
	done; if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

# The parts by themselves.
bench-parts:
	$(GO) test -run '^$$' -bench . -benchmem ./dataplane/... ./metadata/...

# Whole clusters beside RabbitMQ's (WARREN_PEERS= the directory of the script that starts one; BENCH_PEER= for none): the short
# set writes docs/benchmarks-clusters.md and its pictures, in about twelve minutes on a machine with nothing else to do. A
# measurement that fails takes nothing from the others; the page names it, and make fails.
BENCH_PEER ?= rabbitmq
bench: build
	bin/warren-bench suite --peer "$(BENCH_PEER)"

bench-full: build
	bin/warren-bench suite --full --peer "$(BENCH_PEER)"

# Builds an older commit and rolls clusters of it to this build and back, under load. Needs the history.
upgrade-test: build
	$(GO) test -tags upgrade -timeout 20m -count=1 -v -run 'TestRollingUpgrade' ./integration

clean:
	rm -rf bin .warren

# The tools against a live RabbitMQ cluster and a live Warren cluster in the same state. WARREN_PEERS= the directory of the script
# that starts the former. About ten minutes.
.PHONY: compare-ctl
compare-ctl: build
	$(GO) test -tags compare -timeout 60m -count=1 -v -run TestCompareWithRabbitMQ ./integration

# Clients that are not Warren's against both, with the same script; installs them (Debian, npm). CLIENT= and SCENARIO= narrow it.
# `make compare` is both comparisons.
.PHONY: compare-amqp compare
compare-amqp: build
	CLIENT="$(CLIENT)" SCENARIO="$(SCENARIO)" $(GO) test -tags compare -timeout 60m -count=1 -v -run TestCompareClients ./integration

# The tests that ship inside the Go client's module, unchanged, against Warren; they need port 15672.
.PHONY: compare-amqp091
compare-amqp091: build
	$(GO) test -tags compare -timeout 20m -count=1 -v -run TestGoClient ./integration

compare: compare-ctl compare-amqp compare-amqp091
