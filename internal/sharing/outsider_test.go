//go:build unix

package sharing

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// outsider is the sqlite3 program, which knows nothing of this one's rules beyond the two tables of the session
// database. It counts there, and makes checkpoints of both databases.
type outsider struct {
	dir         string
	counted     int
	checkpoints int
	killed      int
}

const countOutside = `INSERT INTO state (plugin_id, session_id, branch_id, value) VALUES ('counter', 'shared', '', '1')
	ON CONFLICT DO UPDATE SET value = value + 1 RETURNING 'counted';`

// run drives one process of the program after the other.
func (o *outsider) run(deadline time.Time) error {
	for time.Now().Before(deadline) {
		if err := o.live(deadline); err != nil {
			return err
		}
	}
	return nil
}

func (o *outsider) live(deadline time.Time) error {
	p, err := start(exec.Command("sqlite3", "-batch", sessionsPath(o.dir)))
	if err != nil {
		return err
	}
	lines := bufio.NewReader(p.stdout)
	ask := func(sql, answer string) (bool, error) {
		if _, err := io.WriteString(p.stdin, sql+"\nSELECT 'over';\n"); err != nil {
			return false, p.kill(err)
		}
		good := false
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return false, p.kill(err)
			}
			switch line = strings.TrimSpace(line); {
			case line == "over":
				return good, nil
			case strings.HasPrefix(line, answer):
				good = true
			}
		}
	}
	if _, err := ask(".timeout 5000\nATTACH '"+workflowPath(o.dir)+"' AS workflow;", ""); err != nil {
		return err
	}
	for end := time.Now().Add(time.Duration(200+rand.IntN(600)) * time.Millisecond); time.Now().Before(end) && time.Now().Before(deadline); {
		switch ok, err := ask(countOutside, "counted"); {
		case err != nil:
			return err
		case ok:
			o.counted++
		}
		if rand.IntN(10) > 0 {
			continue
		}
		mode := []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}[rand.IntN(4)]
		database := []string{"main", "workflow"}[rand.IntN(2)]
		switch ok, err := ask("PRAGMA "+database+".wal_checkpoint("+mode+");", "0|"); {
		case err != nil:
			return err
		case ok:
			o.checkpoints++
		}
	}
	if time.Now().Before(deadline) && rand.IntN(2) == 0 {
		// In the middle of a statement, whose outcome is then not known.
		_, _ = io.WriteString(p.stdin, countOutside+"\n")
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		o.killed++
		return nil
	}
	_ = p.stdin.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, p.stderr.String())
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !strings.Contains(line, "database is locked") {
			return fmt.Errorf("it says %s", strconv.Quote(line))
		}
	}
	return nil
}
