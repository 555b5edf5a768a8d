//go:build !linux

// Command bench measures what a request costs. It needs Linux: its load generator and endpoint use epoll, and CPU times are read from
// the kernel's clocks of other processes. Its job elsewhere is to say so; measuring is not its job there. It starts no goroutine.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench needs Linux")
	os.Exit(1)
}
