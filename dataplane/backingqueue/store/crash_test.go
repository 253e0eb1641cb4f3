package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"warren/dataplane/backingqueue"
)

// The environment of the crash test: the child's directory, and how often the parent kills (default 3).
const (
	childEnv   = "WARREN_CRASH_CHILD"
	crashesEnv = "CRASHES"
)

const crashQueues = 5

// What the child reports on its standard output, in records of 10 bytes: event, queue, seq.
const (
	evAppended = 'A' // everything up to seq is durable
	evRemoving = 'I' // about to remove everything up to seq
	evRemoved  = 'R' // that is durable
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Fprintln(os.Stderr, crashChild(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func crashOptions(dir string) Options {
	return Options{Dir: dir, JournalFileSize: 128 << 10, JournalFiles: 2, Budget: 64 << 10}
}

func crashEntry(id backingqueue.ID, seq uint64) backingqueue.Entry {
	return testEntry(seq, int(seq*uint64(id)*37%900))
}

// crashChild publishes and consumes until it is killed.
func crashChild(dir string) error {
	s, err := Open(crashOptions(dir))
	if err != nil {
		return err
	}
	failed := make(chan error)
	for id := backingqueue.ID(1); id <= crashQueues; id++ {
		go func() { failed <- crashWorker(s, id) }()
	}
	return <-failed
}

func crashWorker(s *Store, id backingqueue.ID) error {
	moved := make(chan struct{}, 1)
	q, _, err := s.Open(id, backingqueue.Options{Durable: true, OnDurable: func(backingqueue.LSN) {
		select {
		case moved <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		return err
	}
	// One write of ten bytes to a pipe is whole, and it is in the pipe before what it announces is done.
	tell := func(ev byte, seq uint64) error {
		_, err := os.Stdout.Write(binary.LittleEndian.AppendUint64([]byte{ev, byte(id)}, seq))
		return err
	}
	r := rand.New(rand.NewPCG(uint64(id), q.Stats().NextSeq))
	next := max(1, q.Stats().NextSeq)
	for {
		for range 1 + r.IntN(20) {
			if _, err := q.Append(crashEntry(id, next)); err != nil {
				return err
			}
			next++
		}
		var removed uint64
		if st := q.Stats(); st.Messages > 300*int(id) || r.IntN(3) == 0 {
			removed = st.FirstSeq + uint64(r.IntN(40))
			removed = min(removed, next-1)
			if err := tell(evRemoving, removed); err != nil {
				return err
			}
			if _, err := q.Remove([]backingqueue.Range{{First: 0, Last: removed}}); err != nil {
				return err
			}
		}
		last := q.Last()
		q.Sync()
		for q.Durable() < last {
			<-moved
		}
		if err := tell(evAppended, next-1); err != nil {
			return err
		}
		if removed == 0 {
			continue
		}
		if err := tell(evRemoved, removed); err != nil {
			return err
		}
	}
}

// crashState is what the parent knows of a queue.
type crashState struct{ appended, removing, removed uint64 }

// TestKill kills a process that publishes and consumes, again and again on the same directory, and looks each time
// whether all that was durable is there: what was appended and not removed, and nothing that was removed.
func TestKill(t *testing.T) {
	crashes := 3
	if v := os.Getenv(crashesEnv); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		crashes = n
	}
	dir := t.TempDir()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var known [crashQueues + 1]crashState
	for i := range crashes {
		killChild(t, dir, 200+r.IntN(1500), &known)
		s, err := Open(crashOptions(dir))
		if err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		for id := backingqueue.ID(1); id <= crashQueues; id++ {
			if err := checkKilled(s, id, known[id]); err != nil {
				t.Fatalf("kill %d: queue %d: %v (known: %+v)", i, id, err, known[id])
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func killChild(t *testing.T, dir string, events int, known *[crashQueues + 1]crashState) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill := func() { once.Do(func() { _ = cmd.Process.Kill() }) }
	defer kill()
	in := bufio.NewReader(stdout)
	var rec [10]byte
	n := 0
	for ; ; n++ {
		if _, err := io.ReadFull(in, rec[:]); err != nil {
			break
		}
		k := &known[rec[1]]
		seq := binary.LittleEndian.Uint64(rec[2:])
		switch rec[0] {
		case evAppended:
			k.appended = max(k.appended, seq)
		case evRemoving:
			k.removing = max(k.removing, seq)
		case evRemoved:
			k.removed = max(k.removed, seq)
		}
		if n == events {
			kill()
		}
	}
	if err := cmd.Wait(); n < events {
		t.Fatalf("the child ended by itself after %d events: %v %s", n, err, stderr.String())
	}
}

func checkKilled(s *Store, id backingqueue.ID, k crashState) error {
	q, rec, err := s.Open(id, backingqueue.Options{Durable: true})
	if err != nil {
		return err
	}
	if rec.Damaged {
		return errors.New(rec.Detail)
	}
	st := q.Stats()
	if st.Messages > 0 && st.FirstSeq <= k.removed {
		return fmt.Errorf("holds %d, which was removed", st.FirstSeq)
	}
	if st.NextSeq <= k.appended {
		return fmt.Errorf("next seq is %d", st.NextSeq)
	}
	for seq := k.removing + 1; seq <= k.appended; seq++ {
		if !q.Has(seq) {
			return fmt.Errorf("lost %d", seq)
		}
	}
	for seq, ok := q.Next(0); ok; seq, ok = q.Next(seq + 1) {
		e, held, err := q.Get(seq)
		if err != nil || !held || !bytes.Equal(e.Message.Body, crashEntry(id, seq).Message.Body) {
			return fmt.Errorf("get %d: held %v, %d bytes: %w", seq, held, len(e.Message.Body), err)
		}
	}
	return nil
}
