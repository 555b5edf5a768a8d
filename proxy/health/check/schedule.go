package check

import (
	"container/heap"
	"context"
	"log/slog"
	"math"
	"time"

	"spillway/proxy/health"
)

// entry is what the scheduler knows of an item. Its fields are the scheduler's alone.
type entry struct {
	item  Item
	check task
	probe task
	kick  bool  // a check was asked for while one was under way
	next  int64 // when the next check would have been due; counts while one is under way
	seen  uint64
}

// task is one thing to do for an entry: queued (place >= 0), under way (busy) or neither.
type task struct {
	entry   *entry
	job     job
	due     int64
	place   int   // in the queue; -1: not queued
	busy    bool  // a worker has it
	started int64 // of the last start; 0: never
	done    int64 // probe: the ProbeDue that was last started
}

// queue is a heap of tasks by due.
type queue []*task

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}
func (q *queue) Push(x any) {
	t := x.(*task)
	t.place = len(*q)
	*q = append(*q, t)
}
func (q *queue) Pop() any {
	old := *q
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	t.place = -1
	return t
}

// at puts the task into the queue for due, or moves it there.
func (q *queue) at(t *task, due int64) {
	t.due = due
	if t.place >= 0 {
		heap.Fix(q, t.place)
		return
	}
	heap.Push(q, t)
}

// drop takes the task out of the queue, if it is there.
func (q *queue) drop(t *task) {
	if t.place >= 0 {
		heap.Remove(q, t.place)
	}
}

// pace lets at most len(starts) starts through in any second.
type pace struct {
	starts []int64 // a ring of the last starts
	count  int     // how many there were, bounded by twice the ring
}

// free is when the next start may be: 0 at once.
func (p *pace) free() int64 {
	if p.count < len(p.starts) {
		return 0
	}
	return p.starts[p.count%len(p.starts)] + int64(time.Second)
}

func (p *pace) start(now int64) {
	p.starts[p.count%len(p.starts)] = now
	if p.count++; p.count == 2*len(p.starts) {
		p.count = len(p.starts)
	}
}

// schedule is the state of one Run.
type schedule struct {
	r          *Runner
	generation uint64
	rounds     uint64 // of reading the source
	entries    map[uint64]*entry
	queue      queue
	pace       pace
	factor     float64
	underWay   int
	reports    chan report
	complained int64 // when a shortage was last logged; 0: never
}

// report is a worker's outcome with what it was for.
type report struct {
	outcome
	entry *entry
	item  Item // as it was when the worker started
	job   job
}

// Run looks at the items until ctx ends, and returns when no worker is left. It may be called once.
func (r *Runner) Run(ctx context.Context) {
	s := &schedule{
		r: r, entries: map[uint64]*entry{}, factor: 1, reports: make(chan report),
		pace: pace{starts: make([]int64, r.budget)},
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		s.read()
		timer.Reset(s.start(ctx))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-r.wake:
		case id := <-r.kicks:
			s.kick(id)
		case o := <-s.reports:
			s.finish(o)
		}
	}
	for s.underWay > 0 {
		<-s.reports
		s.underWay--
	}
}

// read takes over the source's items if they are other ones.
func (s *schedule) read() {
	items, generation := s.r.src.CheckItems(s.generation)
	if items == nil && generation == s.generation {
		return
	}
	s.generation = generation
	s.rounds++
	now := s.r.clock()
	fresh, perSecond := int64(0), 0.0
	for i := range items {
		e := s.entries[items[i].ID]
		if e == nil {
			e = &entry{item: items[i]}
			e.check = task{entry: e, job: jobCheck, place: -1}
			e.probe = task{entry: e, job: jobProbe, place: -1}
			s.entries[e.item.ID] = e
		}
		e.seen = s.rounds
		old := e.item
		e.item = items[i]
		if s.plan(e, old, now+fresh*int64(time.Second)/int64(s.r.budget)) {
			fresh++
		}
		perSecond += demand(&e.item)
	}
	for id, e := range s.entries {
		if e.seen != s.rounds {
			s.queue.drop(&e.check)
			s.queue.drop(&e.probe)
			delete(s.entries, id)
		}
	}
	s.stretch(perSecond)
}

// other tells whether a check of a says nothing of b.
func other(a, b *Item) bool {
	return a.Dial != b.Dial || a.Target != b.Target || a.Host != b.Host || a.Check != b.Check
}

// plan queues what the entry's item wants. first is when its first check may be; plan tells whether that was used.
func (s *schedule) plan(e *entry, old Item, first int64) (used bool) {
	switch c := &e.check; {
	case !e.item.checks():
		s.queue.drop(c)
	case c.busy: // finish queues it
	case c.place < 0 || other(&old, &e.item):
		if c.place < 0 || c.due > first {
			s.queue.at(c, first)
		}
		used = true
	}
	switch p := &e.probe; {
	case e.item.ProbeDue == 0:
		s.queue.drop(p)
	case !p.busy && p.done != e.item.ProbeDue:
		s.queue.at(p, e.item.ProbeDue)
	}
	return used
}

