package gm

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

var update = flag.Bool("update", false, "write the golden frames of the present version")

// goldens are frames of every type, and what they mean.
func goldens() map[string]struct {
	frame []byte
	means string
} {
	out := &sender{id: Member{"rabbit@gone", 3, 70000}, index: -1}
	in := &sender{id: Member{"rabbit@host2", 1, 17}, index: 2}
	head := func(t frameType) []byte { return appendHead(nil, t, 300) }
	data, _ := encodeData(300, in, 70000, Bulk, []byte("body"))
	far, _ := encodeData(1<<40, out, 1<<33, Barrier, []byte("far"))
	closed, _ := encodeData(300, in, 8, classClosed, encodeClosed(out.id, 129))
	frag := append(fragmentHead(300, &entry{s: in, num: 9, class: Control, payload: make([]byte, 1000)}, 600, 400), bytes.Repeat([]byte{7}, 400)...)
	progress := appendUint(appendUint(appendRef(appendArray(head(frameProgress), 3), in), 255), 128)
	stable := appendUint(appendRef(appendArray(head(frameStable), 4), in), 65535)
	stable = appendUint(appendRef(stable, out), 65536)
	credit := appendUint(appendUint(head(frameCredit), 4), 1<<20)
	resume := appendUint(appendBool(appendUint(head(frameResume), 5), true), 4<<20)
	resume = appendUint(appendMember(appendArray(resume, 2), in.id), 12)
	start := appendArray(appendBool(appendUint(head(frameStart), 5), false), 4)
	start = appendUint(appendMember(appendUint(appendMember(start, in.id), 12), out.id), 129)
	again := appendUint(appendMember(appendArray(appendBool(appendUint(head(frameStart), 0), true), 2), in.id), 13)
	closing := appendUint(appendUint(appendMember(appendArray(head(frameClosing), 3), out.id), 5), 9)
	second := &entry{s: in, num: 128, class: Control, payload: bytes.Repeat([]byte{8}, 256)}
	batch, _ := encodeBatch(300, &entry{s: in, num: 127, payload: []byte("body"), next: second}, 2)
	return map[string]struct {
		frame []byte
		means string
	}{
		"batch":         {batch, "batch v300 #2:127+2"},
		"data":          {data, "data v300 #2:70000 class 0"},
		"data-full":     {far, "data v1099511627776 rabbit@gone/3/70000:8589934592 class 2"},
		"sender-closed": {closed, "data v300 #2:8 class 3"},
		"fragment":      {frag, "fragment v300 #2:9 class 1 600+400/1000"},
		"progress":      {progress, "progress v300 #2:255,128"},
		"stable":        {stable, "stable v300 #2:65535 rabbit@gone/3/70000:65536"},
		"credit":        {credit, "credit v300 session 4 returned 1048576"},
		"resume":        {resume, "resume v300 session 5 fresh true window 4194304 rabbit@host2/1/17:12"},
		"start":         {start, "start v300 session 5 again false rabbit@host2/1/17:12 rabbit@gone/3/70000:129"},
		"start-again":   {again, "start v300 session 0 again true rabbit@host2/1/17:13"},
		"closing":       {closing, "closing v300 rabbit@gone/3/70000:5,9"},
	}
}

