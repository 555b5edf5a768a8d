package tcp

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"spillway/discovery"
	"spillway/proxy/balance"
	"spillway/proxy/hop"
	"spillway/proxy/listen/proxyproto"
	"spillway/proxy/pool"
	"spillway/proxy/retry"
	"spillway/proxy/sock"
	"spillway/proxy/upstream"
)

// Server serves the connections of TCP services. Fields are set before the first Serve.
type Server struct {
	Table     *upstream.Table
	HalfClose time.Duration
	Log       *slog.Logger
	Guard     hop.Guard
	Gateway   bool // hands connections to its own datacenter alone

	mu    sync.Mutex
	pairs map[*net.TCPConn]*net.TCPConn // client side to endpoint side
}

// Cut closes every connection.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, b := range s.pairs {
		a.Close()
		if b != nil {
			b.Close()
		}
	}
}

func (s *Server) track(a, b *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pairs == nil {
		s.pairs = make(map[*net.TCPConn]*net.TCPConn)
	}
	s.pairs[a] = b
}

func (s *Server) untrack(a *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pairs, a)
}

// Serve relays one client connection to an endpoint of the service and closes it. The client sees a reset when no endpoint took the
// connection: a TCP client can be told nothing else. early are bytes that were read from the client already, chain is what came with the
// connection.
func (s *Server) Serve(conn *sock.Conn, remote netip.AddrPort, svc *upstream.Service, early []byte, chain hop.Chain) {
	c, held, err := conn.Detach()
	if err != nil {
		s.Log.Warn("tcp: could not take a connection over", "service", svc.Name, "error", err.Error())
		conn.Close()
		return
	}
	defer c.Close()
	s.track(c, nil)
	defer s.untrack(c)
	up, pick, err := s.connect(svc, &chain)
	if err != nil {
		s.Log.Warn("tcp: no endpoint took the connection", "service", svc.Name, "error", err.Error())
		_ = c.SetLinger(0)
		return
	}
	ep := pick.Endpoint
	defer ep.Load.End()
	start := time.Now()
	if ep.Sidecar {
		h := proxyproto.Header{Source: remote, Destination: ep.Address, Hop: s.hop(ep, svc, &chain)}
		if !ep.Gateway {
			h.Target = ep.Address
		}
		err = up.WriteAll(proxyproto.Append(nil, h), svc.Policy.IdleAfter)
	}
	s.relay(c, up, err, append(early, held...), svc)
	ep.Cluster.Metric.Tunnel(time.Since(start).Seconds())
}

// hop is the record for the sidecar of an endpoint, or for a gateway.
func (s *Server) hop(ep *upstream.Endpoint, svc *upstream.Service, chain *hop.Chain) string {
	switch {
	case s.Gateway:
		return string(chain.AppendPassed(nil, s.Guard.ID))
	case ep.Cluster.Hop:
		return string(chain.AppendRecord(nil, s.Guard.ID, svc.Name, ep.Cluster.Datacenter))
	}
	return string(chain.AppendRecord(nil, s.Guard.ID, svc.Name, ""))
}

// relay moves the bytes and gives the connection's slot back. err is what went wrong before it.
func (s *Server) relay(c *net.TCPConn, up *pool.Conn, err error, early []byte, svc *upstream.Service) {
	defer up.Discard()
	if err != nil {
		_ = c.SetLinger(0)
		return
	}
	u, _, err := up.Detach()
	if err != nil {
		_ = c.SetLinger(0)
		return
	}
	defer u.Close()
	s.track(c, u)
	Relay(c, u, early, nil, Limits{Idle: svc.Policy.IdleAfter, HalfClose: s.HalfClose})
}

// connect dials endpoints until one takes the connection: a dial that was refused has taken nothing, so it may be sent again.
func (s *Server) connect(svc *upstream.Service, chain *hop.Chain) (*pool.Conn, upstream.Pick, error) {
	src := upstream.NewSource(rand.Uint64(), rand.Uint64())
	now := s.Table.Now()
	svc.Requested(now)
	home := s.Gateway || s.Guard.HomeOnly(chain, svc.Name)
	pick := svc.Choose(now, &src, home)
	if pick.Endpoint == nil && s.Gateway {
		return nil, pick, svc.NobodyBehind(pick.Choice)
	}
	if pick.Endpoint == nil && home {
		return nil, pick, svc.NobodyAtHome(pick.Choice, s.Guard.Limit)
	}
	if pick.Endpoint == nil {
		return nil, pick, svc.NobodyServes(pick.Choice)
	}
	timeout := svc.Policy.Timeout
	if timeout <= 0 {
		timeout = time.Hour
	}
	deadline := time.Now().Add(timeout)
	var tried []*balance.Load
	for resends := 0; ; resends++ {
		ep := pick.Endpoint
		ep.Load.Begin()
		up, err := ep.Queue.Fresh(pool.NewWaiter(), ep.ConnectMax, deadline, true)
		if err == nil {
			ep.Connected(s.Table.Now())
			ep.Succeeded(s.Table.Now())
			return up, pick, nil
		}
		ep.Load.End()
		kind := retry.Refused
		switch {
		case errors.Is(err, pool.ErrTimeout):
			kind = retry.DialTimeout
		case !errors.Is(err, pool.ErrRefused):
			return nil, pick, err
		}
		ep.Refused(s.Table.Now())
		tried = append(tried, &ep.Load)
		v := retry.Decide(svc.Policy.Retry, retry.Try{Kind: kind, Replayable: true, Resends: resends, Left: time.Until(deadline)})
		if v == retry.Stop || len(tried) >= upstream.TriedMax {
			return nil, pick, err
		}
		if pick = svc.Another(s.Table.Now(), &src, pick, tried, svc.Policy.Retry.CrossTier != discovery.CrossNever); pick.Endpoint == nil {
			return nil, pick, err
		}
		ep.Cluster.Metric.Resend()
	}
}