// demand is the number of checks and, at their slowest, probes of an item in a second.
func demand(i *Item) (perSecond float64) {
	if i.checks() {
		perSecond += 1 / interval(i).Seconds()
	}
	if i.ProbeDue != 0 {
		perSecond += 1 / health.ProbeBackoffMax.Seconds()
	}
	return perSecond
}

// stretch finds the factor by which intervals must be longer for the demand to fit the budget, to a thousandth.
func (s *schedule) stretch(perSecond float64) {
	factor := max(1, math.Ceil(perSecond/float64(s.r.budget)*1000)/1000)
	if factor == s.factor {
		return
	}
	if s.factor == 1 {
		s.r.log.Warn("health checks are stretched: more endpoints than policy.health.checks_per_second_max allows",
			slog.Float64("factor", factor), slog.Int("checks_per_second_max", s.r.budget))
	}
	s.factor = factor
	s.r.stretched(factor)
}

// start starts what is due, as far as the bounds allow, and gives the time until there may be more to start.
func (s *schedule) start(ctx context.Context) time.Duration {
	for len(s.queue) > 0 && s.underWay < InFlightMax {
		now := s.r.clock()
		t := s.queue[0]
		if due := max(t.due, s.pace.free()); due > now {
			return min(time.Duration(due-now), SourcePollMax)
		}
		heap.Pop(&s.queue)
		s.pace.start(now)
		t.busy, t.started = true, now
		e := t.entry
		if t.job == jobProbe {
			t.done = e.item.ProbeDue
		} else {
			// Counted from the start, so that a slow answer does not lengthen the interval.
			e.next = now + int64(float64(interval(&e.item))*s.factor*(1+jitterShare*(2*s.r.rng.Float64()-1)))
		}
		s.underWay++
		item, job := e.item, t.job
		go func() {
			s.reports <- report{s.r.do(ctx, item, job), e, item, job}
		}()
	}
	return SourcePollMax
}

// finish tells the sink what a worker met and queues the entry's next task.
func (s *schedule) finish(o report) {
	s.underWay--
	e := o.entry
	if s.entries[o.item.ID] != e {
		return // no longer wanted
	}
	now := s.r.clock()
	s.note(o, now)
	if o.job == jobProbe {
		s.finishProbe(o, now)
		return
	}
	c, kick := &e.check, e.kick
	c.busy, e.kick = false, false
	if !e.item.checks() {
		return
	}
	moved := other(&o.item, &e.item)
	due := max(e.next, now)
	switch {
	case !o.ok:
		due = max(due, now+int64(shortageBackoff))
	case moved:
		due = now
	case kick:
		due = min(due, max(now, kickable(e)))
	}
	s.queue.at(c, due)
	if o.ok && !moved {
		s.r.sink.OnCheck(o.item.ID, o.result)
	}
}

func (s *schedule) finishProbe(o report, now int64) {
	e, p := o.entry, &o.entry.probe
	p.busy = false
	moved := o.item.Dial != e.item.Dial
	switch {
	case e.item.ProbeDue == 0:
	case !o.ok:
		s.queue.at(p, max(now+int64(shortageBackoff), e.item.ProbeDue))
	case moved || e.item.ProbeDue != p.done:
		s.queue.at(p, e.item.ProbeDue)
	}
	if o.ok && !moved {
		s.r.sink.OnProbe(o.item.ID, o.result == health.Good)
	}
}

// note logs what went wrong: shortages of our own as warnings, at most one a second.
func (s *schedule) note(o report, now int64) {
	level := slog.LevelDebug
	switch {
	case o.ok && o.result == health.Good:
		return
	case !o.ok && (s.complained == 0 || now-s.complained >= int64(time.Second)):
		level, s.complained = slog.LevelWarn, now
	}
	said := "health check"
	if !o.ok {
		said = "health check not done for want of our own means"
	}
	s.r.log.LogAttrs(context.Background(), level, said, slog.String("address", o.item.Dial.String()),
		slog.String("result", o.result.String()), slog.Any("error", o.cause))
}

// kick brings the check of an item forward.
func (s *schedule) kick(id uint64) {
	e := s.entries[id]
	if e == nil || !e.item.checks() {
		return
	}
	c := &e.check
	if c.busy {
		e.kick = true // what is under way may have begun before the failure
		return
	}
	if due := max(s.r.clock(), kickable(e)); due < c.due {
		s.queue.at(c, due)
	}
}

// kickable is the earliest start of a kicked check: connections that fail all the time must not turn the interval into a busy loop.
func kickable(e *entry) int64 {
	if e.check.started == 0 {
		return 0
	}
	return e.check.started + int64(interval(&e.item))/kickGapShare
}

// interval is the item's, unstretched.
func interval(i *Item) time.Duration { return max(i.Check.Interval, intervalMin) }
