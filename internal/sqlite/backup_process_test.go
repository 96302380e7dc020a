package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pistate/schema"
)

// process is a helper that makes a backup and stops in the middle.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startBackup(t *testing.T, path, target string) process {
	t.Helper()
	cmd := helper(t, "backup", path, target, "stop")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	p := process{cmd, in, bufio.NewScanner(out)}
	if !p.out.Scan() || p.out.Text() != "half" {
		t.Fatalf("the helper said %q", p.out.Text())
	}
	return p
}

// helpBackup makes a backup and prints the code and text of its error. SIGINT cancels it. With a third
// argument it stops in the middle, until it can read a byte or is interrupted.
func helpBackup(args []string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer cancel()
	stopped := len(args) < 3
	_, err := Backup(ctx, args[0], args[1], verifyTest, func(done, total int) {
		if stopped || done < total/4 {
			return
		}
		stopped = true
		fmt.Println("half")
		read := make(chan bool)
		go func() { os.Stdin.Read(make([]byte, 1)); close(read) }()
		select {
		case <-read:
		case <-ctx.Done():
		}
	})
	fmt.Println(schema.CodeOf(err), err)
	return nil
}

func temps(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"+tempSuffix))
	must(t, err)
	return len(found)
}

// M2: a backup that gets SIGINT removes its temporary file; after SIGKILL the next backup to the same
// target does, and leaves alone what another one has in work.
func TestKilledBackup(t *testing.T) {
	dir := tempDir(t)
	path, target := filepath.Join(dir, "x.db"), filepath.Join(dir, "target")
	db := large(t, path)

	p := startBackup(t, path, target)
	if temps(t, dir) != 1 {
		t.Error("there is no temporary file")
	}
	must(t, p.Process.Signal(syscall.SIGINT))
	p.out.Scan()
	if must(t, p.Wait()); !strings.HasPrefix(p.out.Text(), "canceled ") {
		t.Errorf("it said %q", p.out.Text())
	}
	if temps(t, dir) != 0 {
		t.Error("the temporary file is left")
	}

	killed, working, other := startBackup(t, path, target), startBackup(t, path, target), startBackup(t, path, target+"2")
	must(t, killed.Process.Kill())
	_ = killed.Wait()
	others := []string{"target.backup-notes.tmp", "target.backup-12.tmp", "target.backup-12-x.tmp", "target.backup--1.tmp",
		"target.backup-12-34.txt", "target2.backup-12-34.tmp", "starget.backup-12-34.tmp"}
	for _, name := range others {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "target.backup-12-34.tmp"), nil, 0o600))
	must(t, os.Symlink("x.db", filepath.Join(dir, "target.backup-56-78.tmp")))
	count := temps(t, dir)
	if _, err := os.Lstat(target); err == nil || count != 3+6+2 {
		t.Errorf("%v, %d temporary files", err, count)
	}
	must(t, insert(t.Context(), db, "new"))
	_, err := Backup(t.Context(), path, target, verifyTest, nil)
	must(t, err)
	if now := temps(t, dir); now != count-2 {
		t.Errorf("%d temporary files of %d, want all but the two that nobody has in work", now, count)
	}
	if dump(t, target) != dump(t, path) {
		t.Error("the backup differs")
	}
	for _, name := range append(others, "target.backup-56-78.tmp") {
		must(t, os.Remove(filepath.Join(dir, name)))
	}
	for p, want := range map[process]string{working: "conflict ", other: " <nil>"} {
		must(t, p.in.Close())
		p.out.Scan()
		if must(t, p.Wait()); !strings.HasPrefix(p.out.Text(), want) {
			t.Errorf("it said %q, want %q", p.out.Text(), want)
		}
	}
	if temps(t, dir) != 0 {
		t.Error("a temporary file is left")
	}
	wantSelfContained(t, target+"2")
}

