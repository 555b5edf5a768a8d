// Package http1 serves HTTP/1.1 and 1.0 connections: one goroutine for each client connection reads a request, chooses, connects,
// sends, reads the answer and relays it, in a straight line.
//
// Its job: the exchange. exchange.go is its floor plan; head bytes are parsed and encoded by http1/codec.
// Not its job: which endpoint (proxy/upstream), what may be tried again (proxy/retry), keeping connections (proxy/pool).
//
// The owner goroutine is left in three cases, each with one helper that is joined before the next exchange: the request body is not
// complete in the first read or the endpoint's socket is full (pump.go); where there is no sock.Watcher, no byte of an answer came for
// watchAfter, so the helper watches the client (pump.go); a tunnel (proxy/tcp, one goroutine a direction).
// Bounds: Limits.HeadMax and FieldsMax a head, one pooled buffer each way, lingerMax bytes and lingerTime after an early end.
package http1

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"spillway/proxy/answer"
	"spillway/proxy/bulkhead"
	"spillway/proxy/head"
	"spillway/proxy/hop"
	"spillway/proxy/http1/codec"
	"spillway/proxy/pool"
	"spillway/proxy/sock"
	"spillway/proxy/upstream"
	"spillway/telemetry/accesslog"
)

const (
	watchAfter = 5 * time.Millisecond // without a Watcher, an answer that takes longer has its client watched
	lingerMax  = 256 << 10            // bytes read and dropped after an answer that came before the end of the request
	lingerTime = time.Second
	yieldAfter = 32 // exchanges without letting others run
)

// Peer is who is on the other end of a client connection.
type Peer struct {
	Remote, Local netip.AddrPort
	Trusted       bool // its hop and target fields count
}

// Router says which service a request is for.
type Router interface {
	// Route gives the service or the refusal to answer with. ErrClose closes the connection without an answer.
	Route(r *codec.Request, p *Peer) (*upstream.Service, *answer.Error)
}

// ErrClose is the refusal of a Router that is not answered: the connection is closed.
var ErrClose = &answer.Error{Code: answer.Denied, Hint: "closed"}

// Phase is how far a drain has come.
type Phase uint32

// Serving; Announcing: answers say that the connection closes; Closing: idle connections are closed, new requests refused.
const (
	Serving Phase = iota
	Announcing
	Closing
)

// Limits bounds one client connection.
type Limits struct {
	Head        codec.Limits
	HeadTimeout time.Duration // from the first byte of a head to its last
	Idle        time.Duration // between requests, and while a body does not move
	HalfClose   time.Duration // a tunnel with one side ended
}

// IDs is what is done about x-request-id.
type IDs uint8

// IDsGenerate: one that a request has stands in the log and in own answers, a request without one is given one. IDsPass: the same, but none
// is given. IDsOff: it is a field like any other.
const (
	IDsGenerate IDs = iota
	IDsPass
	IDsOff
)

// Server serves the connections of one listener. Fields are set before the first Serve.
type Server struct {
	Name    string // outbound, inbound: stands in the log
	Inbound bool   // serves peers, hands their requests to the local application
	Gateway bool   // serves peers, hands their requests to its own datacenter
	Router  Router
	Table   *upstream.Table
	Limits  Limits
	Bufs    *sock.Bufs
	Log     *accesslog.Logger
	Drop    head.Set                                 // request fields that are not passed on
	Other   func(c *sock.Conn, p Peer, first []byte) // takes over a connection that begins with a PROXY header; nil: refused
	Max     *bulkhead.Limit                          // requests at a time; nil: unlimited
	Watcher *sock.Watcher                            // tells of clients that are gone; nil: a helper has to look
	IDs     IDs
	Guard   hop.Guard
	Dropped func(field head.ID, why hop.Fault) // told of a record of a call chain that does not count

	phase atomic.Uint32
	mu    sync.Mutex
	conns map[*conn]struct{}
}

// Drain moves the drain on; at Closing connections that are idle are closed.
func (s *Server) Drain(p Phase) {
	s.phase.Store(uint32(p))
	if p != Closing {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.conns {
		if x.idle.Load() {
			x.c.WakeReader()
		}
	}
}

// Cut closes every connection, whatever it does.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for x := range s.conns {
		x.c.Close()
		if t := x.tunnel.Load(); t != nil {
			_ = t.client.Close()
			_ = t.endpoint.Close()
		}
	}
}

// tunnel is the two sides of a connection that was upgraded.
type tunnel struct{ client, endpoint *net.TCPConn }

// conn is one client connection. Fields belong to the owner goroutine, except those of help that say otherwise.
type conn struct {
	s    *Server
	c    *sock.Conn
	peer Peer
	src  upstream.Source

	in     *sock.Buf // bytes from the client: in.B[r:w] is not consumed yet; nil when the connection is idle
	r, w   int
	readBy time.Time // the read deadline that is set on c; zero: unknown

	req   codec.Request
	resp  codec.Response
	body  codec.Chunks // of the request
	abody codec.Chunks // of the answer
	extra []byte       // lines added to a request
	id    [uuidLen]byte
	out   *sock.Buf // bytes being written
	ans   *sock.Buf // bytes from the endpoint: ans.B[ar:aw]
	ar    int
	aw    int

	watched bool        // the Watcher does it
	gone    atomic.Bool // the client is, by the Watcher
	waitMu  sync.Mutex  // guards waiting
	waiting *pool.Conn  // where the owner may be parked for an answer

	ex     exchange
	help   helper
	waiter *pool.Waiter
	served bool                   // it has had a request
	idle   atomic.Bool            // parked between two requests
	tunnel atomic.Pointer[tunnel] // set while the connection is one
	count  int                    // exchanges since the last yield
	record accesslog.Record
}

