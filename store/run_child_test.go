package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pistate/schema"
)

func TestChildOfParent(t *testing.T) { // D1
	f := newFlow(t)
	f.create(f.spec("parent"))
	o := f.own(host1, "parent").start()
	for i := range 3 {
		spec := f.spec(fmt.Sprint("child", i))
		spec.Parent = "parent"
		mustDo(t, f.Store, Permit{Actor: host1, Claim: o.claim}, CreateRun{RunSpec: spec})
		f.clock.move(time.Millisecond)
	}
	if doc := f.document("parent"); !reflect.DeepEqual(doc.Children, []string{"child0", "child1", "child2"}) {
		t.Errorf("%v", doc.Children)
	}
	spec := f.spec("late")
	spec.Parent = "parent"
	wantCode(t, f.tryCreate(host2, nil, spec), schema.Denied)
	must(o, CompleteRun{Run: "parent"})
	if err := f.tryCreate(host2, nil, spec); err != nil { // nobody owns what has ended
		t.Error(err)
	}
}

// plantController makes a controller resource that has reserved the id of a run.
func (f *flow) plantController(uid, run, input string) {
	f.Helper()
	digest := newContent(JSONMedia, []byte(input)).digest
	mustDo(f, f.Store, Permit{Actor: host1}, RegisterDefinition{agentOf(`"x"`)})
	plant(f, f.Path(),
		fmt.Sprintf("INSERT OR IGNORE INTO blobs VALUES (x'%s', 'application/json', %d, CAST('%s' AS BLOB), 0)", digest, len(input), input),
		fmt.Sprintf("INSERT INTO resources (resource_id, resource_type, aggregate_key, revision, created_at, updated_at) VALUES ('controller:%[1]s', 'controller', '%[1]s', 1, 0, 0)", uid),
		fmt.Sprintf("INSERT INTO events (event_id, resource_id, revision, event_type, actor_class, payload_blob, committed_at) VALUES ('planted-%[1]s', 'controller:%[1]s', 1, 'planted', 'system', x'%[2]s', 0)", uid, digest),
		fmt.Sprintf("INSERT INTO controller_resources (controller_uid, project_id, name, key, spec_blob, created_at, updated_at) VALUES ('%[1]s', '%[2]s', 'c', '%[1]s', x'%[3]s', 0, 0)", uid, f.project, digest),
		fmt.Sprintf("INSERT INTO controller_workflows (controller_uid, request_key, input_fingerprint, input_blob, run_id, created_at, updated_at) VALUES ('%s', 'k', x'%s', x'%s', '%s', 0, 0)", uid, digest, digest, run))
}

func TestControllersChild(t *testing.T) { // D1, D11
	f := newFlow(t)
	f.plantController("u1", "r1", `{"pr":1}`)
	controller := Actor{ControllerActor, "keeper"}
	claim := mustClaim(t, f.Store, controller, NewResourceID(ControllerResource, "u1"), time.Minute)
	create := func(actor Actor, claim *Claim, spec RunSpec, uid string) error {
		_, err := Do(t.Context(), f.Store, Permit{Actor: actor, Claim: claim}, CreateRun{spec, uid})
		return err
	}
	wantCode(t, create(host1, nil, f.spec("r1"), ""), schema.Conflict) // the id is reserved
	wantCode(t, create(host1, nil, f.spec("r1"), "u1"), schema.Denied)
	wantCode(t, create(controller, claim, f.spec("r1"), ""), schema.Denied)
	wantCode(t, create(controller, nil, f.spec("r1"), "u1"), schema.Denied)
	wantCode(t, create(controller, claim, f.spec("r1"), "u2"), schema.Denied)
	wantCode(t, create(controller, claim, f.spec("r2"), "u1"), schema.NotFound) // not reserved
	other := f.spec("r1")
	other.Input = json.RawMessage(`{"pr":2}`)
	wantCode(t, create(controller, claim, other, "u1"), schema.Conflict)
	if err := create(controller, claim, f.spec("r1"), "u1"); err != nil {
		t.Fatal(err)
	}
	if got := sqlite3CLI(t, f.Path(), "SELECT status FROM controller_workflows"); got != "running\n" {
		t.Errorf("the controller's workflow is %s", got)
	}
	_, err := f.QueueRow(t.Context(), "r1")
	wantCode(t, err, schema.NotFound) // R8: no phantom work in the queue

	stranger := Actor{ControllerActor, "stranger"}
	_, err = Do(t.Context(), f.Store, Permit{Actor: stranger, Expected: AnyRevision, Claim: claim}, RequestCancel{"r1"})
	wantCode(t, err, schema.Denied)
	run := mustDo(t, f.Store, Permit{Actor: controller, Expected: AnyRevision, Claim: claim}, RequestCancel{"r1"}).Result
	if run.Status != RunCancelled {
		t.Errorf("%+v", run)
	}
	if f.settle() != (EffectReport{}) { // R8
		t.Error("a run without a place in the queue left a settlement")
	}
}
