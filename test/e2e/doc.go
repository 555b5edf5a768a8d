// Package e2e tests the real binary from outside: it builds cmd/spillway once, starts it with configurations of its own, and speaks
// to it over loopback sockets byte by byte.
//
// Its job: what callers, endpoints and operators see; every test names the promise or the report it stands for (R01 and so on are
// bug reports that users of other proxies filed).
// Not its job: the decisions behind it, which are tested beside the pure packages, and real networks (test/lab).
//
// Every sidecar and every endpoint has a loopback address of its own in 127.0.0.0/8, so that ports are the documented ones and tests
// run side by side; this needs Linux. Goroutines: one per scripted endpoint and connection, ended by the test's cleanup. Every wait
// is bounded by waitMax.
// SPILLWAY_TAGS gives build tags for the binary, SPILLWAY_RACE=1 builds it with the race detector; a report of it fails the test.
// SPILLWAY_BINARY names one that is built already.
package e2e