// C63: backups while other processes write and checkpoint all the while. Each is a consistent prefix.
func TestBackupUnderWriters(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "x.db")
	db := openTest(t, path)
	const accounts, each = 5, 1000
	must(t, db.Write(t.Context(), func(tx *Tx) error {
		if _, err := tx.Exec("INSERT INTO item (id, name) VALUES (1, 'bank')"); err != nil {
			return err
		}
		for i := range accounts {
			if _, err := tx.Exec("INSERT INTO part (id, item, size) VALUES (?1, 1, ?2)", i+1, each); err != nil {
				return err
			}
		}
		return nil
	}, nil))
	var writers []process
	for w := range 3 {
		cmd := helper(t, "transfer", path, fmt.Sprint(w))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		writers = append(writers, process{cmd, in, bufio.NewScanner(out)})
	}
	for _, w := range writers {
		w.out.Scan() // its first transfer
	}
	last := int64(0)
	for i := range 12 {
		target := filepath.Join(dir, fmt.Sprint("backup", i))
		_, err := Backup(t.Context(), path, target, verifyTest, nil)
		must(t, err)
		wantSelfContained(t, target)
		r, err := OpenReader(t.Context(), target, verifyTest)
		must(t, err)
		must(t, r.Read(t.Context(), func(rx *Rx) error {
			return rx.Query(`
				SELECT (SELECT sum(size) FROM part WHERE item = 1),
				       (SELECT count(*) FROM item),
				       (SELECT count(*) FROM part WHERE item <> 1),
				       (SELECT count(*) FROM (
				          SELECT 1 FROM item WHERE id > 1
				           GROUP BY substr(name, 1, 2)
				          HAVING max(CAST(substr(name, 3) AS INTEGER)) <> count(*) - 1))`,
				func(r Row) error {
					events := r.Int64(1) - 1
					if r.Int64(0) != accounts*each || r.Int64(2) != events || r.Int64(3) != 0 || events < last {
						t.Errorf("backup %d: sum %d, %d events (%d before) with %d parts, %d writers with gaps",
							i, r.Int64(0), events, last, r.Int64(2), r.Int64(3))
					}
					last = events
					return nil
				})
		}))
		must(t, r.Close())
	}
	for _, w := range writers {
		must(t, w.in.Close())
	}
	for _, w := range writers {
		for w.out.Scan() {
		}
		must(t, w.Wait())
	}
	if last < 10 {
		t.Errorf("the writers made only %d transfers", last)
	}
}

// helpTransfer moves money, notes each move, and checkpoints in every mode, until its input ends.
func helpTransfer(args []string) error {
	ctx := context.Background()
	db, err := Open(ctx, args[0], testSchema)
	if err != nil {
		return err
	}
	end := make(chan bool)
	go func() { os.Stdin.Read(make([]byte, 1)); close(end) }()
	for i := 0; ; i++ {
		from, to := i%5+1, (i*3+1)%5+1
		err := db.Write(ctx, func(tx *Tx) error {
			name := fmt.Sprintf("%s/%d", args[1], i)
			_, err := tx.Exec("UPDATE part SET size = size - 1 WHERE id = ?1 AND size > 1", from)
			if err != nil || tx.c.changes() == 0 {
				return err
			}
			for _, sql := range []string{
				"UPDATE part SET size = size + 1 WHERE id = ?1 + 0 * length(?2)",
				"INSERT INTO item (id, name, data) SELECT max(id) + 1, ?2, zeroblob(3000 + 0 * ?1) FROM item",
				"INSERT INTO part (item, size) SELECT max(id), 1 + 0 * ?1 + 0 * length(?2) FROM item",
			} {
				if _, err := tx.Exec(sql, to, name); err != nil {
					return err
				}
			}
			return nil
		}, nil)
		if err != nil {
			return err
		}
		if i == 0 {
			fmt.Println("begun")
		}
		if i%10 == 0 {
			mode := []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"}[i/10%4]
			if err := db.writer.exec("PRAGMA wal_checkpoint(" + mode + ")"); err != nil && !transient(err) {
				return err
			}
		}
		select {
		case <-end:
			return db.Close()
		default:
		}
	}
}
