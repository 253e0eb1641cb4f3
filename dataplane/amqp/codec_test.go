package amqp

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// everyType is a table with a value of each type.
func everyType() Table {
	return Table{
		"t": true, "b": int8(-1), "B": uint8(200), "s": int16(-300), "u": uint16(60000), "I": int32(-70000), "i": uint32(4e9),
		"l": int64(-5e12), "L": uint64(1 << 63), "f": float32(1.5), "d": 2.25, "D": Decimal{2, 314}, "S": "string", "x": []byte{1, 2},
		"T": Timestamp(1700000000), "A": []any{int32(1), "two", Table{"three": nil}}, "F": Table{"nested": Table{}}, "V": nil,
	}
}

func TestTableRoundTrip(t *testing.T) {
	b, err := AppendTable(nil, everyType())
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeTable(b)
	if err != nil || !reflect.DeepEqual(got, everyType()) {
		t.Errorf("decoded %v, %v", got, err)
	}
	again, err := AppendTable(nil, got)
	if err != nil || !bytes.Equal(b, again) {
		t.Error("the encoding is not stable")
	}
	for n := range b {
		if _, err := DecodeTable(b[:n]); err == nil {
			t.Errorf("%d of %d octets were decoded without an error", n, len(b))
		}
	}
	if _, err := AppendTable(nil, Table{"x": struct{}{}}); err == nil {
		t.Error("a struct was encoded")
	}
	if _, err := AppendTable(nil, Table{strings.Repeat("x", 256): 1}); err == nil {
		t.Error("a name of 256 octets was encoded")
	}
}

func TestDeepTablesAreRefused(t *testing.T) {
	b, err := AppendTable(nil, Table{})
	if err != nil {
		t.Fatal(err)
	}
	for range maxDepth + 1 {
		inner := append([]byte{1, 'x', 'F'}, b...)
		b = append(appendLong(nil, uint32(len(inner))), inner...)
	}
	if _, err := DecodeTable(b); err == nil || !strings.Contains(err.Error(), "nest deeper") {
		t.Errorf("DecodeTable: %v", err)
	}
	props := append(appendShort(nil, PropHeaders), b...)
	if _, err := ScanProperties(props); err == nil || !strings.Contains(err.Error(), "nest deeper") {
		t.Errorf("ScanProperties: %v", err)
	}
}

func allProperties() Properties {
	return Properties{Present: 0xfffc, ContentType: "a", ContentEncoding: "b", Headers: everyType(), DeliveryMode: 2, Priority: 3,
		CorrelationID: "c", ReplyTo: "d", Expiration: "1000", MessageID: "e", Timestamp: 5, Type: "f", UserID: "guest", AppID: "h", ClusterID: "i"}
}

func TestPropertiesRoundTrip(t *testing.T) {
	for _, present := range []uint16{0, 0xfffc, PropHeaders, PropDeliveryMode | PropClusterID, PropExpiration | PropUserID} {
		p := allProperties()
		p.Present = present
		b, err := AppendProperties(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeProperties(b)
		if err != nil || got.Present != present {
			t.Fatalf("%#x: %+v, %v", present, got, err)
		}
		s, err := ScanProperties(b)
		if err != nil || s.Present != present || s.DeliveryMode != got.DeliveryMode || s.Priority != got.Priority ||
			string(s.Expiration) != got.Expiration || string(s.UserID) != got.UserID {
			t.Errorf("%#x: scan %+v, %v", present, s, err)
		}
		headers, err := HeadersOf(b)
		if err != nil || !reflect.DeepEqual(headers, got.Headers) {
			t.Errorf("%#x: headers %v, %v", present, headers, err)
		}
		for n := range b {
			if _, err := ScanProperties(b[:n]); err == nil {
				t.Errorf("%#x: %d of %d octets were scanned without an error", present, n, len(b))
			}
		}
		if _, err := DecodeProperties(append(b, 0)); err == nil {
			t.Errorf("%#x: an octet too many was accepted", present)
		}
	}
	if _, err := ScanProperties([]byte{0, 1}); err == nil {
		t.Error("continued property flags were accepted")
	}
}

func TestParseExpiration(t *testing.T) {
	for s, ok := range map[string]bool{"0": true, "1000": true, "315360000000": true, "315360000001": false, "-1": false, "": false, "1s": false, "99999999999999999999": false} {
		if _, err := ParseExpiration([]byte(s)); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// TestMethodsRoundTrip encodes every method with every field set and decodes it again.
func TestMethodsRoundTrip(t *testing.T) {
	n := 0
	for class := range uint32(100) {
		for id := range uint32(130) {
			m := newMethod(class<<16 | id)
			if m == nil {
				continue
			}
			n++
			fill(reflect.ValueOf(m).Elem())
			b := m.append(nil)
			d := decoder{b: b}
			got := newMethod(d.long())
			got.decode(&d)
			if d.err != nil || len(d.b) != 0 || !reflect.DeepEqual(m, got) {
				t.Errorf("%s: %+v, want %+v, %v, %d octets left", m.name(), got, m, d.err, len(d.b))
			}
			for k := 4; k < len(b); k++ {
				short := decoder{b: b[4:k]}
				if newMethod(m.id()).decode(&short); short.err == nil {
					t.Errorf("%s: %d of %d octets were decoded without an error", m.name(), k, len(b))
				}
			}
		}
	}
	if n != 66 {
		t.Errorf("%d methods", n)
	}
}

func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("text")
		case reflect.Map:
			f.Set(reflect.ValueOf(everyType()))
		default:
			f.SetUint(0x1122334455667788 & (1<<f.Type().Bits() - 1))
		}
	}
}

// TestGeneratedCodeIsCurrent runs the generator again and compares.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	out := filepath.Join(t.TempDir(), "gen.go")
	if b, err := exec.Command("go", "run", "./internal/gen", "spec.txt", out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("spec_gen.go")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("spec_gen.go is not what go generate makes of spec.txt (%v)", err)
	}
}

func FuzzDecode(f *testing.F) {
	b, err := AppendProperties(nil, allProperties())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, id := range []uint32{idConnectionStartOk, idQueueDeclare, idBasicPublish, idBasicConsume} {
		m := newMethod(id)
		fill(reflect.ValueOf(m).Elem())
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		scan, scanErr := ScanProperties(b)
		p, err := DecodeProperties(b)
		if (scanErr == nil) != (err == nil) {
			t.Fatalf("scan says %v, decode says %v", scanErr, err)
		}
		if err == nil {
			if scan.Priority != p.Priority || scan.DeliveryMode != p.DeliveryMode {
				t.Fatal("scan and decode differ")
			}
			again, err := AppendProperties(nil, p)
			if err != nil {
				t.Fatalf("decoded properties cannot be encoded: %v", err)
			}
			if q, err := DecodeProperties(again); err != nil || q.Present != p.Present {
				t.Fatalf("second decoding: %v", err)
			}
		}
		d := decoder{b: b}
		if m := newMethod(d.long()); m != nil {
			if m.decode(&d); d.err == nil {
				again := decoder{b: m.append(nil)}
				again.long()
				n := newMethod(m.id())
				if n.decode(&again); again.err != nil {
					t.Fatalf("%s: encoded again it does not decode: %v", m.name(), again.err)
				}
			}
		}
	})
}
