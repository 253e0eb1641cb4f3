GO ?= go
export CGO_ENABLED ?= 0

build:
	$(GO) build -o bin/warren ./ctl/warren