// TestGoldenFrames: this version writes testdata/v1 byte for byte, and reads it; so must every later one read it.
func TestGoldenFrames(t *testing.T) {
	for name, g := range goldens() {
		path := filepath.Join("testdata", "v1", name+".bin")
		if *update {
			if err := os.WriteFile(path, g.frame, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(g.frame, want) {
			t.Errorf("%s: encoded % x, golden % x", name, g.frame, want)
		}
		if got := Describe(want); got != g.means {
			t.Errorf("%s: read %q, want %q", name, got, g.means)
		}
		if got := Describe(append(append([]byte(nil), want...), 0xa3, 'n', 'e', 'w')); got != g.means {
			t.Errorf("%s with a field of a later version: read %q", name, got)
		}
	}
}

// TestFramesAreMsgpack: any msgpack reader can walk a frame.
func TestFramesAreMsgpack(t *testing.T) {
	for name, g := range goldens() {
		d := msgpack.NewDecoder(bytes.NewReader(g.frame))
		for i := 0; ; i++ {
			v, err := d.DecodeInterfaceLoose()
			if err != nil {
				if i < 4 || err.Error() != "EOF" {
					t.Errorf("%s: object %d: %v", name, i, err)
				}
				break
			}
			if i == 0 && v != int64(wireVersion) && v != uint64(wireVersion) {
				t.Errorf("%s: version %v", name, v)
			}
		}
	}
}

// TestMalformedFrames: each truncation, and each kind of nonsense, is refused with a reason.
func TestMalformedFrames(t *testing.T) {
	var p parsed
	for name, g := range goldens() {
		for n := range g.frame {
			if why := p.parse(g.frame[:n], 1<<20); why == "" {
				t.Errorf("%s cut to %d of %d bytes is taken", name, n, len(g.frame))
			}
		}
	}
	big := bytes.Repeat([]byte{1}, 300)
	for name, f := range map[string][]byte{
		"version":          {2, 1, 1, 0, 1, 0, 0xc4, 0},
		"type 0":           {1, 0, 1},
		"type 10":          {1, 10, 1},
		"view 0":           {1, 1, 0, 0, 1, 0, 0xc4, 0},
		"number 0":         {1, 1, 1, 0, 0, 0, 0xc4, 0},
		"class":            {1, 1, 1, 0, 1, 4, 0xc4, 0},
		"body too large":   append([]byte{1, 1, 1, 0, 1, 0, 0xc5, 1, 44}, big...),
		"total too large":  {1, 2, 1, 0, 1, 0, 0xce, 255, 255, 255, 255, 0, 0xc4, 1, 1},
		"empty fragment":   {1, 2, 1, 0, 1, 0, 9, 0, 0xc4, 0},
		"fragment beyond":  {1, 2, 1, 0, 1, 0, 2, 1, 0xc4, 2, 1, 1},
		"list of a third":  {1, 3, 1, 0x91, 0},
		"huge list":        {1, 4, 1, 0xdd, 255, 255, 255, 254},
		"progress in full": {1, 3, 1, 0x93, 0x93, 0xa1, 'x', 1, 1, 1, 1},
		"long name":        append([]byte{1, 8, 1, 0x93, 0x93, 0xda, 1, 44}, big...),
		"closed nonsense":  {1, 1, 1, 0, 1, 3, 0xc4, 1, 1},
		"empty batch":      {1, 9, 1, 0, 1, 0x90},
		"half a message":   {1, 9, 1, 0, 1, 0x91, 0},
		"batch number 0":   {1, 9, 1, 0, 0, 0x92, 0, 0xc4, 0},
		"batch past 2^64":  {1, 9, 1, 0, 0xcf, 255, 255, 255, 255, 255, 255, 255, 255, 0x92, 0, 0xc4, 0},
		"closing batch":    {1, 9, 1, 0, 1, 0x92, 3, 0xc4, 0},
		"batch too large":  append([]byte{1, 9, 1, 0, 1, 0x92, 0, 0xc5, 1, 44}, big...),
		"place":            {1, 1, 1, 0xcd, 255, 255, 1, 0, 0xc4, 0},
	} {
		if why := p.parse(f, 256); why == "" {
			t.Errorf("%s is taken", name)
		}
	}
}

// FuzzParse: no frame makes the decoder panic or allocate more than a small multiple of its length.
func FuzzParse(f *testing.F) {
	for _, g := range goldens() {
		f.Add(g.frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var p parsed
		if why := p.parse(frame, 1<<16); why != "" {
			return
		}
		if len(p.items) > len(frame) || len(p.body) > len(frame) {
			t.Errorf("%d items, %d bytes of body from %d bytes", len(p.items), len(p.body), len(frame))
		}
		_ = Describe(frame)
	})
}

// FuzzReceive: whatever the neighbours send, a member neither panics nor contradicts itself.
func FuzzReceive(f *testing.F) {
	for _, g := range goldens() {
		f.Add(g.frame, g.frame, false)
	}
	f.Add([]byte{1, 9, 1, 0, 1, 0x94, 0, 0xc4, 1, 9, 1, 0xc4, 0}, []byte{1, 9, 1, 0, 2, 0x94, 1, 0xc4, 0, 2, 0xc4, 0}, false)
	f.Add([]byte{1, 1, 1, 0, 1, 0, 0xc4, 1, 9}, []byte{1, 2, 1, 0, 1, 0, 9, 0, 0xc4, 1, 1}, true)
	f.Fuzz(func(t *testing.T, one, two []byte, fromNext bool) {
		r := newRing(3, Config{MaxMessage: 1 << 16})
		r.settle()
		from := r.members[0]
		if fromNext {
			from = r.members[2]
		}
		g := r.groups[1]
		for _, frame := range [][]byte{one, two, one} {
			if err := g.Receive(from, frame); err != nil {
				g.LinkDown(from.Node, from.Incarnation)
				g.LinkUp(from.Node, from.Incarnation)
			}
			g.Take(nil)
		}
		g.Install(View{Version: 301, Members: r.members[:2]})
		g.Take(nil)
	})
}
