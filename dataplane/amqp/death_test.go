package amqp

import (
	"errors"
	"fmt"
	"testing"

	"warren/dataplane/message"
)

func withHeaders(t *testing.T, h Table) []byte {
	t.Helper()
	b, err := AppendProperties(nil, Properties{Present: PropHeaders | PropExpiration, Headers: h, Expiration: "7"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDeadLetter: recorded from RabbitMQ 3.10.8, the order of a table's fields aside.
func TestDeadLetter(t *testing.T) {
	m := message.Message{RoutingKey: "k", Expiry: 9, Properties: withHeaders(t, Table{"CC": []any{"c"}, "BCC": []any{"b"}})}
	for i, c := range []struct {
		death         Death
		key, x, first string
	}{
		{Death{Queue: "q", Reason: "expired", Exchange: "dlx"}, "k",
			"[map[count:1 exchange: original-expiration:7 queue:q reason:expired routing-keys:[k c] time:0]]", "q"},
		{Death{Queue: "r", Reason: "maxlen", Exchange: "dly", HasKey: true, Key: "new"}, "new",
			"[map[count:1 exchange:dlx queue:r reason:maxlen routing-keys:[k c] time:0] " +
				"map[count:1 exchange: original-expiration:7 queue:q reason:expired routing-keys:[k c] time:0]]", "q"},
		{Death{Queue: "q", Reason: "expired", Exchange: "dlx", Time: 5}, "new",
			"[map[count:2 exchange: original-expiration:7 queue:q reason:expired routing-keys:[k c] time:0] " +
				"map[count:1 exchange:dlx queue:r reason:maxlen routing-keys:[k c] time:0]]", "q"},
	} {
		out, err := DeadLetter(&m, c.death)
		if err != nil {
			t.Fatal(err)
		}
		h, err := HeadersOf(out.Properties)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(h["x-death"]); got != c.x || h["x-first-death-queue"] != c.first {
			t.Errorf("%d: x-death %s, want %s; headers %v", i, got, c.x, h)
		}
		if _, cc := h["CC"]; cc != (i == 0) || out.RoutingKey != c.key || out.Exchange != c.death.Exchange || out.Expiry != 0 {
			t.Errorf("%d: %+v, headers %v", i, out, h)
		}
		m = out
	}
	out, err := DeadLetter(&m, Death{Queue: "s", Reason: "rejected"}) // the older ones turn round
	if err != nil {
		t.Fatal(err)
	}
	h, _ := HeadersOf(out.Properties)
	for i, queue := range []string{"s", "r", "q"} {
		if e := h["x-death"].([]any)[i].(Table); e["queue"] != queue {
			t.Errorf("place %d of x-death is %v, want queue %s", i, e, queue)
		}
	}
	forged := withHeaders(t, Table{"x-death": []any{int32(1), Table{"queue": Table{}, "reason": "r"}, Table{"queue": Table{}, "reason": "r"},
		Table{"queue": "x", "reason": "r"}, Table{"queue": "x", "reason": "r"}, Table{"queue": "y", "reason": "r", "count": int32(7)}}})
	if out, err = DeadLetter(&message.Message{Properties: forged}, Death{Queue: "x", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	h, _ = HeadersOf(out.Properties)
	if e := h["x-death"].([]any)[0].(Table); e["count"] != int64(3) || len(h["x-death"].([]any)) != 4 || h["x-death"].([]any)[1].(Table)["count"] != int32(7) {
		t.Errorf("forged x-death becomes %v", h["x-death"])
	}
	for _, props := range [][]byte{nil, withHeaders(t, Table{"x-death": "foo"})} {
		out, err := DeadLetter(&message.Message{Properties: props}, Death{Queue: "q", Reason: "rejected"})
		if err != nil {
			t.Fatal(err)
		}
		if h, _ := HeadersOf(out.Properties); len(h["x-death"].([]any)) != 1 {
			t.Errorf("headers %v", h)
		}
	}
}

func TestCycles(t *testing.T) {
	death := func(queue, reason string) any { return Table{"queue": queue, "reason": reason} }
	for i, c := range []struct {
		deaths []any
		want   bool
	}{
		{nil, false},
		{[]any{death("a", "expired")}, false},
		{[]any{death("a", "expired"), death("q", "maxlen"), death("b", "rejected")}, true},
		{[]any{death("a", "rejected"), death("q", "maxlen")}, false},
		{[]any{death("q", "rejected")}, false},
		{[]any{"foo", death("q", "expired")}, false},
	} {
		if got := Cycles(Table{"x-death": c.deaths}, "q"); got != c.want {
			t.Errorf("%d: %t", i, got)
		}
	}
}

func TestExtraKeys(t *testing.T) {
	props := withHeaders(t, Table{"CC": []any{"c", int32(1)}, "BCC": []any{"b"}, "a": "b"})
	cc, bcc, err := ExtraKeys(props)
	if fmt.Sprint(cc, bcc, err) != "[c] [b] <nil>" {
		t.Error(cc, bcc, err)
	}
	if h, err := HeadersOf(visible(props)); err != nil || fmt.Sprint(h) != "map[CC:[c 1] a:b]" {
		t.Errorf("a client sees %v, %v", h, err)
	}
	var e *Error
	_, _, err = ExtraKeys(withHeaders(t, Table{"BCC": int32(5)}))
	if !errors.As(err, &e) || e.Text != `invalid message: {unacceptable_type_in_header,"BCC",signedint}` {
		t.Errorf("%v", err)
	}
}

func TestExpirationTexts(t *testing.T) {
	for in, want := range map[string]string{
		"5": "5 <nil>", "abc": "0 no_integer", "": "0 no_integer", "-1": "0 {value_negative,-1}", "5.5": `0 {leftover_string,".5"}`,
		"315360000001": "0 {value_too_large,315360000001}", "315360000000": "315360000000 <nil>",
	} {
		n, err := ParseExpiration([]byte(in))
		if got := fmt.Sprint(n, " ", err); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
