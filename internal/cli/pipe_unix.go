//go:build unix

package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// closedPipe reports whether nobody will ever read what is written. Of a file or a terminal that can't be said.
func closedPipe(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(file.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
}
