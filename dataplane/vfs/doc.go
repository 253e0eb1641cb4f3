// Package vfs is the little of a file system that the data plane's storage needs, so that its tests can have one that
// crashes and fails on command.
//
// FS and File are the interfaces; OS is the real file system; Mem lives in memory, loses at Crash what was not synced
// (leaving torn tails behind), and fails writes and syncs, flips bits and runs full when a test says so.
package vfs
