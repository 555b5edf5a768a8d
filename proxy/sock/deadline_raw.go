//go:build linux && !stdnet

package sock

import "time"

// SetReadDeadline bounds parked reads; the zero time takes the bound away.
func (c *Conn) SetReadDeadline(t time.Time) { _ = c.f.SetReadDeadline(t) }

// SetWriteDeadline bounds parked writes.
func (c *Conn) SetWriteDeadline(t time.Time) { _ = c.f.SetWriteDeadline(t) }

// WatchOnce tells whether a watch that was called back for another reason must not be taken up again.
const WatchOnce = false
