package command

// Version is the version of this build of Warren; the build sets it (see the Makefile).
var Version = "0.1.0"
