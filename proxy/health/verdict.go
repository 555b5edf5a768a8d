package health

import (
	"spillway/discovery"
)

// The steps of State's methods. Each wants State.mu held; mark must follow before it is let go.

func (s *State) usable(now int64) bool {
	return !s.draining && !s.refused && s.check != checkBad && now >= s.ejected && now >= s.drained
}

func (s *State) checked() bool { return s.check != checkPending }

// mark brings marks in step with the state.
func (s *State) mark() {
	var m uint32
	if s.draining || s.refused || s.check == checkBad || s.ejected != 0 || s.drained != 0 {
		m |= markBlocked
	}
	if s.failures > 0 || s.ejections > 0 && !s.well {
		m |= markSuccess
	}
	s.marks.Store(m)
}

// expire forgets what time has ended.
func (s *State) expire(now int64) {
	if now >= s.ejected {
		s.ejected = 0
	}
	if now >= s.drained {
		s.drained = 0
	}
}

// thrive starts the time that counts as well.
func (s *State) thrive(now int64) {
	if s.ejections > 0 && !s.well && s.ejected == 0 {
		s.well, s.wellSince = true, now
	}
}

// relax ends the time that counts as well: for each `ejection` that it lasted one ejection is forgiven.
func (s *State) relax(now int64, p discovery.PassiveHealth) {
	if !s.well {
		return
	}
	s.well = false
	if span := now - s.wellSince; span > 0 && p.Ejection > 0 {
		s.ejections = int(max(int64(s.ejections)-span/int64(p.Ejection), 0))
	}
}

// eject takes the endpoint out for ejection times the number of ejections in a row, at most ejection_max. A tenth of it is chance (u),
// so that proxies that ejected together do not come back together; the base time is a minimum all the same.
func (s *State) eject(now int64, p discovery.PassiveHealth, u float64) {
	most := int64(p.EjectionMax)
	base := min(int64(p.Ejection), most)
	if base <= 0 {
		return
	}
	if int64(s.ejections) <= most/base { // no use in counting further than the maximum needs
		s.ejections++
	}
	span := most
	if int64(s.ejections) <= most/base {
		span = base * int64(s.ejections)
	}
	chance := int64(u * float64(span) / 10)
	if span+chance <= most {
		span += chance
	} else {
		span = max(span-chance, base)
	}
	s.failures, s.well = 0, false
	s.ejected, s.ejectedMin = now+span, now+base
}

// refuse takes the endpoint out. Only a refusal after the probe was due lengthens the wait: the ones of requests that were under way
// together say nothing new.
func (s *State) refuse(now int64, u float64) {
	s.drained = 0 // whoever said it drains is gone
	if s.refused {
		if now < s.probeDue {
			return
		}
		s.probes = min(s.probes+1, probeStepsMax)
	}
	s.refused = true
	s.probeDue = now + backoff(s.probes, u)
}

func (s *State) accept() {
	s.refused, s.probes, s.probeDue = false, 0, 0
}

func (s *State) good(now int64, c Config) {
	s.drained = 0
	s.accept()
	if now >= s.ejectedMin {
		s.ejected = 0
	}
	if s.failures == 0 {
		s.thrive(now) // so that an endpoint without requests is forgiven too
	}
	switch s.check {
	case checkPending:
		s.check, s.streak = checkGood, 0
	case checkGood:
		s.streak = 0
	case checkBad:
		if s.streak++; s.streak >= c.Active.HealthyAfter {
			s.check, s.streak = checkGood, 0
		}
	}
}

func (s *State) bad(c Config) {
	switch s.check {
	case checkPending, checkGood:
		if s.streak++; s.streak >= c.unhealthyAfter() {
			s.check, s.streak = checkBad, 0
		}
	case checkBad:
		s.streak = 0
	}
}

// backoff is the wait before a probe after so many doublings, with up to a quarter of chance (u) on top: in nanoseconds,
// at least ProbeBackoffMin and at most ProbeBackoffMax.
func backoff(doublings int, u float64) int64 {
	const cap = int64(ProbeBackoffMax) / 5 * 4
	wait := min(int64(ProbeBackoffMin)<<min(doublings, probeStepsMax), cap)
	return wait + int64(u*float64(wait)/4)
}

// spread makes a number in [0,1) of an instant (splitmix64's finaliser): chance enough to spread probes where the caller has none to give.
func spread(now int64) float64 {
	z := uint64(now) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
