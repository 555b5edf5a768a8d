package codec

import "spillway/proxy/head"

const httpScheme = "http://"

// target finds the form of the request target and its parts (RFC 9112 3.2).
func (r *Request) target(buf []byte) *Error {
	t := r.Bytes(r.Target)
	if r.Method == CONNECT {
		r.Form, r.Path, r.Authority = Authority, r.Target, r.Target
		if host, port := authority(t); !host || !port {
			return errConnectForm
		}
		return nil
	}
	switch {
	case t[0] == '/':
		r.Form, r.Path = Origin, r.Target
		return nil
	case len(t) == 1 && t[0] == '*':
		r.Form, r.Path = Asterisk, r.Target
		if r.Method != OPTIONS {
			return errAsterisk
		}
		return nil
	}
	return r.absolute(t)
}

// absolute takes a target in absolute form apart. https is refused: such a request must come over a secured connection (RFC 9110 7.4).
func (r *Request) absolute(t []byte) *Error {
	const n = len(httpScheme)
	if len(t) < n || !head.EqualFold(t[:n], httpScheme) {
		for i, c := range t {
			if c == ':' && i > 0 && len(t) > i+2 && t[i+1] == '/' && t[i+2] == '/' {
				return errScheme
			}
			if class[c]&isToken == 0 {
				break
			}
		}
		return errTargetForm
	}
	end := n
	for end < len(t) && t[end] != '/' && t[end] != '?' {
		end++
	}
	// An empty host is invalid in an http URI, and user information is refused (RFC 9110 4.2.1, 4.2.4).
	if host, _ := authority(t[n:end]); !host {
		return errTargetForm
	}
	at := int(r.Target.Off)
	r.Form = Absolute
	r.Authority = span(at+n, at+end)
	r.Path = span(at+end, at+len(t))
	return nil
}

// destination checks Host, and against the target (RFC 9112 3.2, 3.2.2).
func (r *Request) destination(f *facts) *Error {
	switch {
	case f.hosts > 1:
		return errHostTwice
	case f.hosts == 0 && r.Minor == 1:
		return errHostMissing
	case f.hosts == 0:
		return nil
	}
	host := r.Bytes(f.host)
	if ok, _ := authority(host); !ok && len(host) > 0 {
		return errHostForm
	}
	switch r.Form {
	case Absolute:
		if !head.EqualFoldBytes(host, r.Bytes(r.Authority)) {
			return errHostMismatch
		}
	case Origin, Asterisk:
		r.Authority = f.host
	}
	return nil
}

// authority tells whether b is uri-host [ ":" port ] with a host that is not empty, and whether the port is there (RFC 3986 3.2.2).
func authority(b []byte) (host, port bool) {
	i := 0
	if len(b) > 0 && b[0] == '[' {
		for i = 1; i < len(b) && (class[b[i]]&isHost != 0 || b[i] == ':'); i++ {
		}
		if i < 3 || i == len(b) || b[i] != ']' {
			return false, false
		}
		i++
	} else {
		for i < len(b) && b[i] != ':' {
			switch {
			case class[b[i]]&isHost != 0:
				i++
			case b[i] == '%' && i+2 < len(b) && class[b[i+1]]&isHex != 0 && class[b[i+2]]&isHex != 0:
				i += 3
			default:
				return false, false
			}
		}
		if i == 0 {
			return false, false
		}
	}
	if i == len(b) {
		return true, false
	}
	digits := b[i+1:]
	if b[i] != ':' || len(digits) > len("65535") || !all(digits, isDigit) {
		return false, false
	}
	return true, len(digits) > 0
}
