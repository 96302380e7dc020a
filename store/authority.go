package store

import (
	"fmt"
	"maps"
	"slices"

	"pistate/schema"
)

// Op is the stable name of an operation, as in "lease.claim". It is the same in Go, on every wire and in
// events, and never changes.
type Op string

// Ownership says whose lease an actor must hold.
type Ownership string

// The kinds of ownership.
const (
	OwnNothing    Ownership = ""           // the operation is open to the actor
	OwnSubject    Ownership = "subject"    // of the resource that the command is about
	OwnRun        Ownership = "run"        // of the run that the resource belongs to
	OwnController Ownership = "controller" // of the controller resource that it belongs to
	OwnChannel    Ownership = "channel"    // of the channel that it belongs to
	OwnScope      Ownership = "scope"      // of the run, controller resource or channel whose effect it is
	OwnEffect     Ownership = "effect"     // of the effect that the operation applies
)

// Right is one cell of the table of who may do what.
type Right struct {
	Own Ownership
	On  []ResourceType // the types of resources that the right is for; nil: all
}

// Operation is one row of the table: what an operation needs of those who ask for it.
type Operation struct {
	Op   Op
	Does string // one line for people

	// AnyRevision: a permit need not name a revision, because the operation's own facts decide.
	AnyRevision bool
	// Eventless: no aggregate changes. The operation registers immutable content, which is its own record,
	// or moves a heartbeat: an event for each would grow the database for ever and make every other actor's
	// expected revision stale.
	Eventless bool
	// Expired: the claim may have expired, as long as nobody took the lease over.
	Expired bool

	Rights map[ActorClass]Right // a class without a cell may not do it
}

// operationTable is the one table of who may do what. Each domain's rows are beside its commands.
var operationTable = slices.Concat(
	projectOperations,
	definitionOperations,
	runOperations,
	queueOperations,
	settleOperations,
	attemptOperations,
	updateOperations,
	leaseOperations,
	captureOperations,
	effectOperations,
	decisionOperations,
	continuationOperations,
	controllerOperations,
	deliveryOperations,
	channelOperations,
)

var operations = func() map[Op]Operation {
	rows := map[Op]Operation{}
	for _, row := range operationTable {
		rows[row.Op] = row
	}
	return rows
}()

// Operations returns the table of who may do what, by domain.
func Operations() []Operation { return slices.Clone(operationTable) }

// rights gives several classes the same cell.
func rights(r Right, classes ...ActorClass) map[ActorClass]Right {
	cells := map[ActorClass]Right{}
	for _, class := range classes {
		cells[class] = r
	}
	return cells
}

func merge(cells ...map[ActorClass]Right) map[ActorClass]Right {
	all := map[ActorClass]Right{}
	for _, c := range cells {
		maps.Copy(all, c)
	}
	return all
}

// authorize returns the ownership that the actor needs for an operation on a resource.
func authorize(op Op, actor Actor, subject ResourceID) (Operation, Ownership, error) {
	row, ok := operations[op]
	if !ok {
		return row, "", schema.Errorf(schema.Denied, "%s is not in the table of operations", op)
	}
	cell, ok := row.Rights[actor.Class]
	if !ok {
		return row, "", refuse(schema.Denied, &DeniedError{op, actor.Class, "the operation is not for this class of actors"})
	}
	if cell.On != nil && !slices.Contains(cell.On, subject.Type()) {
		return row, "", refuse(schema.Denied, &DeniedError{op, actor.Class, fmt.Sprintf("not on a resource of type %s", subject.Type())})
	}
	return row, cell.Own, nil
}
