// Package sock is one TCP socket as the data path uses it: reads and writes that park the calling goroutine, the same without
// waiting, a peek, and a watch for a peer that went away.
//
// Its job: raw recv and send with MSG_DONTWAIT on the non-blocking descriptor under a net.TCPConn, so that a call that does not wait
// stays out of the scheduler (entersyscall costs a sidecar 24-32 % of its CPU at low rates) and allocates nothing. Build tag stdnet
// swaps in the methods of net.Conn behind the same surface; the suite runs in both.
// Not its job: dialling, listening, buffers of a protocol.
//
// It starts one goroutine, that of a Watcher. Of a Conn one goroutine may read, one write, one peek and one watch at the same time. Every
// raw call moves at most CallMax bytes. A deadline in the past wakes whoever is parked; that is how an owner calls its helper back.
package sock

import (
	"errors"
	"time"
)

// CallMax bounds one recv or send, in bytes: a raw call does not tell the scheduler, so it must be short.
const CallMax = 64 << 10

// ErrWouldBlock is returned by the Try calls when the socket is not ready.
var ErrWouldBlock = errors.New("socket not ready")

// State is what a peek sees on the receiving side.
type State uint8

// The states of the receiving side: nothing there, bytes there, the peer ended its side, the connection is broken.
const (
	Quiet State = iota
	Bytes
	Ended
	Broken
)

// past is a deadline that has been, for waking a parked call.
var past = time.Unix(1, 0)

// WakeReader makes a parked or coming Read, ReadInto or WatchGone return with os.ErrDeadlineExceeded until a new deadline is set.
func (c *Conn) WakeReader() { c.SetReadDeadline(past) }

// WakeWriter does the same for writes.
func (c *Conn) WakeWriter() { c.SetWriteDeadline(past) }
