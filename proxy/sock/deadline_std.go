//go:build !linux || stdnet

package sock

import "time"

// SetReadDeadline bounds parked reads; the zero time takes the bound away.
func (c *Conn) SetReadDeadline(t time.Time) {
	c.mu.Lock()
	c.readTo = t
	if !c.trying {
		_ = c.tcp.SetReadDeadline(t)
	}
	c.mu.Unlock()
}

// SetWriteDeadline bounds parked writes.
func (c *Conn) SetWriteDeadline(t time.Time) {
	c.mu.Lock()
	c.writeT = t
	_ = c.tcp.SetWriteDeadline(t)
	c.mu.Unlock()
}

// WatchOnce tells whether a watch that was called back for another reason must not be taken up again.
const WatchOnce = true
