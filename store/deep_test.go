package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pistate/internal/sqlite"
)

// populated makes a database with a little of everything that the shared records hold.
func populated(t *testing.T) string {
	t.Helper()
	s, c := newStore(t)
	ids := newEffects(t, s, spec("a", true), spec("b", true), spec("c", false))
	mustDo(t, s, as(host1, mustBegin(t, s, ids[0]).Claim), SettleEffect{Effect: ids[0], Outcome: OutcomeApplied})
	mustBegin(t, s, ids[2])
	c.move(time.Hour)
	mustDo(t, s, Permit{Actor: host2, Expected: 2}, RecoverEffect{Effect: ids[2]})
	mustBegin(t, s, ids[2])
	mustCreate(t, s, "c2")
	mustDo(t, s, Permit{Actor: session1, Expected: 1}, touch{Channel: "c2"})
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, s, Permit{Actor: host1}, RegisterProject{root})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.Path()
}

// faults are what nobody but a faulty disk, or somebody with raw SQL, does to a database, each with the
// check that must find it.
var faults = []struct {
	name, check, says string
	statements        []string
}{
	{"missing event", "revisions", "channel:c2 has revision 2, but 1 events", []string{"DELETE FROM events WHERE resource_id = 'channel:c2' AND revision = 1"}},
	{"missing last event", "revisions", "channel:c2 has revision 2, but 1 events", []string{"DELETE FROM events WHERE resource_id = 'channel:c2' AND revision = 2"}},
	{"skipped revision", "revisions", "of revisions 1 to 3", []string{
		"UPDATE events SET revision = 3 WHERE resource_id = 'channel:c2' AND revision = 2",
		"UPDATE resources SET revision = 3 WHERE resource_id = 'channel:c2'"}},
	{"repeated revision", "revisions", "channel:c2 has revision 1, but 2 events", []string{"UPDATE resources SET revision = 1 WHERE resource_id = 'channel:c2'"}},
	{"revision without event", "revisions", "channel:c9 has revision 0", []string{
		"INSERT INTO resources VALUES ('channel:c9', 'channel', 'c9', 0, 1, 1, NULL)",
		"INSERT INTO channels VALUES ('c9', 't', 'p', 1, 1)"}},
	{"gap in the events", "sequences", "events: sequence 100 comes after", []string{"UPDATE events SET sequence = 100 WHERE sequence = (SELECT max(sequence) FROM events)"}},
	{"gap in the effects", "sequences", "effects: sequence 9 comes after 2", []string{"UPDATE effects SET sequence = 9 WHERE sequence = 3"}},
	{"gap in the attempts", "sequences", "effect_attempts of eff_", []string{"UPDATE effect_attempts SET attempt_number = 7 WHERE attempt_number = 2"}},
	{"first attempt missing", "effects", "counts 2 attempts, and has 1", []string{"DELETE FROM effect_attempts WHERE attempt_number = 1 AND effect_id = (SELECT effect_id FROM effects WHERE sequence = 3)"}},
	{"content changed", "blobs", "holds bytes with the digest", []string{"UPDATE blobs SET bytes = x'7b7d', length = 2 WHERE rowid = 1"}},
	{"content cut", "blobs", "holds bytes with the digest", []string{"UPDATE blobs SET bytes = substr(bytes, 1, 3) WHERE rowid = 1"}},
	{"digest changed", "blobs", "holds bytes with the digest", []string{"UPDATE blobs SET digest = zeroblob(32) WHERE rowid = 1"}},
	{"length changed", "blobs", "bytes, not 1", []string{"UPDATE blobs SET length = 1 WHERE rowid = 1"}},
	{"media type changed", "blobs", "image/png", []string{"UPDATE blobs SET media_type = 'image/png' WHERE rowid = 1"}},
	{"half an owner", "leases", "5 of the 6 owner fields", []string{"UPDATE leases SET owner_id = NULL WHERE resource_id = 'channel:c1'"}},
	{"token left behind", "leases", "1 of the 6 owner fields", []string{"UPDATE leases SET owner_type = NULL, owner_id = NULL, acquired_at = NULL, heartbeat_at = NULL, expires_at = NULL WHERE resource_id = 'channel:c1'"}},
	{"owner without generation", "leases", "without a generation", []string{"UPDATE leases SET generation = 0 WHERE resource_id = 'channel:c1'"}},
	{"lease ends before it begins", "leases", "times are not in order", []string{"UPDATE leases SET expires_at = 1 WHERE resource_id = 'channel:c1'"}},
	{"ended and owned", "leases", "has ended, and is still owned", []string{"UPDATE resources SET ended_at = 1 WHERE resource_id = 'channel:c1'"}},
	{"effect from nowhere", "effects", "follows from revision 99 of channel:c1", []string{"UPDATE effects SET source_revision = 99 WHERE sequence = 1"}},
	{"effect from nobody", "effects", "of channel:zz, which has no event", []string{"UPDATE effects SET source_resource_id = 'channel:zz' WHERE sequence = 1"}},
	{"attempt left open", "effects", "is pending, with an open attempt", []string{"UPDATE effects SET status = 'pending', available_at = 1 WHERE status = 'applying'"}},
	{"applied by nobody", "effects", "is applying, with an open attempt and no owner", []string{"UPDATE leases SET owner_type = NULL, owner_id = NULL, token_digest = NULL, acquired_at = NULL, heartbeat_at = NULL, expires_at = NULL WHERE resource_id LIKE 'effect:%'"}},
	{"applied by an old owner", "effects", "of another generation", []string{"UPDATE leases SET generation = 9 WHERE resource_id LIKE 'effect:%'"}},
	{"wrong effect id", "ids", "make the id eff_", []string{"UPDATE effects SET idempotency_key = 'z' WHERE sequence = 2"}},
	{"wrong project id", "ids", "its path makes the id prj_", []string{"UPDATE projects SET path = '/elsewhere'"}},
	{"resource without a row", "aggregates", "resource channel:c2 has no row in channels", []string{"DELETE FROM channels WHERE channel_id = 'c2'"}},
	{"row that has not ended", "aggregates", "effect:eff_", []string{"UPDATE effects SET settled_at = NULL, status = 'pending', available_at = 1 WHERE status = 'applied'"}},
	{"dangling foreign key", sqlite.CheckForeignKeys, "leases", []string{"UPDATE leases SET resource_id = 'channel:zz' WHERE resource_id = 'channel:c1'"}},
	{"dangling payload", sqlite.CheckForeignKeys, "events", []string{"DELETE FROM blobs WHERE rowid = 2"}},
}

