package state

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of a new version; never over those of a released one")

// fill sets every field of v to something that is not zero.
func fill(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{byte(*n), 0, 0xff})
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(-*n)
	case reflect.Uint8:
		v.SetUint(uint64(*n%3 + 1))
	default:
		v.SetUint(uint64(*n * 1000))
	}
}

// What this version writes is what testdata/v1 holds, and it reads that: every command with every field, and a snapshot.
func TestGoldenCommands(t *testing.T) {
	var lines []string
	for _, cmd := range commands() {
		var n int64
		fill(reflect.ValueOf(cmd).Elem(), &n)
		data, err := Encode(cmd, Request{Session: 7, Seq: 8, Lowest: 9})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%T %s", cmd, hex.EncodeToString(data)))
	}
	golden(t, "commands.txt", []byte(strings.Join(lines, "\n")+"\n"))
	for i, line := range lines {
		_, text, _ := strings.Cut(line, " ")
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got, req, _, err := Decode(data)
		if err != nil || req.Lowest != 9 {
			t.Fatalf("%s: %v", line, err)
		}
		want := commands()[i]
		var n int64
		fill(reflect.ValueOf(want).Elem(), &n)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%T came back as\n%+v, want\n%+v", want, got, want)
		}
	}
}

// The file was written by version 1; it is read, and comes back byte for byte.
func TestGoldenSnapshot(t *testing.T) {
	path := filepath.Join("testdata", "v1", "snapshot.bin")
	if *update {
		_, m := history(t, 7, 200)
		if err := os.WriteFile(path, m.snapshot(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(data)
	if err != nil {
		t.Fatal(err)
	}
	if s.Index() == 0 || len(s.Queues()) == 0 || len(s.Nodes()) == 0 || s.ClusterID() != "id" {
		t.Errorf("index %d, %d queues", s.Index(), len(s.Queues()))
	}
	again, err := s.Image().Encode()
	if err != nil || string(again) != string(data) {
		t.Errorf("encoded again it differs (%v)", err)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "v1", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: this version writes something else than version 1 (%d bytes, %d in the file)", name, len(got), len(want))
	}
}

// A field that this version does not know is skipped.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	data, err := Encode(&MasterActing{Queue: 5}, Request{})
	if err != nil {
		t.Fatal(err)
	}
	i := strings.LastIndexByte(string(data), 0x84) // the command's map of four
	data[i]++
	data = append(data, 0xa3, 'n', 'e', 'w', 0x93, 1, 2, 3)
	cmd, _, _, err := Decode(data)
	if err != nil || cmd.(*MasterActing).Queue != 5 {
		t.Errorf("%+v, %v", cmd, err)
	}
}
