// Package report shows results: a table for people ([Table]), one JSON object a line for programs ([WriteJSON]), and pictures
// ([Pictures]). Figures of several runs are given as the median and the spread.
package report
