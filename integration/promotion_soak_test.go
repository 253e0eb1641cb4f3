//go:build soak

package integration

import "testing"

// B02: TestPowerFailureOrders with every order in which the nodes can return, and every pair of them.
func TestPowerFailureInEveryOrder(t *testing.T) {
	powerFailures(t, []int{2, 3}, []int{1, 2, 3}, []int{1, 3, 2}, []int{2, 1, 3}, []int{2, 3, 1}, []int{3, 1, 2}, []int{3, 2, 1},
		[]int{1, 3}, []int{1, 2})
}
