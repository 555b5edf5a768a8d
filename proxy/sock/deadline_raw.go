//go:build linux && !stdnet

package sock

import "time"

// SetReadDeadline bounds parked reads; the zero time takes the bound away.
func (c *Conn) SetReadDeadline(t time.Time) { _ = c.tcp.SetReadDeadline(t) }

// SetWriteDeadline bounds parked writes.
func (c *Conn) SetWriteDeadline(t time.Time) { _ = c.tcp.SetWriteDeadline(t) }

// Held is a byte that a peek took from the socket and no read has returned yet; this build's peek takes none.
func (c *Conn) Held() (byte, bool) { return 0, false }

// WatchOnce tells whether a watch that was called back for another reason must not be taken up again.
const WatchOnce = false
