//go:build !linux || stdnet

package sock

// Watcher is not there in this build: it is nil, and watches nothing. WatchGone takes its place.
type Watcher struct{}

// NewWatcher gives none.
func NewWatcher() (*Watcher, error) { return nil, nil }

// Add watches nothing.
func (w *Watcher) Add(*Conn, Gone) (id uint64, ok bool) { return 0, false }

// Remove does nothing.
func (w *Watcher) Remove(uint64) {}

// Close does nothing.
func (w *Watcher) Close() {}
