package feed

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// Each follower gets what is sent while it is open, in order, and nothing is held for one that is closed.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Feed[int]
		f.Send(1)
		ctx, cancel := context.WithCancel(t.Context())
		var got []int
		done := make(chan error, 1)
		w := f.Follow()
		go func() {
			defer w.Close()
			done <- w.Each(ctx, func(v, missed int) error { got = append(got, v, missed); return nil })
		}()
		f.Send(2)
		f.Send(3)
		synctest.Wait()
		if !f.Followed() {
			t.Error("nobody follows")
		}
		cancel()
		if err := <-done; err != nil || !slices.Equal(got, []int{2, 0, 3, 0}) {
			t.Errorf("%v, %v", got, err)
		}
		synctest.Wait()
		if f.Followed() {
			t.Error("a closed follower is kept")
		}
	})
}

// One who is too slow holds nobody up, and learns how much was missed.
func TestSlowFollower(t *testing.T) {
	var f Feed[int]
	w := f.Follow()
	defer w.Close()
	for v := range MaxQueue + 50 {
		f.Send(v)
	}
	stop := errors.New("enough")
	next := 0
	err := w.Each(t.Context(), func(v, missed int) error {
		if v != next || missed != 0 {
			t.Errorf("%d, %d missed, instead of %d", v, missed, next)
		}
		if next++; next == MaxQueue {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Error(err)
	}
	for _, want := range []struct{ value, missed int }{{-1, 50}, {-2, 0}} { // told once
		f.Send(want.value)
		err = w.Each(t.Context(), func(v, missed int) error {
			if v != want.value || missed != want.missed {
				t.Errorf("%d, %d missed; want %+v", v, missed, want)
			}
			return stop
		})
		if !errors.Is(err, stop) {
			t.Error(err)
		}
	}
}
