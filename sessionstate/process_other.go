//go:build !unix

package sessionstate

import "os"

// processLives can't tell here; the age of the lock row decides.
func processLives(int) Liveness { return Unknown }

// mayWrite can't tell here; opening the database will.
func mayWrite(path string) error {
	_, err := os.Stat(path)
	return err
}
