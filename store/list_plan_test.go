package store

import (
	"strings"
	"testing"
)

// What people look at is found through an index, whatever there is beside it.
func TestListsUseIndexes(t *testing.T) { // V2
	db := rawOpen(t, newPath(t))
	for name, sql := range map[string]string{
		"selEvents": selEvents, "selEventsOfResource": selEventsOfResource, "selEventsOfRun": selEventsOfRun,
		"selEventsOfType": selEventsOfType, "selTypedEventsOfResource": selTypedEventsOfResource, "selTypedEventsOfRun": selTypedEventsOfRun,
		"selLastEvents": selLastEvents, "selLastEventsOfType": selLastEventsOfType, "selLastEventsOfResource": selLastEventsOfResource,
		"selLastEventsOfRun": selLastEventsOfRun, "selSequenceAt": selSequenceAt, "selLastSequence": selLastSequence,
		"selLeases": selLeases, "selLeasesOfOwner": selLeasesOfOwner, "selDecisions": selDecisions, "selFirstQuestion": selFirstQuestion,
		"countQuestions": countQuestions, "countDue": countDue, "countAmbiguous": countAmbiguous, "selEffectAt": selEffectAt,
		"selUnsettledEffects": selUnsettledEffects, "selEffectsOfRun": selEffectsOfRun, "selDigests": selDigests,
	} {
		plan := queryPlan(t, db, name, sql)
		for line := range strings.Lines(plan) {
			line = strings.TrimSpace(line)
			// A list that begins at an end of the table goes along its key, and stops at the limit.
			along := name == "selLastEvents" && line == "SCAN events"
			// Those that follow from one run are few, and sorted among those that belong to it.
			sorts := name == "selEffectsOfRun"
			scan := strings.HasPrefix(line, "SCAN") && line != "SCAN CONSTANT ROW" && !along
			if scan || strings.Contains(line, "TEMP B-TREE") && !sorts {
				t.Errorf("%s:\n%s", name, plan)
				break
			}
		}
	}
}
