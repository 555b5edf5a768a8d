//go:build !linux || stdnet

package sock

import "time"

// SetReadDeadline bounds parked reads; the zero time takes the bound away.
func (c *Conn) SetReadDeadline(t time.Time) {
	c.mu.Lock()
	c.readTo = t
	_ = c.tcp.SetReadDeadline(t)
	c.mu.Unlock()
}

// SetWriteDeadline bounds parked writes.
func (c *Conn) SetWriteDeadline(t time.Time) {
	c.mu.Lock()
	c.writeT = t
	_ = c.tcp.SetWriteDeadline(t)
	c.mu.Unlock()
}

// Held gives a byte that a peek took from the socket and no read has returned yet.
func (c *Conn) Held() (byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.byte0, c.held
	c.held = false
	return b, ok
}

// WatchOnce tells whether a watch that was called back for another reason must not be taken up again.
const WatchOnce = true
