package command

// Version is the version of this build of Warren.
const Version = "0.1.0"
