package pool

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spillway/discovery"
	"spillway/proxy/bulkhead"
)

// server accepts and echoes; it counts connections and can close all of them.
type server struct {
	l     net.Listener
	mu    sync.Mutex
	conns []net.Conn
	count atomic.Int64
}

func serve(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{l: l}
	t.Cleanup(func() { l.Close(); s.closeAll() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.count.Add(1)
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return s
}

func (s *server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

func group(connections, pending int) *Group {
	g := &Group{Limits: new(bulkhead.Cluster)}
	g.Limits.Configure(discovery.BulkheadLimits{Connections: connections, Pending: pending, Requests: 1, Retries: 1})
	return g
}

func (s *server) queue(g *Group) *Queue {
	return &Queue{Group: g, Dial: s.l.Addr().(*net.TCPAddr).AddrPort(), UserTimeout: time.Second}
}

func soon() time.Time { return time.Now().Add(10 * time.Second) }

func fresh(t *testing.T, q *Queue) *Conn {
	t.Helper()
	c, err := q.Fresh(NewWaiter(), time.Second, soon(), true)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNewestFirstAndReused(t *testing.T) {
	s := serve(t)
	q := s.queue(group(8, 8))
	a, b := fresh(t, q), fresh(t, q)
	a.Keep(1, 0)
	b.Keep(2, 0)
	if c := q.Idle(1); c != b || !c.Reused {
		t.Fatal("the newest idle connection comes first")
	}
	if q.Idle(1) != a || q.Idle(1) != nil {
		t.Fatal("then the older one, then none")
	}
	if held := q.Group.Limits.Connections.Held(); held != 2 {
		t.Fatalf("%d slots held", held)
	}
}

func TestEndedAndStrayConnectionsAreNeverGiven(t *testing.T) {
	s := serve(t)
	q := s.queue(group(8, 8))
	ended, stray := fresh(t, q), fresh(t, q)
	if _, err := stray.TryWrite([]byte("x")); err != nil { // its echo is a stray byte
		t.Fatal(err)
	}
	for stray.Peek() == 0 {
		time.Sleep(time.Millisecond)
	}
	ended.Keep(1, 0)
	stray.Keep(2, 0)
	s.closeAll()
	for ended.Peek() == 0 {
		time.Sleep(time.Millisecond)
	}
	if c := q.Idle(1); c != nil {
		t.Fatal("a connection that ended or holds stray bytes was given out")
	}
	if held := q.Group.Limits.Connections.Held(); held != 0 {
		t.Fatalf("%d slots leaked", held)
	}
}

func TestFullGroupClosesTheOldestIdle(t *testing.T) {
	s1, s2 := serve(t), serve(t)
	g := group(2, 8)
	q1, q2 := s1.queue(g), s2.queue(g)
	a, b := fresh(t, q1), fresh(t, q1)
	a.Keep(1, 0)
	b.Keep(2, 0)
	c := fresh(t, q2)
	if held := g.Limits.Connections.Held(); held != 2 {
		t.Fatalf("%d slots", held)
	}
	if q1.Idle(1) != b || q1.Idle(1) != nil {
		t.Fatal("the oldest makes room, the other stays")
	}
	b.Discard()
	c.Discard()
	if held := g.Limits.Connections.Held(); held != 0 {
		t.Fatalf("%d slots leaked", held)
	}
}

func TestWaitersGetConnectionOrSlotInTurn(t *testing.T) {
	s := serve(t)
	q := s.queue(group(1, 2))
	held := fresh(t, q)
	got := make(chan *Conn, 2)
	for range 2 {
		go func() {
			c, err := q.Fresh(NewWaiter(), time.Second, soon(), false)
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
	}
	for q.Group.Limits.Pending.Held() != 2 {
		time.Sleep(time.Millisecond)
	}
	if _, err := q.Fresh(NewWaiter(), time.Second, soon(), false); !errors.Is(err, ErrPending) {
		t.Fatalf("the third waiter: %v", err)
	}
	held.Keep(1, 0)
	if c := <-got; c != held {
		t.Fatal("a kept connection goes to who waits")
	}
	held.Discard()
	c := <-got
	if c == nil || c == held {
		t.Fatal("a slot goes to who waits")
	}
	c.Discard()
	if n := q.Group.Limits.Connections.Held(); n != 0 {
		t.Fatalf("%d slots leaked", n)
	}
}

func TestWaitEndsAtTheDeadline(t *testing.T) {
	s := serve(t)
	q := s.queue(group(1, 2))
	held := fresh(t, q)
	if _, err := q.Fresh(NewWaiter(), time.Second, time.Now().Add(20*time.Millisecond), false); !errors.Is(err, ErrWait) {
		t.Fatal(err)
	}
	if n := q.Group.Limits.Pending.Held(); n != 0 {
		t.Fatalf("%d still pending", n)
	}
	held.Discard()
	fresh(t, q).Discard()
}

func TestRefusedDialGivesTheSlotBack(t *testing.T) {
	s := serve(t)
	q := s.queue(group(1, 1))
	s.l.Close()
	if _, err := q.Fresh(NewWaiter(), time.Second, soon(), true); !errors.Is(err, ErrRefused) {
		t.Fatal(err)
	}
	if n := q.Group.Limits.Connections.Held(); n != 0 {
		t.Fatalf("%d slots leaked", n)
	}
}

func TestCloseIdleAlsoForConnectionsThatAreOut(t *testing.T) {
	s := serve(t)
	q := s.queue(group(8, 8))
	out, idle := fresh(t, q), fresh(t, q)
	idle.Keep(1, 0)
	q.CloseIdle(false)
	out.Keep(2, 0)
	if q.Idle(1) != nil {
		t.Fatal("a connection from before was kept")
	}
	later := fresh(t, q)
	later.Keep(3, 0)
	if q.Idle(1) != later {
		t.Fatal("later ones are kept")
	}
	later.Keep(4, 0)
	q.CloseIdle(true)
	if n := q.Group.Limits.Connections.Held(); n != 0 {
		t.Fatalf("%d slots leaked", n)
	}
}

func TestTheEndpointsOwnTimeIsKept(t *testing.T) {
	s := serve(t)
	q := s.queue(group(8, 8))
	fresh(t, q).Keep(100, 50)
	if c := q.Idle(149); c == nil {
		t.Fatal("still good")
	} else {
		c.Keep(149, 50)
	}
	if q.Idle(199) != nil {
		t.Fatal("the endpoint closes it now")
	}
	if n := q.Group.Limits.Connections.Held(); n != 0 {
		t.Fatalf("%d slots leaked", n)
	}
}

func TestSweep(t *testing.T) {
	s := serve(t)
	q := s.queue(group(8, 8))
	a, b := fresh(t, q), fresh(t, q)
	a.Keep(100, 0)
	b.Keep(900, 0)
	q.Group.Sweep(1000, 500)
	if q.Idle(1) != b || q.Idle(1) != nil {
		t.Fatal("only what is idle for too long goes")
	}
	b.Discard()
}

// Many goroutines, few slots: no slot is lost, the limit holds, everybody is served.
func TestSlotsAreExact(t *testing.T) {
	s := serve(t)
	q := s.queue(group(3, 1000))
	var wg sync.WaitGroup
	for range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			w := NewWaiter()
			for i := range 20 {
				c := q.Idle(1)
				if c == nil {
					var err error
					if c, err = q.Fresh(w, time.Second, soon(), i%5 == 0); err != nil {
						t.Error(err)
						return
					}
				}
				if n := q.Group.Limits.Connections.Held(); n > 3 {
					t.Errorf("%d connections", n)
				}
				if i%7 == 0 {
					c.Discard()
				} else {
					c.Keep(int64(i), 0)
				}
			}
		}()
	}
	wg.Wait()
	q.CloseIdle(true)
	if n := q.Group.Limits.Connections.Held(); n != 0 {
		t.Fatalf("%d slots leaked", n)
	}
	if n := q.Group.Limits.Pending.Held(); n != 0 {
		t.Fatalf("%d pending leaked", n)
	}
}
