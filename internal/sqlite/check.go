//go:build !wasip1

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"pistate/schema"
)

// Status is the outcome of a check. A check that could not run is unknown, never ok (M6).
type Status string

const (
	OK      Status = "ok"
	Failed  Status = "failed"
	Unknown Status = "unknown"
)

// Outcome is what one check found.
type Outcome struct {
	Name     string   `json:"name"`
	Status   Status   `json:"status"`
	Findings []string `json:"findings,omitempty"` // what is wrong; at most 100, each at most 500 bytes
	More     int      `json:"more,omitempty"`     // findings that are not listed
	Note     string   `json:"note,omitempty"`     // why it is unknown, or what was skipped
}

const (
	maxFindings = 100
	maxFinding  = 500 // bytes
)

// Report is the result of [Check]: one outcome per check, in a fixed order.
type Report struct {
	Path     string    `json:"path"`
	Outcomes []Outcome `json:"outcomes"`
}

// The names of the checks that every database gets, in their order.
const (
	CheckSchema      = "schema"       // identity and shape
	CheckIntegrity   = "integrity"    // SQLite's integrity check
	CheckForeignKeys = "foreign_keys" // every child row has its parent
)

// OK reports whether every check ran and found nothing.
func (r Report) OK() bool { return r.Err() == nil }

// Err returns nil if every check is ok; else an error that names the first that is not, with
// [schema.Corrupt] for what a check found, [schema.Incompatible] if only the schema differs, and
// [schema.Storage] if a check could not run.
func (r Report) Err() error {
	var worst *schema.Error
	for _, o := range r.Outcomes {
		switch {
		case o.Status == OK:
		case o.Status == Unknown && worst == nil:
			worst = schema.Errorf(schema.Storage, "%s: the check %q could not run: %s", r.Path, o.Name, o.Note)
		case o.Status == Failed && (worst == nil || worst.Code != schema.Corrupt):
			code := schema.Corrupt
			if o.Name == CheckSchema {
				code = schema.Incompatible
			}
			worst = schema.Errorf(code, "%s: the check %q failed: %s", r.Path, o.Name, o.Findings[0])
		}
	}
	if worst == nil {
		return nil
	}
	return worst
}

// CheckFunc is a check that a package adds: it reports what is wrong with a database, and returns an
// error if it can't tell.
type CheckFunc struct {
	Name string
	Run  func(rx *Rx, report func(format string, args ...any)) error
}

// CheckOptions are the settings of [Check].
type CheckOptions struct {
	Quick    bool                  // run SQLite's quick check: of indexes it only counts the entries, and it skips UNIQUE
	Extra    []CheckFunc           // further checks, in the order in which they are reported
	Progress func(done, total int) // called now and then, from one goroutine at a time; the unit is a piece of work
}

// Check runs all checks on the database at a resolved path (M1). It only reads, beside live writers too;
// each check sees a snapshot of its own, so that none of them holds up the WAL for longer than it takes.
//
// An error means that there is no report: [schema.NotFound], [schema.Invalid], [schema.Incompatible] for an
// empty file, [schema.Corrupt] for what is no database at all, [schema.Canceled], [schema.Busy],
// [schema.Storage]. What is wrong with a database that can be opened is in the report.
func Check(ctx context.Context, path string, o CheckOptions, verify func(*Rx) error) (Report, error) {
	return check(ctx, path, o, verify, false)
}

// check is Check; own tells that the file is nobody else's.
func check(ctx context.Context, path string, o CheckOptions, verify func(*Rx) error, own bool) (Report, error) {
	k := &checker{path: path, own: own, quick: o.Quick, progress: o.Progress}
	planner := k.newReader()
	err := planner.Read(ctx, func(rx *Rx) error { return k.plan(rx, o, verify) })
	if err != nil {
		return Report{}, join(err, planner.Close())
	}
	if err := k.runAll(ctx, planner, k.newReader()); err != nil {
		return Report{}, err
	}
	for i := range k.outcomes {
		slices.Sort(k.outcomes[i].Findings) // the parts of a check end in any order
	}
	return Report{Path: path, Outcomes: k.outcomes}, nil
}

// checker runs tasks on a few connections and gathers what they find.
type checker struct {
	path     string
	own      bool
	quick    bool
	progress func(done, total int)

	tasks []task // the longest first

	mu       sync.Mutex
	outcomes []Outcome
	next     int
	done     int
	total    int
}

// task is a check, or a part of one.
type task struct {
	outcome int // index of the check that it belongs to
	cost    int // what it will take, about: 1 per row and index
	run     func(rx *Rx, report func(string, ...any)) error
}

func (k *checker) newReader() *Reader {
	return &Reader{path: k.path, own: k.own, check: true, verify: func(*Rx) error { return nil }}
}

