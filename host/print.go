package host

// printed collects what an instance prints, up to a number of bytes. It is the io.Writer of a stream.
type printed struct {
	limit int
	Printed
}

// Printed is what an extension printed on one stream during a call.
type Printed struct {
	Text    []byte // the first Limits.PrintBytes of it
	Dropped int64  // how many bytes came after them
}

// Write keeps what fits and never fails: an extension that prints too much is not stopped for that.
func (p *printed) Write(b []byte) (int, error) {
	kept := min(len(b), p.limit-len(p.Text))
	p.Text = append(p.Text, b[:kept]...)
	p.Dropped += int64(len(b) - kept)
	return len(b), nil
}
