package sock

import (
	"errors"
	"os"
	"time"
)

// resetDrainMax bounds how long Reset lets the peer take what was already written.
const resetDrainMax = time.Second

// Gone is told by a Watcher that the peer of a connection is gone. It must not block, and must not call the Watcher.
type Gone interface{ Gone() }

// Reset closes the socket so that the peer sees a reset and not an end: what came so far must not pass for a whole message.
// Bytes that were written before get up to resetDrainMax to arrive; a reset discards what is still queued.
func (c *Conn) Reset() {
	for end := time.Now().Add(resetDrainMax); c.Unsent() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	c.abort()
}

// Abort closes the socket so that the peer sees a reset at once.
func (c *Conn) Abort() { c.abort() }

// WriteAll sends b, waiting at most d each time the socket is full.
func (c *Conn) WriteAll(b []byte, d time.Duration) error {
	for {
		n, err := c.TryWrite(b)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrWouldBlock) {
			return err
		}
		b = b[n:]
		c.SetWriteDeadline(time.Now().Add(d))
		// One call at a time, so that a slow peer that moves is not cut by a deadline set for the whole.
		n, err = c.Write(b[:min(len(b), CallMax)])
		b = b[n:]
		if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || n == 0) {
			return err
		}
		if len(b) == 0 {
			return nil
		}
	}
}
