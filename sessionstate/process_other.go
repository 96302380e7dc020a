//go:build !unix && !wasip1

package sessionstate

import "os"

// processID returns the number of this process.
func processID() int { return os.Getpid() }

// processLives can't tell here; the age of the lock row decides.
func processLives(int) Liveness { return Unknown }

// mayWrite can't tell here; opening the database will.
func mayWrite(path string) error {
	_, err := os.Stat(path)
	return err
}
