package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"
)

// What the two datacenters look like.
const (
	serviceName   = "order"
	secondName    = "stock"
	nearby        = "dc1" // where the client and its sidecar stand
	faraway       = "dc2"
	endpointsEach = 4 // endpoints of a datacenter
)

// endpoint is one endpoint process. Its address stays the same when it is started anew.
type endpoint struct {
	name, datacenter string
	address          netip.AddrPort // port 0 before the first start
	delay            time.Duration
	proc             *process
}

// world is both datacenters, and the sidecars that were started in dc1. One goroutine owns it.
type world struct {
	executable string
	dir        string // for configurations and sockets, removed at the end
	endpoints  []*endpoint
	sidecars   []*sidecar
}

// newWorld starts both datacenters; endpoints of dc2 answer that much later.
func newWorld(ctx context.Context, executable string, delay time.Duration) (*world, error) {
	dir, err := os.MkdirTemp("", "spillway-demo-")
	if err != nil {
		return nil, err
	}
	w := &world{executable: executable, dir: dir}
	for d, dc := range []string{nearby, faraway} {
		for n := range endpointsEach {
			e := &endpoint{name: fmt.Sprintf("%s-%d", dc, n+1), datacenter: dc, address: netip.AddrPortFrom(loopback(d+1, n+1), 0)}
			if dc == faraway {
				e.delay = delay
			}
			w.endpoints = append(w.endpoints, e)
		}
	}
	if err := w.revive(ctx); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// loopback is 127.0.D.N, so that one sees at an address which endpoint it is. Only Linux serves all of 127/8 without preparation.
func loopback(datacenter, n int) netip.Addr {
	if runtime.GOOS != "linux" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.AddrFrom4([4]byte{127, 0, byte(datacenter), byte(n)})
}

// in lists the endpoints of a datacenter.
func (w *world) in(datacenter string) []*endpoint {
	var out []*endpoint
	for _, e := range w.endpoints {
		if e.datacenter == datacenter {
			out = append(out, e)
		}
	}
	return out
}

// revive starts every endpoint that is not running, at its old address.
func (w *world) revive(ctx context.Context) error {
	var started []*endpoint
	for _, e := range w.endpoints {
		if e.proc.alive() {
			continue
		}
		p, err := start(e.name, w.executable, "demo-endpoint",
			"--listen", e.address.String(), "--name", e.name, "--datacenter", e.datacenter, "--delay", e.delay.String())
		if err != nil {
			return err
		}
		e.proc = p
		started = append(started, e)
	}
	for _, e := range started {
		line, err := e.proc.line(ctx)
		if err != nil {
			return err
		}
		a, err := netip.ParseAddrPort(line)
		if err != nil {
			return fmt.Errorf("%s said %q instead of its address", e.name, line)
		}
		e.address = a
	}
	return nil
}

// kill ends endpoints with SIGKILL, all at once. It returns the instant before the first signal, when all of them are gone.
func kill(endpoints []*endpoint) (time.Time, error) {
	at := time.Now()
	for _, e := range endpoints {
		e.proc.strike()
	}
	var errs []error
	for _, e := range endpoints {
		errs = append(errs, e.proc.bury())
	}
	return at, errors.Join(errs...)
}

// swallow turns endpoints into black holes. It returns the instant before the first of them vanished, when all of them have.
func swallow(ctx context.Context, endpoints []*endpoint) (time.Time, error) {
	return toggle(ctx, endpoints, holeDug)
}

// release brings endpoints back from their black holes.
func release(ctx context.Context, endpoints []*endpoint) error {
	_, err := toggle(ctx, endpoints, holeFilled)
	return err
}

func toggle(ctx context.Context, endpoints []*endpoint, want string) (time.Time, error) {
	at := time.Now()
	for _, e := range endpoints {
		if err := askHole(e.proc.cmd.Process); err != nil {
			return at, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	for _, e := range endpoints {
		line, err := e.proc.line(ctx)
		if err != nil {
			return at, err
		}
		if line != want {
			return at, fmt.Errorf("%s: %s", e.name, line)
		}
	}
	return at, nil
}

// close ends every process and removes the folder.
func (w *world) close() {
	for _, s := range w.sidecars {
		s.stop()
	}
	_, _ = kill(w.endpoints) // what is stuck in the kernel is tied to this process anyway
	_ = os.RemoveAll(w.dir)
}
