// Package hist records latencies: [Hist] counts them in buckets of two percent, [Series] keeps the worst of each slice of
// time for pictures. Start at [Hist.Record] and [Hist.Quantile].
package hist
