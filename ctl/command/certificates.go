package command

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"warren/ctl/admin"
	"warren/ctl/format"
)

func certificatesCommand() command {
	cmd := aboutProcess("certificates", groupConfiguration,
		"Shows the certificate of each TLS listener of the node", "", "Certificates of node %s ...",
		func(c *call, p admin.ProcessInfo) error {
			if c.format == format.FormatJSON {
				list := format.List{}
				for _, x := range p.Certificates {
					list = append(list, certificateDocument(x))
				}
				return c.document(list)
			}
			if len(p.Certificates) == 0 {
				return c.message("#{}")
			}
			for _, x := range p.Certificates {
				kind := "certificate"
				if x.Authority {
					kind = "authority"
				}
				lines := []string{
					format.Bold(fmt.Sprintf("Listener %s on port %d: %s in %s", x.Protocol, x.Port, kind, x.File)), "",
					"Subject: " + x.Subject, "Issuer: " + x.Issuer,
					fmt.Sprintf("Validity: %s to %s", x.NotBefore.UTC().Format(time.RFC3339), x.NotAfter.UTC().Format(time.RFC3339)), "", x.PEM,
				}
				if err := c.lines(lines); err != nil {
					return err
				}
			}
			return nil
		})
	cmd.guides = []string{"configure", "ssl"}
	return cmd
}

func certificateDocument(x admin.Certificate) map[string]any {
	return map[string]any{
		"protocol": x.Protocol, "port": x.Port, "file": x.File, "subject": x.Subject, "issuer": x.Issuer, "authority": x.Authority,
		"not_before": x.NotBefore.UTC().Format(time.RFC3339), "not_after": x.NotAfter.UTC().Format(time.RFC3339), "pem": x.PEM,
	}
}

// period is how far check_certificate_expiration looks ahead.
func period(c *call) (count int, unit string, until time.Time, err error) {
	count, unit = 4, "weeks"
	if text, ok := c.text["within"]; ok {
		if count, err = strconv.Atoi(text); err != nil || count < 0 || count > 10_000 {
			return 0, "", until, badArguments("Invalid options for this command:\n--within : %s", text)
		}
	}
	if text, ok := c.text["unit"]; ok {
		unit = text
	}
	if !slices.Contains([]string{"days", "weeks", "months", "years"}, unit) {
		return 0, "", until, badArguments("\"unit '%s' is not supported. Please use one of: days, weeks, months, years\"", unit)
	}
	now := time.Now()
	return count, unit, map[string]time.Time{
		"days": now.AddDate(0, 0, count), "weeks": now.AddDate(0, 0, 7*count), "months": now.AddDate(0, count, 0), "years": now.AddDate(count, 0, 0),
	}[unit], nil
}

func certificateExpirationCommand() command {
	cmd := aboutProcess("check_certificate_expiration", groupMonitoring,
		"Fails when a TLS listener's certificate has expired or soon will", "[--within <period>] [--unit <unit>]",
		"Checking certificate expiration on node %s ...", func(c *call, p admin.ProcessInfo) error {
			count, unit, until, err := period(c)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("No certificates are expiring within %d %s.", count, unit)
			failed := false
			list := format.List{}
			for _, x := range p.Certificates {
				if x.NotAfter.After(until) {
					continue
				}
				if !failed {
					failed, text = true, fmt.Sprintf("Error:\nCertificates of node %s that expire within %d %s, or cannot be read:", c.node, count, unit)
				}
				text += fmt.Sprintf("\nlistener %s, port %d: %s, valid until %s: %s", x.Protocol, x.Port, x.File,
					x.NotAfter.UTC().Format(time.RFC3339), x.Subject)
				list = append(list, certificateDocument(x))
			}
			switch {
			case failed && c.format == format.FormatJSON:
				body, err := format.JSON(map[string]any{"result": "error", "expired": list})
				if err != nil {
					return err
				}
				return &exitError{exitUnavailable, string(body)}
			case failed:
				return c.unhealthy(text)
			}
			return c.result(text)
		})
	cmd.guides = []string{"ssl", "networking"}
	cmd.details = []string{
		"<period>", "how long from now they must be valid; 4 if left out",
		"<unit>", "days, weeks (if left out), months or years",
	}
	cmd.flags = []flag{{"within", 0, flagInteger}, {"unit", 0, flagText}}
	cmd.check = func(c *call) error { _, _, _, err := period(c); return err }
	return cmd
}
