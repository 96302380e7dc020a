# The recipes of pistate. `just` lists them.

_default:
    @just --list

# Build both commands into dist/.
build:
    go build -trimpath -o dist/ ./piw ./host/pihost

# Run the tests, as the README and CI do.
test:
    go test ./...

# Run the tests with the race detector, in random order.
race:
    go test -race -shuffle=on ./...

# Show the main job: an extension on a real session with forks.
demo:
    go run ./host/pihost demo

# Everything that CI checks.
check:
    .ci/run

# Format, vet and lint.
lint:
    find . -name '*.go' -not -path '*/node_modules/*' -print0 | xargs -0 gofmt -l | (! grep .)
    go vet ./...
    go tool -modfile=internal/tools/go.mod staticcheck ./...

# Run the benchmarks whose name matches, six times, and sum them up.
bench name=".":
    go test -run '^$' -bench '{{name}}' -count 6 ./... | tee bench.txt
    go tool -modfile=internal/tools/go.mod benchstat bench.txt

# Compare the benchmarks with those of another commit, in a worktree of its own.
bench-compare ref name=".":
    git worktree add --force --detach dist/bench-base {{ref}}
    cd dist/bench-base && go test -run '^$' -bench '{{name}}' -count 10 ./... > ../../bench-old.txt || true
    git worktree remove --force dist/bench-base
    go test -run '^$' -bench '{{name}}' -count 10 ./... > bench-new.txt
    go tool -modfile=internal/tools/go.mod benchstat bench-old.txt bench-new.txt

# Fuzz every target for a while.
fuzz time="30s":
    #!/usr/bin/env bash
    set -euo pipefail
    grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do
        grep -oE '^func Fuzz[A-Za-z0-9_]*' "$file" | cut -d' ' -f2 | while read -r target; do
            go test -run '^$' -fuzz "^$target\$" -fuzztime {{time}} "./$(dirname "$file")"
        done
    done

# Repeat the tests that race processes and kill them at random moments, many times.
soak rounds="200":
    PISTATE_ROUNDS={{rounds}} go test -timeout 60m -v -run 'SIGKILL|ProcessesResolve|WaysRace|FlippedBytes' ./sessionstate ./store

# Let programs of every kind write the same two databases, killed at random moments, for a while.
sharing seconds="60":
    PISTATE_SHARING_SECONDS={{seconds}} go test -count 1 -timeout 60m -v ./internal/sharing

# Write again what is generated: the golden files, the documents, the assembled examples (needs wabt).
update:
    go generate ./wasm ./store
    go test ./schema ./store ./piw/cli ./host/pihost/cli -update
    go test ./...

# Build store.wasm and store-sqlite.wasm into a directory.
wasm dir="dist":
    go run ./internal/wasmbuild/build -o {{dir}}

# Build both twice, the second time from a copy elsewhere with an empty build cache, and compare (minutes).
wasm-reproducible dir="dist":
    go run ./internal/wasmbuild/build -o {{dir}} -verify

# Assemble the .wat files and build the Go example (needs wabt).
wasm-examples:
    go generate ./wasm
    GOOS=wasip1 GOARCH=wasm go build -trimpath -buildmode=c-shared -ldflags='-s -w -buildid=' -o dist/counter.wasm ./wasm/examples/counter
