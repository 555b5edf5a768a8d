package admin

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of a server. Its clients are people, probes and scrapers, near by.
const (
	headerMax      = 16 << 10         // bytes of a request head
	headTimeMax    = 5 * time.Second  // for the head of a request
	requestTimeMax = 10 * time.Second // for the whole request
	answerTimeMax  = 30 * time.Second // for the answer: a scrape may be large
	idleTimeMax    = time.Minute
	connectionsMax = 128 // open connections of one server
)

// Server is an http.Server with every time, size and number bounded. Over connectionsMax a new connection takes the place of one that is
// idle; where all are at work it is closed. Otherwise whoever reaches the readiness port could keep the probes out, or take the
// descriptors that the data path needs.
func Server(h http.Handler) *http.Server {
	c := &connections{idle: map[net.Conn]bool{}}
	return &http.Server{Handler: h, ReadHeaderTimeout: headTimeMax, ReadTimeout: requestTimeMax, WriteTimeout: answerTimeMax,
		IdleTimeout: idleTimeMax, MaxHeaderBytes: headerMax, ConnState: c.changed}
}

// connections bounds the open connections of a server.
type connections struct {
	mu   sync.Mutex
	open int               // 0 <= open
	idle map[net.Conn]bool // those that serve no request
}

// changed is told of each change of a connection's state, by net/http.
func (c *connections) changed(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case http.StateNew:
		c.open++
		if c.open > connectionsMax {
			_ = c.leaves(conn).Close() // its end is told as StateClosed
			return
		}
		c.idle[conn] = true
	case http.StateActive:
		delete(c.idle, conn)
	case http.StateIdle:
		c.idle[conn] = true
	case http.StateClosed, http.StateHijacked:
		c.open--
		delete(c.idle, conn)
	}
}

// leaves chooses who makes room for a new connection: any idle one, in the random order of maps, otherwise the new one itself.
func (c *connections) leaves(fresh net.Conn) net.Conn {
	for conn := range c.idle {
		delete(c.idle, conn)
		c.idle[fresh] = true
		return conn
	}
	return fresh
}
