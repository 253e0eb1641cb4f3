package logtail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"warren/dataplane/feed"
)

func TestLast(t *testing.T) {
	var out bytes.Buffer
	tail := New(&out)
	log := slog.New(slog.NewTextHandler(tail, nil))
	log.Info("one")
	log.Info("two", "k", "v")
	if got := tail.Last(1); len(got) != 1 || !strings.Contains(got[0], "msg=two k=v") {
		t.Errorf("%q", got)
	}
	if got := tail.Last(9); len(got) != 2 || out.String() != strings.Join(got, "\n")+"\n" {
		t.Errorf("%q, written %q", got, out.String())
	}
	if got := tail.Last(-1); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// What is kept is bounded in lines and in bytes.
func TestTailIsBounded(t *testing.T) {
	tail := New(&bytes.Buffer{})
	for i := range MaxLines + 5 {
		fmt.Fprintf(tail, "%d\n", i)
	}
	if got := tail.Last(MaxLines * 2); len(got) != MaxLines || got[0] != "5" {
		t.Errorf("%d lines from %q", len(got), got[0])
	}
	for range 10 {
		fmt.Fprintln(tail, strings.Repeat("x", maxBytes/4))
	}
	if got := tail.Last(MaxLines); len(got) != 4 || tail.bytes > maxBytes {
		t.Errorf("%d long lines of %d bytes", len(got), tail.bytes)
	}
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tail := New(&bytes.Buffer{})
		fmt.Fprint(tail, "a\nb\n")
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan error, 1)
		go func() {
			done <- tail.Follow(ctx, 1, func(l Line) error { got = append(got, l.Text); return nil })
		}()
		synctest.Wait()
		fmt.Fprint(tail, "c\n")
		synctest.Wait()
		cancel()
		if err := <-done; err != nil || !slices.Equal(got, []string{"b", "c"}) || tail.feed.Followed() {
			t.Errorf("%q, %v, a follower left: %v", got, err, tail.feed.Followed())
		}
	})
}

// One who is too slow holds nobody up, and learns how much was missed.
func TestSlowFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tail := New(&bytes.Buffer{})
		release, stop := make(chan struct{}), errors.New("enough")
		missed := 0
		done := make(chan error, 1)
		go func() {
			done <- tail.Follow(t.Context(), 0, func(l Line) error {
				<-release
				if missed += l.Missed; l.Text == "last" {
					return stop
				}
				return nil
			})
		}()
		synctest.Wait()
		for range feed.MaxQueue + 51 { // one is in the follower's hands
			fmt.Fprintln(tail, "line")
			synctest.Wait()
		}
		close(release)
		synctest.Wait()
		fmt.Fprintln(tail, "last")
		if err := <-done; !errors.Is(err, stop) || missed != 50 {
			t.Errorf("%v, %d missed", err, missed)
		}
	})
}
