// Package blackhole makes an address silent for real: the kernel drops every segment that arrives at a socket, so that the peer
// gets neither an acknowledgement nor a reset, as with a cut cable.
//
// Its job: attaching a socket filter of one instruction ("ret 0", a classic BPF program, which needs no privilege) to listening and
// connected TCP sockets of this process, and taking it off again. The filter of a listening socket is inherited by connections that
// are accepted later.
// Not its job: sockets of other processes, loss in part, delay.
//
// A listening socket must be made without multipath TCP (net.ListenConfig.SetMultipathTCP(false)): such sockets take no filter.
// It starts no goroutine. It needs Linux; elsewhere every call returns errors.ErrUnsupported.
package blackhole
