package store

import (
	"strings"
	"testing"
)

// Every query of the workflow domain finds its rows through an index, and none of the lists has to be sorted.
func TestWorkflowQueriesUseIndexes(t *testing.T) { // V2
	db := rawOpen(t, newPath(t))
	for name, sql := range map[string]string{
		"selDefinition": selDefinition, "selDefinitions": selDefinitions, "selNode": selNode, "selNodes": selNodes,
		"selRun": selRun, "selReservedFor": selReservedFor, "selControllerOf": selControllerOf, "updChildStarted": updChildStarted,
		"updRun": updRun, "updQueueRow": updQueueRow, "updNodeAttempt": updNodeAttempt,
		"selRuns": selRuns, "selRunsOfStatus": selRunsOfStatus, "selRunsOfProject": selRunsOfProject,
		"selRunsOfParent": selRunsOfParent, "selRunsOfSession": selRunsOfSession, "selOverdueRuns": selOverdueRuns,
		"selQueueRow": selQueueRow, "selReservation": selReservation, "selLost": selLost, "selDueRun": selDueRun,
		"selNextDue": selNextDue, "selQueue": selQueue, "selQueueOpen": selQueueOpen, "selQueueSettled": selQueueSettled,
		"selNodeAttempt": selNodeAttempt, "selActiveAttempt": selActiveAttempt, "selAttemptOrdinal": selAttemptOrdinal,
		"selLastOrdinal": selLastOrdinal, "selLastNumber": selLastNumber, "selBegunUntil": selBegunUntil,
		"selNodeAttempts": selNodeAttempts, "selAttemptsOfNode": selAttemptsOfNode, "selOverdueAttempts": selOverdueAttempts,
		"selUpdates": selUpdates, "selCurrentUpdates": selCurrentUpdates, "selLastUpdate": selLastUpdate,
		"selOutputs": selOutputs, "selUpdatesOfRun": selUpdatesOfRun, "selChildren": selChildren, "selBlobInfo": selBlobInfo,
	} {
		plan := queryPlan(t, db, name, sql)
		for line := range strings.Lines(plan) {
			line = strings.TrimSpace(line)
			scan := strings.HasPrefix(line, "SCAN") && !strings.Contains(line, "VIRTUAL TABLE") && line != "SCAN CONSTANT ROW"
			if scan || strings.Contains(line, "TEMP B-TREE") && name != "selLost" && name != "selNodes" {
				t.Errorf("%s:\n%s", name, plan)
				break
			}
		}
	}
}
