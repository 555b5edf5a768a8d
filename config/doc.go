// Package config turns YAML files into typed values, strictly.
//
// Its job: reading the configuration file and discovered files of services with a schema of its own; every fault that they have, each
// with file, line, column, key and what was expected; defaults; policies resolved key by key; showing the configuration without its
// secrets. The schema (schema.go, policy.go, services.go) is the one list of the keys that are served, unserved.go the one list of
// the keys and words that are known and refused.
// Not its job: watching files (discovery/file), using the values, or telling whether an address can be bound.
//
// It starts no goroutine and keeps no state. Bounds: FileBytesMax of a file, secretBytesMax of a secret, faultsMax faults; YAML aliases
// are refused, so a file never grows when it is read.
//
// A sidecar may serve one side alone: outbound.listen "" or inbound.listen "" leaves that listener out. outbound.capture must say
// explicit unless outbound.listen is "".
package config
