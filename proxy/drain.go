package proxy

import (
	"context"
	"time"

	"spillway/proxy/http1"
)

// drainPoll is how often a drain looks whether everybody is gone.
const drainPoll = 20 * time.Millisecond

// Draining tells whether a drain has begun: readiness says no from then on.
func (p *Proxy) Draining() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining
}

// Ready tells whether the proxy may be sent traffic, and if not why.
func (p *Proxy) Ready() (bool, string) {
	if p.Draining() {
		return false, "draining"
	}
	if p.table.View() == nil {
		return false, "no list of services has been read yet"
	}
	return true, ""
}

// Drain leaves in the order that loses nothing: (1) answers and checks say so while inbound keeps serving for the time of the
// announcement; (2) inbound closes, idle connections are closed; (3) outbound goes on until inbound is empty and no application
// connection is left, or until the drain's timeout, counted from the call. Then what remains is cut. A done ctx cuts at once.
func (p *Proxy) Drain(ctx context.Context) {
	p.mu.Lock()
	p.draining = true
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Drain)
	defer cancel()
	for _, s := range p.servers {
		s.Drain(http1.Announcing)
	}
	p.tools.Log.Info("draining", "announce", p.cfg.Announce.String(), "timeout", p.cfg.Drain.String())
	select {
	case <-ctx.Done():
	case <-time.After(p.cfg.Announce):
	}
	for _, l := range p.inL {
		l.Close()
	}
	for _, s := range p.servers {
		s.Drain(http1.Closing)
	}
	p.untilQuiet(ctx)
	for _, l := range p.outL {
		l.Close()
	}
	p.untilQuiet(ctx) // what was accepted in the last moment is served too
	p.tools.Log.Info("drained", "cut", p.active())
	p.Close()
}

// untilQuiet waits until no connection of a peer or an application is left, or ctx ends.
func (p *Proxy) untilQuiet(ctx context.Context) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for p.active() > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// active is the number of connections of peers and applications.
func (p *Proxy) active() (n int64) {
	for _, l := range p.inL {
		n += l.Active()
	}
	for _, l := range p.outL {
		n += l.Active()
	}
	return n
}

// Close ends everything at once.
func (p *Proxy) Close() {
	for _, l := range p.inL {
		l.Close()
	}
	for _, l := range p.outL {
		l.Close()
	}
	for _, s := range p.servers {
		s.Cut()
	}
	p.tcpIn.Cut()
	p.tcpOut.Cut()
	p.tcpGate.Cut()
	if p.cancel != nil {
		p.cancel()
	}
	p.watch.Close()
	p.wg.Wait()
}