// Serve serves a client connection to its end and closes it.
func (s *Server) Serve(c *sock.Conn, p Peer) {
	x := &conn{s: s, c: c, peer: p, src: upstream.NewSource(rand.Uint64(), rand.Uint64())}
	x.help.done = make(chan struct{}, 1)
	x.help.run = x.helperMain
	s.mu.Lock()
	if s.conns == nil {
		s.conns = make(map[*conn]struct{})
	}
	s.conns[x] = struct{}{}
	s.mu.Unlock()
	id, watched := s.Watcher.Add(c, x)
	x.watched = watched
	if first := x.first(); first != nil {
		s.Other(c, p, first)
	} else {
		x.loop()
	}
	s.Watcher.Remove(id)
	c.Close()
	x.release()
	s.mu.Lock()
	delete(s.conns, x)
	s.mu.Unlock()
}

// Gone implements sock.Gone: nobody waits for the answer any more, so the owner is called off.
func (x *conn) Gone() {
	x.gone.Store(true)
	x.waitMu.Lock()
	defer x.waitMu.Unlock()
	if x.waiting != nil {
		x.waiting.WakeReader()
	}
}

// waitsAt says at which connection the owner may be parked from now on; nil: at none that Gone should wake.
func (x *conn) waitsAt(up *pool.Conn) {
	x.waitMu.Lock()
	x.waiting = up
	x.waitMu.Unlock()
}

// calledOff tells whether nobody waits for the answer.
func (x *conn) calledOff() bool { return x.help.cancelled.Load() || x.gone.Load() }

// first waits for the first bytes and gives them away if they begin a PROXY header that somebody waits for.
func (x *conn) first() []byte {
	if x.s.Other == nil || !x.await() || x.in.B[0] != '\r' {
		return nil
	}
	first := bytes.Clone(x.in.B[:x.w])
	x.release()
	return first
}

func (x *conn) loop() {
	for x.await() && x.exchange() {
		x.served = true
		if x.count++; x.count >= yieldAfter {
			x.count = 0
			runtime.Gosched()
		}
	}
}

// release gives the buffers back.
func (x *conn) release() {
	x.s.Bufs.Put(x.in)
	x.in, x.r, x.w = nil, 0, 0
	x.s.Bufs.Put(x.out)
	x.out = nil
	x.dropAnswer()
	// What points into a buffer would keep it from the collector as long as the connection idles.
	x.req.Arena, x.resp.Arena, x.ex.encoded, x.ex.chain = nil, nil, nil, hop.Chain{}
	if cap(x.extra) > extraKept {
		x.extra = nil
	}
}

// extraKept is how large a buffer for added lines an idle connection keeps, in bytes.
const extraKept = 1 << 10

func (x *conn) dropAnswer() {
	x.s.Bufs.Put(x.ans)
	x.ans, x.ar, x.aw = nil, 0, 0
}

// peers tells whether its clients are other proxies rather than an application.
func (s *Server) peers() bool { return s.Inbound || s.Gateway }

func (s *Server) draining() Phase { return Phase(s.phase.Load()) }

// firstWait is how long a new connection may take for its first request once idle ones are being closed.
const firstWait = 500 * time.Millisecond

// await parks until the first bytes of a request are there. No buffer is held meanwhile.
func (x *conn) await() bool {
	if x.in != nil && x.r < x.w {
		return true
	}
	x.release()
	x.idle.Store(true)
	defer x.idle.Store(false)
	for {
		// The order matters: Drain stores the phase and then wakes idle connections.
		closing := x.s.draining() == Closing
		if closing && x.served {
			return x.lastRead()
		}
		wait := x.s.Limits.Idle
		if closing {
			wait = min(wait, firstWait)
		}
		if by := time.Now().Add(wait); closing || by.Sub(x.readBy) > wait/8 {
			x.readBy = by
			x.c.SetReadDeadline(by)
		}
		b, n, err := x.c.ReadInto(x.s.Bufs)
		if err == nil {
			x.in, x.r, x.w = b, 0, n
			return true
		}
		x.s.Bufs.Put(b)
		if !isTimeout(err) {
			return false
		}
		if closing || x.s.draining() != Closing {
			return x.lastRead() // it has waited its time; a request that came in the same moment is still answered
		}
		// A drain has called it back: look again.
	}
}

// lastRead takes what is there already.
func (x *conn) lastRead() bool {
	b := x.s.Bufs.Get()
	n, err := x.c.TryRead(b.B)
	if err != nil || n == 0 {
		x.s.Bufs.Put(b)
		return false
	}
	x.in, x.r, x.w = b, 0, n
	return true
}
