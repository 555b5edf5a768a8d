// Package proxy is the life of one connection, in order.
//
// A connection is accepted (listen) and its first bytes tell what it speaks (detect). HTTP/1 requests are read, parsed (head, http1/codec)
// and then go one by one through: hop guard (hop) -> route -> choose a tier (locality) and an endpoint (balance, from the states that
// health keeps and upstream compiles) -> admit (bulkhead) -> connection (pool) -> send and relay (http1) -> observe (health, balance) -> count and log.
// What failed is tried again only by the rule of retry. A TCP connection goes the same way once, and is then spliced (tcp).
//
// Three listeners share these rooms: outbound routes by Host, or to the one service of an outbound port; inbound serves only trusted
// peers that name a declared port of this machine, and never routes (inbound.go); gateway serves only trusted peers of other datacenters,
// by service, and never leaves its own (gateway.go). proxy.go is the floor plan; drain.go the way out.
//
// Its job: assembling the rooms from plain values. Not its job: reading configuration (config, cmd/spillway), watching sources (discovery).
// Goroutines: those of listen, one for upstream.Table, one for the active checks and their workers.
// Limits: applicationsMax local applications; all others belong to the rooms.
package proxy
