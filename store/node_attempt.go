package store

import (
	"context"
	"strconv"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// AttemptStatus is where an attempt of a node is.
type AttemptStatus string

// The statuses of an attempt. The last four are final.
const (
	AttemptPending   AttemptStatus = "pending" // made ready, not started
	AttemptRunning   AttemptStatus = "running"
	AttemptWaiting   AttemptStatus = "waiting" // for something outside, as a decision
	AttemptCompleted AttemptStatus = "completed"
	AttemptFailed    AttemptStatus = "failed"
	AttemptTimedOut  AttemptStatus = "timed_out"
	AttemptCancelled AttemptStatus = "cancelled"
)

// NodeAttempt is one try of a node of a run (D3). A run has at most one that has not ended. Its content is
// named by digest.
type NodeAttempt struct {
	ID       string         `json:"id"` // derived from run, node and number
	Run      string         `json:"run"`
	Ordinal  int            `json:"ordinal"` // its place among the attempts of the run, from 1
	Node     string         `json:"node"`
	Number   int            `json:"number"` // its place among the attempts of the node, from 1
	Type     string         `json:"type"`   // of the node
	Expected ExpectedOutput `json:"expected_output,omitempty"`
	Status   AttemptStatus  `json:"status"`

	Input    *Digest `json:"input,omitempty"`
	Contract *Digest `json:"contract,omitempty"`
	Prompt   *Digest `json:"prompt,omitempty"`
	Output   *Digest `json:"output,omitempty"` // of an assistant message, its exact text
	Result   *Digest `json:"result,omitempty"` // of an assistant message, its [Receipt]
	Error    *Digest `json:"error,omitempty"`

	CreatedAt  Millis `json:"created_at"`
	UpdatedAt  Millis `json:"updated_at"`
	StartedAt  Millis `json:"started_at,omitempty"`
	DeadlineAt Millis `json:"deadline_at,omitempty"`
	// InterruptedAt: its owner was lost then. 0 again once it was resumed.
	InterruptedAt Millis `json:"interrupted_at,omitempty"`
	EndedAt       Millis `json:"ended_at,omitempty"`
}

// state returns what the table of transitions calls the attempt's state. A nil attempt is none.
func (a *NodeAttempt) state() State {
	switch {
	case a == nil:
		return StateNone
	case a.InterruptedAt != 0 && a.EndedAt == 0:
		return StateInterrupted
	}
	return State(a.Status)
}

// attemptID returns the id that run, node and number determine.
func attemptID(run, node string, number int) string {
	return derivedID("att", run, node, strconv.Itoa(number))
}

const attemptColumns = `a.attempt_id, a.run_id, a.ordinal, a.node_id, a.attempt_number, a.node_type, a.expected_output,
		       a.status, a.input_blob, a.contract_blob, a.prompt_blob, a.output_blob, a.result_blob, a.error_blob,
		       a.created_at, a.updated_at, a.started_at, a.deadline_at, a.interrupted_at, a.ended_at`

const (
	selNodeAttempt = `
		SELECT ` + attemptColumns + `
		  FROM node_attempts AS a
		 WHERE a.attempt_id = ?1`

	// The condition is that of the index node_attempts_one_active.
	selActiveAttempt = `
		SELECT ` + attemptColumns + `
		  FROM node_attempts AS a
		 WHERE a.run_id = ?1
		   AND a.status IN ('pending', 'running', 'waiting')`

	selAttemptOrdinal = `
		SELECT ` + attemptColumns + `
		  FROM node_attempts AS a
		 WHERE a.run_id  = ?1
		   AND a.ordinal = ?2`

	selLastOrdinal = `
		SELECT ifnull(max(ordinal), 0)
		  FROM node_attempts
		 WHERE run_id = ?1`

	selLastNumber = `
		SELECT ifnull(max(attempt_number), 0)
		  FROM node_attempts
		 WHERE run_id  = ?1
		   AND node_id = ?2`

	// How many attempts had begun by a revision of their run.
	selBegunUntil = `
		SELECT count(*)
		  FROM events
		 WHERE resource_id = 'run:' || ?1
		   AND revision   <= ?2
		   AND event_type IN ('attempt.began', 'attempt.prepared', 'attempt.restarted')`

	insNodeAttempt = `
		INSERT INTO node_attempts (attempt_id, run_id, ordinal, node_id, attempt_number, node_type, expected_output,
		                           status, input_blob, contract_blob, prompt_blob, created_at, updated_at,
		                           started_at, deadline_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14)`

	updNodeAttempt = `
		UPDATE node_attempts
		   SET status         = ?3,
		       output_blob    = ?4,
		       result_blob    = ?5,
		       error_blob     = ?6,
		       updated_at     = ?7,
		       started_at     = ?8,
		       deadline_at    = ?9,
		       interrupted_at = ?10,
		       ended_at       = ?11
		 WHERE attempt_id = ?1
		   AND status     = ?2`
)

func scanAttempt(r sqlite.Row) NodeAttempt {
	return NodeAttempt{
		ID:            r.Text(0),
		Run:           r.Text(1),
		Ordinal:       r.Int(2),
		Node:          r.Text(3),
		Number:        r.Int(4),
		Type:          r.Text(5),
		Expected:      ExpectedOutput(r.Text(6)),
		Status:        AttemptStatus(r.Text(7)),
		Input:         digestOf(r.Bytes(8)),
		Contract:      digestOf(r.Bytes(9)),
		Prompt:        digestOf(r.Bytes(10)),
		Output:        digestOf(r.Bytes(11)),
		Result:        digestOf(r.Bytes(12)),
		Error:         digestOf(r.Bytes(13)),
		CreatedAt:     Millis(r.Int64(14)),
		UpdatedAt:     Millis(r.Int64(15)),
		StartedAt:     Millis(r.Int64(16)),
		DeadlineAt:    Millis(r.Int64(17)),
		InterruptedAt: Millis(r.Int64(18)),
		EndedAt:       Millis(r.Int64(19)),
	}
}

// oneAttempt returns the attempt that a query finds, or nil.
func oneAttempt(rx *sqlite.Rx, sql string, key ...any) (a *NodeAttempt, err error) {
	_, err = rx.QueryRow(sql, func(r sqlite.Row) error {
		found := scanAttempt(r)
		a = &found
		return nil
	}, key...)
	return a, err
}

func oneNumber(rx *sqlite.Rx, sql string, key ...any) (n int, err error) {
	_, err = rx.QueryRow(sql, func(r sqlite.Row) error {
		n = r.Int(0)
		return nil
	}, key...)
	return n, err
}

// begunBy returns the attempt that an event began.
func begunBy(rx *sqlite.Rx, run string, e Event) (*NodeAttempt, error) {
	ordinal, err := oneNumber(rx, selBegunUntil, run, e.Revision)
	if err != nil {
		return nil, err
	}
	return oneAttempt(rx, selAttemptOrdinal, run, ordinal)
}

// number gives a new attempt its place.
func (a *NodeAttempt) number(rx *sqlite.Rx) error {
	ordinal, err := oneNumber(rx, selLastOrdinal, a.Run)
	if err != nil {
		return err
	}
	number, err := oneNumber(rx, selLastNumber, a.Run, a.Node)
	if err != nil {
		return err
	}
	a.Ordinal, a.Number = ordinal+1, number+1
	a.ID = attemptID(a.Run, a.Node, a.Number)
	return nil
}

func insertAttempt(tx *sqlite.Tx, a NodeAttempt) error {
	_, err := tx.Exec(insNodeAttempt, a.ID, a.Run, a.Ordinal, a.Node, a.Number, a.Type, orNull(string(a.Expected)),
		string(a.Status), a.Input.bytes(), a.Contract.bytes(), a.Prompt.bytes(), int64(a.CreatedAt),
		orNull(int64(a.StartedAt)), orNull(int64(a.DeadlineAt)))
	return err
}

// saveAttempt stores what has changed of an attempt that had a status.
func saveAttempt(tx *sqlite.Tx, a NodeAttempt, from AttemptStatus) error {
	n, err := tx.Exec(updNodeAttempt, a.ID, string(from), string(a.Status), a.Output.bytes(), a.Result.bytes(), a.Error.bytes(),
		int64(a.UpdatedAt), orNull(int64(a.StartedAt)), orNull(int64(a.DeadlineAt)), orNull(int64(a.InterruptedAt)),
		orNull(int64(a.EndedAt)))
	if err == nil && n != 1 {
		err = schema.Errorf(schema.Storage, "attempt %s: %d rows were %s", a.ID, n, from)
	}
	return err
}

// NodeAttempt returns an attempt by its id. Errors: [schema.NotFound].
func (q *Queries) NodeAttempt(ctx context.Context, id string) (a NodeAttempt, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found, err := oneAttempt(rx, selNodeAttempt, id)
		if err != nil {
			return err
		}
		if found == nil {
			return notFound("attempt", id)
		}
		a = *found
		return nil
	})
	return a, err
}
