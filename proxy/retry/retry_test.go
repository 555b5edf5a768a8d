package retry

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/discovery"
)

func policy() discovery.RetryPolicy {
	return discovery.RetryPolicy{Attempts: 2, ResendMax: 5, CrossTier: discovery.CrossResend,
		On: discovery.OnResetBeforeResponse | discovery.OnGatewayError, Budget: 0.2}
}

// TestDecide: each row changes one thing of a try that may be followed.
func TestDecide(t *testing.T) {
	post := Try{Replayable: true, Left: time.Second}
	get := Try{Replayable: true, Left: time.Second, Idempotent: true, Attempts: 1}
	for _, row := range []struct {
		name   string
		policy func(*discovery.RetryPolicy)
		try    Try
		change func(*Try)
		want   Verdict
	}{
		{"POST refused", nil, post, func(t *Try) { t.Kind = Refused }, Resend},
		{"POST, dial timed out", nil, post, func(t *Try) { t.Kind = DialTimeout }, Resend},
		{"POST, closed before the write", nil, post, func(t *Try) { t.Kind = ClosedBeforeWrite }, Resend},
		{"POST, sidecar's reserve", nil, post, func(t *Try) { t.Kind = SidecarRefusal }, Resend},
		{"sidecar refused after the body went", nil, post, func(t *Try) { t.Kind, t.Replayable = SidecarRefusal, false }, Stop},
		{"no time left", nil, post, func(t *Try) { t.Left = 0 }, Stop},
		{"the fifth re-send", nil, post, func(t *Try) { t.Resends = 4 }, Resend},
		{"the sixth", nil, post, func(t *Try) { t.Resends = 5 }, Stop},
		{"no re-sends at all", func(p *discovery.RetryPolicy) { p.ResendMax = 0 }, post, nil, Stop},
		{"re-sends count no attempts", func(p *discovery.RetryPolicy) { p.Attempts = 1 }, post, func(t *Try) { t.Attempts = 1 }, Resend},
		{"re-sends need no condition", func(p *discovery.RetryPolicy) { p.On = 0 }, post, nil, Resend},
		{"re-send to the next tier", nil, post, func(t *Try) { t.CrossTierNext = true }, Resend},
		{"re-send to the next tier, always", func(p *discovery.RetryPolicy) { p.CrossTier = discovery.CrossAlways }, post,
			func(t *Try) { t.CrossTierNext = true }, Resend},
		{"re-send to the next tier, never", func(p *discovery.RetryPolicy) { p.CrossTier = discovery.CrossNever }, post,
			func(t *Try) { t.CrossTierNext = true }, Stop},

		{"GET reset", nil, get, func(t *Try) { t.Kind = ResetBeforeResponse }, Retry},
		{"GET, silence", nil, get, func(t *Try) { t.Kind = Silence }, Retry},
		{"GET, 503", nil, get, func(t *Try) { t.Kind = GatewayError }, Retry},
		{"POST reset", nil, get, func(t *Try) { t.Kind, t.Idempotent = ResetBeforeResponse, false }, Stop},
		{"POST, silence", nil, get, func(t *Try) { t.Kind, t.Idempotent = Silence, false }, Stop},
		{"POST, 503", nil, get, func(t *Try) { t.Kind, t.Idempotent = GatewayError, false }, Stop},
		{"PUT whose body is gone", nil, get, func(t *Try) { t.Kind, t.Replayable = ResetBeforeResponse, false }, Stop},
		{"attempts used up", nil, get, func(t *Try) { t.Kind, t.Attempts = GatewayError, 2 }, Stop},
		{"re-sends do not use up attempts", nil, get, func(t *Try) { t.Kind, t.Resends = GatewayError, 5 }, Retry},
		{"time used up", nil, get, func(t *Try) { t.Kind, t.Left = Silence, -1 }, Stop},
		{"503, only resets wanted", func(p *discovery.RetryPolicy) { p.On = discovery.OnResetBeforeResponse }, get,
			func(t *Try) { t.Kind = GatewayError }, Stop},
		{"reset, only gateway errors wanted", func(p *discovery.RetryPolicy) { p.On = discovery.OnGatewayError }, get,
			func(t *Try) { t.Kind = ResetBeforeResponse }, Stop},
		{"silence, only gateway errors wanted", func(p *discovery.RetryPolicy) { p.On = discovery.OnGatewayError }, get,
			func(t *Try) { t.Kind = Silence }, Stop},
		{"retry to the next tier", nil, get, func(t *Try) { t.Kind, t.CrossTierNext = Silence, true }, Stop},
		{"retry to the next tier, always", func(p *discovery.RetryPolicy) { p.CrossTier = discovery.CrossAlways }, get,
			func(t *Try) { t.Kind, t.CrossTierNext = Silence, true }, Retry},
		{"retry to the next tier, never", func(p *discovery.RetryPolicy) { p.CrossTier = discovery.CrossNever }, get,
			func(t *Try) { t.Kind, t.CrossTierNext = Silence, true }, Stop},
	} {
		p, try := policy(), row.try
		if row.policy != nil {
			row.policy(&p)
		}
		if row.change != nil {
			row.change(&try)
		}
		if got := Decide(p, try); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func drawTry(t *rapid.T) (discovery.RetryPolicy, Try) {
	p := discovery.RetryPolicy{
		Attempts: rapid.IntRange(1, 5).Draw(t, "attempts"), ResendMax: rapid.IntRange(0, 5).Draw(t, "resend_max"),
		CrossTier: discovery.CrossTier(rapid.IntRange(0, 2).Draw(t, "cross_tier")), On: discovery.RetryOn(rapid.IntRange(0, 3).Draw(t, "on")),
	}
	return p, Try{
		Kind: Kind(rapid.IntRange(int(Refused), int(GatewayError)).Draw(t, "kind")), Idempotent: rapid.Bool().Draw(t, "idempotent"),
		Replayable: rapid.Bool().Draw(t, "replayable"), Resends: rapid.IntRange(0, 6).Draw(t, "resends"),
		Attempts: rapid.IntRange(0, 6).Draw(t, "tries"), Left: time.Duration(rapid.IntRange(-1, 2).Draw(t, "left")),
		CrossTierNext: rapid.Bool().Draw(t, "cross"),
	}
}

// TestNothingTwice: what is not idempotent goes again only if it was provably not taken, and nothing goes without its body or its time.
func TestNothingTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, try := drawTry(t)
		switch v := Decide(p, try); {
		case v == Stop:
		case !try.Replayable || try.Left <= 0:
			t.Fatalf("%v without body or time", v)
		case v == Resend && (try.Kind > SidecarRefusal || try.Resends >= p.ResendMax):
			t.Fatalf("re-send after kind %d, %d of %d", try.Kind, try.Resends, p.ResendMax)
		case v == Retry && (!try.Idempotent || try.Kind <= SidecarRefusal || try.Attempts >= p.Attempts || p.On == 0):
			t.Fatalf("retry: %+v, %+v", p, try)
		case try.CrossTierNext && (p.CrossTier == discovery.CrossNever || v == Retry && p.CrossTier == discovery.CrossResend):
			t.Fatalf("%v leaves its tier: %+v", v, p)
		}
	})
}

// TestTriesAreBounded: whatever happens to the tries of one request, there are at most 1 + resend_max + attempts of them.
func TestTriesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := drawTry(t)
		try := Try{Idempotent: true, Replayable: true, Left: time.Second}
		for tries := 1; ; tries++ {
			if tries > 1+p.ResendMax+p.Attempts {
				t.Fatalf("try %d with %+v", tries, p)
			}
			try.Kind = Kind(rapid.IntRange(int(Refused), int(GatewayError)).Draw(t, "kind"))
			if !try.Kind.Untaken() {
				try.Attempts++
			}
			switch Decide(p, try) {
			case Stop:
				return
			case Resend:
				try.Resends++
			}
		}
	})
}

func TestVerdictNames(t *testing.T) {
	if Stop.String() != "stop" || Resend.String() != "resend" || Retry.String() != "retry" {
		t.Error(Stop, Resend, Retry)
	}
}
