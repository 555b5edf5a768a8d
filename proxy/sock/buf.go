package sock

import "sync"

// BufSize is the size of a pooled buffer in bytes: a usual head and a small body in one read.
const BufSize = 16 << 10

// BigSize is the size of a pooled buffer for bodies that move in bulk.
const BigSize = CallMax

// Buf is one pooled buffer. B keeps its length over use; whoever grew a buffer beyond its pool's size drops it.
type Buf struct{ B []byte }

// Bufs hands out buffers of two sizes. The zero value is ready to use.
type Bufs struct{ small, big sync.Pool }

// Get gives a buffer of BufSize bytes.
func (p *Bufs) Get() *Buf {
	if b, ok := p.small.Get().(*Buf); ok {
		return b
	}
	return &Buf{B: make([]byte, BufSize)}
}

// GetBig gives a buffer of BigSize bytes.
func (p *Bufs) GetBig() *Buf {
	if b, ok := p.big.Get().(*Buf); ok {
		return b
	}
	return &Buf{B: make([]byte, BigSize)}
}

// Put takes a buffer back. Buffers of other sizes are left to the collector.
func (p *Bufs) Put(b *Buf) {
	if b == nil {
		return
	}
	switch cap(b.B) {
	case BufSize:
		b.B = b.B[:BufSize]
		p.small.Put(b)
	case BigSize:
		b.B = b.B[:BigSize]
		p.big.Put(b)
	}
}
