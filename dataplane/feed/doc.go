// Package feed hands values to those who follow them as they come, such as lines of a log and events to operators. Who sends never
// waits: a follower that is too slow misses values, and is told how many.
package feed