func TestDeepFindsEachFault(t *testing.T) { // M1
	source := populated(t)
	mustPassDeep(t, source)
	bytes, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	for i, fault := range faults {
		if raceDetector && i%10 != 0 {
			continue
		}
		t.Run(fault.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.sqlite")
			if err := os.WriteFile(path, bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			plant(t, path, fault.statements...)
			report, err := Check(t.Context(), path, CheckOptions{Deep: true})
			if err != nil {
				t.Fatal(err)
			}
			if report.OK() {
				t.Error("the report is ok")
			}
			i := slices.IndexFunc(report.Outcomes, func(o sqlite.Outcome) bool { return o.Name == fault.check })
			if found := report.Outcomes[i]; found.Status != sqlite.Failed || !strings.Contains(strings.Join(found.Findings, "\n"), fault.says) {
				t.Errorf("%+v, want %q", found, fault.says)
			}
			for _, o := range report.Outcomes {
				if o.Status == sqlite.Unknown {
					t.Errorf("%+v", o)
				}
				if text := fmt.Sprint(o.Findings); strings.Contains(text, "h1") || strings.Contains(text, "h2") {
					t.Errorf("a finding says who an actor is: %s", text)
				}
			}
		})
	}
}

// Every numbered table is in the list of sequences, and every check has a name of its own.
func TestDeepIsComplete(t *testing.T) { // M1
	path := newPath(t)
	numbered := sqlite3CLI(t, path, `
		SELECT s.name || '.' || c.name
		  FROM sqlite_schema AS s, pragma_table_info(s.name) AS c
		 WHERE s.type = 'table' AND c.name IN ('sequence', 'ordinal', 'attempt_number')`)
	for _, column := range strings.Fields(numbered) {
		if !slices.ContainsFunc(sequences, func(s struct{ table, number, of string }) bool { return s.table+"."+s.number == column }) {
			t.Errorf("nothing checks that %s has no gap", column)
		}
	}
	names := map[string]bool{}
	for _, check := range deepChecks() {
		if names[check.Name] {
			t.Errorf("two checks are called %s", check.Name)
		}
		names[check.Name] = true
	}
}
