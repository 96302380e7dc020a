package store

import (
	"context"
	"encoding/json"
)

var controllerEndpoints = []Endpoint{
	command[ApplyController](),
	command[RequestControllerDeletion](),
	command[AddFinalizer](),
	command[RemoveFinalizer](),
	command[SetControllerStatus](),
	command[RecordControllerEvent](),
	command[EnqueueController](),
	grants(command[ClaimController]()),
	command[SettleController](),
	command[RequeueController](),
	command[BackOffController](),
	command[ReserveWorkflow](),
	command[ObserveWorkflows](),
	command[AbandonWorkflow](),
	query("controller.get", "a controller resource",
		func(ctx context.Context, q *Queries, a controllerArgs) (ControllerView, error) {
			return q.Controller(ctx, a.Controller)
		}),
	query("controller.find", "the controller resource that has a name and key in a project now",
		func(ctx context.Context, q *Queries, a controllerKeyArgs) (ControllerView, error) {
			return q.LiveController(ctx, a.Project, a.Name, a.Key)
		}),
	query("controller.spec", "the spec of a controller resource and its generation",
		func(ctx context.Context, q *Queries, a controllerArgs) (controllerSpec, error) {
			spec, generation, err := q.ControllerSpec(ctx, a.Controller)
			return controllerSpec{generation, spec}, err
		}),
	query("controller.list", "controller resources by name, key and uid",
		func(ctx context.Context, q *Queries, a controllerListArgs) ([]Controller, error) {
			after := Controller{Name: a.After.Name, Key: a.After.Key, UID: a.After.UID}
			return q.Controllers(ctx, ControllerFilter{Project: a.Project, Deleted: a.Deleted}, after, a.limit())
		}),
	query("controller.queued", "controller resources that are due or wait for their time, in the order of that",
		func(ctx context.Context, q *Queries, a controllerQueuedArgs) ([]Controller, error) {
			return q.QueuedControllers(ctx, a.Project, a.After, a.limit())
		}),
	query("controller.workflow", "the run that a controller resource asked for under a key",
		func(ctx context.Context, q *Queries, a controllerWorkflowArgs) (ControllerWorkflow, error) {
			return q.ControllerWorkflow(ctx, a.Controller, a.Key)
		}),
	query("controller.workflows", "the runs that a controller resource asked for, by key",
		func(ctx context.Context, q *Queries, a controllerWorkflowsArgs) ([]ControllerWorkflow, error) {
			return q.ControllerWorkflows(ctx, a.Controller, a.After, a.limit())
		}),
}

type controllerArgs struct {
	Controller string `json:"controller"` // its uid
}

type controllerKeyArgs struct {
	Project string `json:"project"`
	Name    string `json:"name"`
	Key     string `json:"key"`
}

type controllerSpec struct {
	Generation int64           `json:"generation"`
	Spec       json.RawMessage `json:"spec"`
}

type controllerListArgs struct {
	Project string          `json:"project,omitempty"`
	Deleted bool            `json:"deleted,omitempty"` // those that were deleted too
	After   controllerPlace `json:"after,omitzero"`    // of the last one that was returned
	pageArgs
}

type controllerPlace struct {
	Name string `json:"name"`
	Key  string `json:"key"`
	UID  string `json:"uid"`
}

type controllerQueuedArgs struct {
	Project string `json:"project,omitempty"`
	After   Place  `json:"after,omitzero"` // the available_at and uid of the last one that was returned
	pageArgs
}

type controllerWorkflowArgs struct {
	Controller string `json:"controller"`
	Key        string `json:"key"`
}

type controllerWorkflowsArgs struct {
	Controller string `json:"controller"`
	After      string `json:"after,omitempty"` // the key of the last one that was returned
	pageArgs
}
