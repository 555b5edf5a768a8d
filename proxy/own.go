package proxy

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// addressesFor is how long the addresses of this machine are taken as known.
const addressesFor = time.Second

// ownAddresses tells the listeners of this proxy from other addresses. A listener on the unspecified address has every address of the
// machine, which can change while it runs.
type ownAddresses struct {
	bound []netip.AddrPort

	mu      sync.Mutex // guards what follows
	machine map[netip.Addr]bool
	read    time.Time
}

func (o *ownAddresses) has(a netip.AddrPort) bool {
	addr := a.Addr().Unmap()
	for _, b := range o.bound {
		if b.Port() != a.Port() {
			continue
		}
		if own := b.Addr(); own == addr || own.IsUnspecified() && own.Is4() == addr.Is4() && o.onMachine(addr) {
			return true
		}
	}
	return false
}

// onMachine tells whether an address belongs to this machine, or to this network namespace of it.
func (o *ownAddresses) onMachine(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.machine == nil || time.Since(o.read) > addressesFor {
		o.machine, o.read = map[netip.Addr]bool{}, time.Now()
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return false // then nothing more is known than the loopback addresses
		}
		for _, n := range addrs {
			if p, err := netip.ParsePrefix(n.String()); err == nil {
				o.machine[p.Addr().Unmap()] = true
			}
		}
	}
	return o.machine[a]
}
