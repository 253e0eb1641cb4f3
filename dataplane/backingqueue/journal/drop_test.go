package journal

import (
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"warren/dataplane/vfs"
)

// watched is a file system that notes how large a file is each time that it is cut.
type watched struct {
	vfs.FS
	sizes []int64
	at    []time.Time
}

type watchedFile struct {
	vfs.File
	w *watched
}

func (w *watched) Open(path string) (vfs.File, error) {
	f, err := w.FS.Open(path)
	return watchedFile{f, w}, err
}

func (f watchedFile) Truncate(n int64) error {
	f.w.sizes, f.w.at = append(f.w.sizes, n), append(f.w.at, time.Now())
	return f.File.Truncate(n)
}

// A large file that is dropped is given back in steps with pauses, and after a crash in between Load takes what is left of it
// for nothing.
func TestLargeFilesAreDroppedInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := &watched{FS: vfs.NewMem()}
		if err := fsys.MkdirAll("j"); err != nil {
			t.Fatal(err)
		}
		const size = 3*shrinkStep + 100
		j := newJournal(Options{FS: fsys, Dir: "j"})
		f, err := fsys.Create("j/0000000001.journal")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(make([]byte, size), 0); err != nil {
			t.Fatal(err)
		}
		if err := j.discardSlowly(watchedFile{f, fsys}, "j/0000000001.journal", size); err != nil {
			t.Fatal(err)
		}
		if len(fsys.sizes) != 3 || fsys.sizes[2] != 100 || fsys.at[2].Sub(fsys.at[0]) < 2*shrinkPause {
			t.Errorf("cut to %v at %v", fsys.sizes, fsys.at)
		}
		if names, err := fsys.ReadDir("j"); err != nil || len(names) != 0 {
			t.Errorf("left: %v, %v", names, err)
		}
	})
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("j"); err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(fsys, "j/0000000001.journal"+droppedSuffix, []byte("the rest")); err != nil {
		t.Fatal(err)
	}
	log := new(strings.Builder)
	j, holes, err := Load(Options{FS: fsys, Dir: "j", Log: slog.New(slog.NewTextHandler(log, nil))}, func(Pos, []byte) error { return nil })
	if err != nil || len(holes) != 0 || log.Len() != 0 {
		t.Fatalf("holes %v, %v, log %q", holes, err, log)
	}
	if err := j.Abandon(); err != nil {
		t.Fatal(err)
	}
	if _, err := fsys.Open("j/0000000001.journal" + droppedSuffix); err == nil {
		t.Error("what is left of a dropped file stays")
	} else if !strings.Contains(err.Error(), fs.ErrNotExist.Error()) {
		t.Error(err)
	}
}
