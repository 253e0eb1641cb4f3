//go:build soak

package integration

import (
	"os"
	"strconv"
	"testing"
)

// number is what the environment says that a test shall take instead of its own number.
func number(t *testing.T, name string, own float64) float64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return own
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 {
		t.Fatalf("%s=%s: want a number above 0", name, text)
	}
	return n
}
