// Package gmtest plays the ring core (package gm) through random histories and checks the promises I1 to I7.
package gmtest
