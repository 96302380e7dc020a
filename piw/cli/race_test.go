//go:build race

package cli

// raceDetector: SQLite, which is Go code here, runs some fifteen times slower. Tests do less of the same.
const raceDetector = true
