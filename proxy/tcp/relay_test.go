package tcp

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

var limits = Limits{Idle: time.Minute, HalfClose: time.Minute}

// pair makes a connected pair on loopback: the relay's end and the peer's.
func pair(t testing.TB) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := nc.(*net.TCPConn)
	t.Cleanup(func() { c.Close(); peer.Close() })
	_ = peer.SetDeadline(time.Now().Add(20 * time.Second))
	return c, peer.(*net.TCPConn)
}

type result struct{ fromA, fromB int64 }

func start(t testing.TB, l Limits, early []byte) (client, endpoint *net.TCPConn, done chan result) {
	a, client := pair(t)
	b, endpoint := pair(t)
	done = make(chan result, 1)
	go func() {
		fromA, fromB := Relay(a, b, early, nil, l)
		a.Close()
		b.Close()
		done <- result{fromA, fromB}
	}()
	return client, endpoint, done
}

func TestEachDirectionEndsByItself(t *testing.T) {
	client, endpoint, done := start(t, limits, []byte("early "))
	data := bytes.Repeat([]byte("x"), 1<<20)
	go func() {
		_, _ = client.Write(data)
		_ = client.CloseWrite()
	}()
	got, err := io.ReadAll(endpoint)
	if err != nil || len(got) != len(data)+6 || string(got[:6]) != "early " {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	// The answer comes only after the end of input.
	if _, err := endpoint.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	endpoint.Close()
	if got, err = io.ReadAll(client); err != nil || string(got) != "answer" {
		t.Fatalf("%q, %v", got, err)
	}
	if r := <-done; r.fromA != int64(len(data))+6 || r.fromB != 6 {
		t.Fatalf("counted %+v", r)
	}
}

func TestEndpointMayEndFirst(t *testing.T) {
	client, endpoint, done := start(t, limits, nil)
	_ = endpoint.CloseWrite()
	if got, err := io.ReadAll(client); err != nil || len(got) != 0 {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := client.Write([]byte("still sending")); err != nil {
		t.Fatal(err)
	}
	_ = client.CloseWrite()
	if got, err := io.ReadAll(endpoint); err != nil || string(got) != "still sending" {
		t.Fatalf("%q, %v", got, err)
	}
	<-done
}

func TestAResetEndsBoth(t *testing.T) {
	for _, who := range []string{"client", "endpoint"} {
		t.Run(who, func(t *testing.T) {
			client, endpoint, done := start(t, limits, nil)
			gone, other := client, endpoint
			if who == "endpoint" {
				gone, other = endpoint, client
			}
			_ = gone.SetLinger(0)
			gone.Close()
			<-done
			if _, err := other.Read(make([]byte, 1)); err == nil || err == io.EOF {
				t.Fatalf("the other side saw %v, want a reset", err)
			}
		})
	}
}

func TestHalfClosedRelayIsBounded(t *testing.T) {
	client, _, done := start(t, Limits{Idle: time.Minute, HalfClose: 50 * time.Millisecond}, nil)
	_ = client.CloseWrite()
	<-done
}

func TestIdleRelayEnds(t *testing.T) {
	_, _, done := start(t, Limits{Idle: 80 * time.Millisecond, HalfClose: time.Minute}, nil)
	<-done
}

func TestMovingRelayIsNotIdle(t *testing.T) {
	client, endpoint, done := start(t, Limits{Idle: 400 * time.Millisecond, HalfClose: time.Minute}, nil)
	for range 20 { // longer than Idle in all, one direction alone
		if _, err := client.Write([]byte("tick")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(endpoint, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Millisecond) // a stream that moves slowly, for longer than Idle in all
	}
	client.Close()
	endpoint.Close()
	<-done
}

func BenchmarkRelay(b *testing.B) {
	client, endpoint, _ := start(b, limits, nil)
	go func() { _, _ = io.Copy(io.Discard, endpoint) }()
	chunk := make([]byte, 256<<10)
	b.SetBytes(int64(len(chunk)))
	_ = client.SetDeadline(time.Time{})
	_ = endpoint.SetDeadline(time.Time{})
	for b.Loop() {
		if _, err := client.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
}