// plan makes the tasks. It may run again.
func (k *checker) plan(rx *Rx, o CheckOptions, verify func(*Rx) error) error {
	k.tasks, k.outcomes, k.total = nil, nil, 0
	tables, damage := readTables(rx)
	if damage != nil && !errors.Is(damage, schema.Corrupt) {
		return damage
	}
	rows, work := 1, 1
	for _, t := range tables {
		rows += t.rows
		work += t.rows * (1 + t.indexes)
	}

	check := k.add(CheckSchema, "")
	k.addTask(check, 1, func(rx *Rx, report func(string, ...any)) error {
		err := verify(rx)
		if errors.Is(err, schema.Incompatible) || errors.Is(err, schema.Corrupt) {
			report("%v", err)
			return nil
		}
		return err
	})

	if o.Quick {
		check = k.add(CheckIntegrity, "quick: of indexes only the number of entries was checked, and UNIQUE was not")
		k.addTask(check, rows, pragmaCheck("quick_check"))
	} else {
		check = k.add(CheckIntegrity, "")
		k.addIntegrity(check, rows, tables, damage)
	}

	check = k.add(CheckForeignKeys, "")
	if damage != nil {
		k.addTask(check, work, foreignKeyPragma("PRAGMA foreign_key_check"))
	}
	for _, t := range tables {
		if t.keys > 0 {
			k.addTask(check, t.rows*t.keys, checkForeignKeys(t.name))
		}
	}

	for _, extra := range o.Extra {
		k.addTask(k.add(extra.Name, ""), rows, extra.Run)
	}
	slices.SortStableFunc(k.tasks, func(a, b task) int { return b.cost - a.cost })
	return nil
}

// addIntegrity splits SQLite's integrity check, so that two connections can share it: a quick check of
// everything finds what is wrong with pages and rows, and a full check of each table finds what is wrong
// with its indexes. A full check of a table alone does not see pages that belong to nobody, or to two tables.
func (k *checker) addIntegrity(check, rows int, tables []table, damage error) {
	if damage != nil {
		k.addTask(check, rows, pragmaCheck("integrity_check"))
		return
	}
	k.addTask(check, rows, pragmaCheck("quick_check"))
	for _, t := range tables {
		if t.indexes > 0 {
			k.addTask(check, t.rows*(1+t.indexes), pragmaCheck("integrity_check("+quote(t.name)+")"))
		}
	}
}

func (k *checker) add(name, note string) int {
	k.outcomes = append(k.outcomes, Outcome{Name: name, Status: OK, Note: note})
	return len(k.outcomes) - 1
}

func (k *checker) addTask(outcome, cost int, run func(*Rx, func(string, ...any)) error) {
	k.tasks = append(k.tasks, task{outcome, cost + 1, run})
	k.total += cost + 1
}

// pragmaCheck runs one of SQLite's own checks, which answers with "ok" or with what it found.
func pragmaCheck(pragma string) func(*Rx, func(string, ...any)) error {
	return func(rx *Rx, report func(string, ...any)) error {
		answered := false
		err := rx.Query("PRAGMA "+pragma, func(r Row) error {
			answered = true
			for line := range strings.SplitSeq(r.Text(0), "\n") {
				if line != "ok" && line != "*** in database main ***" {
					report("%s", line)
				}
			}
			return nil
		})
		if err == nil && !answered {
			err = errors.New("SQLite gave no answer")
		}
		return err
	}
}

// runAll shares the tasks between readers, and closes them.
func (k *checker) runAll(ctx context.Context, readers ...*Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(readers))
	var wg sync.WaitGroup
	for i, r := range readers {
		wg.Go(func() {
			if errs[i] = join(k.work(ctx, r), r.Close()); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// work takes tasks until there are no more. An error ends the whole check.
func (k *checker) work(ctx context.Context, r *Reader) error {
	for {
		k.mu.Lock()
		if k.next == len(k.tasks) {
			k.mu.Unlock()
			return nil
		}
		t := k.tasks[k.next]
		k.next++
		k.mu.Unlock()
		if err := k.runTask(ctx, r, t); err != nil {
			return err
		}
	}
}

func (k *checker) runTask(ctx context.Context, r *Reader, t task) error {
	var found []string
	err := r.Read(ctx, func(rx *Rx) (err error) {
		found = nil // a read may run again
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return t.run(rx, func(format string, args ...any) {
			found = append(found, fmt.Sprintf(format, args...))
		})
	})
	if errors.Is(err, schema.Canceled) {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o := &k.outcomes[t.outcome]
	for _, f := range found {
		o.add(f)
	}
	switch {
	case errors.Is(err, schema.Corrupt):
		o.add(err.Error())
	case err != nil:
		o.Note = cut(err.Error())
		if o.Status == OK {
			o.Status = Unknown
		}
	}
	k.done += t.cost
	if k.progress != nil {
		k.progress(k.done, k.total)
	}
	return nil
}

// add takes a finding. Two parts of a check may find the same.
func (o *Outcome) add(finding string) {
	o.Status = Failed
	finding = cut(finding)
	switch {
	case slices.Contains(o.Findings, finding):
	case len(o.Findings) == maxFindings:
		o.More++
	default:
		o.Findings = append(o.Findings, finding)
	}
}

func cut(text string) string {
	if len(text) > maxFinding {
		text = text[:maxFinding-3] + "..."
	}
	return strings.ToValidUTF8(text, "?") // names come from the file
}
