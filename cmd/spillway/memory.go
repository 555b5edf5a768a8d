package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is the part of the cgroup's memory that the runtime may use before it collects harder.
const memoryShare = 0.9

// setMemoryLimit sets the runtime's memory limit to memoryShare of the memory cgroup, unless GOMEMLIMIT says otherwise.
func setMemoryLimit(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := cgroupMemory("/proc/self/cgroup", "/sys/fs/cgroup")
	if limit <= 0 {
		return
	}
	debug.SetMemoryLimit(int64(memoryShare * float64(limit)))
	log.Debug("memory limit", "cgroup_bytes", limit)
}

// cgroupMemory is the smallest memory limit on the way from this process's cgroup to the root, 0 if there is none.
func cgroupMemory(self, root string) int64 {
	b, err := os.ReadFile(self)
	if err != nil {
		return 0
	}
	smallest := int64(0)
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, name := root, "memory.max" // cgroup 2
		if parts[1] == "memory" {
			base, name = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		} else if parts[1] != "" {
			continue
		}
		for dir := parts[2]; ; dir = filepath.Dir(dir) {
			if n := readLimit(filepath.Join(base, dir, name)); n > 0 && (smallest == 0 || n < smallest) {
				smallest = n
			}
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return smallest
}

// unlimited is above what cgroup 1 shows for no limit (the largest page-aligned value), in bytes.
const unlimited = 1 << 62

func readLimit(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n >= unlimited {
		return 0
	}
	return n
}
