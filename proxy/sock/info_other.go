//go:build !linux

package sock

import (
	"net"
	"time"
)

// Unacknowledged cannot be told on this system.
func (c *Conn) Unacknowledged() bool { return false }

// Unsent cannot be told on this system.
func (c *Conn) Unsent() int { return 0 }

// Moved cannot be told on this system: the connection always seems to move, so nothing is taken for idle.
func Moved(*net.TCPConn) uint64 { return uint64(time.Now().UnixNano()) }

// SetUserTimeout has no counterpart on this system.
func SetUserTimeout(uintptr, time.Duration) error { return nil }
