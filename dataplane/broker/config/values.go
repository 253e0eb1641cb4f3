package config

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// units of memory and disk, as RabbitMQ reads them (rabbit_resource_monitor_misc): k, M and G alone are powers of 1024.
var units = map[string]uint64{
	"":  1,
	"k": 1 << 10, "ki": 1 << 10, "kib": 1 << 10, "kb": 1000,
	"m": 1 << 20, "mi": 1 << 20, "mib": 1 << 20, "mb": 1000_000,
	"g": 1 << 30, "gi": 1 << 30, "gib": 1 << 30, "gb": 1000_000_000,
	"t": 1 << 40, "ti": 1 << 40, "tib": 1 << 40, "tb": 1000_000_000_000,
}

// ParseBytes reads an amount with a unit: 2147483648, 512MB, 2GiB. Units are not case-sensitive.
func ParseBytes(text string) (uint64, error) {
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	unit, known := units[strings.ToLower(strings.TrimSpace(text[digits:]))]
	if digits == 0 || !known {
		return 0, fmt.Errorf("%q is not an amount of bytes (examples: 2147483648, 512MB, 2GiB)", clip(text))
	}
	n, err := strconv.ParseUint(text[:digits], 10, 64)
	if err != nil || n > math.MaxUint64/unit {
		return 0, fmt.Errorf("%q is too large", clip(text))
	}
	return n * unit, nil
}

// parseDuration reads 500ms, 3s, 1m or, without a unit, seconds.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		n, errSeconds := strconv.ParseUint(text, 10, 31)
		if errSeconds != nil {
			return 0, fmt.Errorf("%q is not a duration (examples: 500ms, 3s, 2m)", clip(text))
		}
		d = time.Duration(n) * time.Second
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", clip(text))
	}
	return d, nil
}

func parseUint(text string, max uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > max {
		return 0, fmt.Errorf("%q is not a number between 0 and %d", clip(text), max)
	}
	return n, nil
}

// parseFraction reads a part of the whole, more than 0 and at most limit.
func parseFraction(text string, limit float64) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > limit {
		return 0, fmt.Errorf("%q is not a number above 0 and up to %g", clip(text), limit)
	}
	return f, nil
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true", "on":
		return true, nil
	case "false", "off":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", clip(text))
}

// parseListener reads PORT or HOST:PORT (for IPv6 [HOST]:PORT or, as RabbitMQ writes it, HOST:PORT).
func parseListener(text string) (Listener, error) {
	host, portText := "", text
	if strings.Contains(text, ":") {
		var err error
		if host, portText, err = net.SplitHostPort(text); err != nil {
			cut := strings.LastIndexByte(text, ':') // RabbitMQ's way to write IPv6: ::1:5672
			if host, portText = text[:cut], text[cut+1:]; net.ParseIP(host) == nil {
				return Listener{}, fmt.Errorf("%q is not PORT or ADDRESS:PORT", clip(text))
			}
		}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return Listener{}, fmt.Errorf("%q is not a port between 1 and 65535", clip(portText))
	}
	return Listener{Host: host, Port: uint16(port)}, nil
}

// parseAddress reads HOST:PORT, both required.
func parseAddress(text string) (string, error) {
	l, err := parseListener(text)
	if err != nil {
		return "", err
	}
	if l.Host == "" {
		return "", fmt.Errorf("%q is not HOST:PORT", clip(text))
	}
	return l.Address(), nil
}

// Address is the form that net.Listen and net.Dial take.
func (l Listener) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))) }

// parseNode reads NAME@HOST.
func parseNode(text string) (string, error) {
	name, host, found := strings.Cut(text, "@")
	if !found || name == "" || host == "" || strings.ContainsAny(text, " \t/\\") || strings.Contains(host, "@") {
		return "", fmt.Errorf("%q is not a node name (name@host)", clip(text))
	}
	return text, nil
}

// parseLoopback reads HOST:PORT where HOST is an address of the loopback interface.
func parseLoopback(text string) (string, error) {
	l, err := parseListener(text)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(l.Host); l.Host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("%q is not an address of the loopback interface (example: 127.0.0.1:6060)", clip(text))
	}
	return l.Address(), nil
}
