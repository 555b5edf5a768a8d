//go:build linux

// Command bench measures what a request costs: allocations of the whole sidecar process, and CPU time beside HAProxy and nginx where
// those are installed, in the same run, in alternating rounds.
//
// Its job: a sidecar with the bench's configuration (50 services, active health checks, metrics), an endpoint and a load generator
// as processes of their own with raw sockets and epoll, the proxy on one CPU and the rest on another, and a table.
// Not its job: latency of single requests under a neighbour's noise (p50 is printed, p99 is not compared), throughput of networks.
//
// Exit code 1: a request of the fast path allocated allocationsMax or more, or something failed. CPU figures are printed and never
// fail the run: they depend on the machine. One goroutine drives the rounds; the load and the endpoint are single loops.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// allocationsMax is what one request of the fast path may allocate in the sidecar, as a mean.
const allocationsMax = 0.01

// plan is how much is measured.
type plan struct {
	binary string        // of the sidecar; empty: build it
	only   string        // only this job
	rounds int           // per proxy and job
	span   time.Duration // of one round
	count  int           // requests for the allocation figure
}

func main() {
	os.Exit(program(os.Args[1:]))
}

// program is the bench itself, or one of the roles in which it starts itself again.
func program(args []string) int {
	if len(args) > 1 && (args[0] == "endpoint" || args[0] == "load") {
		return role(args[0], args[1:])
	}
	p := plan{rounds: 5, span: 3 * time.Second, count: 500_000}
	short := flag.Bool("short", false, "fewer and shorter rounds")
	flag.StringVar(&p.binary, "binary", "", "the spillway to measure; built from ./cmd/spillway if empty")
	flag.StringVar(&p.only, "job", "", "measure only this job")
	flag.IntVar(&p.rounds, "rounds", p.rounds, "rounds per proxy and job")
	if err := flag.CommandLine.Parse(args); err != nil {
		return 2
	}
	if *short {
		p.rounds, p.span = min(p.rounds, 2), time.Second
		p.count = 200_000
	}
	return run(p)
}

// run measures and gives the exit code. Everything that was started has ended when it returns.
func run(p plan) int {
	dir, err := os.MkdirTemp("", "spillway-bench-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	b := &bench{plan: p, dir: dir}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.measure() }()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errors.New("interrupted")
	}
	b.processes.end()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// job is one kind of exchange.
type job struct {
	name string
	path string
	rate int // requests a second; 0: as fast as answers come
}

var jobs = []job{
	{"GET 1 KiB, saturated", "/", 0},
	{"GET 1 KiB, 1,000/s", "/", 1000},
	{"10 ms at the endpoint, saturated", "/10ms", 0},
	{"10 ms at the endpoint, 1,000/s", "/10ms", 1000},
}

// connections is how many client connections carry the load.
const connections = 64

// measure starts everything and prints the tables.
func (b *bench) measure() error {
	if err := b.start(); err != nil {
		return err
	}
	allocErr := b.allocations()
	if allocErr != nil && !errors.Is(allocErr, errTooMany) {
		return allocErr
	}
	for _, j := range jobs {
		if b.plan.only != "" && b.plan.only != j.name {
			continue
		}
		if err := b.compare(j); err != nil {
			return err
		}
	}
	return allocErr
}

// binaryPath gives the sidecar to measure, built if none was named.
func (b *bench) binaryPath() (string, error) {
	if b.plan.binary != "" {
		return filepath.Abs(b.plan.binary)
	}
	path := filepath.Join(b.dir, "spillway")
	out, err := command("go", "build", "-trimpath", "-o", path, "spillway/cmd/spillway").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build cmd/spillway: %w\n%s", err, out)
	}
	return path, nil
}
